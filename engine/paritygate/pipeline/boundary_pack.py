"""Made samples as a pack, with the columns that the plan reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paritygate.core.plan import Plan
from paritygate.core.shapes import has_names
from paritygate.golden.build import ID, Built, Piece, Take, build
from paritygate.golden.build_samples import pieces_of
from paritygate.golden.evidence import MARK, synthetic_rows
from paritygate.golden.formats import open_file
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.boundary_rows import Row

PURPOSE, EXPECT = "boundary", "expect"
NO_LABEL = -(2**63)


def write_rows(path: Path, rows: Sequence[Row], plan: Plan, pack: GoldenPack) -> Built:
    """Write samples with their ids, what they are for, and what is expected of them.

    Labels and slices that the plan names are there: a label that is none, a slice without a value.
    What is made of synthetic samples is marked as they are.

    Raises:
        FolderError: the file can't be written.
    """
    columns = {name: t.column or f"in.{name}" for name, t in plan.table.inputs.items()}
    others = dict(_others(plan, pack))
    said = {name: spec.metadata for name, spec in pack.inputs.items()}
    varying = [f"in.{name}" for name, t in plan.table.inputs.items() if has_names(t.shape)]

    def samples() -> Iterator[Mapping[str, Any]]:
        for row in rows:
            yield {ID: row.id, **{f"in.{name}": array for name, array in row.sample.items()}}

    def pieces() -> Iterator[Piece]:
        for piece in pieces_of(samples(), varying, "sample"):
            some = rows[piece.row : piece.row + piece.rows.num_rows]
            batch = _completed(piece.rows, some, columns, others, plan.table.id, said)
            yield Piece(piece.source, piece.row, batch)

    made = pieces()
    first = next(made)
    takes = [Take(name, (name,)) for name in first.rows.schema.names]

    def all_pieces() -> Iterator[Piece]:
        yield first
        yield from made

    marked = MARK if synthetic_rows(pack.files, pack.id_column) is not None else None
    return build(path, all_pieces(), takes, make_ids=False, metadata=marked)


def _completed(
    batch: pa.RecordBatch,
    rows: Sequence[Row],
    columns: Mapping[str, str],
    others: Mapping[str, pa.Array[Any]],
    id_column: str,
    said: Mapping[str, Mapping[str, str]],
) -> pa.RecordBatch:
    fields = [_like(field, columns, said) for field in batch.schema]
    arrays: list[Any] = list(batch.columns)
    texts: list[tuple[str, list[Any]]] = [
        (PURPOSE, [row.purpose for row in rows]),
        (EXPECT, [row.expect for row in rows]),
        *([(id_column, [row.id for row in rows])] if id_column != ID else []),
    ]
    for name, values in texts:
        fields.append(pa.field(name, pa.string()))
        arrays.append(pa.array(values, pa.string()))
    for name, one in others.items():
        if name not in [field.name for field in fields]:
            fields.append(pa.field(name, one.type))
            arrays.append(pa.concat_arrays([one] * len(rows)))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _like(
    field: pa.Field[Any], columns: Mapping[str, str], said: Mapping[str, Mapping[str, str]]
) -> pa.Field[Any]:
    """The field of an input as the golden pack has it: its name, axes, channels and units."""
    if not field.name.startswith("in."):
        return field
    name = field.name.removeprefix("in.")
    metadata: dict[Any, Any] = {
        **{key.encode(): value.encode() for key, value in said.get(name, {}).items()},
        **(field.metadata or {}),
    }
    return field.with_name(columns.get(name, field.name)).with_metadata(metadata)


def _others(plan: Plan, pack: GoldenPack) -> Iterator[tuple[str, pa.Array[Any]]]:
    """One value of each label and slice column that the plan names."""
    source = open_file(pack.files[0].path, plan.table.id)
    types = {name: field.type for name, field in source.fields.items()}
    source.close()
    for name, kind in pack.labels_of.items():
        text: Any = "(boundary)" if kind == "string" else NO_LABEL
        yield name, pa.array([text])
    for name in plan.slices:
        yield name, pa.nulls(1, types[name])
