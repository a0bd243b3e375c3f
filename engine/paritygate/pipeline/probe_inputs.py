"""The probes of a plan: a sample of the pack, changed into what no row of a pack can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from paritygate.core.dtypes import dtype_name, zeros
from paritygate.core.plan import Plan
from paritygate.core.probes import ProbeName
from paritygate.core.shapes import sample_dims
from paritygate.core.tensors import Array

_OTHER = {"float32": "float64", "int64": "int32", "string": "float32"}
_MOST_BYTES = 1 << 28


class Probe(Struct, frozen=True):
    """What is tried: inputs, name -> `(size, ...)`."""

    name: ProbeName
    what: str
    inputs: Mapping[str, Array]
    size: int


def make_probes(
    plan: Plan, sample: Mapping[str, Array], size: int, largest: int | None
) -> tuple[list[Probe], dict[str, str]]:
    """All probes, and those that can't be made with the reason.

    Args:
        plan: says which dims have names, and what bounds them.
        sample: name -> `(1, *shape)` of a sample that the contract admits.
        size: samples of a batch that is approved.
        largest: the largest batch that is approved; None: any is.
    """
    whole = {name: np.repeat(array, size, axis=0) for name, array in sample.items()}
    probes = [Probe("batch_zero", "a batch of 0 samples", {n: a[:0] for n, a in whole.items()}, 0)]
    left_out: dict[str, str] = {}
    for probe in (*_of_batch(sample, largest, left_out), *_of_dims(plan, whole, size, left_out)):
        bytes_ = sum(array.nbytes for array in probe.inputs.values())
        if bytes_ > _MOST_BYTES:
            left_out[f"{probe.name}: {probe.what}"] = f"it would be {bytes_} bytes"
        else:
            probes.append(probe)
    for name, array in whole.items():
        probes += _of_input(name, array, whole, size)
    return probes, left_out


def _of_batch(
    sample: Mapping[str, Array], largest: int | None, left_out: dict[str, str]
) -> Iterator[Probe]:
    if largest is None:
        left_out["batch_over"] = "neither the plan ([dims] batch) nor a model bounds the batch"
        return
    size = largest + 1
    inputs = {
        name: np.broadcast_to(array, (size, *array.shape[1:])) for name, array in sample.items()
    }
    yield Probe("batch_over", f"a batch of {size} samples, one more than is approved", inputs, size)


def _of_input(name: str, array: Array, whole: Mapping[str, Array], size: int) -> list[Probe]:
    found = dtype_name(array.dtype)
    other = _OTHER.get(found, "float32")
    cast = zeros(array.shape, other)
    return [
        Probe(
            "rank",
            f"{name} with an axis more, {_shape(array[..., None])}",
            {**whole, name: array[..., None]},
            size,
        ),
        Probe("dtype", f"{name} as {other} in place of {found}", {**whole, name: cast}, size),
        Probe(
            "name",
            f"{name} under the name {name}_",
            {f"{n}_" if n == name else n: a for n, a in whole.items()},
            size,
        ),
        Probe("missing", f"no {name}", {n: a for n, a in whole.items() if n != name}, size),
    ]


def _of_dims(
    plan: Plan, whole: Mapping[str, Array], size: int, left_out: dict[str, str]
) -> Iterator[Probe]:
    """Each dim that has a name, past its bounds wherever it is; without names, the last dims."""
    named = {n: sample_dims(t.shape or ()) for n, t in plan.table.inputs.items() if n in whole}
    bounds = plan.table.dims.bounds()
    for dim, (low, high) in bounds.items():
        places = [(n, at) for n, dims in named.items() for at, d in enumerate(dims) if d == dim]
        if not places:
            continue
        yield _resized(
            "dim_over", f"dim {dim} of {high + 1}, at most {high}", whole, places, high + 1, size
        )
        if low > 0:
            yield _resized("dim_zero", f"dim {dim} of 0, at least {low}", whole, places, 0, size)
        else:
            left_out[f"dim_zero: {dim}"] = "[dims] allows 0"
    for name, array in whole.items():
        if array.ndim < 2 or any(isinstance(dim, str) for dim in named.get(name, ())):
            continue
        place, length = [(name, array.ndim - 2)], array.shape[-1]
        told = f"{name} with a last axis of {{}} in place of {length}"
        yield _resized("dim_over", told.format(length + 1), whole, place, length + 1, size)
        if length:
            yield _resized("dim_zero", told.format(0), whole, place, 0, size)


def _resized(
    probe: ProbeName,
    what: str,
    whole: Mapping[str, Array],
    places: list[tuple[str, int]],
    length: int,
    size: int,
) -> Probe:
    inputs = dict(whole)
    for name, at in places:
        array = inputs[name]
        if array.shape[at + 1]:
            rows = np.arange(length) % array.shape[at + 1]
            inputs[name] = array.take(rows, axis=at + 1)
        else:
            shape = (*array.shape[: at + 1], length, *array.shape[at + 2 :])
            inputs[name] = zeros(shape, dtype_name(array.dtype))
    return Probe(probe, what, inputs, size)


def _shape(array: Array) -> str:
    return f"{dtype_name(array.dtype)}[{','.join(map(str, array.shape))}]"
