"""Results of blocks on their way to the caller's thread, which is woken for several at once."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Results(Generic[_T]):
    """Handed over by several threads and taken by one.

    Waking a thread costs more than a small block, so that a result waits for others, though not for
    long: whoever takes them looks by itself after a while.

    Args:
        wake_at: results for which the taker is woken.
        last: results after which nothing more will come.
    """

    def __init__(self, wake_at: int, last: int) -> None:
        self._wake_at = wake_at
        self._left = last
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._results: deque[_T | BaseException] = deque()

    def put(self, result: _T) -> None:
        """Hand over a result."""
        with self._lock:
            self._results.append(result)
            self._left -= 1
            is_time = self._left <= 0 or len(self._results) >= self._wake_at
        if is_time:
            self._woken.set()

    def fail(self, error: BaseException) -> None:
        """Hand over what ended a thread."""
        with self._lock:
            self._results.append(error)
        self._woken.set()

    def take(self, timeout: float) -> list[_T | BaseException]:
        """All that is there, in the order in which it came; nothing after a while of waiting."""
        self._woken.wait(timeout)
        with self._lock:
            self._woken.clear()
            taken = list(self._results)
            self._results.clear()
        return taken
