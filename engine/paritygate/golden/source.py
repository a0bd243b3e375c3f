"""One file of a pack, whatever its format, and what mapped formats share."""

from __future__ import annotations

import math
import mmap
import os
import threading
from array import array as int_array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paritygate.core.digest import Watched, watch
from paritygate.core.errors import GoldenError
from paritygate.golden import paging
from paritygate.golden.bounds import SpreadError, check_unpacked
from paritygate.golden.joined import can_join, group, join, row_bytes

Bytes = npt.NDArray[np.uint8]

_AROUND = 1 << 20  # as much as the kernel may map around what is read, for pages that lie together
_KEPT_BATCHES = 64  # mapped ones hold no memory; pages of many are let go of at once
_KEPT_ARRAYS = 4096  # of mapped ones: the ids, then all else, are read of many batches in turn
_KEPT_UNPACKED = 2
_KEPT_JOINED = 8
_LONGEST_NAME = 1_000
_DAMAGE = (
    pa.ArrowException,
    OSError,
    EOFError,
    ValueError,
    MemoryError,
    OverflowError,
    KeyError,
    NotImplementedError,
    SystemError,  # what pyarrow makes of a negative length
)


class Source(Protocol):
    """One file of a pack: a schema and numbered pieces of consecutive rows.

    Attributes:
        path: the file.
        watched: the file as it was when it was opened.
        size: bytes of the file.
        schema: schema of all its columns.
        fields: name -> field; fewer than the schema has where names occur twice.
        batch_rows: rows of each piece; `select` may cut them anew.
        whole: all bytes of the file, where it is mapped.
        is_mapped: what is read of it lies in the map.
    """

    path: Path
    watched: Watched
    size: int
    schema: pa.Schema
    fields: Mapping[str, pa.Field[Any]]
    batch_rows: tuple[int, ...]

    @property
    def is_mapped(self) -> bool:
        """See above."""

    @property
    def whole(self) -> Bytes | None:
        """See above."""

    def select(self, columns: Sequence[str]) -> None:
        """Say which columns will be used; no other is asked for afterwards."""

    def head(self, name: str) -> pa.Array[Any]:
        """The first rows of a column, at least one if the file has any."""

    def column(self, number: int, name: str) -> pa.Array[Any]:
        """A column of a piece; safe to call from several threads."""

    def drop(self, number: int, start: int, stop: int, in_order: bool = False) -> None:
        """Let go of the memory of rows `[start, stop)` of a piece; they can be read again.

        Where that is done in order, nothing that comes after them goes with them.
        """

    def drop_all(self, first: int, last: int, in_order: bool = False) -> None:
        """Let go of the memory of the pieces `[first, last]`; see `drop`."""

    def close(self) -> None:
        """Let go of the file; arrays that are still in use stay valid."""


class MappedSource:
    """What the mapped Arrow formats share: the map, the batches in use, the pages let go.

    A format sets `schema`, `fields`, `is_mapped` and, by `_count`, the rows of its batches, and
    reads batches by `_load`.
    """

    schema: pa.Schema
    fields: Mapping[str, pa.Field[Any]]
    batch_rows: tuple[int, ...]
    is_mapped = True

    def __init__(self, path: Path) -> None:
        """Map the file.

        Raises:
            GoldenError: `golden.unreadable`, for a file that can't be opened or is empty.
        """
        self.path = path
        self._map, self.watched = _map_file(path)
        self.size = len(self._map)
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, pa.RecordBatch] = OrderedDict()
        self._buffer = pa.py_buffer(self._map)
        self._sizes = int_array("q")
        self.whole = np.frombuffer(self._map, np.uint8)
        self._groups: list[range] = []
        self._extents: npt.NDArray[np.int64] | None = None
        self._joined: tuple[str, ...] = ()

    def batch(self, number: int) -> pa.RecordBatch:
        """Record batch `number`, or the used columns of those that make up this piece.

        Safe to call from several threads.

        Raises:
            GoldenError: `golden.unreadable` where its body is damaged.
        """
        with self._lock:
            batch = self._kept.get(number)
            if batch is not None:
                self._kept.move_to_end(number)
                return batch
            with reading(self.path):
                batch = join([self._checked(at) for at in self._run(number)], self._joined)
                if batch.num_rows != self.batch_rows[number]:
                    raise pa.ArrowInvalid(f"record batch {number} has {batch.num_rows} rows")
            self._kept[number] = batch
            if len(self._kept) > self._most_kept():
                self._kept.popitem(last=False)
            return batch

    def head(self, name: str) -> pa.Array[Any]:
        """A column of the first record batch with rows, or no rows where the file has none."""
        for number, rows in enumerate(self.batch_rows):
            if rows:
                return self.column(number, name)
        return no_rows(self.fields[name].type)

    def column(self, number: int, name: str) -> pa.Array[Any]:
        """A column of record batch `number`; see `batch`."""
        column: pa.Array[Any] = self.batch(number).column(name)
        return column

    def drop(self, number: int, start: int, stop: int, in_order: bool = False) -> None:
        """Let go of the mapped pages of rows `[start, stop)` of a batch."""
        if not self.is_mapped:
            _drop_bytes(self._buffer, 0, self.size)
        elif len(self._run(number)) > 1:
            self._drop_joined(number, start, stop, in_order)
        else:
            let_go(self._buffer, self.batch(number).columns, start, stop, in_order)

    def drop_all(self, first: int, last: int, in_order: bool = False) -> None:
        """Let go of the mapped pages of the pieces `[first, last]`."""
        if not self.is_mapped:
            _drop_bytes(self._buffer, 0, self.size)
            return
        with self._lock:
            if self._extents is None:
                self._extents = np.full((len(self.batch_rows), 2), -1, np.int64)
            extents = self._extents[first : last + 1]
            for at in np.flatnonzero(extents[:, 0] < 0).tolist():
                extents[at] = self._extent(self._run(first + at))
            if self._groups:
                for number in range(first, last + 1):
                    self._kept.pop(number, None)
        low, high = int(extents[:, 0].min()), int(extents[:, 1].max())
        if low < high:
            _drop_bytes(self._buffer, low, high, in_order)

    def close(self) -> None:
        """Let go of the map; arrays that are still in use keep it alive."""
        with self._lock:
            self._kept.clear()

    def _load(self, number: int) -> pa.RecordBatch:
        raise NotImplementedError

    def _count(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Note the rows and bytes of all record batches."""
        rows = []
        for batch in batches:
            batch.validate()
            rows.append(batch.num_rows)
            self._sizes.append(batch.get_total_buffer_size())
        self.batch_rows = tuple(rows)

    def _group(self, columns: Sequence[str]) -> None:
        """Read small record batches some at once, in these columns."""
        if self._groups or not all(self._can_join(name) for name in columns):
            return
        sizes: Sequence[int] = self._sizes
        if not self.is_mapped:
            width = sum(row_bytes(self.fields[name].type) or 0 for name in columns)
            sizes = [math.ceil(rows * width) for rows in self.batch_rows]
        groups = group(self.batch_rows, sizes)
        if len(groups) < len(self.batch_rows):
            self._groups, self._joined = groups, tuple(columns)
            self.batch_rows = tuple(sum(self.batch_rows[r.start : r.stop]) for r in groups)
            self._kept.clear()

    def _can_join(self, name: str) -> bool:
        is_one = len(self.schema.get_all_field_indices(name)) == 1
        kind = self.fields[name].type
        return is_one and can_join(kind) and (self.is_mapped or row_bytes(kind) is not None)

    def _run(self, number: int) -> range:
        """Numbers of the record batches of a piece."""
        return self._groups[number] if self._groups else range(number, number + 1)

    def _most_kept(self) -> int:
        if not self.is_mapped:
            return _KEPT_UNPACKED
        if self._groups:
            return _KEPT_JOINED
        return max(_KEPT_BATCHES, _KEPT_ARRAYS // max(1, len(self.schema)))

    def _checked(self, number: int) -> pa.RecordBatch:
        """Refuse what would take Arrow, and this process with it, out of its buffers."""
        batch = self._load(number)
        batch.validate()
        if not self.is_mapped:
            check_unpacked(self.path, f"record batch {number}", batch.nbytes, self.size)
        return batch

    def _drop_joined(self, number: int, start: int, stop: int, in_order: bool) -> None:
        """Let go of where the record batches of a piece lie, and of a piece that is done."""
        run, rows = self._run(number), self.batch_rows[number]
        with self._lock:
            if stop == rows:
                self._kept.pop(number, None)
            low, high = self._extent(run)
        if low < high and rows:
            first, last = (low + (high - low) * row // rows for row in (start, stop))
            _drop_bytes(self._buffer, first, last, in_order)

    def _extent(self, run: range) -> tuple[int, int]:
        """Where record batches begin and end in the map, in order; where they don't, nothing."""
        known = {} if self._groups else self._kept
        with reading(self.path):
            buffers = [
                buffer
                for number in {run[0], run[-1]}
                for column in (known.get(number) or self._checked(number)).columns
                for buffer in column.buffers()
                if buffer is not None and buffer.size
            ]
        low = min((b.address for b in buffers), default=0) - self._buffer.address
        high = max((b.address + b.size for b in buffers), default=0) - self._buffer.address
        return (low, high) if 0 <= low < high <= self.size else (self.size, 0)

    def _lies_in_map(self, batch: pa.RecordBatch) -> bool:
        """Whether no buffer of a batch had to be made, as of a compressed or big-endian one."""
        batch.validate()
        begin = self._buffer.address
        buffers = [buffer for column in batch.columns for buffer in column.buffers()]
        return all(
            begin <= buffer.address < begin + self.size
            for buffer in buffers
            if buffer is not None and buffer.size
        )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever Arrow raises over a damaged file into a `GoldenError` that names it."""
    try:
        yield
    except SpreadError as error:
        raise GoldenError(f"{path}: {error}") from None
    except GoldenError:
        raise
    except _DAMAGE as error:
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        raise GoldenError(
            f"{path}: damaged, or not written to its end ({detail}); write it again or restore it "
            "from its source"
        ) from error


def no_rows(kind: Any) -> pa.Array[Any]:
    """An array of no rows; Arrow makes none of a permuted tensor by itself."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, no_rows(kind.storage_type))
    nothing: pa.Array[Any] = pa.array([], kind)
    return nothing


def fields_of(path: Path, schema: pa.Schema) -> dict[str, pa.Field[Any]]:
    """Name -> field of a schema.

    Raises:
        GoldenError: `golden.schema`, for a name that no report could show.
        UnicodeDecodeError: a name that isn't UTF-8, of a column or within its type.
    """
    fields = {field.name: field for field in schema}
    for field in schema:
        _decode_names(field.type)
    longest = max(fields, key=len, default="")
    if len(longest) > _LONGEST_NAME:
        raise GoldenError(
            f"{path}: the name of a column has {len(longest)} characters and begins with "
            f"{longest[:40]!r}; names have at most {_LONGEST_NAME}, so rename it",
            "golden.schema",
        )
    return fields


def _decode_names(kind: Any) -> None:
    if isinstance(kind, pa.BaseExtensionType):
        _decode_names(kind.storage_type)
    for number in range(kind.num_fields):
        inner = kind.field(number)
        inner.name  # noqa: B018 - decoded when it is asked for
        _decode_names(inner.type)


def let_go(
    mapped: pa.Buffer,
    arrays: Sequence[pa.Array[Any]],
    start: int,
    stop: int,
    in_order: bool = False,
) -> None:
    """Let go of the pages of rows `[start, stop)` of mapped arrays; they can be read again.

    Args:
        mapped: the map.
        arrays: of one length; what doesn't lie in the map is left alone.
        start: first of the rows.
        stop: end of the rows.
        in_order: see `Source.drop`.
    """
    for array in arrays:
        for buffer in array.buffers():
            if buffer is None or len(array) == 0:
                continue
            at = buffer.address - mapped.address
            if 0 <= at <= mapped.size - buffer.size:
                low, high = (buffer.size * row // len(array) for row in (start, stop))
                _drop_bytes(mapped, at + low, at + high, in_order)


def cannot_open(path: Path, error: OSError) -> GoldenError:
    """The sentence for a file that can't be opened."""
    return GoldenError(
        f"{path}: can't be opened ({error.strerror or error}); check the path and that you may "
        "read it"
    )


def empty_file(path: Path) -> GoldenError:
    """The sentence for a file of no bytes."""
    return GoldenError(f"{path}: the file is empty (0 bytes); write it again")


def _map_file(path: Path) -> tuple[mmap.mmap, Watched]:
    try:
        with path.open("rb") as file:
            watched = watch(path, file.fileno())
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise empty_file(path)
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), watched
    except OSError as error:
        raise cannot_open(path, error) from error


def _drop_bytes(mapped: pa.Buffer, low: int, high: int, in_order: bool = False) -> None:
    """Let go of pages, with those around that the kernel mapped without being asked.

    What is after them is about to be read where all that is before them is done.
    """
    low, high = max(0, low - _AROUND), high if in_order else min(mapped.size, high + _AROUND)
    paging.let_go(mapped.address + low, high - low)
