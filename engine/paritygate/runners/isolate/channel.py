"""Messages between the gate and a worker: length, then a pickle, over a socket of this machine."""

from __future__ import annotations

import array
import errno
import os
import pickle
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

_HEAD = struct.Struct("<Q")
_PIECE = 1 << 14
_PROTOCOL = 5
_ROOM_FOR_FDS = socket.CMSG_SPACE(8 * 4)
SLICE_S = 0.5


class ClosedError(Exception):
    """The other end is gone."""


class LateError(Exception):
    """No answer within the time allowed."""


class Channel:
    """One end of a pair of sockets; one thread at a time.

    Attributes:
        fds: descriptors that came along, oldest first; whoever takes one owns it.
    """

    def __init__(self, end: socket.socket) -> None:
        self.fds: list[int] = []
        self._socket = end
        self._held = b""

    @staticmethod
    def pair() -> tuple[Channel, socket.socket]:
        """One end to use here, which gives up waiting now and then, and the other to hand on."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        wait = struct.pack("@ll", 0, int(SLICE_S * 1e6))
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        return Channel(ours), theirs

    def send(self, message: object, fds: Sequence[int] = ()) -> None:
        """Send a message, with descriptors.

        Raises:
            ClosedError: nobody will read it.
        """
        data = pickle.dumps(message, _PROTOCOL)
        frame = _HEAD.pack(len(data)) + data
        try:
            sent = socket.send_fds(self._socket, [frame], list(fds)) if fds else 0
            self._socket.sendall(frame[sent:] if sent else frame)
        except OSError:
            raise ClosedError from None

    def receive(
        self, timeout_s: float | None = None, is_alive: Callable[[], bool] | None = None
    ) -> Any:
        """The next message.

        Args:
            timeout_s: None: wait for ever.
            is_alive: asked now and then; a process that is gone may have left its end to a child.

        Raises:
            ClosedError: the other end was closed, or isn't alive.
            LateError: nothing came in time.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            held = self._held
            if len(held) >= _HEAD.size:
                size = _HEAD.size + _HEAD.unpack_from(held)[0]
                if len(held) >= size:
                    self._held = held[size:]
                    return pickle.loads(memoryview(held)[_HEAD.size : size])
            piece = self._read()
            if piece is not None:
                self._held = held + piece if held else piece
                continue
            if is_alive is not None and not is_alive():
                raise ClosedError
            if until is not None and time.monotonic() >= until:
                raise LateError

    def _read(self) -> bytes | None:
        """What has come, or None where nothing did for a while."""
        try:
            piece, extra, _, _ = self._socket.recvmsg(_PIECE, _ROOM_FOR_FDS)
        except BlockingIOError:
            return None
        except OSError as e:
            if e.errno == errno.EINTR:
                return None
            raise ClosedError from None
        for level, kind, data in extra:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.fds += array.array("i", data).tolist()
        if not piece:
            raise ClosedError
        return piece

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close this end; closing twice is the same as once."""
        self._socket.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []
