"""Packs made of tables, arrays and samples in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from paritygate.api.meanings import Named, with_meanings
from paritygate.core.dtypes import DTYPES, STRING
from paritygate.core.errors import GoldenError, PlanError, Problem
from paritygate.core.problems import did_you_mean
from paritygate.golden.build import ID, Built, Piece, Take, build
from paritygate.golden.build_samples import pieces_of
from paritygate.golden.csv_ids import CsvIds
from paritygate.golden.evidence import MARK, SYNTHETIC, check_marks, is_marked
from paritygate.golden.files import find_files
from paritygate.golden.formats import open_file
from paritygate.golden.read_tables import is_csv, names_of, read_table, saved_dataset
from paritygate.golden.schema import EVIDENCE

Where = str | PathLike[str]
WHOLE, SOME = "whole", "some"

_SPEC = re.compile(r"(?P<name>[^:=]+)(?::(?P<dtype>\w+))?=(?P<columns>.+)")


def build_pack(
    path: Where,
    samples: Iterable[Mapping[str, Any]],
    *,
    make_ids: bool = False,
    varying: Sequence[str] = (),
    axes: Named | None = None,
    channels: Named | None = None,
    units: Named | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Built:
    """Write samples as a pack, a few MiB at a time.

    Args:
        path: of the Arrow file; it appears when it is complete and has been read as a whole.
        samples: dicts with the columns of a pack: `sample_id`, arrays of one sample as `in.NAME`
            and `out.NAME` in the model's own dtype, `label` and any others.
        make_ids: number the samples from 0, in place of `sample_id`.
        varying: columns whose samples may differ in shape.
        axes: input, or `out.NAME`, -> names of the axes of one sample.
        channels: the same -> names along the axis "channel", else along the last one.
        units: the same -> a unit a channel, or one for all.
        metadata: of the file, besides its digest.

    Raises:
        GoldenError: with number and column, a sample that can't be in a pack.
        FolderError: the file can't be written.
    """
    pieces = pieces_of(samples, varying, "sample")
    first = next(pieces, None)
    if first is None:
        raise GoldenError("no sample was given", "golden.empty")
    names = [name for name in first.rows.schema.names if name != ID or not make_ids]
    if ID not in names and not make_ids:
        raise GoldenError(
            f"the samples have no {ID!r}; give each an id, or make_ids=True for 0, 1, ...",
            "golden.missing_column",
        )
    takes = [Take(name, (name,)) for name in names]
    takes = with_meanings(takes, axes, channels, units)
    return build(Path(path), _chain(first, pieces), takes, make_ids, metadata)


def build_from(
    path: Where,
    sources: Where | Sequence[Where],
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    id: str | None = None,
    label: str | None = None,
    keep: Sequence[str] = (),
    make_ids: bool = False,
    axes: Named | None = None,
    channels: Named | None = None,
    units: Named | None = None,
) -> Built:
    """Write a pack from Arrow, Parquet or CSV files, `.npz` files or folders of `.npy` files.

    Args:
        path: of the Arrow file; it appears when it is complete and has been read as a whole.
        sources: files, folders (of Hugging Face's datasets too) or globs, one after another, all
            with the same columns.
        inputs: `NAME=COLUMN`; `NAME=A,B,C` puts columns side by side on a last axis, `NAME=A,` one;
            `NAME:float32=A,B` casts them. None: columns that are called `in.NAME`, or all arrays.
        outputs: the same; none: columns that are called `out.NAME`.
        id: column of the ids; none: `sample_id`.
        label: column of the labels; none: `label`, if there.
        keep: further columns, such as those of slices.
        make_ids: number the samples from 0, where the sources have no ids.
        axes: input, or `out.NAME`, -> names of the axes of one sample.
        channels: the same -> names along the axis "channel", else along the last one; without it
            those of the columns that are put side by side.
        units: the same -> a unit a channel, or one for all.

    Raises:
        PlanError: an option that can't be read.
        GoldenError: with source, row and column, what can't be in a pack.
        FolderError: the file can't be written.
    """
    files = _sources([sources] if isinstance(sources, str | PathLike) else list(sources))
    have = names_of(files[0])
    takes = [
        *_ids(files[0], have, id, make_ids),
        *_tensors(files[0], have, inputs, "in."),
        *_tensors(files[0], have, outputs, "out."),
        *_others(have, label, keep),
    ]
    takes = with_meanings(takes, axes, channels, units)
    marks = {str(file): marked for file in files if (marked := _marked(file))}
    columns = list(dict.fromkeys(column for take in takes for column in take.columns))
    dtypes = {c: take.dtype for take in takes for c in take.columns if take.dtype is not None}
    id_column = next((take.columns[0] for take in takes if take.name == ID), "")
    texts = {id_column: STRING, EVIDENCE: STRING}
    ids = CsvIds(id_column)
    pieces = (
        ids.read(piece) if is_csv(file) else piece
        for file in files
        for piece in read_table(file, _columns_of(file, columns, marks), {**dtypes, **texts})
    )
    if not marks:
        return build(Path(path), pieces, takes, make_ids)
    is_all = all(marks.get(str(file)) == WHOLE for file in files)
    takes = [*(take for take in takes if take.name != EVIDENCE), Take(EVIDENCE, (EVIDENCE,))]
    told = (_with_evidence(piece, marks) for piece in pieces)
    return build(Path(path), told, takes, make_ids, MARK if is_all else None)


def _marked(file: Path) -> str:
    """How a source says that samples of it are no acceptance evidence; "": it doesn't."""
    is_table = not (file.is_dir() or file.suffix.lower() == ".npz" or is_csv(file))
    if is_table:
        source = open_file(file, "")
        metadata = source.schema.metadata
        source.close()
        if is_marked(file, metadata):
            return WHOLE
    return SOME if EVIDENCE in names_of(file) else ""


def _columns_of(file: Path, columns: Sequence[str], marks: Mapping[str, str]) -> list[str]:
    is_marked_by_column = marks.get(str(file)) == SOME
    return (
        [*columns, EVIDENCE] if is_marked_by_column and EVIDENCE not in columns else list(columns)
    )


def _with_evidence(piece: Piece, marks: Mapping[str, str]) -> Piece:
    """Rows with the column that marks them, whatever their source marks them by."""
    rows, mark = piece.rows, marks.get(piece.source, "")
    values: pa.Array[Any] = pa.nulls(rows.num_rows, pa.string())
    if mark == WHOLE:
        values = pa.array([SYNTHETIC] * rows.num_rows, pa.string())
    elif EVIDENCE in rows.schema.names:
        texts = [None if v is None else str(v) for v in rows.column(EVIDENCE).to_pylist()]
        values = pa.array(texts, pa.string())
        check_marks(piece.source, values, piece.row)
    kept = [name for name in rows.schema.names if name != EVIDENCE]
    fields = [rows.schema.field(name) for name in kept]
    arrays = [rows.column(name) for name in kept]
    schema = pa.schema([*fields, pa.field(EVIDENCE, pa.string())])
    return Piece(
        piece.source, piece.row, pa.RecordBatch.from_arrays([*arrays, values], schema=schema)
    )


def _chain(first: Piece, more: Iterator[Piece]) -> Iterator[Piece]:
    yield first
    yield from more


def _sources(patterns: Sequence[Where]) -> list[Path]:
    found: list[Path] = []
    for pattern in patterns:
        path = Path(pattern)
        is_arrays = path.is_dir() and any(path.glob("*.npy"))
        saved = saved_dataset(path) if path.is_dir() else []
        files = [path] if is_arrays else saved
        found += files or find_files([str(pattern)], Path.cwd())
    if not found:
        raise GoldenError("no source is named", "golden.no_match")
    return found


def _ids(source: Path, have: Sequence[str], id_: str | None, make_ids: bool) -> list[Take]:
    if make_ids:
        if id_ is not None:
            told = "give either the column of the ids or make_ids, not both"
            raise PlanError([Problem("--id", told)], "pack build")
        return []
    column = id_ or ID
    if column not in have:
        raise GoldenError(
            f"{source}: no id column {column!r}{did_you_mean(column, list(have))}; name it by --id "
            "COLUMN, or number the samples by --make-ids",
            "golden.missing_column",
        )
    return [Take(ID, (column,))]


def _tensors(source: Path, have: Sequence[str], specs: Sequence[str], prefix: str) -> list[Take]:
    if specs:
        return [parse_take(spec, prefix) for spec in specs]
    named = [Take(name, (name,)) for name in have if name.startswith(prefix)]
    if named or prefix != "in.":
        return named
    if source.is_dir() or source.suffix.lower() == ".npz":
        is_other = (ID, "label", EVIDENCE)
        return [
            Take(f"in.{name}", (name,))
            for name in have
            if name not in is_other and not name.startswith("out.")
        ]
    return []


def _others(have: Sequence[str], label: str | None, keep: Sequence[str]) -> Iterator[Take]:
    if label is not None or "label" in have:
        yield Take("label", (label or "label",))
    for name in keep:
        yield Take(name, (name,))


def parse_take(spec: str, prefix: str) -> Take:
    """`NAME[:DTYPE]=COLUMN[,COLUMN...]` as a column of the pack.

    Raises:
        PlanError: it isn't that.
    """
    found = _SPEC.fullmatch(spec)
    option = "--input" if prefix == "in." else "--output"
    if found is None:
        told = f"{spec!r}: write NAME=COLUMN, NAME=A,B,C or NAME:float32=A,B,C"
        raise PlanError([Problem(option, told)], "pack build")
    dtype = found["dtype"]
    if dtype is not None and dtype not in DTYPES:
        hint = did_you_mean(dtype, list(DTYPES))
        raise PlanError([Problem(option, f"{dtype!r} is no dtype{hint}")], "pack build")
    columns = found["columns"].split(",")
    names = tuple(name for name in columns if name)
    return Take(prefix + found["name"], names, dtype, is_stacked=len(columns) > 1)
