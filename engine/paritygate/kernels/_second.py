"""What the second process runs: it compiles what it is told to, until the first one hangs up.

Started as a file, with what `second` sends on standard input.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pickle
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_LENGTH_BYTES = 4
_LOOK_EVERY_S = 1.0
_LATER_NICE = 10  # what runs by now goes first
_CACHE = "paritygate.kernels._cache"
_PR_SET_PDEATHSIG = 1

Name = tuple[str, str]
Need = tuple[str, str, Any]
Step = Callable[[], object]


def main() -> None:
    """Compile until standard input is closed."""
    _go_on_without_the_first()
    with contextlib.suppress(OSError):  # where memory is short, this process is the one to go
        Path("/proc/self/oom_score_adj").write_text("1000")
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(messages,), daemon=True).start()
    sys.path[:], first, later = pickle.loads(messages.get())
    work = _Work(first, later)
    importlib.import_module("numba").njit(_nothing).compile(())  # the first one takes 0.2 s more
    while True:
        for told in _told(messages, can_wait=work.next() is None):
            work.add(told)
        if (step := work.next()) is not None:
            with contextlib.suppress(Exception):  # the first process meets it, too, and tells it
                step()


def _go_on_without_the_first() -> None:
    """Where this process is stopped while the first one ends, it goes on, and so ends, too.

    It is sent the signal whenever a thread ends that it belongs to, of which that to the process is
    the last one: a signal that ends it would come too early, this one changes nothing where nobody
    has stopped it.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def _nothing() -> None:
    """What Numba begins with, while nothing has been told yet."""


class _Work:
    """What is to be compiled; what may be needed later only once all else is done."""

    def __init__(self, first: list[Name], later: list[Name]) -> None:
        self._second = importlib.import_module("paritygate.kernels.second")
        self._first, self._later = first, later
        self._calls: list[Step] = []
        self._waiting: list[Need] = []
        self._seen: list[Need] = []
        self._done: set[Name] = set()
        self._is_late = False

    def add(self, told: Need | list[Step]) -> None:
        """Take up a kernel with the types of its arguments, or calls."""
        if isinstance(told, list):
            self._calls += told
        elif told not in self._seen:
            self._seen.append(told)
            self._waiting.append(told)

    def next(self) -> Step | None:
        """What is to be done now; None: nothing is known of."""
        for need in self._second.known():
            self.add(need)
        found = self._waiting_of(self._first)
        if found is None and self._done.issuperset(self._first):
            found = self._later_one()
        return found

    def _later_one(self) -> Step | None:
        if not self._is_late:
            os.nice(_LATER_NICE)
            self._is_late = True
        if self._calls:
            return self._call
        return self._waiting_of(self._later)

    def _waiting_of(self, names: list[Name]) -> Step | None:
        found = (need for name in names for need in self._waiting if need[:2] == name)
        need = next(found, None)
        return None if need is None else lambda: self._compile(need)

    def _call(self) -> None:
        self._calls.pop(0)()

    def _compile(self, need: Need) -> None:
        self._waiting.remove(need)
        self._done.add(need[:2])
        module, name, types = need
        getattr(importlib.import_module(module), name).inner.dispatcher.compile(types)


def _told(messages: queue.SimpleQueue[bytes], *, can_wait: bool) -> Iterator[Any]:
    """What has been sent since, but at least one thing if there is nothing else to do."""
    with contextlib.suppress(queue.Empty):
        yield pickle.loads(messages.get(block=can_wait))
        while True:
            yield pickle.loads(messages.get_nowait())


def _listen(messages: queue.SimpleQueue[bytes]) -> None:
    """Read messages; once there is nobody to send any, end this process."""
    parent = os.getppid()
    while (length := _read(_LENGTH_BYTES, parent)) is not None:
        message = _read(int.from_bytes(length, "little"), parent)
        if message is None:
            break
        messages.put(message)
    cache = sys.modules.get(_CACHE)
    with getattr(cache, "WRITING", contextlib.nullcontext()):  # no file is left half written
        os._exit(0)


def _read(size: int, parent: int) -> bytes | None:
    """So many bytes; None: the first process has hung up, or is gone."""
    data = b""
    while len(data) < size:
        while not select.select([0], [], [], _LOOK_EVERY_S)[0]:
            if os.getppid() != parent:
                return None
        part = os.read(0, size - len(data))
        if not part:
            return None
        data += part
    return data


if __name__ == "__main__":
    main()
