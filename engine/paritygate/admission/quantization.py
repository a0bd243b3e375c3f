"""How a model is quantised, and which of its scales and zero points can't be right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from paritygate.admission.concerns import Concern, counted, short, some
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

# Which inputs are (scale, zero point, what is quantised already); -1: there is none.
_ROLES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "QuantizeLinear": ((1, 2, -1),),
    "DequantizeLinear": ((1, 2, 0),),
    "QLinearConv": ((1, 2, 0), (4, 5, 3), (6, 7, -1)),
    "QLinearMatMul": ((1, 2, 0), (4, 5, 3), (6, 7, -1)),
    "QLinearAdd": ((1, 2, 0), (4, 5, 3), (6, 7, -1)),
    "QLinearMul": ((1, 2, 0), (4, 5, 3), (6, 7, -1)),
    "QGemm": ((1, 2, 0), (4, 5, 3), (7, 8, -1)),
    "QLinearAveragePool": ((1, 2, 0), (3, 4, -1)),
    "QLinearGlobalAveragePool": ((1, 2, 0), (3, 4, -1)),
    "QLinearLeakyRelu": ((1, 2, 0), (3, 4, -1)),
    "QLinearReduceMean": ((1, 2, 0), (3, 4, -1)),
    "QLinearSigmoid": ((1, 2, 0), (3, 4, -1)),
    "QLinearSoftmax": ((1, 2, 0), (3, 4, -1)),
    "QAttention": ((3, 6, -1), (4, 7, 1)),
    "MatMulIntegerToFloat": ((2, 4, 0), (3, 5, 1)),
    "DynamicQuantizeMatMul": ((2, 3, 1),),
    "MatMulInteger": ((-1, 2, 0), (-1, 3, 1)),
    "ConvInteger": ((-1, 2, 0), (-1, 3, 1)),
    "MatMulNBits": ((2, -1, 1),),
    "GatherBlockQuantized": ((2, -1, 0),),
}
_QDQ = frozenset({"QuantizeLinear", "DequantizeLinear"})
_BLOCKWISE = frozenset({"MatMulNBits", "GatherBlockQuantized", "QMoE", "MatMulBnb4"})
_DYNAMIC = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})
_RANGES = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767), "UINT16": (0, 65535)}


@dataclass
class _Found:
    """What was seen so far."""

    formats: set[str] = field(default_factory=set)
    weights: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    per_tensor: list[str] = field(default_factory=list)
    bad_scales: list[str] = field(default_factory=list)
    negative: list[str] = field(default_factory=list)
    zero_blocks: int = 0
    bad_zero_points: list[str] = field(default_factory=list)
    scales: dict[int, tuple[onnx.TensorProto, str, bool]] = field(default_factory=dict)
    weighed: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Quantization:
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
    op = node.op_type
    block = next((a.i for a in node.attribute if a.name == "block_size"), 0)
    is_blockwise = op in _BLOCKWISE or (op in _QDQ and block > 0)
    if op in _QDQ:
        found.formats.add("QDQ")
    elif op in _DYNAMIC:
        found.formats.add("dynamic")
    elif (op in _ROLES and op not in _BLOCKWISE) or op.startswith("QLinear"):
        found.formats.add("QOperator")
    if is_blockwise:
        found.formats.add("block-wise")
    roles: list[tuple[int, int, int]] = list(_ROLES.get(op, ()))
    if op == "QLinearConcat":
        roles = [(0, 1, -1), *((i + 1, i + 2, i) for i in range(2, len(node.input) - 2, 3))]
        found.formats.add("QOperator")
    for scale_at, zero_at, data_at in roles:
        scale, zero, data = (_at(scope, node, i) for i in (scale_at, zero_at, data_at))
        if scale is not None:
            _look_at_scale(found, scope, node, scale, is_blockwise=is_blockwise)
        if zero is not None:
            found.bad_zero_points += _wrong_zero_point(node, scale, zero, data)
        if data is not None and scale is not None and id(data) not in found.weighed:
            _weigh(found, data, scale, node, is_blockwise=is_blockwise)


def _at(scope: Scope, node: onnx.NodeProto, index: int) -> onnx.TensorProto | None:
    return scope.constant(node.input[index]) if 0 <= index < len(node.input) else None


def _look_at_scale(
    found: _Found,
    scope: Scope,
    node: onnx.NodeProto,
    scale: onnx.TensorProto,
    *,
    is_blockwise: bool,
) -> None:
    told = f"{scale.name!r} of {_label(node)}"
    if id(scale) in found.scales:
        return
    zeros = nonfinite = negative = 0
    try:
        for values in iter_values(scale, scope.folder):
            zeros += int(np.count_nonzero(values == 0))
            nonfinite += int(np.count_nonzero(~np.isfinite(values)))
            negative += int(np.count_nonzero(values < 0))
    except ValueError:
        found.bad_scales.append(f"{told}: is {dtype_text(scale)}, no float")
    found.scales[id(scale)] = scale, told, is_blockwise
    if nonfinite:
        found.bad_scales.append(f"{told}: {nonfinite:,} NaN or infinite")
    if zeros and is_blockwise:
        found.zero_blocks += zeros
    elif zeros:
        found.bad_scales.append(f"{told}: {zeros:,} zero")
    if negative:
        found.negative.append(told)


def _wrong_zero_point(
    node: onnx.NodeProto,
    scale: onnx.TensorProto | None,
    zero: onnx.TensorProto,
    data: onnx.TensorProto | None,
) -> Iterator[str]:
    told = f"{zero.name!r} of {_label(node)}"
    dtype = dtype_of(zero)
    written = stored_integers(zero)
    low, high = _RANGES.get(dtype, (None, None))
    if written is not None and low is not None and high is not None:
        beyond = written[(written < low) | (written > high)]
        if beyond.size:
            yield f"{told}: {beyond[0]} is beyond {dtype.lower()}"
    if data is not None and dtype_of(data) != dtype:
        yield f"{told}: is {dtype.lower()}, what it belongs to is {dtype_text(data)}"
    if scale is not None and _dims(zero) != _dims(scale) and count_elements(zero) > 1:
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
    dtype = f"{bits} bits" if bits and node.op_type in _BLOCKWISE else dtype_text(data)
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
    if found.bad_scales:
        yield Concern(
            CODE,
            f"{counted(len(found.bad_scales), 'scale', *_CANT)}: {some(found.bad_scales)}",
            "calibrate again on data that the layer sees: a scale is a finite number above 0",
        )
    if found.bad_zero_points:
        yield Concern(
            CODE,
            f"{counted(len(found.bad_zero_points), 'zero point', *_CANT)}: "
            f"{some(found.bad_zero_points)}",
            "quantise again: a zero point has the dtype of what is quantised and its scale's shape",
        )


def _notes(found: _Found) -> Iterator[str]:
    if found.negative:
        yield f"scales below 0: {some(found.negative)}"
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
