"""Failure shards and the ids file.

A shard is itself a golden pack: ids, inputs, both sides' outputs, and why each sample failed. The
ids file names every failing sample and is never truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from paritygate.comparison.keep import KeptRow
from paritygate.comparison.rows import FailedRows
from paritygate.core.dtypes import dtype_name, zeros
from paritygate.core.tensors import Array
from paritygate.core.verdict import rule_names
from paritygate.golden.dtypes import array_of, column_of, tensor_field
from paritygate.golden.write import PackWriter, tensor_array
from paritygate.golden.write_varying import varying_array, varying_field

SHARD_VERSION = "1"
ROWS_PER_BATCH = 256

Dims = tuple[int | None, ...]
ReadInputs = Callable[[int], Mapping[str, Array]]
Extra = Callable[[int], Mapping[str, object]]

_INT, _FLOAT, _TEXT = pa.int64(), pa.float64(), pa.string()
_SCALARS: dict[str, pa.DataType] = {
    "row": _INT,
    "batch": _INT,
    "batch_position": _INT,
    "stage": _TEXT,
    "rules": pa.list_(_TEXT),
    "error": _TEXT,
    "output": _TEXT,
    "index": _INT,
    "ref_value": _FLOAT,
    "cand_value": _FLOAT,
    "abs_error": _FLOAT,
    "allowed": _FLOAT,
    "excess": _FLOAT,
    "failing_elements": _INT,
    "elements": _INT,
}


def write_shard(
    path: Path,
    rows: Sequence[KeptRow],
    decisions: Sequence[str],
    id_type: pa.DataType,
    extra: Mapping[str, pa.DataType],
    read_inputs: ReadInputs,
    read_extra: Extra,
    metadata: Mapping[str, str],
) -> int:
    """Write the kept rows of one stage, in pack order.

    Args:
        path: final path of the file.
        rows: the kept samples.
        decisions: decisions of the stage; each gets three columns.
        id_type: type of the ids.
        extra: label and slice columns of the pack and their types; one whose name the shard needs
            for itself is named `pack.<name>`.
        read_inputs: ordinal -> `in.<name>` tensors of that sample.
        read_extra: ordinal -> label and slice values of that sample.
        metadata: what the shard belongs to.

    Returns:
        Bytes written.

    Raises:
        FolderError: the disk is full or the file can't be written.
    """
    ordered = sorted(rows, key=lambda row: row.ordinal)
    shapes = _tensor_shapes(ordered, read_inputs)
    writer: PackWriter | None = None
    try:
        for at in range(0, len(ordered), ROWS_PER_BATCH):
            part = ordered[at : at + ROWS_PER_BATCH]
            batch = _batch(part, decisions, id_type, extra, shapes, read_inputs, read_extra)
            if writer is None:
                meta = {"paritygate.shard_version": SHARD_VERSION, **metadata}
                writer = PackWriter(path, batch.schema, meta, compression="zstd")
            writer.write(batch)
        if writer is None:
            return 0
        writer.close()
    except BaseException:
        if writer is not None:
            writer.abort()
        raise
    return path.stat().st_size


def _tensor_shapes(
    rows: Sequence[KeptRow], read_inputs: ReadInputs
) -> dict[str, tuple[np.dtype[np.generic], Dims]]:
    """Columns for tensors, with None for dims that vary over the rows.

    One whose dtype or number of axes varies can't be a column.
    """
    shapes: dict[str, tuple[np.dtype[np.generic], Dims]] = {}
    unlike = set()
    for row in rows:
        inputs = {f"in.{name}": array for name, array in read_inputs(row.ordinal).items()}
        for name, tensor in {**row.tensors, **inputs}.items():
            dtype, dims = shapes.setdefault(name, (tensor.dtype, tensor.shape))
            if (tensor.dtype, tensor.ndim) != (dtype, len(dims)):
                unlike.add(name)
            elif tensor.shape != dims:
                both = zip(dims, tensor.shape, strict=True)
                shapes[name] = dtype, tuple(a if a == b else None for a, b in both)
    return {name: shape for name, shape in shapes.items() if name not in unlike}


def _batch(
    rows: Sequence[KeptRow],
    decisions: Sequence[str],
    id_type: pa.DataType,
    extra: Mapping[str, pa.DataType],
    shapes: Mapping[str, tuple[np.dtype[np.generic], Dims]],
    read_inputs: ReadInputs,
    read_extra: Extra,
) -> pa.RecordBatch:
    more = [read_extra(row.ordinal) for row in rows]
    inputs = [read_inputs(row.ordinal) for row in rows]
    own = {"sample_id": id_type, **_SCALARS, **_decision_columns(decisions)}
    arrays: dict[str, pa.Array[Any]] = {}
    for name, kind in extra.items():
        is_taken = name in own or name in shapes
        values = [_python(row[name]) for row in more]
        arrays[f"pack.{name}" if is_taken else name] = column_of(values, kind)
    for name, kind in own.items():
        arrays[name] = column_of([_python(row.values.get(name)) for row in rows], kind)
    for name, (dtype, shape) in shapes.items():
        if name.startswith("in."):
            tensors = [given.get(name[3:]) for given in inputs]
        else:
            tensors = [row.tensors.get(name) for row in rows]
        fixed = tuple(dim for dim in shape if dim is not None)
        if len(fixed) == len(shape):
            arrays[name] = _tensors(tensors, dtype, fixed)
        else:
            arrays[name] = varying_array(tensors, dtype, len(shape))
    fields = [
        tensor_field(name, array.type, shapes[name][0])
        if name in shapes and None not in shapes[name][1]
        else varying_field(name, array.type, shapes[name][0])
        if name in shapes
        else pa.field(name, array.type)
        for name, array in arrays.items()
    ]
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields))


def _decision_columns(decisions: Sequence[str]) -> dict[str, pa.DataType]:
    return {
        f"decision.{name}.{part}": kind
        for name in decisions
        for part, kind in (("ref", _TEXT), ("cand", _TEXT), ("margin", _FLOAT))
    }


def _tensors(
    tensors: Sequence[Array | None], dtype: np.dtype[np.generic], shape: tuple[int, ...]
) -> pa.Array[Any]:
    """A tensor column; a sample without the tensor is null."""
    stacked = zeros((len(tensors), *shape), dtype_name(dtype))
    for i, tensor in enumerate(tensors):
        if tensor is not None:
            stacked[i, ...] = tensor
    column = tensor_array(stacked)
    absent = [tensor is None for tensor in tensors]
    if not any(absent):
        return column
    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    taken = column_of([None if gone else i for i, gone in enumerate(absent)], pa.int64())
    storage = storage.take(taken)
    if isinstance(column, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(column.type, storage)
    return storage


def _python(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


class LateWriter:
    """A file that is made when its first rows come."""

    def __init__(
        self, path: Path, schema: pa.Schema, metadata: Mapping[str, str] | None = None
    ) -> None:
        self.rows = 0
        self._path = path
        self._schema = schema
        self._metadata = {"paritygate.shard_version": SHARD_VERSION, **(metadata or {})}
        self._writer: PackWriter | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises:
            FolderError: the disk is full or the file can't be written.
        """
        if self._writer is None:
            self._writer = PackWriter(self._path, self._schema, self._metadata, compression="zstd")
        self._writer.write(batch)
        self.rows += batch.num_rows

    def close(self) -> None:
        """Finish the file; without rows there is none.

        Raises:
            FolderError: the disk is full or the file can't be written.
        """
        if self._writer is not None:
            self._writer.close()

    def abort(self) -> None:
        """Drop what has been written."""
        if self._writer is not None:
            self._writer.abort()


class IdsWriter(LateWriter):
    """`<stage>-ids.arrow`: id, rules and decisions of every failing sample, in pack order."""

    def __init__(self, path: Path, id_type: pa.DataType, decisions: Sequence[str]) -> None:
        self._decisions = list(decisions)
        fields = [pa.field("sample_id", id_type), pa.field("row", _INT)]
        fields.append(pa.field("rules", pa.list_(_TEXT)))
        for name in decisions:
            fields += [pa.field(f"decision.{name}.{side}", _TEXT) for side in ("ref", "cand")]
        super().__init__(path, pa.schema(fields))

    def write(self, failed: FailedRows) -> None:
        """Append the failing samples of a block.

        Raises:
            FolderError: the disk is full or the file can't be written.
        """
        count = len(failed.ordinals)
        if not count:
            return
        names = {int(bits): rule_names(int(bits)) for bits in np.unique(failed.rules)}
        arrays = [
            column_of(failed.ids.tolist(), self._schema.field("sample_id").type),
            array_of(failed.ordinals),
            column_of([names[b] for b in failed.rules.tolist()], pa.list_(_TEXT)),
        ]
        for name in self._decisions:
            ref, cand = failed.decisions.get(name, ([None] * count, [None] * count))
            arrays += [column_of(ref, _TEXT), column_of(cand, _TEXT)]
        self.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
