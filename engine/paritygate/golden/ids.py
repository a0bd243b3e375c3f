"""Ids of a pack: the check before a run, and look-ups from id to position."""

from __future__ import annotations

import heapq
import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from paritygate.core.errors import GoldenError
from paritygate.golden.ascending import all_ascend, can_share
from paritygate.golden.same_order import is_same_order
from paritygate.golden.values import Ids
from paritygate.golden.write import folder_error

if TYPE_CHECKING:
    from paritygate.golden.pack import GoldenPack

_MOST_REPEATED = 1 << 20
MAX_SLICE_VALUES = 1_000
_STEP = 65_536
_RESIDENT = 16 << 20
_BUCKET = 1 << 18
_FEW = 128  # ids that are looked up without going through the index part by part
_AROUND = 64 << 10  # what the kernel maps around each page that is asked for
_TOLD = 10

hash_string = hash  # 64 bits, which never leave the process

Rows = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


class Duplicate(Struct, frozen=True):
    """An id that occurs again: its first position and this one, over all files."""

    id: int | str
    first_row: int
    row: int


class IdScan(Struct, frozen=True):
    """What the pass before a run found.

    Attributes:
        samples: rows over all files.
        is_ascending: whether every id is greater than the one before it.
        duplicates: rows whose id occurs in an earlier row.
        first_duplicates: the first of them by row, at most ten.
        slice_values: slice column -> its values, in order of appearance.
        is_like: whether the ids are those of the pack that it was held against, row by row.
        run_from: the first id, where every other is the one before it plus one; None: it isn't so,
            or the pack isn't mapped.
    """

    samples: int
    is_ascending: bool
    duplicates: int = 0
    first_duplicates: tuple[Duplicate, ...] = ()
    slice_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_like: bool = False
    run_from: int | None = None

    def is_run_of(self, other: IdScan) -> bool:
        """Whether both are of the same ids in the same order, as far as their ends tell."""
        return self.run_from is not None and (self.samples, self.run_from) == (
            other.samples,
            other.run_from,
        )

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


def scan_ids(pack: GoldenPack, like: GoldenPack | None = None) -> tuple[IdScan, IdIndex | None]:
    """Pass over the pack once; gives an index too where one had to be made to find duplicates.

    Args:
        pack: whose ids are checked.
        like: a pack that has been scanned, without duplicates; None: there is none.

    Raises:
        GoldenError: see `GoldenPack.scan_ids`.
        FolderError: no room for the index file.
    """
    other = like.scan_ids() if like is not None else None
    may_be_run = other is not None and other.run_from is not None and pack.is_mapped
    if like is not None and not may_be_run and is_same_order(pack, like):
        slice_values = _check_rows(pack)
        is_ascending = like.scan_ids().is_ascending
        return IdScan(pack.samples, is_ascending, slice_values=slice_values, is_like=True), None
    is_ascending, slice_values = _pass_over(pack)
    if is_ascending:
        found = IdScan(pack.samples, True, slice_values=slice_values, run_from=_run_from(pack))
        is_like = other is not None and found.is_run_of(other)
        return replace(found, is_like=is_like), None
    index = HashIndex(pack)
    count, first = index.duplicates()
    return IdScan(pack.samples, False, count, first, slice_values), index


def _run_from(pack: GoldenPack) -> int | None:
    """The first of ids that ascend, where none is left out between it and the last one.

    Two packs of as many samples that both run from the same id hold the same ids in the same order,
    and neither has to be read beside the other.
    """
    if pack.id_kind != "int64" or not pack.is_mapped or not pack.samples:
        return None
    first, last = (int(pack.ids(row, row + 1)[0]) for row in (0, pack.samples - 1))
    return first if last - first == pack.samples - 1 else None


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
        run = self._as_a_run(ids)
        if run is not None:
            return run
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
            if self._pack.is_large:
                self._pack.done_with(low, high)
        return found

    def _as_a_run(self, ids: Ids) -> Rows | None:
        """Positions of ids that lie side by side in the pack; None: they don't."""
        if len(ids) < _FEW:
            return None
        span = int(np.searchsorted(self._firsts, ids[0], side="right")) - 1
        if span < 0:
            return None
        low, high = self._spans[span]
        start = low + int(np.searchsorted(self._pack.ids(low, high), ids[0]))
        stop = start + len(ids)
        if stop > self._pack.samples or not np.array_equal(self._pack.ids(start, stop), ids):
            return None
        if self._pack.is_large:
            self._pack.done_with(low, stop)
        return np.arange(start, stop)

    def close(self) -> None:
        """There is no file."""


class HashIndex:
    """Keys and rows sorted by key, in an unlinked temporary file of 16 bytes a sample.

    The key of an int is a bijection of it; that of a string is a 64-bit hash, so that the string
    itself is compared after each look-up. The upper bits of a key are its bucket. Of a large index
    no more than a few buckets are in memory at once.
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
        self._ends = np.concatenate([[0], np.cumsum(self._count(1 << bits))])
        self._fill()
        self._sort()

    def rows(self, ids: Ids) -> Rows:
        """Position of each id, -1 where the pack doesn't have it; the first of duplicates."""
        check_kind(ids, self._pack.id_kind)
        keys = keys_of(ids)
        found = self._first_of(keys)
        if self._is_exact:
            return found
        known = np.flatnonzero(found >= 0)
        others = known[self._pack.take_ids(found[known]) != ids[known]]
        for at in others.tolist():
            found[at] = self._among(ids[at : at + 1], keys[at])
        return found

    def _first_of(self, keys: Keys) -> Rows:
        """The first row of each key, -1 where there is none."""
        found = np.full(len(keys), -1, np.int64)
        order = np.argsort(keys, kind="stable")
        parts = [(order, 0, len(self._keys))]
        if len(keys) > _FEW:
            buckets = self._buckets(keys[order])
            cuts = np.flatnonzero(np.diff(buckets)) + 1
            starts = buckets[np.concatenate([[0], cuts])]
            ends = self._ends[starts].tolist(), self._ends[starts + 1].tolist()
            parts = list(zip(np.split(order, cuts), *ends, strict=True))
        for part, low, high in parts:
            there = self._keys[low:high]
            at = np.searchsorted(there, keys[part])
            is_in = at < len(there)
            part, at = part[is_in], at[is_in]
            is_same = there[at] == keys[part]
            found[part[is_same]] = self._rows[low:high][at[is_same]]
            self._relax(low, high)
        return found

    def _among(self, id_: Ids, key: np.uint64) -> int:
        """The first row of an id whose key is that of another id too, -1 where there is none."""
        bucket = int(key >> self._shift)
        low, high = self._ends[bucket : bucket + 2].tolist()
        ends = [np.searchsorted(self._keys[low:high], key, side=s) for s in ("left", "right")]
        rows = np.array(self._rows[low + int(ends[0]) : low + int(ends[1])])
        hits = rows[self._pack.take_ids(rows) == id_]
        return int(hits[0]) if len(hits) else -1

    def duplicates(self) -> tuple[int, tuple[Duplicate, ...]]:
        """How many rows have an id that occurs in an earlier row, and the first ten by row."""
        count = 0
        first: list[Duplicate] = []
        for low, high in pairwise(self._ends.tolist()):
            keys = self._keys[low:high]
            again = np.zeros(len(keys), bool)
            again[1:] = keys[1:] == keys[:-1]
            if again.any():
                tell = self._same_ints if self._is_exact else self._same_strings
                more, told = tell(again, self._rows[low:high])
                count += more
                first = heapq.nsmallest(_TOLD, [*first, *told], key=lambda found: found.row)
            self._relax(low, high)
        return count, tuple(first)

    def _same_ints(self, again: Flags, rows: Rows) -> tuple[int, list[Duplicate]]:
        """Duplicates of a bucket in which equal keys are equal ids; the first ten."""
        places = np.flatnonzero(again)
        lowest = places[np.argsort(rows[places], kind="stable")[:_TOLD]]
        starts = np.maximum.accumulate(np.where(again, 0, np.arange(len(again))))
        told = [
            Duplicate(int(self._pack.ids(row, row + 1)[0]), int(rows[starts[at]]), row)
            for at, row in zip(lowest.tolist(), rows[lowest].tolist(), strict=True)
        ]
        return len(places), told

    def _same_strings(self, again: Flags, rows: Rows) -> tuple[int, list[Duplicate]]:
        """Duplicates of a bucket in which ids of equal keys may differ; the first ten."""
        run = again.copy()
        run[:-1] |= again[1:]
        count, told = 0, list[Duplicate]()
        seen: dict[int | str, int] = {}
        places = np.flatnonzero(run)
        for at in range(0, len(places), _STEP):
            part = rows[places[at : at + _STEP]]
            for id_, row in zip(self._pack.take_ids(part).tolist(), part.tolist(), strict=True):
                first = seen.setdefault(id_, row)
                if first != row:
                    count += 1
                    told.append(Duplicate(id_, first, row))
            told = heapq.nsmallest(_TOLD, told, key=lambda found: found.row)
        return count, told

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
            self._pack.done_until(stop)
        return counts

    def _fill(self) -> None:
        cursor = self._ends[:-1].copy()
        for start, stop in self._pack.batch_spans(_STEP):
            keys = keys_of(self._pack.ids(start, stop))
            buckets = self._buckets(keys)
            order = np.argsort(buckets, kind="stable")
            counts = np.bincount(buckets, None, len(cursor))
            ahead = np.cumsum(counts) - counts
            at = (cursor - ahead)[buckets[order]] + np.arange(len(keys))
            self._keys[at], self._rows[at] = keys[order], order + start
            cursor += counts
            self._relax(0, len(self._keys))
            self._pack.done_until(stop)

    def _sort(self) -> None:
        """Sort each bucket by key; rows of equal keys stay in ascending order."""
        for low, high in pairwise(self._ends.tolist()):
            order = np.argsort(self._keys[low:high], kind="stable")
            self._keys[low:high] = self._keys[low:high][order]
            self._rows[low:high] = self._rows[low:high][order]
            self._relax(low, high)

    def _relax(self, low: int, high: int) -> None:
        """Keep a part of a large index in its file rather than in this process."""
        if len(self._map) <= _RESIDENT or not hasattr(mmap, "MADV_DONTNEED"):
            return
        for start in (0, 8 * len(self._keys)):
            begin = max(0, start + 8 * low - _AROUND)
            begin -= begin % mmap.PAGESIZE
            end = min(len(self._map), start + 8 * high + _AROUND)
            self._map.madvise(mmap.MADV_DONTNEED, begin, end - begin)

    def _buckets(self, keys: Keys) -> Rows:
        return (keys >> self._shift).astype(np.int64)


def keys_of(ids: Ids) -> Keys:
    """64-bit keys of `(n,)` ids: a bijection for ints, a hash for strings."""
    if ids.dtype == object:
        return np.fromiter(map(hash_string, ids.tolist()), np.int64, len(ids)).view(np.uint64)
    keys = ids.astype(np.int64).view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    mixed: Keys = keys ^ (keys >> np.uint64(31))
    return mixed


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
    if can_share(pack) and not pack.may_vary:
        values: dict[str, dict[str, None]] = {name: {} for name in pack.slices}
        if all_ascend(pack, lambda start, stop: _check_values(pack, start, stop, values)):
            return True, {name: tuple(known) for name, known in values.items()}
    is_ascending, last, repeated = True, None, 0
    values = {name: {} for name in pack.slices}
    for start, stop in pack.batch_spans(_STEP):
        ids = pack.ids(start, stop)
        if is_ascending:
            is_ascending = bool((ids[1:] > ids[:-1]).all()) and (last is None or ids[0] > last)
            last = ids[-1]
        if not is_ascending:
            repeated += int((ids[1:] == ids[:-1]).sum())
            _refuse_repeated(pack, repeated, stop)
        _check_values(pack, start, stop, values)
        pack.done_until(stop)
    return is_ascending, {name: tuple(known) for name, known in values.items()}


def _check_rows(pack: GoldenPack) -> dict[str, tuple[str, ...]]:
    """Everything but the ids."""
    values: dict[str, dict[str, None]] = {name: {} for name in pack.slices}
    for start, stop in pack.batch_spans(_STEP):
        _check_values(pack, start, stop, values)
        pack.done_until(stop)
    return {name: tuple(known) for name, known in values.items()}


def _refuse_repeated(pack: GoldenPack, repeated: int, stop: int) -> None:
    """Refuse ids that are no ids, before an index is made of them."""
    if repeated > _MOST_REPEATED:
        path, row = pack.place(stop - 1)
        raise GoldenError(
            f"{path}: {repeated} rows up to row {row} have the id of the row before; ids are "
            "unique over all files of a pack, so name the column that holds them",
            "golden.duplicate_id",
        )


def _check_values(
    pack: GoldenPack, start: int, stop: int, values: dict[str, dict[str, None]]
) -> None:
    pack.check_tensors(start, stop)
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
