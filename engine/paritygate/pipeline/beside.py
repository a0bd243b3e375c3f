"""Something done beside a thread, by another one that lasts; a daemon, which no exit waits for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of it."""

    found: T | None
    error: BaseException | None

    def value(self) -> T:
        """What was found.

        Raises:
            BaseException: whatever was raised instead.
        """
        if self.error is not None:
            raise self.error
        return cast(T, self.found)


class Beside(Generic[T]):
    """A thread that does one thing at a time; each `start` is followed by one `ended`."""

    def __init__(self, name: str) -> None:
        self._orders: queue.SimpleQueue[Callable[[], T] | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Outcome[T]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def start(self, work: Callable[[], T]) -> None:
        """Begin."""
        self._orders.put(work)

    def ended(self) -> Outcome[T]:
        """Wait for the end of what was started."""
        return self._ended.get()

    def close(self) -> None:
        """Let the thread end, once it has nothing to do."""
        self._orders.put(None)

    def _work(self) -> None:
        while (work := self._orders.get()) is not None:
            try:
                outcome = Outcome(work(), None)
            except BaseException as e:  # handed to whoever waits
                outcome = Outcome[T](None, e)
            self._ended.put(outcome)
