"""What counts batches on a GPU is made once for each thread, and used again block after block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from paritygate.comparison.place import Place


class Counts(Protocol):
    """What counts batches in memory of a device."""

    @property
    def bytes_held(self) -> int:
        """Memory of the device that it takes."""

    def clear(self) -> None:
        """Count anew."""


T = TypeVar("T", bound=Counts)


class RoomError(Exception):
    """Memory that nobody used was given back, so that there may be room where there was none."""


@dataclass
class _Own(Generic[T]):
    counts: T
    memory: ExitStack = field(default_factory=ExitStack)
    bytes_told: int = 0


class Pool(Generic[T]):
    """Lends what counts batches of one output or decision, to one thread at a time.

    Args:
        place: the GPU, which is told how much memory is held.
        make: makes another one.
    """

    def __init__(self, place: Place, make: Callable[[], T]) -> None:
        self._place, self._make = place, make
        self._spare: deque[_Own[T]] = deque()
        place.at_close(self.drop)

    @contextmanager
    def lent(self) -> Iterator[T]:
        """One that has counted nothing; after an error it isn't used again."""
        try:
            own = self._spare.pop()
        except IndexError:
            own = _Own(self._make())
        with ExitStack() as lost:
            lost.callback(own.memory.close)
            if own.bytes_told:
                own.counts.clear()
            yield own.counts
            size = own.counts.bytes_held
            own.memory.enter_context(self._place.holding(size - own.bytes_told))
            own.bytes_told = size
            lost.pop_all()
        self._spare.append(own)

    def drop(self) -> int:
        """Give back the memory of those that nobody uses; how many bytes."""
        dropped = 0
        while self._spare:
            try:
                own = self._spare.pop()
            except IndexError:  # another thread was faster
                break
            own.memory.close()
            dropped += own.bytes_told
        return dropped
