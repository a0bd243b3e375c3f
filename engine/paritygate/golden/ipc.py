"""Read one Arrow IPC file through a memory map: record batches whose buffers lie in the file."""

from __future__ import annotations

import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from paritygate.core.digest import Watched, watch
from paritygate.core.errors import GoldenError

_MAGIC = b"ARROW1"
_PAGE = mmap.PAGESIZE
_KEPT_BATCHES = 8
_KEPT_COMPRESSED = 2


class Source(Protocol):
    """One file of a pack, whatever its format: a schema and numbered record batches.

    Attributes:
        path: the file.
        watched: the file as it was when it was opened.
        size: bytes of the file.
        schema: schema of all its columns.
        batch_rows: rows of each record batch.
    """

    path: Path
    watched: Watched
    size: int
    schema: pa.Schema
    batch_rows: tuple[int, ...]

    def select(self, columns: Sequence[str]) -> None:
        """Say which columns will be used; batches need not carry any other."""

    def batch(self, number: int) -> pa.RecordBatch:
        """A record batch; safe to call from several threads."""

    def drop(self, number: int, start: int, stop: int) -> None:
        """Let go of the memory of rows `[start, stop)` of a batch; they can be read again."""

    def close(self) -> None:
        """Let go of the file; arrays that are still in use stay valid."""


class MappedIpc:
    """An Arrow IPC file, mapped. Bodies that aren't compressed are never copied."""

    def __init__(self, path: Path, count_column: str) -> None:
        """Map the file, check its structure and count the rows of its batches.

        Args:
            path: the file.
            count_column: column by which compressed batches are counted, if it is there.

        Raises:
            GoldenError: `golden.unreadable` or `golden.format`.
        """
        self.path = path
        self._map, self.watched = _map_file(path)
        self.size = len(self._map)
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, pa.RecordBatch] = OrderedDict()
        with reading(path):
            self._buffer = pa.py_buffer(self._map)
            self._reader = pa.ipc.open_file(self._buffer)
            self.schema: pa.Schema = self._reader.schema
            self._is_mapped = self._first_batch_is_mapped()
            self.batch_rows = self._count_rows(count_column)

    def select(self, columns: Sequence[str]) -> None:
        """Decompress only these columns from now on; mapped columns cost nothing anyway."""
        if not self._is_mapped:
            self._reader = self._reader_of(columns)
            self._kept.clear()

    def batch(self, number: int) -> pa.RecordBatch:
        """Record batch `number`; safe to call from several threads.

        Raises:
            GoldenError: `golden.unreadable` where its body is damaged.
        """
        with self._lock:
            batch = self._kept.get(number)
            if batch is not None:
                self._kept.move_to_end(number)
                return batch
            with reading(self.path):
                batch = self._reader.get_batch(number)
                self._check(batch, number)
            self._kept[number] = batch
            if len(self._kept) > (_KEPT_BATCHES if self._is_mapped else _KEPT_COMPRESSED):
                self._kept.popitem(last=False)
            return batch

    def drop(self, number: int, start: int, stop: int) -> None:
        """Let go of the mapped pages of rows `[start, stop)` of a batch."""
        if not self._is_mapped:
            self._drop_bytes(0, self.size)
            return
        batch = self.batch(number)
        rows = batch.num_rows
        for column in batch.columns:
            for buffer in column.buffers():
                if buffer is None or rows == 0:
                    continue
                at = buffer.address - self._buffer.address
                if 0 <= at <= self.size - buffer.size:
                    low, high = buffer.size * start // rows, buffer.size * stop // rows
                    self._drop_bytes(at + low, at + high)

    def close(self) -> None:
        """Let go of the map; arrays that are still in use keep it alive."""
        with self._lock:
            self._kept.clear()

    def _first_batch_is_mapped(self) -> bool:
        if self._reader.num_record_batches == 0:
            return True
        begin = self._buffer.address
        buffers = [
            buffer
            for column in self._reader.get_batch(0).columns
            for buffer in column.buffers()
            if buffer is not None and buffer.size
        ]
        return all(begin <= buffer.address < begin + self.size for buffer in buffers)

    def _count_rows(self, count_column: str) -> tuple[int, ...]:
        reader = self._reader
        if not self._is_mapped and count_column in self.schema.names:
            reader = self._reader_of([count_column])
        rows = []
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            batch.validate()
            rows.append(batch.num_rows)
        return tuple(rows)

    def _check(self, batch: pa.RecordBatch, number: int) -> None:
        """Refuse what would take Arrow, and this process with it, out of its buffers."""
        batch.validate()
        rows = self.batch_rows[number]
        if any(len(column) != rows for column in batch.columns):
            raise pa.ArrowInvalid(f"record batch {number} has columns of different lengths")

    def _reader_of(self, columns: Sequence[str]) -> pa.RecordBatchFileReader:
        fields = sorted(self.schema.get_field_index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        return pa.ipc.open_file(self._buffer, options=options)

    def _drop_bytes(self, low: int, high: int) -> None:
        low -= low % _PAGE
        high = high if high == self.size else high - high % _PAGE
        if high > low and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, low, high - low)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever Arrow raises over a damaged file into a `GoldenError` that names it."""
    try:
        yield
    except GoldenError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError, KeyError) as error:
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        raise GoldenError(
            f"{path}: damaged, not a readable Arrow IPC file ({detail}); write it again or restore "
            "it from its source"
        ) from error


def _map_file(path: Path) -> tuple[mmap.mmap, Watched]:
    try:
        with path.open("rb") as file:
            watched = watch(path, file.fileno())
            size = os.fstat(file.fileno()).st_size
            head = file.read(len(_MAGIC))
            if size:
                file.seek(-min(size, len(_MAGIC)), os.SEEK_END)
            tail = file.read()
            _check_ends(path, size, head, tail)
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), watched
    except OSError as error:
        raise GoldenError(
            f"{path}: can't be opened ({error.strerror or error}); check the path and that you may "
            "read it"
        ) from error


def _check_ends(path: Path, size: int, head: bytes, tail: bytes) -> None:
    if size == 0:
        raise GoldenError(f"{path}: the file is empty (0 bytes); write it again")
    if head == _MAGIC:
        if tail == _MAGIC and size > 2 * len(_MAGIC):
            return
        raise GoldenError(
            f"{path}: truncated after {size} bytes, or never finished: the footer of an Arrow IPC "
            "file is missing; write it again or copy it whole"
        )
    kinds = {b"PAR1": "a Parquet file", b"\xff\xff\xff\xff": "an Arrow IPC stream"}
    kind = kinds.get(head[:4], "no Arrow file")
    raise GoldenError(
        f"{path}: is {kind}; this version reads Arrow IPC files, as pyarrow.ipc.new_file or "
        "pyarrow.feather.write_feather(..., compression='uncompressed') write them",
        "golden.format",
    )
