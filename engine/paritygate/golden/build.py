"""Build a pack from tables: streamed, checked as a whole, complete or not there at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from paritygate.core.dtypes import STRING, is_float, numpy_dtype, rounded
from paritygate.core.errors import GoldenError
from paritygate.core.text import clean
from paritygate.golden.check import PackUse, open_for_check
from paritygate.golden.columns import first_null
from paritygate.golden.content import KEY, content_digest
from paritygate.golden.dtypes import KEY as DTYPE
from paritygate.golden.dtypes import dtype_of, tensor_field
from paritygate.golden.meaning import AXES, CHANNELS, UNITS
from paritygate.golden.plain import plain
from paritygate.golden.write import PackWriter, folder_error, tensor_array

ID = "sample_id"
_BUILDING = ".building"


class Take(Struct, frozen=True):
    """One column of the pack.

    Attributes:
        name: its name there: `in.x`.
        columns: what it is made of; several are one behind the other on a new last axis.
        dtype: cast to it; None: as it is.
        is_stacked: whether there is that axis, also of one column.
        meaning: field metadata on axes, channels and units; what isn't in it is the source's own.
    """

    name: str
    columns: tuple[str, ...]
    dtype: str | None = None
    is_stacked: bool = False
    meaning: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_tensor(self) -> bool:
        """Whether it is an input or an output."""
        return self.name.startswith(("in.", "out."))


class Piece(Struct, frozen=True):
    """Consecutive rows of a source: where they come from, and its row of the first one."""

    source: str
    row: int
    rows: pa.RecordBatch


class Built(Struct, frozen=True):
    """A pack that was built: where, how many samples, its content digest."""

    path: Path
    samples: int
    digest: str


def build(
    path: Path,
    pieces: Iterable[Piece],
    takes: Sequence[Take],
    make_ids: bool,
    metadata: Mapping[str, str] | None = None,
) -> Built:
    """Write a pack, then read it as a whole; the file appears if nothing is wrong with it.

    Args:
        path: of the Arrow file.
        pieces: rows, all with the same columns.
        takes: columns of the pack; with the ids, unless they are made.
        make_ids: number the samples from 0.
        metadata: of the file, besides its digest.

    Raises:
        GoldenError: with source, row and column, what can't be in a pack; no rows at all.
        FolderError: the file can't be written.
    """
    building = path.absolute().with_name(path.name + _BUILDING)
    token = secrets.token_hex(32)
    try:
        _write(building, pieces, takes, make_ids, {**(metadata or {}), KEY: token})
        samples = _check(building, path)
        digest = content_digest([building], building.parent, cache=False)
        _replace(building, token, digest)
        _rename(building, path)
    except BaseException:
        with contextlib.suppress(OSError):
            building.unlink(missing_ok=True)
        raise
    return Built(path, samples, digest)


def _write(
    building: Path,
    pieces: Iterable[Piece],
    takes: Sequence[Take],
    make_ids: bool,
    metadata: Mapping[str, str],
) -> None:
    writer: PackWriter | None = None
    samples = 0
    try:
        for piece in pieces:
            batch = _batch(piece, takes, samples if make_ids else None)
            if writer is None:
                writer = PackWriter(building, batch.schema, metadata)
            elif batch.schema != writer.schema.remove_metadata():
                raise _differs(piece, writer.schema, batch.schema)
            else:
                _check_said(piece, writer.schema, batch.schema)
            writer.write(batch)
            samples += batch.num_rows
        if writer is None or not samples:
            raise GoldenError("no sample: the sources have no rows", "golden.empty")
        writer.close()
    except BaseException:
        if writer is not None:
            writer.abort()
        raise


def _batch(piece: Piece, takes: Sequence[Take], first: int | None) -> pa.RecordBatch:
    fields, arrays = [], list[Any]()
    if first is not None:
        fields.append(pa.field(ID, pa.int64()))
        arrays.append(pa.array(np.arange(first, first + piece.rows.num_rows)))
    for take in takes:
        field, array = _taken(piece, take)
        fields.append(field)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _taken(piece: Piece, take: Take) -> tuple[pa.Field[Any], Any]:
    if take.dtype is None and not take.is_stacked:
        (column,) = take.columns
        array = plain(_column(piece, column))
        if isinstance(array, pa.DictionaryArray):
            array.validate(full=True)
            array = array.dictionary_decode()
        if take.is_tensor and array.null_count:
            raise _wrong(piece, column, first_null(array), "has no value")
        return pa.field(take.name, array.type, metadata=_said(piece, take) or None), array
    arrays = [_numbers(piece, column, take.dtype) for column in take.columns]
    if len({array.dtype for array in arrays}) > 1:
        told = ", ".join(f"{c} {a.dtype}" for c, a in zip(take.columns, arrays, strict=True))
        raise GoldenError(
            f"{piece.source}: {take.name} is made of columns of several dtypes ({told}); say which "
            f"one it has: {take.name.partition('.')[2]}:float32={','.join(take.columns)}",
            "golden.column_type",
        )
    values = np.stack(arrays, axis=1) if take.is_stacked else arrays[0]
    made = tensor_array(values)
    named = tensor_field(take.name, made.type, values.dtype)
    said: dict[Any, Any] = {**take.meaning}
    said |= {key.decode(): value.decode() for key, value in (named.metadata or {}).items()}
    return (named.with_metadata(said) if said else named), made


def _said(piece: Piece, take: Take) -> dict[str, str]:
    """Metadata of a column that is taken as it is."""
    found = piece.rows.schema.field(take.columns[0]).metadata or {}
    kept = (DTYPE, AXES, CHANNELS, UNITS)
    said = {key: found[key.encode()].decode() for key in kept if key.encode() in found}
    return {**said, **take.meaning} if take.is_tensor else said


def _column(piece: Piece, column: str) -> Any:
    if column not in piece.rows.schema.names:
        have = ", ".join(piece.rows.schema.names[:30])
        raise GoldenError(
            f"{piece.source}: no column {column!r}; the columns are: {have}",
            "golden.missing_column",
        )
    return piece.rows.column(column)


def _numbers(piece: Piece, column: str, dtype: str | None) -> Any:
    """`(n,)` values of a column of plain numbers, bools or texts, cast without loss of meaning."""
    array = plain(_column(piece, column))
    try:
        known = dtype_of(array.type, None)
    except ValueError:  # pragma: no cover - nothing is declared
        known = None
    if known is None:
        raise GoldenError(
            f"{piece.source}: column {column!r} is {array.type}; a cast and several columns as one "
            "input are for columns of plain numbers, bools or texts",
            "golden.column_type",
        )
    if array.null_count:
        raise _wrong(piece, column, first_null(array), "has no value")
    values = array.to_numpy(zero_copy_only=False)
    return values if dtype is None or dtype == known else _cast(piece, column, values, dtype)


def _cast(piece: Piece, column: str, values: Any, dtype: str) -> Any:
    """Numbers in another dtype: floats rounded, anything else exact."""
    wanted = numpy_dtype(dtype)
    if dtype == STRING or values.dtype.kind == "O":
        told = f"{piece.source}: column {column!r}: texts aren't cast to {dtype}"
        raise GoldenError(told, "golden.column_type")
    with np.errstate(all="ignore"):
        if is_float(dtype):
            cast = rounded(values, dtype).astype(wanted)
            good = np.isfinite(cast.astype(np.float64)) | ~np.isfinite(values.astype(np.float64))
        else:
            cast = values.astype(wanted)
            is_negative = cast.astype(np.float64) < 0
            good = (cast.astype(values.dtype) == values) & (is_negative == (values < 0))
    if not good.all():
        at = int(np.argmin(good))
        raise _wrong(piece, column, at, f"is {values[at]}, which is no {dtype}")
    return cast


def _wrong(piece: Piece, column: str, at: int, told: str) -> GoldenError:
    row = piece.row + at
    return GoldenError(f"{piece.source}: column {column!r}, row {row}: {told}", "golden.value")


def _differs(piece: Piece, schema: pa.Schema, other: pa.Schema) -> GoldenError:
    for ours, theirs in zip(schema, other, strict=True):
        if not ours.equals(theirs, check_metadata=True):
            return GoldenError(
                f"{piece.source}: {theirs.name} is {theirs.type} from row {piece.row} on, and "
                f"{ours.type} before; give it a dtype, or write the sources alike",
                "golden.schema",
            )
    return GoldenError(f"{piece.source}: its columns differ from those before", "golden.schema")


def _check_said(piece: Piece, schema: pa.Schema, other: pa.Schema) -> None:
    """Refuse a source that says otherwise what its numbers are: one field can't say both."""
    for ours, theirs in zip(schema, other, strict=True):
        for key in (DTYPE, AXES, CHANNELS, UNITS):
            before, now = ((f.metadata or {}).get(key.encode()) for f in (ours, theirs))
            if _read(before) != _read(now):
                raise GoldenError(
                    f"{piece.source}: {theirs.name} {_told(key, now)} from row {piece.row} on, but "
                    f"{_told(key, before)} before; write the sources alike, in one order and one "
                    "unit",
                    "golden.schema",
                )


def _read(text: bytes | None) -> Any:
    try:
        return json.loads(text or b"null")
    except (ValueError, RecursionError):
        return text


def _told(key: str, text: bytes | None) -> str:
    if text is None:
        return f"says no {key}"
    return f"says {key} = {clean(text.decode(errors='replace'))[:200]}"


def _check(building: Path, path: Path) -> int:
    """Read all ids and tensors as a run would."""
    try:
        with open_for_check([building], building.parent, PackUse()) as pack:
            pack.scan_ids()
            return pack.samples
    except GoldenError as error:
        raise GoldenError(str(error).replace(str(building), str(path)), error.code) from error


def _replace(building: Path, token: str, digest: str) -> None:
    """Put the digest where the token stands: in the schema at the start and in the footer."""
    try:
        with building.open("r+b") as file:
            places = list(_places(file, token.encode()))
            for place in places:
                file.seek(place)
                file.write(digest.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise folder_error(building, error) from error
    with pa.OSFile(str(building), "rb") as opened:
        found = (pa.ipc.open_file(opened).schema.metadata or {}).get(KEY.encode())
    if found != digest.encode() or len(places) != 2:
        raise AssertionError("the schema of a new pack stands twice in it")


def _places(file: Any, token: bytes) -> Iterator[int]:
    """Where a token stands in the first and in the last part of a file."""
    size = file.seek(0, os.SEEK_END)
    part = 1 << 20
    while True:
        file.seek(0)
        head = file.read(min(part, size))
        file.seek(max(0, size - part))
        tail = file.read()
        found = {head.find(token), size - len(tail) + tail.rfind(token)}
        if token in head and token in tail and (len(found) == 2 or part >= size):
            yield from sorted(found)
            return
        if part >= size:
            return
        part *= 4


def _rename(building: Path, path: Path) -> None:
    try:
        building.replace(path)
    except OSError as error:
        raise folder_error(path, error) from error
