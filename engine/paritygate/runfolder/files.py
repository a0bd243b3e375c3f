"""One Arrow file of a run folder, read back and checked in full before it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paritygate.core.errors import GoldenError
from paritygate.core.text import clean
from paritygate.golden.dtypes import column_of
from paritygate.golden.formats import open_file
from paritygate.golden.source import reading
from paritygate.runfolder.shards import SHARD_VERSION

SampleId = int | str
TENSORS = ("in.", "ref.", "cand.")


def is_scalar(column: str) -> bool:
    """Whether a column of a shard isn't a tensor."""
    return not column.startswith(TENSORS)


def meanings(sample_id: SampleId) -> list[SampleId]:
    """What an id may mean: a text that is a number stands for the number too."""
    if isinstance(sample_id, str):
        digits = sample_id.removeprefix("-")
        if digits.isdecimal() and digits.isascii() and len(digits) < 20:
            return [sample_id, int(sample_id)]
    return [sample_id]


def read_columns(path: Path, pick: Callable[[str], bool]) -> pa.Table:
    """The columns of a shard or an ids file whose names are picked, with their fields' metadata.

    Raises:
        GoldenError: the file can't be read, or is of a newer version.
    """
    source = open_file(path, "sample_id")
    try:
        with reading(path):
            _check_version(path, source.schema)
            if not {"sample_id", "row"} <= set(source.schema.names):
                raise pa.ArrowInvalid("it has no sample_id and row")
            names = [name for name in source.schema.names if pick(name)]
            source.select(["sample_id", *(n for n in names if n != "sample_id")])
            columns = [
                [source.column(number, name) for number in range(len(source.batch_rows))]
                for name in names
            ]
            fields = [source.schema.field(name) for name in names]
            table = pa.table(
                [pa.chunked_array(c, f.type) for c, f in zip(columns, fields, strict=True)],
                schema=pa.schema(fields),
            )
            table.validate(full=True)
            return table
    finally:
        source.close()


def _check_version(path: Path, schema: pa.Schema) -> None:
    text = (schema.metadata or {}).get(b"paritygate.shard_version", b"1").decode(errors="replace")
    if not text.isdigit() or int(text) > int(SHARD_VERSION):
        raise GoldenError(
            f"{path}: has shard version {clean(text)}, newer than {SHARD_VERSION}, which this "
            "version of paritygate reads; read it with the version that wrote it"
        )


def rows_of(table: pa.Table, sample_id: SampleId) -> list[tuple[int, dict[str, Any]]]:
    """The rows of a sample, each with its place."""
    column = table["sample_id"]
    is_number = pa.types.is_integer(column.type)
    if is_number is not isinstance(sample_id, int) or (is_number and not _fits(sample_id)):
        return []
    import pyarrow.compute as pc

    wanted: Any = column_of([sample_id], column.type)[0]
    mask: Any = pc.equal(column, wanted)
    places: Sequence[int] = pc.indices_nonzero(mask).to_pylist()
    return [(at, table.slice(at, 1).to_pylist()[0]) for at in places]


def _fits(sample_id: SampleId) -> bool:
    return isinstance(sample_id, int) and -(2**63) <= sample_id < 2**63
