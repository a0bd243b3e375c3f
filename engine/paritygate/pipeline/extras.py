"""What goes into a shard beside the tensors of a sample: ids, labels and slices."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from paritygate.core.dtypes import element_bytes
from paritygate.golden.evidence import KEY as EVIDENCE
from paritygate.golden.evidence import SYNTHETIC
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.span import Prepared


def id_type(prepared: Prepared) -> pa.DataType:
    """Arrow type of the ids."""
    return pa.int64() if prepared.pack.id_kind == "int64" else pa.string()


def extra_columns(prepared: Prepared) -> dict[str, pa.DataType]:
    """Label and slice columns with their types."""
    columns: dict[str, pa.DataType] = {}
    for name in prepared.label_columns:
        kind = prepared.pack.labels_of[name]
        columns[name] = pa.int64() if kind == "int64" else pa.string()
    columns.update((name, pa.string()) for name in prepared.plan.slices)
    if prepared.synthetic is not None:
        columns[EVIDENCE] = pa.string()
    return columns


def extra_values(prepared: Prepared, at: int) -> Mapping[str, object]:
    """Label and slice values of one sample."""
    pack = prepared.pack
    values: dict[str, object] = {}
    for name in prepared.label_columns:
        values[name] = pack.labels(at, at + 1, name).tolist()[0]
    for name in prepared.plan.slices:
        coded = pack.slice_values(name, at, at + 1)
        values[name] = coded.values[int(coded.codes[0])]
    if prepared.synthetic is not None:
        values[EVIDENCE] = SYNTHETIC if prepared.synthetic[at] else None
    return values


def input_bytes(pack: GoldenPack, at: int) -> int:
    """Bytes of all inputs of one sample."""
    total = 0
    for name, spec in pack.inputs.items():
        if spec.is_fixed:
            total += spec.sample_bytes
        else:
            elements = int(pack.input_shapes(name, at, at + 1).prod())
            total += elements * element_bytes(spec.dtype)
    return total
