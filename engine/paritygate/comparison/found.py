"""Samples with failing elements, as the parts of a block are judged."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from paritygate.kernels.failing import Failing

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint32]
Part = tuple[Ints, Bits, Numbers]

_CHUNK = 1 << 12
_SPARSE = 8  # fewer samples than one in so many are copied


class _Lent:
    """Memory that an array refers to; where nothing does any more, it may be lent again."""

    _back: ClassVar[deque[Bits]] = deque(maxlen=2)  # what isn't lent: it is mapped already

    def __init__(self, memory: Bits) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._back.append(self._memory)

    @classmethod
    def of(cls, size: int) -> Bits:
        """So many bytes at least."""
        while cls._back:
            with suppress(IndexError):  # another thread was faster
                memory = cls._back.pop()
                if memory.size >= size:
                    return np.asarray(cls(memory))
        return np.asarray(cls(np.empty(size, np.uint8)))


class FailingRoom:
    """Where kernels write the failing samples of a part of a block; a thread has one."""

    def __init__(self, samples: int, elements: int) -> None:
        words = np.zeros((elements + 7) // 8, np.uint64)
        self.samples, self.elements = samples, 8 * words.size
        memory = _Lent.of(13 * samples)
        self.room = Failing(
            total=np.zeros(1, np.int64),
            rows=memory[: 8 * samples].view(np.int64),
            rules=memory[12 * samples : 13 * samples],
            elements=memory[8 * samples : 12 * samples].view(np.uint32),
            flags=words.view(np.uint8),
            words=words,
            listed=np.empty(words.size + 1, np.uint32),
        )

    @staticmethod
    def of(samples: int, elements: int) -> FailingRoom:
        """This thread's room for so many samples, and elements of a stretch."""
        room = _spare.room
        if room is None or room.samples < samples + 8 or room.elements < elements:
            room = _spare.room = FailingRoom(
                _rounded(samples + 8), max(_CHUNK, elements, room.elements if room else 0)
            )
        return room

    def take(self, count: int) -> Part:
        """The first ones that were found; room that is mostly used goes with them."""
        rows, rules, elements = (
            self.room.rows[:count],
            self.room.rules[:count],
            self.room.elements[:count],
        )
        self.room.total[0] = 0
        if _SPARSE * count < self.samples:
            return rows.copy(), rules.copy(), elements.copy()
        _spare.room = None
        return rows, rules, elements


class _Spare(threading.local):
    room: FailingRoom | None = None


_spare = _Spare()


def _rounded(size: int) -> int:
    return max(_CHUNK, 1 << (size - 1).bit_length())


class FailingSamples:
    """Samples with failing elements so far: rows, rules and failing elements of each."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._room: FailingRoom | None = None

    def make_room(self, samples: int, elements: int) -> Failing:
        """Where kernels may write those of so many samples, in stretches of so many elements."""
        self._room = FailingRoom.of(samples, elements)
        self._room.room.total[0] = 0
        return self._room.room

    def add_all(self, start: int, rules: Ints, elements: Ints) -> None:
        """Add what was found out about each of the samples from `start` on."""
        rows = np.flatnonzero(elements)
        if rows.size:
            self._parts.append(
                (rows + start, rules[rows].astype(np.uint8), elements[rows].astype(np.uint32))
            )

    def take(self) -> Part:
        """Rows, ascending, their rules and failing elements."""
        parts, found = self._parts, len(self._parts)
        if self._room is not None and (n := int(self._room.room.total[0])):
            parts = [self._room.take(n), *parts]
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint32)
        if len(parts) == 1:
            return parts[0]
        rows, rules, elements = (np.concatenate(of) for of in zip(*parts, strict=True))
        if found == len(parts):
            return rows, rules, elements  # one after the other
        order = np.argsort(rows, kind="stable")
        return rows[order], rules[order], elements[order]
