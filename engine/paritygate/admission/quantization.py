"""How a model is quantised, and which of its scales and zero points can't be right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
from msgspec import Struct, field

from paritygate.admission.concerns import Concern, counted, short, some
from paritygate.admission.roles import (
    BLOCKWISE,
    QDQ,
    Role,
    formats_of,
    is_block_scale,
    roles_of,
    scaled_axis,
)
from paritygate.admission.scopes import Scope
from paritygate.admission.values import (
    count_elements,
    dtype_of,
    dtype_text,
    iter_values,
    stored_integers,
)

CODE = "admission.quantization"
_FIRST = 10
_CANT = ("can't be right", "can't be right")

_RANGES = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767), "UINT16": (0, 65535)}


class _Found(Struct):
    """What was seen so far."""

    formats: set[str] = field(default_factory=set)
    weights: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    per_tensor: list[str] = field(default_factory=list)
    bad_scales: list[str] = field(default_factory=list)
    negative: list[str] = field(default_factory=list)
    zero_blocks: int = 0
    bad_zero_points: list[str] = field(default_factory=list)
    scales: dict[int, onnx.TensorProto] = field(default_factory=dict)
    weighed: set[int] = field(default_factory=set)


class Quantization(Struct, frozen=True):
    """How a model is quantised.

    Attributes:
        facts: of JSON types; empty where nothing is.
        concerns: what holds a run.
        notes: what is worth telling.
    """

    facts: dict[str, object]
    concerns: tuple[Concern, ...]
    notes: tuple[str, ...]


def look_at_quantization(scopes: Iterable[Scope]) -> Quantization:
    """Look at every quantising node, and at those of its scales and zero points that are constant.

    Raises:
        OSError: external data can't be read.
    """
    found = _Found()
    for scope in scopes:
        for node in scope.nodes:
            _look_at(found, scope, node)
    if not found.formats:
        return Quantization({}, (), ())
    facts: dict[str, object] = {
        "formats": sorted(found.formats),
        "weights": dict(sorted(found.weights.items())),
        "weight_dtypes": dict(sorted(found.dtypes.items())),
        "per_tensor_weights": found.per_tensor[:_FIRST],
    }
    return Quantization(facts, tuple(_concerns(found)), tuple(_notes(found)))


def _look_at(found: _Found, scope: Scope, node: onnx.NodeProto) -> None:
    found.formats.update(formats_of(node))
    for role in roles_of(node):
        scale, zero = (scope.constant(_name(node, i)) for i in role[:2])
        data = scope.stored(_name(node, role.data))
        if scale is not None:
            _look_at_scale(found, scope, node, role, scale)
            found.bad_scales += _wrong_shape(scope, node, role, scale)
        if zero is not None:
            found.bad_zero_points += _wrong_zero_point(node, role, scale, zero, data)
        if data is not None and scale is not None and id(data) not in found.weighed:
            _weigh(found, data, scale, node, is_blockwise=is_block_scale(node, role.scale))


def _name(node: onnx.NodeProto, index: int) -> str:
    return node.input[index] if 0 <= index < len(node.input) else ""


def _told(node: onnx.NodeProto, index: int) -> str:
    return f"{_name(node, index)!r} of {_label(node)}"


def _look_at_scale(
    found: _Found, scope: Scope, node: onnx.NodeProto, role: Role, scale: onnx.TensorProto
) -> None:
    told, is_blockwise = _told(node, role.scale), is_block_scale(node, role.scale)
    if id(scale) in found.scales:
        return
    zeros = nonfinite = negative = 0
    try:
        for values in iter_values(scale, scope.folder):
            zeros += int(np.count_nonzero(values == 0))
            nonfinite += int(np.count_nonzero(~np.isfinite(values)))
            negative += int(np.count_nonzero(values < 0))
    except ValueError:
        if not is_blockwise:  # some of these are packed
            found.bad_scales.append(f"{told}: is {dtype_text(scale)}, no float")
    found.scales[id(scale)] = scale
    if nonfinite:
        found.bad_scales.append(f"{told}: {nonfinite:,} NaN or infinite")
    if zeros and is_blockwise:
        found.zero_blocks += zeros
    elif zeros:
        found.bad_scales.append(f"{told}: {zeros:,} zero")
    if negative:
        found.negative.append(told)


def _wrong_shape(
    scope: Scope, node: onnx.NodeProto, role: Role, scale: onnx.TensorProto
) -> Iterator[str]:
    """A scale that is neither one number nor a vector with one for each place on its axis."""
    told, dims, along = _told(node, role.scale), _dims(scale), scaled_axis(node, role)
    scaled = scope.dims_of(_name(node, along[0] if along else role.data))
    if count_elements(scale) == 0:
        if scaled is None or 0 not in scaled:
            yield f"{told}: has no elements"
        return
    if along is None or not dims or (len(dims) > 1 and node.op_type not in QDQ):
        return
    if len(dims) > 1:
        yield f"{told}: has the shape {dims}, no vector"
        return
    axis = along[1]
    if scaled is None:
        return
    if not -len(scaled) <= axis < len(scaled):
        yield f"{told}: belongs to axis {axis} of what has {len(scaled)} axes"
    elif scaled[axis] not in (None, dims[0]):
        yield f"{told}: has {dims[0]:,} elements, its axis {scaled[axis]:,}"


def _wrong_zero_point(
    node: onnx.NodeProto,
    role: Role,
    scale: onnx.TensorProto | None,
    zero: onnx.TensorProto,
    data: onnx.TensorProto | None,
) -> Iterator[str]:
    told = _told(node, role.zero)
    dtype = dtype_of(zero)
    written = stored_integers(zero)
    low, high = _RANGES.get(dtype, (None, None))
    if written is not None and low is not None and high is not None:
        beyond = written[(written < low) | (written > high)]
        if beyond.size:
            yield f"{told}: {beyond[0]} is beyond {dtype.lower()}"
    if data is not None and dtype_of(data) != dtype:
        yield f"{told}: is {dtype.lower()}, what it belongs to is {dtype_text(data)}"
    # Elsewhere one zero point serves all scales.
    is_alike = node.op_type not in QDQ and count_elements(zero) <= 1
    if scale is not None and _dims(zero) != _dims(scale) and not is_alike:
        yield f"{told}: has the shape {list(zero.dims)}, its scale {list(scale.dims)}"


def _weigh(
    found: _Found,
    data: onnx.TensorProto,
    scale: onnx.TensorProto,
    node: onnx.NodeProto,
    *,
    is_blockwise: bool,
) -> None:
    """Count one quantised weight; a vector, such as a bias, is none."""
    found.weighed.add(id(data))
    bits = next((a.i for a in node.attribute if a.name == "bits"), 0)
    dtype = f"{bits} bits" if bits and node.op_type in BLOCKWISE else dtype_text(data)
    if len(data.dims) < 2 and not is_blockwise:
        return
    found.dtypes[dtype] += 1
    if is_blockwise:
        found.weights["block_wise"] += 1
    elif count_elements(scale) > 1:
        found.weights["per_channel"] += 1
    else:
        found.weights["per_tensor"] += 1
        found.per_tensor.append(short(data.name))


def _concerns(found: _Found) -> Iterator[Concern]:
    # A function is looked at once for each choice of constants that it is called with.
    scales, zeros = (list(dict.fromkeys(t)) for t in (found.bad_scales, found.bad_zero_points))
    if scales:
        yield Concern(
            CODE,
            f"{counted(len(scales), 'scale', *_CANT)}: {some(scales)}",
            "calibrate again on data that the layer sees: a scale is a finite number above 0, one "
            "for the tensor or one for each place on its axis",
        )
    if zeros:
        yield Concern(
            CODE,
            f"{counted(len(zeros), 'zero point', *_CANT)}: {some(zeros)}",
            "quantise again: a zero point has the dtype of what is quantised and its scale's shape",
        )


def _notes(found: _Found) -> Iterator[str]:
    if found.negative:
        yield f"scales below 0: {some(list(dict.fromkeys(found.negative)))}"
    if found.zero_blocks:
        blocks = counted(found.zero_blocks, "block", "has", "have")
        yield f"{blocks} the scale 0, so that all in it is 0"
    if found.weights["per_tensor"]:
        yield (
            f"weights quantised with one scale for the whole tensor: {some(found.per_tensor)}; one "
            "a channel is closer to the float model"
        )


def _dims(tensor: onnx.TensorProto) -> list[int]:
    """A scalar and a vector of one element are alike."""
    dims: Any = list(tensor.dims)
    return [] if dims == [1] else dims


def _label(node: onnx.NodeProto) -> str:
    return f"{node.op_type} {node.name!r}" if node.name else node.op_type
