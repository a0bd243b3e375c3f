"""Ids of a pack: the check before a run, and look-ups from id to position."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from paritygate.core.errors import GoldenError
from paritygate.golden.values import Ids
from paritygate.golden.write import folder_error

if TYPE_CHECKING:
    from paritygate.golden.pack import GoldenPack

MAX_SLICE_VALUES = 1_000
_STEP = 65_536
_RESIDENT = 64 << 20
_BUCKET = 1 << 18
_TOLD = 10

Rows = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Duplicate:
    """An id that occurs again: its first position and this one, over all files."""

    id: int | str
    first_row: int
    row: int


@dataclass(frozen=True)
class IdScan:
    """What the pass before a run found.

    Attributes:
        samples: rows over all files.
        is_ascending: whether every id is greater than the one before it.
        duplicates: rows whose id occurs in an earlier row.
        first_duplicates: the first of them by row, at most ten.
        slice_values: slice column -> its values, in order of appearance.
    """

    samples: int
    is_ascending: bool
    duplicates: int = 0
    first_duplicates: tuple[Duplicate, ...] = ()
    slice_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def duplicate_error(self, pack: GoldenPack) -> GoldenError:
        """The error that names the first duplicate id and both its rows."""
        found = self.first_duplicates[0]
        (first, first_row), (again, row) = pack.place(found.first_row), pack.place(found.row)
        more = f" ({self.duplicates} rows repeat an id)" if self.duplicates > 1 else ""
        return GoldenError(
            f"{again}: id {found.id!r} of row {row} is also that of row {first_row} of {first}"
            f"{more}; ids are unique over all files of a pack, so remove or rename one",
            "golden.duplicate_id",
        )


class IdIndex(Protocol):
    """Look-up from id to position over all files."""

    def rows(self, ids: Ids) -> Rows:
        """Position of each id, -1 where the pack doesn't have it; the first of duplicates."""

    def close(self) -> None:
        """Let go of the index file, if there is one."""


def scan_ids(pack: GoldenPack) -> tuple[IdScan, IdIndex | None]:
    """Pass over the pack once; gives an index too where one had to be made to find duplicates.

    Raises:
        GoldenError: see `GoldenPack.scan_ids`.
        FolderError: no room for the index file.
    """
    is_ascending, slice_values = _pass_over(pack)
    if is_ascending:
        return IdScan(pack.samples, True, slice_values=slice_values), None
    index = HashIndex(pack)
    duplicates = sorted(index.duplicates(), key=lambda found: found.row)
    scan = IdScan(pack.samples, False, len(duplicates), tuple(duplicates[:_TOLD]), slice_values)
    return scan, index


def build_index(pack: GoldenPack, is_ascending: bool) -> IdIndex:
    """Index of a pack: none at all for ascending ints, else a file of 16 bytes a sample."""
    if is_ascending and pack.id_kind == "int64":
        return AscendingIndex(pack)
    return HashIndex(pack)


class AscendingIndex:
    """Look-up by binary search in the ids themselves, which ascend."""

    def __init__(self, pack: GoldenPack) -> None:
        self._pack = pack
        self._spans = list(pack.batch_spans(_STEP))
        self._firsts = np.array([pack.ids(low, low + 1)[0] for low, _ in self._spans], np.int64)

    def rows(self, ids: Ids) -> Rows:
        """Position of each id, -1 where the pack doesn't have it."""
        check_kind(ids, self._pack.id_kind)
        found = np.full(len(ids), -1, np.int64)
        if not self._spans:
            return found
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        spans = np.searchsorted(self._firsts, ordered, side="right") - 1
        cuts = np.flatnonzero(np.diff(spans)) + 1
        for part in np.split(np.arange(len(ids)), cuts):
            if len(part) == 0 or spans[part[0]] < 0:
                continue
            low, high = self._spans[int(spans[part[0]])]
            there = self._pack.ids(low, high)
            at = np.minimum(np.searchsorted(there, ordered[part]), len(there) - 1)
            hit = there[at] == ordered[part]
            found[order[part[hit]]] = at[hit] + low
        return found

    def close(self) -> None:
        """There is no file."""


class HashIndex:
    """Keys and rows sorted by key, in an unlinked temporary file of 16 bytes a sample.

    The key of an int is a bijection of it; that of a string is a 64-bit hash, so that the string
    itself is compared after each look-up.
    """

    def __init__(self, pack: GoldenPack) -> None:
        """Make the index in two passes over the ids: count the buckets, then fill and sort them.

        Raises:
            FolderError: no room for the index file in the folder for temporary files.
        """
        self._pack = pack
        self._is_exact = pack.id_kind == "int64"
        samples = pack.samples
        self._map = _scratch(16 * samples)
        self._keys: Keys = np.frombuffer(self._map, np.uint64, samples)
        self._rows: Rows = np.frombuffer(self._map, np.int64, samples, offset=8 * samples)
        bits = max(1, math.ceil(math.log2(max(2, samples / _BUCKET))))
        self._shift = np.uint64(64 - bits)
        self._ends = np.cumsum(self._count(1 << bits))
        self._fill()
        self._sort()
        self._relax()

    def rows(self, ids: Ids) -> Rows:
        """Position of each id, -1 where the pack doesn't have it; the first of duplicates."""
        check_kind(ids, self._pack.id_kind)
        found = np.full(len(ids), -1, np.int64)
        keys = keys_of(ids)
        order = np.argsort(keys, kind="stable")
        at = np.empty(len(ids), np.int64)
        at[order] = np.searchsorted(self._keys, keys[order])
        left = np.arange(len(ids))
        while len(left):
            left = left[at[left] < len(self._keys)]
            left = left[self._keys[at[left]] == keys[left]]
            rows = self._rows[at[left]]
            hit = np.ones(len(left), bool)
            if not self._is_exact:
                hit = self._pack.take_ids(rows) == ids[left]
            found[left[hit]] = rows[hit]
            left = left[~hit]
            at[left] += 1
        self._relax()
        return found

    def duplicates(self) -> Iterator[Duplicate]:
        """Every row whose id occurs in an earlier row."""
        low = 0
        for high in self._ends.tolist():
            keys, rows = self._keys[low:high], self._rows[low:high]
            again = np.zeros(len(keys), bool)
            again[1:] = keys[1:] == keys[:-1]
            run = again.copy()
            run[:-1] |= again[1:]
            seen: dict[int | str, int] = {}
            ids = self._pack.take_ids(rows[run])
            for id_, row in zip(ids.tolist(), rows[run].tolist(), strict=True):
                first = seen.setdefault(id_, row)
                if first != row:
                    yield Duplicate(id_, first, row)
            low = high

    def close(self) -> None:
        """Let go of the file."""
        self._keys = np.empty(0, np.uint64)
        self._rows = np.empty(0, np.int64)
        del self._map

    def _count(self, buckets: int) -> Rows:
        counts = np.zeros(buckets, np.int64)
        for start, stop in self._pack.batch_spans(_STEP):
            counts += np.bincount(
                self._buckets(keys_of(self._pack.ids(start, stop))), None, buckets
            )
        return counts

    def _fill(self) -> None:
        cursor = np.concatenate([[0], self._ends[:-1]])
        for start, stop in self._pack.batch_spans(_STEP):
            keys = keys_of(self._pack.ids(start, stop))
            buckets = self._buckets(keys)
            order = np.argsort(buckets, kind="stable")
            counts = np.bincount(buckets, None, len(cursor))
            ahead = np.cumsum(counts) - counts
            at = (cursor - ahead)[buckets[order]] + np.arange(len(keys))
            self._keys[at], self._rows[at] = keys[order], order + start
            cursor += counts
            self._pack.done_until(stop)

    def _sort(self) -> None:
        """Sort each bucket by key; rows of equal keys stay in ascending order."""
        low = 0
        for high in self._ends.tolist():
            order = np.argsort(self._keys[low:high], kind="stable")
            self._keys[low:high] = self._keys[low:high][order]
            self._rows[low:high] = self._rows[low:high][order]
            low = high

    def _relax(self) -> None:
        """Keep a large index in its file rather than in this process."""
        if len(self._map) > _RESIDENT and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def _buckets(self, keys: Keys) -> Rows:
        return (keys >> self._shift).astype(np.int64)


def keys_of(ids: Ids) -> Keys:
    """64-bit keys of `(n,)` ids: a bijection for ints, a hash for strings."""
    if ids.dtype == object:
        return np.fromiter(map(hash_string, ids), np.uint64, len(ids))
    keys = ids.astype(np.int64).view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    mixed: Keys = keys ^ (keys >> np.uint64(31))
    return mixed


def hash_string(text: str) -> int:
    """64-bit hash of a string; it never leaves the process."""
    return hash(text) & 0xFFFF_FFFF_FFFF_FFFF


def check_kind(ids: Ids, kind: str) -> None:
    """Check that ids can be looked up in a pack whose ids are of this kind.

    Raises:
        GoldenError: `golden.id_type`.
    """
    found = "string" if ids.dtype == object else "int64"
    if found != kind and len(ids):
        raise GoldenError(
            f"ids of type {found} can't be joined with ids of type {kind}; write both packs with "
            "ids of one type",
            "golden.id_type",
        )


def _pass_over(pack: GoldenPack) -> tuple[bool, dict[str, tuple[str, ...]]]:
    is_ascending, last = True, None
    values: dict[str, dict[str, None]] = {name: {} for name in pack.slices}
    for start, stop in pack.batch_spans(_STEP):
        ids = pack.ids(start, stop)
        if is_ascending:
            is_ascending = bool((ids[1:] > ids[:-1]).all()) and (last is None or ids[0] > last)
            last = ids[-1]
        _check_values(pack, start, stop, values)
        pack.done_until(stop)
    return is_ascending, {name: tuple(known) for name, known in values.items()}


def _check_values(
    pack: GoldenPack, start: int, stop: int, values: dict[str, dict[str, None]]
) -> None:
    for name in pack.inputs:
        pack.input(name, start, stop)
    for name in pack.outputs:
        pack.output(name, start, stop)
    for column in pack.labels_of:
        pack.labels(start, stop, column)
    for name, known in values.items():
        known.update(dict.fromkeys(pack.slice_values(name, start, stop).values))
        if len(known) > MAX_SLICE_VALUES:
            path, row = pack.place(stop - 1)
            raise GoldenError(
                f"{path}: slice column {name!r} has more than {MAX_SLICE_VALUES} values up to row "
                f"{row}; slice by a column with fewer, or bin this one",
                "golden.slice_values",
            )


def _scratch(size: int) -> mmap.mmap:
    """Writable map of a temporary file that has no name and whose blocks are reserved."""
    size = max(size, 1)
    try:
        with tempfile.TemporaryFile(prefix="paritygate-index-") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            return mmap.mmap(file.fileno(), size)
    except OSError as error:
        raise folder_error(Path(tempfile.gettempdir()) / "paritygate-index", error) from error
