"""Messages between the gate and a worker: length, then a pickle, over a socket of this machine."""

from __future__ import annotations

import array
import errno
import io
import os
import pickle
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

_HEAD = struct.Struct("<Q")
_PIECE = 1 << 18
_LONGEST = 1 << 36
PROTOCOL = 5
_ROOM_FOR_FDS = socket.CMSG_SPACE(8 * 4)
SLICE_S = 0.5
# Classes that a reply may hold besides plain values: scalars of NumPy, as texts may be.
_PLAIN = {
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
}


class ClosedError(Exception):
    """The other end is gone."""


class LateError(Exception):
    """No answer within the time allowed."""


class GarbledError(Exception):
    """What came is no answer to what was asked."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PLAIN:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a reply")
        return super().find_class(module, name)


class Channel:
    """One end of a pair of sockets; one thread at a time.

    Attributes:
        fds: descriptors that came along, oldest first; whoever takes one owns it.
    """

    def __init__(self, end: socket.socket) -> None:
        self.fds: list[int] = []
        self._socket = end
        self._held = bytearray()
        self._piece = memoryview(bytearray(_PIECE))

    @staticmethod
    def pair() -> tuple[Channel, socket.socket]:
        """One end to use here, which gives up waiting now and then, and the other to hand on."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        wait = struct.pack("@ll", 0, int(SLICE_S * 1e6))
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
        return Channel(ours), theirs

    def send(
        self,
        message: object,
        fds: Sequence[int] = (),
        timeout_s: float | None = None,
        is_alive: Callable[[], bool] | None = None,
    ) -> None:
        """Send a message, with descriptors.

        Raises:
            ClosedError: nobody will read it.
            LateError: it wasn't taken in time.
        """
        self.send_bytes(pickle.dumps(message, PROTOCOL), fds, timeout_s, is_alive)

    def send_bytes(
        self,
        data: bytes,
        fds: Sequence[int] = (),
        timeout_s: float | None = None,
        is_alive: Callable[[], bool] | None = None,
    ) -> None:
        """Send a message that is pickled already, as `send`."""
        rest = memoryview(_HEAD.pack(len(data)) + data)
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while rest:
            try:
                if fds:
                    sent = socket.send_fds(self._socket, [rest], list(fds))
                    fds = ()
                else:
                    sent = self._socket.send(rest)
            except BlockingIOError:
                _go_on(until, is_alive)
            except OSError:
                raise ClosedError from None
            else:
                rest = rest[sent:]
                if rest:
                    _go_on(until, is_alive)

    def ask(
        self,
        message: object,
        fds: Sequence[int],
        timeout_s: float,
        is_alive: Callable[[], bool],
        *,
        is_plain: bool = False,
    ) -> Any:
        """Send a message over a channel on which nothing is due, and wait for its one answer.

        Args:
            message: what to send.
            fds: descriptors that go along.
            timeout_s: for both ways together.
            is_alive: as `receive`.
            is_plain: the answer holds plain values; no class is looked up.

        Raises:
            ClosedError, LateError: as `send` and `receive`.
            GarbledError: bytes came unasked, or they are no message.
        """
        until = time.monotonic() + timeout_s
        self.expect_silence()
        self.send(message, fds, timeout_s, is_alive)
        answer = self.receive(max(0.0, until - time.monotonic()), is_alive, is_plain=is_plain)
        self.expect_silence()
        return answer

    def expect_silence(self) -> None:
        """Nothing has come, and nothing is due.

        Raises:
            ClosedError: this end is broken.
            GarbledError: bytes came unasked.
        """
        try:
            told = self._held or self._socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            raise ClosedError from None
        if told:
            raise GarbledError("its process sent what it wasn't asked for")
        # The other end is closed: an answer that came before that still counts.

    def receive(
        self,
        timeout_s: float | None = None,
        is_alive: Callable[[], bool] | None = None,
        *,
        is_plain: bool = False,
    ) -> Any:
        """The next message.

        Args:
            timeout_s: None: wait for ever.
            is_alive: asked now and then; a process that is gone may have left its end to a child.
            is_plain: it holds plain values; no class is looked up.

        Raises:
            ClosedError: the other end was closed, or isn't alive.
            LateError: nothing came in time.
            GarbledError: what came is no message.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        has_read = False
        while True:
            if len(self._held) >= _HEAD.size:
                size = _HEAD.size + _HEAD.unpack_from(self._held)[0]
                if size > _LONGEST:
                    raise GarbledError("its process sent what is no message")
                if len(self._held) >= size:
                    data = bytes(memoryview(self._held)[_HEAD.size : size])
                    del self._held[:size]
                    return _load(data, is_plain=is_plain)
            if has_read:
                _go_on(until, None)  # a message that comes in drops is late too
            has_read = self._read()
            if not has_read:
                _go_on(until, is_alive)

    def _read(self) -> bool:
        """Take what has come; false where nothing did for a while."""
        try:
            size, extra, _, _ = self._socket.recvmsg_into([self._piece], _ROOM_FOR_FDS)
        except BlockingIOError:
            return False
        except OSError as e:
            if e.errno == errno.EINTR:
                return False
            raise ClosedError from None
        for level, kind, data in extra:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.fds += array.array("i", data).tolist()
        if not size:
            raise ClosedError
        self._held += self._piece[:size]
        return True

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close this end; closing twice is the same as once."""
        self._socket.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []


def _go_on(until: float | None, is_alive: Callable[[], bool] | None) -> None:
    if is_alive is not None and not is_alive():
        raise ClosedError
    if until is not None and time.monotonic() >= until:
        raise LateError


def _load(data: bytes, *, is_plain: bool) -> Any:
    try:
        return _Plain(io.BytesIO(data)).load() if is_plain else pickle.loads(data)
    except Exception as e:  # whatever bytes that are no pickle make of it
        told = f"{type(e).__name__}: {e}"
        raise GarbledError(f"its process sent what is no message ({told})") from None
