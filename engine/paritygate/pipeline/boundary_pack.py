"""Made samples as a pack, with the columns that the plan reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paritygate.core.plan import Plan
from paritygate.core.ragged import row_of
from paritygate.core.shapes import has_names
from paritygate.golden.build import ID, Built, Piece, Take, build
from paritygate.golden.build_samples import pieces_of
from paritygate.golden.evidence import KEY, MARK, SYNTHETIC, Mask, synthetic_rows
from paritygate.golden.pack import GoldenPack
from paritygate.golden.values import NULL
from paritygate.pipeline.boundary_rows import Row

PURPOSE, EXPECT, GOLDEN = "boundary", "expect", "golden"
NO_LABEL = -(2**63)
_STEP = 1_024


def write_rows(
    path: Path, rows: Sequence[Row], plan: Plan, pack: GoldenPack, *, with_golden: bool
) -> Built:
    """Write samples with their ids, what they are for, and what is expected of them.

    Labels and slices that the plan names are there: a label that is none, a slice without a value.
    Synthetic samples stay marked; what is made of a pack that has some is marked too, since any of
    them may be what it was made of.

    Args:
        path: of the file.
        rows: the made samples.
        plan: whose columns are written.
        pack: the golden pack.
        with_golden: write its samples too, before the others.

    Raises:
        GoldenError: a golden sample that can't be read, or is called as a made one.
        FolderError: the file can't be written.
    """
    held: list[Row] = []
    synthetic = synthetic_rows(pack)
    golden = golden_rows(pack, plan.table.expect or EXPECT, synthetic) if with_golden else ()

    def samples() -> Iterator[Mapping[str, Any]]:
        for row in itertools.chain(golden, rows):
            held.append(row)
            yield {ID: row.id, **{f"in.{name}": array for name, array in row.sample.items()}}

    def pieces() -> Iterator[Piece]:
        varying = [f"in.{name}" for name, t in plan.table.inputs.items() if has_names(t.shape)]
        for piece in pieces_of(samples(), varying, "sample"):
            some, held[:] = held[: piece.rows.num_rows], held[piece.rows.num_rows :]
            yield Piece(
                piece.source, piece.row, _completed(piece.rows, some, plan, pack, synthetic)
            )

    made = pieces()
    first = next(made)
    takes = [Take(name, (name,)) for name in first.rows.schema.names]
    marked = MARK if synthetic is not None and (not with_golden or synthetic.all()) else None
    return build(path, itertools.chain([first], made), takes, make_ids=False, metadata=marked)


def golden_rows(
    pack: GoldenPack, expect_column: str, synthetic: Mask | None = None
) -> Iterator[Row]:
    """The samples of the golden pack, in order, with what a column says is expected of them.

    Args:
        pack: the golden pack.
        expect_column: the column.
        synthetic: which of them are no acceptance evidence.
    """
    for start, stop in pack.batch_spans(_STEP):
        tensors = {name: pack.tensor(f"in.{name}", start, stop) for name in pack.inputs}
        ids = pack.ids(start, stop).tolist()
        labels = {name: pack.labels(start, stop, name).tolist() for name in pack.labels_of}
        slices = {name: pack.slice_values(name, start, stop) for name in pack.slices}
        for at, sample_id in enumerate(ids):
            texts = {name: found.values[int(found.codes[at])] for name, found in slices.items()}
            others = {name: None if text == NULL else text for name, text in texts.items()}
            expect = others.pop(expect_column, None)
            if synthetic is not None:
                others[KEY] = SYNTHETIC if synthetic[start + at] else None
            yield Row(
                str(sample_id),
                GOLDEN,
                {name: row_of(tensor, at) for name, tensor in tensors.items()},
                expect,
                others | {name: values[at] for name, values in labels.items()},
            )
        pack.done_until(stop)


def _completed(
    batch: pa.RecordBatch,
    rows: Sequence[Row],
    plan: Plan,
    pack: GoldenPack,
    synthetic: Mask | None,
) -> pa.RecordBatch:
    """The rows with all columns that the plan reads."""
    columns = {name: t.column or f"in.{name}" for name, t in plan.table.inputs.items()}
    said = {name: spec.metadata for name, spec in pack.inputs.items()}
    fields = [_like(field, columns, said) for field in batch.schema]
    arrays: list[Any] = list(batch.columns)
    texts: dict[str, list[Any]] = {
        PURPOSE: [row.purpose for row in rows],
        plan.table.expect or EXPECT: [row.expect for row in rows],
    }
    if plan.table.id != ID:
        texts[plan.table.id] = [row.id for row in rows]
    for name in pack.slices:
        texts.setdefault(name, [row.others.get(name) for row in rows])
    if synthetic is not None:
        texts[KEY] = [row.others.get(KEY, SYNTHETIC) for row in rows]
    numbers: dict[str, list[Any]] = {}
    for name, kind in pack.labels_of.items():
        none: Any = "(boundary)" if kind == "string" else NO_LABEL
        held = texts if kind == "string" else numbers
        held.setdefault(name, [row.others.get(name, none) for row in rows])
    for kept, type_ in ((texts, pa.string()), (numbers, pa.int64())):
        fields += [pa.field(name, type_) for name in kept]
        arrays += [pa.array(values, type_) for values in kept.values()]
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
