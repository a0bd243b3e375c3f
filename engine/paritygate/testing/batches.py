"""Samples, batches, specifications and contexts, as a run would make them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from paritygate.core.dtypes import dtype_name
from paritygate.core.tensors import Array, Batch, ColumnSpec
from paritygate.golden.pack import GoldenPack
from paritygate.golden.values import Ids
from paritygate.golden.write import PackWriter, tensor_batch
from paritygate.runners.base import PrepareContext, RunnerSpec
from paritygate.runners.registry import parse_runner

SAMPLES, WIDTH = 40, 4
_ROWS_PER_BATCH = 16


def sample_inputs() -> dict[str, Array]:
    """The input `x`: `(40, 4)` float32, no two rows the same."""
    rng = np.random.default_rng(7)
    return {"x": rng.normal(size=(SAMPLES, WIDTH)).astype(np.float32)}


def make_batch(
    inputs: Mapping[str, Array],
    start: int = 0,
    valid: int | None = None,
    ids: Ids | None = None,
    number: int = 0,
) -> Batch:
    """A batch as runners are given it.

    Args:
        inputs: name -> `(n, *sample_shape)`, copied where it isn't C-contiguous; read-only after.
        start: ordinal of the first sample.
        valid: rows that count; None: all.
        ids: `(valid,)` sample ids; None: the ordinals.
        number: position of the batch.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    for array in arrays.values():
        array.flags.writeable = False
    size = max((len(array) for array in arrays.values()), default=0)
    counted = size if valid is None else valid
    named: Ids = np.arange(start, start + counted, dtype=np.int64) if ids is None else ids
    return Batch(0, number, start, counted, size, named, arrays)


def spec_of(table: object, name: str = "runner") -> RunnerSpec:
    """The specification of a runner's table, as a plan holds it.

    Raises:
        AssertionError: the table isn't valid; with all that is wrong with it.
    """
    spec, problems = parse_runner(name, table, Path())
    if spec is None or problems:
        raise AssertionError("; ".join(map(str, problems)) or f"{table!r} is no runner")
    return spec


def context_of(
    folder: Path,
    pack: GoldenPack | None = None,
    constants: Mapping[str, Array] | None = None,
    inputs: Mapping[str, ColumnSpec] | None = None,
) -> PrepareContext:
    """A context without checks of models; without a pack the inputs are those of `sample_inputs`.

    Args:
        folder: what relative paths in the runner's options refer to.
        pack: the golden pack.
        constants: name -> array that is the same for all samples.
        inputs: what the batches will hold, where there is no pack.
    """
    columns = dict(inputs) if inputs is not None else _columns(sample_inputs())
    if pack is not None:
        columns = dict(pack.inputs)
    return PrepareContext(folder, pack, columns, constants or {}, check_models=False)


def write_golden(path: Path, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
    """Write a golden pack in batches of 16 rows, ids 0, 1, ..."""
    tensors = {f"in.{name}": array for name, array in inputs.items()}
    tensors.update((f"out.{name}", array) for name, array in outputs.items())
    samples = len(next(iter(tensors.values())))
    writer: PackWriter | None = None
    for start in range(0, samples, _ROWS_PER_BATCH):
        stop = min(start + _ROWS_PER_BATCH, samples)
        part = tensor_batch({name: array[start:stop] for name, array in tensors.items()})
        ids = pa.array(np.arange(start, stop, dtype=np.int64))
        schema = pa.schema([pa.field("sample_id", pa.int64()), *part.schema])
        writer = writer or PackWriter(path, schema)
        writer.write(pa.RecordBatch.from_arrays([ids, *part.columns], schema=schema))
    if writer is not None:
        writer.close()


def _columns(inputs: Mapping[str, Array]) -> dict[str, ColumnSpec]:
    return {n: ColumnSpec(n, dtype_name(a.dtype), a.shape[1:]) for n, a in inputs.items()}
