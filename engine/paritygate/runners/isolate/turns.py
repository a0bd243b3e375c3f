"""Many batches at once, or one alone: whoever waits to be alone comes first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


class Turns:
    """Who may use a worker now; each session has a lock, and whoever is alone has them all."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._waiting = 0
        self._locks: list[threading.Lock] = []

    def join(self) -> threading.Lock:
        """The lock of a new session, to be held while it uses the worker, after `wait`."""
        lock = threading.Lock()
        with self._alone:
            self._locks.append(lock)
        return lock

    def leave(self, lock: threading.Lock) -> None:
        """Forget the lock of a session that is closed."""
        with self._alone:
            if lock in self._locks:
                self._locks.remove(lock)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody is alone, or waits to be."""
        return self._waiting > 0

    def wait(self) -> None:
        """Let those go first who wait to be alone."""
        if self._waiting:
            with self._alone:
                pass

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Beside nobody; called without one's own lock."""
        self._waiting += 1
        try:
            with self._alone, ExitStack() as held:
                for lock in self._locks:
                    held.enter_context(lock)
                yield
        finally:
            self._waiting -= 1
