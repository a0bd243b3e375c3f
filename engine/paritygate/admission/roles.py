"""Which inputs of quantising operators are scales, zero points, and what is quantised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import onnx

# Of ONNX and of what ONNX Runtime brings along; an operator of another domain may mean anything.
_DOMAINS = ("", "ai.onnx", "com.microsoft", "com.ms.internal.nhwc")


class Role(NamedTuple):
    """Indices of inputs that belong together; -1: there is none.

    Attributes:
        scale: floats.
        zero: of the dtype of what is quantised.
        data: what is quantised already.
    """

    scale: int
    zero: int
    data: int


_UNARY = ((1, 2, 0), (3, 4, -1))
_BINARY = ((1, 2, 0), (4, 5, 3), (6, 7, -1))
_ROLES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "QuantizeLinear": ((1, 2, -1),),
    "DequantizeLinear": ((1, 2, 0),),
    "QLinearConv": _BINARY,
    "QLinearConvTranspose": _BINARY,
    "QLinearMatMul": _BINARY,
    "QLinearAdd": _BINARY,
    "QLinearMul": _BINARY,
    "QLinearWhere": ((2, 3, 1), (5, 6, 4), (7, 8, -1)),
    "QGemm": ((1, 2, 0), (4, 5, 3), (7, 8, -1)),
    "QLinearAveragePool": _UNARY,
    "QLinearGlobalAveragePool": _UNARY,
    "QLinearLeakyRelu": _UNARY,
    "QLinearReduceMean": _UNARY,
    "QLinearSigmoid": _UNARY,
    "QLinearSoftmax": _UNARY,
    "QAttention": ((3, 6, -1), (4, 7, 1)),
    "QEmbedLayerNormalization": tuple((8 + i, 13 + i, 2 + i) for i in range(5)),
    "MatMulIntegerToFloat": ((2, 4, 0), (3, 5, 1)),
    "DynamicQuantizeMatMul": ((2, 3, 1),),
    "DynamicQuantizeLSTM": ((8, 9, 1), (10, 11, 2)),
    "MatMulInteger": ((-1, 2, 0), (-1, 3, 1)),
    "ConvInteger": ((-1, 2, 0), (-1, 3, 1)),
    "MulInteger": ((-1, 1, 0), (-1, 3, 2)),
    "MatMulNBits": ((2, -1, 1),),
    "MatMulNBitsMlp": ((4, -1, 3), (7, -1, 6)),
    "MatMulNBitsQkv": ((4, -1, 3), (7, -1, 6), (10, -1, 9)),
    "MatMulBnb4": ((2, -1, 1),),
    "MatMulBlockQuantizedFp4Weight": ((2, -1, 1), (3, -1, -1), (4, -1, -1)),
    "MatMulBlockQuantizedFp8Weight": ((2, -1, 1), (3, -1, -1)),
    "GatherBlockQuantized": ((2, -1, 0),),
    "QMoE": ((3, -1, 2), (6, -1, 5), (9, -1, 8), *((i, -1, -1) for i in range(15, 21))),
    "GemmFloat8": ((3, -1, -1), (4, -1, 1), (5, -1, -1)),
    "QuantizeWithOrder": ((1, -1, -1),),
    "DequantizeWithOrder": ((1, -1, 0),),
    "QOrderedGelu": ((1, -1, -1), (2, -1, -1)),
    "QOrderedLayerNormalization": ((1, -1, -1), (4, -1, -1)),
    "QOrderedMatMul": ((1, -1, 0), (3, -1, 2), (4, -1, -1), (7, -1, -1)),
    "QOrderedAttention": (
        *((i, -1, -1) for i in (1, 2, 3, 4, 14, 15, 16)),
        *((8 + i, -1, 5 + i) for i in range(3)),
    ),
    "QOrderedLongformerAttention": (
        *((i, -1, -1) for i in (1, 5, 6, 11, 13)),
        (3, -1, 2),
        (9, -1, 8),
    ),
    "GroupQueryAttention": ((12, -1, -1), (13, -1, -1)),
    "PagedAttention": ((14, -1, -1), (15, -1, -1)),
    "SparsePagedAttention": ((19, -1, -1), (20, -1, -1)),
}
QDQ = frozenset({"QuantizeLinear", "DequantizeLinear"})
# Inputs with a scale a block: a block of zeros may have 0.
_BLOCK_SCALES: dict[str, tuple[int, ...]] = {
    "MatMulNBits": (2,),
    "MatMulNBitsMlp": (4, 7),
    "MatMulNBitsQkv": (4, 7, 10),
    "MatMulBnb4": (2,),
    "MatMulBlockQuantizedFp4Weight": (2,),
    "MatMulBlockQuantizedFp8Weight": (2,),
    "GatherBlockQuantized": (2,),
    "QMoE": (3, 6, 9, 19, 20),
}
BLOCKWISE = frozenset(_BLOCK_SCALES)
_DYNAMIC = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})
_OF_CACHES = frozenset({"GroupQueryAttention", "PagedAttention", "SparsePagedAttention"})
# Scales along the axis of a weight: as many as it has there.
_AXES: dict[tuple[str, int], int] = {
    ("QLinearConv", 4): 0,
    ("QLinearMatMul", 4): -1,
    ("MatMulIntegerToFloat", 3): -1,
    ("DynamicQuantizeMatMul", 2): -1,
}


def roles_of(node: onnx.NodeProto) -> tuple[Role, ...]:
    """The scales of a node; none of one that quantises nothing."""
    if node.domain not in _DOMAINS:
        return ()
    if node.op_type == "QLinearConcat":
        rest = (Role(i + 1, i + 2, i) for i in range(2, len(node.input) - 2, 3))
        return (Role(0, 1, -1), *rest)
    return tuple(Role(*indices) for indices in _ROLES.get(node.op_type, ()))


def formats_of(node: onnx.NodeProto) -> Iterator[str]:
    """What quantisers call the way in which a node is quantised."""
    op = node.op_type
    if node.domain not in _DOMAINS:
        return
    if op in QDQ:
        yield "QDQ"
    elif op in _DYNAMIC:
        yield "dynamic"
    elif op in _OF_CACHES:
        if any(is_given(node, role.scale) for role in roles_of(node)):
            yield "QOperator"
    elif (op in _ROLES and op not in BLOCKWISE) or op.startswith("QLinear"):
        yield "QOperator"
    if op in BLOCKWISE or (op in QDQ and block_size(node)):
        yield "block-wise"


def is_block_scale(node: onnx.NodeProto, index: int) -> bool:
    """Whether an input has a scale a block."""
    if node.op_type in QDQ:
        return block_size(node) > 0
    return index in _BLOCK_SCALES.get(node.op_type, ())


def block_size(node: onnx.NodeProto) -> int:
    """Elements that share a scale; 0 where it isn't said."""
    return _integer(node, "block_size", 0)


def scaled_axis(node: onnx.NodeProto, role: Role) -> tuple[int, int] | None:
    """Which axis of which input a vector of scales belongs to; None where that isn't settled."""
    if node.op_type in QDQ:
        return None if block_size(node) else (0, _integer(node, "axis", 1))
    axis = _AXES.get((node.op_type, role.scale))
    return None if axis is None else (role.data, axis)


def is_given(node: onnx.NodeProto, index: int) -> bool:
    """Whether a node has an input at an index."""
    return 0 <= index < len(node.input) and bool(node.input[index])


def _integer(node: onnx.NodeProto, name: str, default: int) -> int:
    found: Mapping[str, int] = {a.name: a.i for a in node.attribute}
    return found.get(name, default)
