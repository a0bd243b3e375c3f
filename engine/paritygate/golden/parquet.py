"""Read one Parquet file in pieces of bounded size, only the columns that are needed.

Each column is decoded forward, row group by row group, and its last pieces are kept. A column that
has to be decoded again and again, because somebody jumps back in it, is unpacked once into a
temporary file.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from paritygate.core.digest import watch
from paritygate.core.errors import GoldenError
from paritygate.golden.bounds import check_unpacked
from paritygate.golden.scratch import Scratch
from paritygate.golden.source import cannot_open, fields_of, no_rows, reading

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAGIC = b"PAR1"
_FOOTER = 12
_PIECE_BYTES = 16 << 20
_PIECE_ROWS = 1 << 18
_KEPT_BYTES = 64 << 20
_KEPT_PIECES = 2
_PASSES = 4
_UNEVEN_ROWS = 4_096
_READ_BYTES = 1 << 20


class _Group(Struct, frozen=True, eq=False):
    """A row group.

    Attributes:
        number: which.
        first: number of its first piece.
        sizes: rows of its pieces.
    """

    number: int
    first: int
    sizes: Sequence[int]


class ParquetSource:
    """A Parquet file; see `Source`. Its pieces are row groups, or parts of large ones."""

    whole = None
    is_mapped = False

    def __init__(self, path: Path) -> None:
        """Open the file and read its footer.

        Raises:
            GoldenError: `golden.unreadable`.
        """
        import pyarrow.parquet as pq  # takes longer than to open a pack of another format

        self.path = path
        try:
            file = pa.OSFile(str(path), "rb")
        except OSError as error:
            raise cannot_open(path, error) from error
        self.watched = watch(path, file.fileno())
        self.size = self.watched.stamp["size"]
        self._lock = threading.Lock()
        with reading(path):
            _check_ends(path, file, self.size)
            self._file = pq.ParquetFile(
                file, buffer_size=_READ_BYTES, pre_buffer=False, page_checksum_verification=True
            )
            self.schema = self._file.schema_arrow
            self.fields: Mapping[str, pa.Field[Any]] = fields_of(path, self.schema)
            self._rows = _group_rows(self._file.metadata)
        self._columns: dict[str, _Column] = {}
        self._heads: dict[str, pa.Array[Any]] = {}
        self._kept_bytes = _KEPT_BYTES
        self._pieces = _cut(self._rows, max([1, *self._rows]))
        self.batch_rows = _sizes(self._pieces)

    def select(self, columns: Sequence[str]) -> None:
        """Cut row groups into pieces of some MiB in these columns."""
        self._pieces = _cut(self._rows, self._piece_rows(columns))
        self.batch_rows = _sizes(self._pieces)
        self._kept_bytes = _KEPT_BYTES // max(1, len(columns))
        self._columns.clear()

    def head(self, name: str) -> pa.Array[Any]:
        """The first row of a column, or none where the file has none."""
        with self._lock, reading(self.path):
            if name in self._heads:
                return self._heads[name]
            for group, rows in enumerate(self._rows):
                if rows:
                    self._heads[name] = next(self.decode(name, group, [1]))
                    return self._heads[name]
        return no_rows(self.fields[name].type)

    def column(self, number: int, name: str) -> pa.Array[Any]:
        """A column of a piece; safe to call from several threads.

        Raises:
            GoldenError: `golden.unreadable` where its row group is damaged.
            FolderError: no room in the folder for temporary files to unpack a column.
        """
        with self._lock, reading(self.path):
            if name not in self._columns:
                self._columns[name] = _Column(self, name, self._pieces, self._kept_bytes)
            return self._columns[name].piece(number)

    def drop(self, number: int, start: int, stop: int, in_order: bool = False) -> None:
        """Let go of what is mapped of unpacked columns; decoded pieces give way to others."""
        with self._lock:
            for column in self._columns.values():
                column.drop(number, start, stop)

    def drop_all(self, first: int, last: int, in_order: bool = False) -> None:
        """Let go of the pieces `[first, last]`; see `Source`."""
        for number in range(first, last + 1):
            self.drop(number, 0, self.batch_rows[number], in_order)

    def close(self) -> None:
        """Let go of the file and of all pieces."""
        with self._lock:
            self._columns.clear()
            self._file.close(force=True)

    def _piece_rows(self, columns: Sequence[str]) -> int:
        """Rows of a piece: some MiB of these columns, if rows are like the first or the mean one.

        What the footer says about single columns is left alone: a damaged one ends the process
        (in Arrow 26) when it is asked for.
        """
        first = sum(self.head(name).nbytes for name in columns)
        with reading(self.path):
            mean = sum(self._group_bytes()) / max(1, sum(self._rows))
        return max(1, min(_PIECE_ROWS, int(_PIECE_BYTES / max(1, first, mean))))

    def _group_bytes(self) -> list[int]:
        metadata = self._file.metadata
        return [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]

    def decode(self, name: str, group: int, sizes: Sequence[int]) -> Iterator[pa.Array[Any]]:
        """The rows of a column of a row group, in pieces of these sizes; dictionaries resolved.

        Raises:
            GoldenError: `golden.unreadable`, for a damaged page or fewer rows than there should be,
                or `golden.column_type`.
        """
        if _holds_nothing(self.fields[name].type):
            raise GoldenError(
                f"{self.path}: column {name!r} holds tensors without elements, which Arrow doesn't "
                "read from Parquet; write the pack as an Arrow IPC file",
                "golden.column_type",
            )
        with reading(self.path):
            waiting: list[Any] = []
            most = max(sizes) if _has_fixed_size(self.fields[name].type) else _UNEVEN_ROWS
            batches = self._file.iter_batches(
                min(most, max(sizes)), row_groups=[group], columns=[name], use_threads=False
            )
            for size in sizes:
                while sum(map(len, waiting)) < size:
                    batch = next(batches, None)
                    if batch is None:
                        raise pa.ArrowInvalid(f"row group {group} ends within column {name!r}")
                    column = batch.column(name)
                    check_unpacked(self.path, f"column {name!r}", column.nbytes, self.size)
                    waiting.append(_plain(column))
                whole = waiting[0] if len(waiting) == 1 else pa.concat_arrays(waiting)
                waiting = [whole.slice(size)] if len(whole) > size else []
                yield whole.slice(0, size)


class _Column:
    """The pieces of one column: the last few in memory, or all in a file."""

    def __init__(
        self, source: ParquetSource, name: str, pieces: Sequence[_Group], kept_bytes: int
    ) -> None:
        self._source = source
        self._name = name
        self._pieces = pieces
        self._kept: OrderedDict[int, pa.Array[Any]] = OrderedDict()
        self._free = kept_bytes
        self._group: _Group | None = None
        self._forward: Iterator[pa.Array[Any]] = iter(())
        self._following = 0
        self._decoded = 0
        self._scratch: Scratch | None = None

    def piece(self, number: int) -> pa.Array[Any]:
        """Piece `number`, decoded if it isn't kept."""
        if self._scratch is not None:
            return self._scratch.array(number)
        kept = self._kept.get(number)
        if kept is not None:
            self._kept.move_to_end(number)
            return kept
        group = self._pieces[number]
        if group is not self._group or number < self._following:
            if self._decoded > _PASSES * len(self._pieces):
                self._scratch = self._unpack()
                return self._scratch.array(number)
            self._group, self._following = group, group.first
            self._forward = self._source.decode(self._name, group.number, group.sizes)
        while self._following <= number:
            self._keep(next(self._forward))
        return self._kept[number]

    def drop(self, number: int, start: int, stop: int) -> None:
        """Let go of mapped pages, where the column is unpacked."""
        if self._scratch is not None:
            self._scratch.drop(number, start, stop)

    def _keep(self, array: pa.Array[Any]) -> None:
        self._free += _bytes(self._kept.pop(self._following, None)) - _bytes(array)
        self._kept[self._following] = array
        self._following += 1
        self._decoded += 1
        while self._free < 0 and len(self._kept) > _KEPT_PIECES:
            self._free += _bytes(self._kept.popitem(last=False)[1])

    def _unpack(self) -> Scratch:
        self._kept.clear()
        self._forward = iter(())
        arrays = (
            array
            for group in dict.fromkeys(self._pieces)
            for array in self._source.decode(self._name, group.number, group.sizes)
        )
        first = next(arrays)
        return Scratch(itertools.chain([first], arrays), first.type)


def _bytes(array: pa.Array[Any] | None) -> int:
    return array.nbytes if array is not None else 0


def _plain(array: pa.Array[Any]) -> Any:
    """The array, checked, and without a dictionary: each piece would have its own."""
    if isinstance(array, pa.DictionaryArray):
        array.validate(full=True)
        return array.dictionary_decode()
    array.validate()
    return array


def _check_ends(path: Path, file: pa.NativeFile, size: int) -> None:
    file.seek(max(0, size - len(MAGIC)))
    tail = file.read(len(MAGIC))
    file.seek(0)
    if tail != MAGIC or size < _FOOTER:
        raise GoldenError(
            f"{path}: truncated after {size} bytes, or never finished: the footer of a Parquet "
            "file is missing; write it again or copy it whole"
        )


def _group_rows(metadata: pq.FileMetaData) -> list[int]:
    groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    if any(rows < 0 for rows in groups) or sum(groups) != metadata.num_rows:
        raise pa.ArrowInvalid(f"row groups of {groups[:10]} rows in a file of {metadata.num_rows}")
    return groups


def _cut(groups: Sequence[int], step: int) -> list[_Group]:
    """The row group of every piece, with pieces of at most `step` rows."""
    pieces: list[_Group] = []
    for number, rows in enumerate(groups):
        sizes = [min(step, rows - start) for start in range(0, rows, step)]
        pieces += [_Group(number, len(pieces), sizes)] * len(sizes)
    return pieces


def _sizes(pieces: Sequence[_Group]) -> tuple[int, ...]:
    return tuple(size for group in dict.fromkeys(pieces) for size in group.sizes)


def _has_fixed_size(kind: pa.DataType) -> bool:
    """Whether each row takes as much room as the first one."""
    if isinstance(kind, pa.BaseExtensionType):
        return _has_fixed_size(kind.storage_type)
    if isinstance(kind, pa.FixedSizeListType):
        return _has_fixed_size(kind.value_type)
    return pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)


def _holds_nothing(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _holds_nothing(kind.storage_type)
    if isinstance(kind, pa.FixedSizeListType):
        return kind.list_size == 0 or _holds_nothing(kind.value_type)
    return False
