"""Digests of single samples: of their inputs, and of all that a pack says of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from paritygate.core.digest import Watched, canonical_json
from paritygate.core.errors import GoldenError
from paritygate.golden.columns import UnsupportedTypeError, ValueFault, layout_of
from paritygate.golden.dtypes import KEY, array_of
from paritygate.golden.encode import (
    Part,
    UndigestedTypeError,
    hash_rows,
    name_type,
    plain_part,
    tensor_parts,
)
from paritygate.golden.files import find_files
from paritygate.golden.formats import open_file
from paritygate.golden.plain import plain, plain_type
from paritygate.golden.schema import PANDAS_INDEX, Kind, check_unique, id_kind_of
from paritygate.golden.source import Source, reading
from paritygate.golden.values import plain_texts, plain_values

_LEAF, _INPUTS = b"\x00", b"\x03"
_STEP_ROWS = 16_384
_STEP_BYTES = 8 << 20
_TENSORS = ("in.", "out.")


class Wanted(Struct, frozen=True):
    """What of a pack is digested.

    Attributes:
        id_column: column of the ids.
        inputs: input -> its column, besides the columns `in.NAME`.
        only_inputs: leave out everything else, the ids too.
    """

    id_column: str = "sample_id"
    inputs: Mapping[str, str] = field(default_factory=dict)
    only_inputs: bool = False


class SampleDigests(Struct, frozen=True):
    """Digests of consecutive samples, 32 bytes each.

    Attributes:
        start: row of the first one in the pack.
        inputs: of the inputs alone, whatever the sample is called.
        leaves: of the whole samples; empty where only inputs were wanted.
    """

    start: int
    inputs: list[bytes]
    leaves: list[bytes]


class SampleReader:
    """The files of a pack with all their columns, for digests.

    Attributes:
        samples: rows over all files.
        watched: the files as they were when they were opened.
        paths: the files.
        input_types: input -> dtype and number of axes, of the first file.
    """

    def __init__(self, patterns: Sequence[str | Path], folder: Path, wanted: Wanted) -> None:
        """Open the files.

        Raises:
            GoldenError: as `open_pack`, and `golden.column_type` for a column that has no digest.
        """
        self._wanted = wanted
        self._sources = [open_file(p, wanted.id_column) for p in find_files(patterns, folder)]
        self._columns = [_columns_of(source, wanted) for source in self._sources]
        for source, columns in zip(self._sources, self._columns, strict=True):
            source.select(columns.used)
        self.samples = sum(sum(source.batch_rows) for source in self._sources)
        self.watched: tuple[Watched, ...] = tuple(source.watched for source in self._sources)
        self.paths = tuple(source.path for source in self._sources)
        self.input_types = self._columns[0].input_types

    def digests(self) -> Iterator[SampleDigests]:
        """Digests of all samples, in pack order.

        Raises:
            GoldenError: naming file, column and row of what can't be read.
        """
        start = 0
        for source, columns in zip(self._sources, self._columns, strict=True):
            before = start
            for number, rows in enumerate(source.batch_rows):
                step = _step(source, number, columns.used, rows)
                for low in range(0, rows, step):
                    high = min(low + step, rows)
                    yield _digest(source, columns, number, low, high, start, before)
                    source.drop(number, low, high)
                    start += high - low

    def close(self) -> None:
        """Let go of the files."""
        for source in self._sources:
            source.close()

    def __enter__(self) -> Self:
        """Return the reader itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()


class _Columns(Struct, frozen=True):
    """Columns of one file.

    Attributes:
        inputs: of each input by name, sorted: its column and its declared dtype.
        others: column -> declared dtype, sorted; without the id.
    """

    id_column: str
    inputs: Mapping[str, tuple[str, str | None]]
    others: Mapping[str, str | None]
    input_types: Mapping[str, tuple[str, int]]
    input_prefix: bytes
    leaf_prefix: bytes
    only_inputs: bool

    @property
    def used(self) -> list[str]:
        columns = [column for column, _ in self.inputs.values()]
        ids = [] if self.only_inputs else [self.id_column]
        return list(dict.fromkeys([*ids, *columns, *self.others]))


def _columns_of(source: Source, wanted: Wanted) -> _Columns:
    check_unique(source)
    kind = None if wanted.only_inputs else id_kind_of(source, wanted.id_column)
    declared = {name: _declared(found) for name, found in source.fields.items()}
    named = {n[3:]: n for n in source.fields if n.startswith("in.") and len(n) > 3}
    for name, column in wanted.inputs.items():
        if column not in source.fields:
            told = f"{source.path}: no input column {column!r}"
            raise GoldenError(told, "golden.missing_column")
        named[name] = column
    inputs = {name: (named[name], declared[named[name]]) for name in sorted(named)}
    is_other = {wanted.id_column, *named.values()}
    names = [] if wanted.only_inputs else sorted(set(source.fields) - is_other)
    others = {name: declared[name] for name in names if not PANDAS_INDEX.fullmatch(name)}
    types = {name: _tensor_type(source, *found) for name, found in inputs.items()}
    rest = [[name, *_any_type(source, name, dtype)] for name, dtype in others.items()]
    return _Columns(
        wanted.id_column,
        inputs,
        others,
        types,
        _prefix(_INPUTS, [[name, *found] for name, found in types.items()]),
        _prefix(_LEAF, [[wanted.id_column, kind], rest]),
        wanted.only_inputs,
    )


def _prefix(domain: bytes, told: object) -> bytes:
    return domain + hashlib.sha256(canonical_json(told)).digest()


def _declared(found: pa.Field[Any]) -> str | None:
    value = (found.metadata or {}).get(KEY.encode())
    return None if value is None else value.decode(errors="replace")


def _is_tensor(column: str) -> bool:
    return column.startswith(_TENSORS) and not column.endswith(".")


def _tensor_type(source: Source, column: str, declared: str | None) -> tuple[str, int]:
    try:
        layout = layout_of(plain_type(source.fields[column].type), declared)
    except UnsupportedTypeError as error:
        raise _no_digest(source, column, error) from error
    return layout.dtype, len(layout.dims)


def _any_type(source: Source, column: str, declared: str | None) -> list[object]:
    if _is_tensor(column):
        return ["tensor", *_tensor_type(source, column, declared)]
    try:
        return [name_type(plain_type(source.fields[column].type), declared)]
    except UndigestedTypeError as error:
        raise _no_digest(source, column, error) from error


def _no_digest(source: Source, column: str, error: Exception) -> GoldenError:
    return GoldenError(f"{source.path}: column {column!r}: {error}", "golden.column_type")


def _step(source: Source, number: int, used: Sequence[str], rows: int) -> int:
    """Rows that are digested at once."""
    if rows <= 1:
        return 1
    with reading(source.path):
        size = sum(source.column(number, name).nbytes for name in used)
    return max(1, min(_STEP_ROWS, _STEP_BYTES * rows // max(1, size)))


def _digest(
    source: Source, columns: _Columns, number: int, low: int, high: int, start: int, before: int
) -> SampleDigests:
    rows = high - low

    def parts(column: str, declared: str | None, is_tensor: bool) -> list[Part]:
        with reading(source.path):
            array = plain(source.column(number, column).slice(low, rows))
            try:
                return tensor_parts(array, declared) if is_tensor else [plain_part(array)]
            except ValueFault as fault:
                at = start + fault.row - before
                raise GoldenError(
                    f"{source.path}: column {column!r}, row {at}: {fault.found}; fill it or "
                    "remove the sample",
                    fault.code,
                ) from fault

    given = [part for found in columns.inputs.values() for part in parts(*found, True)]
    inputs = hash_rows(columns.input_prefix, given, rows)
    if columns.only_inputs:
        return SampleDigests(start, inputs, [])
    told = [_id_part(source, columns, number, low, high, start - before)]
    for column, declared in columns.others.items():
        told += parts(column, declared, _is_tensor(column))
    told.append(Part(_joined(inputs), 32, rows))
    return SampleDigests(start, inputs, hash_rows(columns.leaf_prefix, told, rows))


def _id_part(source: Source, columns: _Columns, number: int, low: int, high: int, row: int) -> Part:
    kind = id_kind_of(source, columns.id_column)
    with reading(source.path):
        array = plain(source.column(number, columns.id_column).slice(low, high - low))
        try:
            ids = _ids(array, kind)
        except ValueFault as fault:
            raise GoldenError(
                f"{source.path}: row {row + fault.row}: the id is null; give every sample an id",
                fault.code,
            ) from fault
        return plain_part(ids)


def _ids(array: pa.Array[Any], kind: Kind) -> pa.Array[Any]:
    if kind == "string":
        return plain_texts(array, "golden.null_id")
    return array_of(plain_values(array, kind, "golden.null_id"))


def _joined(digests: Sequence[bytes]) -> Any:
    return np.frombuffer(b"".join(digests), np.uint8)
