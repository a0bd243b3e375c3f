"""A second process that compiles kernels into the cache while this one compiles others.

One process compiles one kernel at a time, whatever its threads do. Both go through one list, from
its two ends, and look into the cache before they compile. Neither ever waits for the other: what
isn't there when this process needs it, it compiles. So nothing depends on the second one, and
whatever becomes of it shows in nothing but time.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from numba.core.serialize import dumps

Kernel = Callable[..., Any]
Call = Callable[[], object]  # that can be pickled
Need = tuple[str, str, Any]  # module and name of a kernel, types of its arguments

_CODE = Path(__file__).with_name("_second.py")
_END_S = 0.5
_LENGTH_BYTES = 4
# A pipe's SIGPIPE would end a program that left that signal as it is for other programs.
_QUIETLY = getattr(socket, "MSG_NOSIGNAL", 0)


class Second:
    """The second process of one run, started when the first kernel is missing.

    Args:
        first: kernels that are needed at once, in the order in which this process compiles them.
        calls: what may be called later; the second process calls it once all of these are there.
        later: kernels that may be needed later, which it compiles at last.
        cores: that this process may use.
    """

    def __init__(
        self,
        first: Sequence[Kernel],
        calls: Sequence[Call],
        later: Sequence[Kernel],
        cores: int,
    ) -> None:
        self._first = list(dict.fromkeys(map(_name_of, first)))
        self._calls = list(calls)
        self._later = list(dict.fromkeys(map(_name_of, later)))
        self._may_start = cores > 1 and _can_start()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._sending = threading.Lock()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Start it if a kernel is missing from now on; of several runs at once only one does."""
        with _lock:
            if _Current.second is None:
                _Current.second = self
        try:
            yield
        finally:
            self._may_start = False

    def missing(self, folder: Path) -> None:
        """A kernel isn't in the cache's folder, and will be compiled by this process."""
        with _lock:
            may_start, self._may_start = self._may_start, False
            if not may_start or not _can_write(folder):
                return
            try:
                self._process, self._line = _start()
            except (OSError, ValueError):
                return
        self._send((sys.path, self._first[::-1], self._later))
        self._send(self._calls)
        for need in known():
            self.tell(need)

    def tell(self, need: Need) -> None:
        """A kernel is called by another one that is being compiled, or was loaded."""
        if need[:2] in self._first or need[:2] in self._later:
            self._send(need)

    def before(self, need: Need, waiting: Iterable[Need]) -> list[Need]:
        """Those of some kernels that this process compiles before one that it needs."""
        if self._process is None or need[:2] not in self._first:
            return []
        order = {name: at for at, name in enumerate(self._first)}
        earlier = (other for other in waiting if other[:2] in order)
        found = [other for other in earlier if order[other[:2]] < order[need[:2]]]
        return sorted(found, key=lambda other: order[other[:2]])

    def end(self) -> None:
        """End it, whatever it does."""
        with _lock:
            if _Current.second is self:
                _Current.second = None
            self._may_start = False
            process = self._process
        if process is None:
            return
        self._hang_up()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _send(self, message: object) -> None:
        """Tell it something without waiting; if it doesn't listen, it is told nothing more."""
        with suppress(Exception):  # nothing may depend on what can be pickled
            data = dumps(message)
            data = len(data).to_bytes(_LENGTH_BYTES, "little") + data
            with self._sending:
                if self._line is None or self._line.send(data, _QUIETLY) == len(data):
                    return
        self._hang_up()

    def _hang_up(self) -> None:
        with self._sending, suppress(OSError):
            line, self._line = self._line, None
            if line is not None:
                line.close()


class _Current:
    second: Second | None = None
    known: ClassVar[list[Need]] = []


_lock = threading.Lock()


def note(need: Need) -> None:
    """A kernel is called by another one that is being compiled, or was loaded."""
    _Current.known.append(need)
    if _Current.second is not None:
        _Current.second.tell(need)


def known() -> list[Need]:
    """All that were noted in this process."""
    return list(_Current.known)


def missing(folder: Path) -> None:
    """A kernel isn't in the cache's folder, and will be compiled by this process."""
    if _Current.second is not None:
        _Current.second.missing(folder)


def before(need: Need, waiting: Iterable[Need]) -> list[Need]:
    """Those of some kernels that this process compiles before one that it needs."""
    return _Current.second.before(need, waiting) if _Current.second is not None else []


def _name_of(kernel: Kernel) -> tuple[str, str]:
    function = getattr(kernel, "py_func", kernel)
    return function.__module__, function.__qualname__


def _can_start() -> bool:
    """Whether this is Python itself, as against a program that Python is a part of."""
    name = Path(sys.executable or "").name
    return name.startswith("python") and not hasattr(sys, "frozen") and _CODE.is_file()


def _can_write(folder: Path) -> bool:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK)
    return False


def _start() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process, and the line to its standard input."""
    own, its = socket.socketpair()
    try:
        own.setblocking(False)
        # -P: the kernels' own folder has modules whose names would hide others.
        process = subprocess.Popen(
            [sys.executable, "-I" if sys.flags.isolated else "-P", str(_CODE)],
            stdin=its.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt at the terminal is this process's to handle
        )
    except BaseException:
        own.close()
        raise
    finally:
        its.close()
    return process, own
