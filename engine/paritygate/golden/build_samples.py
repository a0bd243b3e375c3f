"""Rows of a pack from samples in memory: dicts of arrays, one a sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paritygate.core.dtypes import DTYPES, dtype_name
from paritygate.core.errors import GoldenError
from paritygate.golden.build import Piece
from paritygate.golden.dtypes import tensor_field
from paritygate.golden.write import tensor_array
from paritygate.golden.write_varying import varying_array, varying_field

_BYTES = 8 << 20
_ROWS = 4_096

Sample = Mapping[str, Any]


def pieces_of(samples: Iterable[Sample], varying: Sequence[str], source: str) -> Iterator[Piece]:
    """Samples as rows, some MiB at a time.

    Args:
        samples: column -> value: arrays of `in.NAME` and `out.NAME`, numbers or texts of others.
        varying: tensor columns whose samples may differ in shape.
        source: what the samples are called in errors.

    Raises:
        GoldenError: with its number and column, a sample that isn't like the first.
    """
    first: Sample | None = None
    held: list[Sample] = []
    row = size = 0
    for number, given in enumerate(samples):
        sample = _as_sample(given, f"{source} {number}")
        if first is None:
            first = sample
        _check_like(sample, first, varying, f"{source} {number}")
        held.append(sample)
        size += sum(v.nbytes for v in sample.values() if isinstance(v, np.ndarray))
        if size >= _BYTES or len(held) >= _ROWS:
            yield Piece(source, row, _rows(held, varying))
            row, size, held = row + len(held), 0, []
    if held:
        yield Piece(source, row, _rows(held, varying))


def _as_sample(given: Sample, where: str) -> Sample:
    sample: dict[str, Any] = {}
    for name, value in given.items():
        if not _is_tensor(name):
            sample[name] = value.item() if isinstance(value, np.generic) else value
            continue
        array = np.asarray(value)
        if array.dtype.kind == "U":
            array = array.astype(object)
        if dtype_name(array.dtype) not in DTYPES:
            raise _wrong(where, name, f"is {array.dtype}, which is no dtype of tensors")
        if array.dtype.kind == "O" and not all(isinstance(t, str) for t in array.reshape(-1)):
            raise _wrong(where, name, "holds objects that are no texts")
        sample[name] = array
    return sample


def _check_like(sample: Sample, first: Sample, varying: Sequence[str], where: str) -> None:
    if sample.keys() != first.keys():
        other = ", ".join(sorted(sample.keys() ^ first.keys()))
        raise GoldenError(f"{where}: not the columns of the first one ({other})", "golden.schema")
    for name, value in sample.items():
        if not isinstance(value, np.ndarray):
            continue
        wanted = first[name]
        if value.dtype != wanted.dtype:
            raise _wrong(where, name, f"is {value.dtype}, that of the first is {wanted.dtype}")
        if value.ndim != wanted.ndim or (name not in varying and value.shape != wanted.shape):
            hint = f"; if shapes may differ, varying=[{name!r}]"
            told = f"has the shape {value.shape}, that of the first is {wanted.shape}"
            raise _wrong(where, name, told + (hint if value.ndim == wanted.ndim else ""))


def _rows(samples: Sequence[Sample], varying: Sequence[str]) -> pa.RecordBatch:
    fields, arrays = [], list[Any]()
    for name, value in samples[0].items():
        column = [sample[name] for sample in samples]
        if not isinstance(value, np.ndarray):
            array: Any = pa.array(column)
            field = pa.field(name, array.type)
        elif name in varying:
            array = varying_array(column, value.dtype, value.ndim)
            field = varying_field(name, array.type, value.dtype)
        else:
            array = tensor_array(np.stack(column))
            field = tensor_field(name, array.type, value.dtype)
        fields.append(field)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _is_tensor(name: str) -> bool:
    return name.startswith(("in.", "out."))


def _wrong(where: str, name: str, told: str) -> GoldenError:
    return GoldenError(f"{where}: {name} {told}", "golden.value")
