"""Write small golden packs for tests, with pyarrow alone (nothing of paritygate)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

TensorType = Literal["fixed_shape", "fixed_size_list", "scalar"]
Container = Literal["file", "stream", "parquet"]


def write_pack(
    path: Path,
    ids: Sequence[object] | npt.NDArray[np.generic] | pa.Array,
    inputs: Mapping[str, npt.ArrayLike] | None = None,
    outputs: Mapping[str, npt.ArrayLike] | None = None,
    label: Sequence[object] | npt.NDArray[np.generic] | pa.Array | None = None,
    slices: Mapping[str, Sequence[object] | pa.Array] | None = None,
    rows_per_batch: int | None = None,
    tensor_type: TensorType = "fixed_shape",
    *,
    id_column: str = "sample_id",
    columns: Mapping[str, pa.Array] | None = None,
    metadata: Mapping[str, Mapping[str, str]] | None = None,
    compression: str | None = None,
    container: Container = "file",
) -> Path:
    """Write an Arrow file and return its path.

    Args:
        path: file to write; its folder is made where it is missing.
        ids: `(n,)` ints or strings; with `n == 0` an empty int64 column.
        inputs: tensor name -> `(n, *shape)`, written as `in.<name>`.
        outputs: tensor name -> `(n, *shape)`, written as `out.<name>`.
        label: `(n,)` values of the column `label`.
        slices: column name -> `(n,)` values.
        rows_per_batch: rows of each record batch; None: one batch.
        tensor_type: how tensors are stored; `(n,)` arrays are plain columns always.
        id_column: name of the id column.
        columns: further columns as they are.
        metadata: column name -> field metadata.
        compression: "zstd", "lz4" or None.
        container: an Arrow IPC file or stream, or a Parquet file whose row groups are the batches.
    """
    arrays: dict[str, pa.Array] = {id_column: _plain(ids, pa.int64())}
    named: dict[str, Mapping[str, str]] = {}
    for prefix, tensors in (("in.", inputs or {}), ("out.", outputs or {})):
        for name, values in tensors.items():
            bits, dtype = _bits(np.asarray(values))
            if dtype:
                named[prefix + name] = {"paritygate.dtype": dtype}
            arrays[prefix + name] = tensor_column(bits, tensor_type)
    if label is not None:
        arrays["label"] = _plain(label, pa.int64())
    arrays.update({name: _plain(values, pa.string()) for name, values in (slices or {}).items()})
    arrays.update(columns or {})
    fields = [
        pa.field(name, array.type, metadata={**named, **(metadata or {})}.get(name))
        for name, array in arrays.items()
    ]
    batch = pa.record_batch(list(arrays.values()), schema=pa.schema(fields))
    step = rows_per_batch or max(1, batch.num_rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, pa.Table.from_batches([batch]), step, container, compression)
    return path


def write_table(
    path: Path,
    table: pa.Table,
    rows_per_batch: int,
    container: Container = "file",
    compression: str | None = None,
) -> Path:
    """Write a table in batches of so many rows and return the path."""
    if container == "parquet":
        pq.write_table(
            table, path, row_group_size=rows_per_batch, compression=compression or "none"
        )
        return path
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_file if container == "file" else pa.ipc.new_stream
    with make(path, table.schema, options=options) as writer:
        for batch in table.combine_chunks().to_batches(max_chunksize=rows_per_batch):
            writer.write(batch)
    return path


def tensor_column(values: npt.NDArray[np.generic], tensor_type: TensorType) -> pa.Array:
    """Column of `(n, *shape)` values in one of the storage forms that packs may have."""
    samples, shape = values.shape[0], values.shape[1:]
    if values.dtype.byteorder == ">":
        raise ValueError("big-endian values are not written by tests")
    if values.dtype == object:
        return pa.array(values.tolist())
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    if not shape:
        return flat
    if tensor_type == "scalar":
        raise ValueError(f"a scalar column holds (n,) values, not {values.shape}")
    if tensor_type == "fixed_shape":
        width = int(np.prod(shape))
        storage = _fixed_list(flat, width, samples)
        return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, shape), storage)
    array = flat
    for axis in range(len(shape) - 1, -1, -1):
        array = _fixed_list(array, shape[axis], samples * int(np.prod(shape[:axis])))
    return array


def _bits(values: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.generic], str]:
    """Values of a dtype that Arrow lacks as their bits, and its name; others as they are."""
    name = values.dtype.name
    if name in ("int4", "uint4"):
        return values.astype(name.replace("4", "8")), name
    if name == "bfloat16" or name.startswith("float8"):
        return values.view(f"u{values.itemsize}"), name
    return values, ""


def _fixed_list(values: pa.Array, size: int, length: int) -> pa.Array:
    return pa.Array.from_buffers(pa.list_(values.type, size), length, [None], children=[values])


def _plain(values: object, empty: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    array = pa.array(values)
    return array.cast(empty) if pa.types.is_null(array.type) else array
