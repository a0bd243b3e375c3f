"""Samples of equal inputs, in one pack or in two: found in little memory, however many there are.

Digests are sorted in pieces that lie in an unnamed temporary file, and compared one range of
digests after another.
"""

from __future__ import annotations

import heapq
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.core.errors import FolderError
from paritygate.golden.write import folder_error

_RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<i8")])
_PIECE = 1 << 17
_AT_ONCE = 1 << 18
_RANGES = 1 << 12
_SHIFT = np.uint64(64 - 12)
_TOLD = 10

Records = npt.NDArray[Any]
Pairs = list[tuple[int, int]]


class EqualSamples(Struct, frozen=True):
    """Samples whose inputs are those of others.

    Attributes:
        count: how many.
        first: rows of the first ten, each with the row of the first sample that it equals.
    """

    count: int
    first: tuple[tuple[int, int], ...]


class DigestStore:
    """The first 16 bytes of the digest of each sample of a pack, in a temporary file."""

    def __init__(self, digests: Iterable[tuple[int, list[bytes]]]) -> None:
        """Take all digests: the row of the first sample of each piece, and its digests.

        Raises:
            FolderError: no room in the folder for temporary files.
        """
        self.samples = 0
        self.counts = np.zeros(_RANGES, np.int64)
        self._stops: list[npt.NDArray[np.int64]] = []
        self._starts: list[int] = []
        try:
            self._file = tempfile.TemporaryFile(prefix="paritygate-digests-")  # noqa: SIM115
        except OSError as error:
            raise _no_room(error) from error
        try:
            for records in _in_pieces(_records(*found) for found in digests):
                self._write(records)
            self._file.flush()
        except OSError as error:
            self._file.close()
            raise _no_room(error) from error
        except BaseException:
            self._file.close()
            raise

    def records(self, low: int, high: int) -> Records:
        """Records whose digests are in ranges `[low, high)`."""
        size, found = _RECORD.itemsize, [np.empty(0, _RECORD)]
        for start, stops in zip(self._starts, self._stops, strict=True):
            begin, end = (int(stops[at]) for at in (low, high))
            data = os.pread(self._file.fileno(), (end - begin) * size, (start + begin) * size)
            if len(data) != (end - begin) * size:
                raise OSError("a temporary file has become shorter")
            found.append(np.frombuffer(data, _RECORD))
        return np.concatenate(found)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _write(self, records: Records) -> None:
        records = records[np.argsort(records["high"], kind="stable")]
        ranges = (records["high"] >> _SHIFT).astype(np.int64)
        counts = np.bincount(ranges, None, _RANGES)
        self._stops.append(np.concatenate([[0], np.cumsum(counts)]))
        self._starts.append(self.samples)
        self._file.write(records.tobytes())
        self.counts += counts
        self.samples += len(records)


def repeated(store: DigestStore) -> EqualSamples:
    """Samples of a pack whose inputs are those of an earlier one."""
    count, first = 0, Pairs()
    for low, high in _spans(store.counts):
        records = store.records(low, high)
        order, starts, group = _groups(records)
        rows = records["row"][order]
        again = np.ones(len(rows), bool)
        again[starts] = False
        count += int(again.sum())
        places = np.flatnonzero(again)
        firsts = rows[starts[group[places]]]
        first = _least(first, rows[places], firsts)
    return EqualSamples(count, tuple(first))


def shared(store: DigestStore, other: DigestStore) -> EqualSamples:
    """Samples of a pack whose inputs are those of a sample of another pack."""
    count, first = 0, Pairs()
    for low, high in _spans(store.counts + other.counts):
        ours, theirs = store.records(low, high), other.records(low, high)
        if not len(ours) or not len(theirs):
            continue
        records = np.concatenate([ours, theirs])
        is_ours = np.arange(len(records)) < len(ours)
        order, starts, group = _groups(records)
        rows, is_ours = records["row"][order], is_ours[order]
        far = np.where(is_ours, np.iinfo(np.int64).max, rows)
        nearest = np.minimum.reduceat(far, starts)[group]
        places = np.flatnonzero(is_ours & (nearest < np.iinfo(np.int64).max))
        count += len(places)
        first = _least(first, rows[places], nearest[places])
    return EqualSamples(count, tuple(first))


def _no_room(error: OSError) -> FolderError:
    return folder_error(Path(tempfile.gettempdir()) / "paritygate-digests", error)


def _records(start: int, digests: list[bytes]) -> Records:
    halves = np.frombuffer(b"".join(digests), "<u8").reshape(len(digests), 4)
    records = np.empty(len(digests), _RECORD)
    records["high"], records["low"] = halves[:, 0], halves[:, 1]
    records["row"] = np.arange(start, start + len(digests))
    return records


def _in_pieces(some: Iterable[Records]) -> Iterator[Records]:
    waiting: list[Records] = []
    for records in some:
        waiting.append(records)
        if sum(map(len, waiting)) >= _PIECE:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)


def _spans(counts: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of digests with about so many records as are sorted at once."""
    low, held = 0, 0
    for at, count in enumerate(counts.tolist()):
        if held and held + count > _AT_ONCE:
            yield low, at
            low, held = at, 0
        held += count
    yield low, len(counts)


def _groups(records: Records) -> tuple[Any, Any, Any]:
    """Order by digest and row; where each digest begins; to which digest each place belongs."""
    order = np.lexsort((records["row"], records["low"], records["high"]))
    keys = records[order]
    differs = np.ones(len(keys), bool)
    differs[1:] = (keys["high"][1:] != keys["high"][:-1]) | (keys["low"][1:] != keys["low"][:-1])
    return order, np.flatnonzero(differs), np.cumsum(differs) - 1


def _least(known: Pairs, rows: Any, others: Any) -> Pairs:
    """The first ten pairs by row."""
    lowest = np.argsort(rows, kind="stable")[:_TOLD]
    more = zip(rows[lowest].tolist(), others[lowest].tolist(), strict=True)
    return heapq.nsmallest(_TOLD, [*known, *more])
