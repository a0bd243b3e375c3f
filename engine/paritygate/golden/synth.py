"""Inputs made of nothing but a model's graph: zeros, ones, scaled, of every length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from paritygate.core.dtypes import DTYPES, is_float, is_string, numpy_dtype
from paritygate.core.errors import GoldenError
from paritygate.core.tensors import Array
from paritygate.golden.evidence import KEY, SYNTHETIC
from paritygate.golden.onnx_data import element_name, graph_values

SCALES = (0.01, 1.0, 100.0)
_BYTES = 64 << 20

Bounds = Mapping[str, tuple[int, int]]


class GraphInput(Struct, frozen=True):
    """An input of a model: dtype, and the dims of one sample, a name where one is open."""

    name: str
    dtype: str
    dims: tuple[int | str, ...]


def graph_inputs(path: Path) -> tuple[list[GraphInput], list[str]]:
    """A model's inputs, with the samples on their first axis; and notes on those left out.

    Raises:
        GoldenError: it can't be read, or has an input that no pack holds.
    """
    inputs, notes = [], []
    for value in graph_values(path)[0]:
        if not value.type.HasField("tensor_type"):
            kind = str(value.type.WhichOneof("value") or "nothing").removesuffix("_type")
            told = f"{path}: input {value.name!r} is a {kind}, of which no samples are made"
            raise GoldenError(told, "golden.column_type")
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            told = f"{path}: input {value.name!r} has no shape in the graph"
            raise GoldenError(told, "golden.shape")
        if not tensor.shape.dim:
            notes.append(f"input {value.name} has no axis for samples: give it by [constants]")
            continue
        dtype = element_name(tensor.elem_type)
        if dtype not in DTYPES:
            told = f"{path}: input {value.name!r} is of an element type that can't be judged"
            raise GoldenError(told, "golden.column_type")
        dims = tuple(
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{value.name}_{axis}"
            for axis, dim in enumerate(tensor.shape.dim)
        )
        inputs.append(GraphInput(value.name, dtype, dims[1:]))
    if not inputs:
        raise GoldenError(f"{path}: has no input with an axis for samples", "golden.empty")
    return inputs, notes


def open_dims(inputs: Sequence[GraphInput]) -> list[str]:
    """Names of the dims that the graph leaves open, each once."""
    return list(dict.fromkeys(d for given in inputs for d in given.dims if isinstance(d, str)))


def synthetic_samples(
    inputs: Sequence[GraphInput], bounds: Bounds, seed: int
) -> Iterator[dict[str, Any]]:
    """Samples of a pack, each marked; the same for the same seed.

    Raises:
        GoldenError: a sample of more than 64 MiB.
    """
    rng = np.random.default_rng(seed)
    for sizes in _sizes(open_dims(inputs), bounds):
        told = "".join(f"-{name}={size}" for name, size in sizes.items())
        for kind in ("zeros", "ones", *(f"scaled-{scale:g}" for scale in SCALES)):
            sample: dict[str, Any] = {"sample_id": f"synthetic-{kind}{told}", KEY: SYNTHETIC}
            for given in inputs:
                sample[f"in.{given.name}"] = _made(given, sizes, kind, rng)
            yield sample


def _sizes(names: Sequence[str], bounds: Bounds) -> Iterator[dict[str, int]]:
    """All smallest, all in the middle, all largest, and each largest by itself."""
    ends = [bounds[name] for name in names]
    found = [
        [low for low, _ in ends],
        [(low + high) // 2 for low, high in ends],
        [high for _, high in ends],
    ]
    if len(names) > 1:
        found += [
            [h if at == k else lo for k, (lo, h) in enumerate(ends)] for at in range(len(ends))
        ]
    for sizes in dict.fromkeys(map(tuple, found)):
        yield dict(zip(names, sizes, strict=True))


def _made(
    given: GraphInput, sizes: Mapping[str, int], kind: str, rng: np.random.Generator
) -> Array:
    shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in given.dims)
    if is_string(given.dtype):
        text = {"zeros": "", "ones": "1"}.get(kind, kind)
        return np.full(shape, text, object)
    dtype = numpy_dtype(given.dtype)
    if int(np.prod(shape, dtype=object)) * dtype.itemsize > _BYTES:
        told = f"input {given.name!r} has {list(shape)} elements a sample, more than {_BYTES >> 20}"
        raise GoldenError(f"{told} MiB; give smaller bounds (--dim)", "golden.shape")
    if kind in ("zeros", "ones"):
        return np.full(shape, kind == "ones").astype(np.int8).astype(dtype)
    if not is_float(given.dtype):
        return rng.integers(0, 2, shape).astype(np.int8).astype(dtype)
    scale = float(kind.removeprefix("scaled-"))
    with np.errstate(over="ignore"):
        made: Array = np.asarray(scale * rng.uniform(-1, 1, shape)).astype(dtype)
    return made
