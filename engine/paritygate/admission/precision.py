"""In which precision a model calculates, as far as its operators and tensors say."""

from __future__ import annotations

import onnx

from paritygate.admission.model import iter_nodes, iter_tensors

_QUANTIZED = frozenset(
    {
        "ConvInteger",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "MatMulNBits",
        "QuantizeLinear",
    }
)
_DYNAMIC = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})


def describe_precision(model: onnx.ModelProto) -> dict[str, object]:
    """The coarsest arithmetic that a model contains.

    Returns:
        `arithmetic`: "int8" (any quantisation), "float8", "float16", "bfloat16", "float32" or
        "float64"; `dynamic_quantization`: whether scales are made of what is in a batch.
    """
    operators = {node.op_type for node in iter_nodes(model)}
    is_dynamic = bool(operators & _DYNAMIC)
    is_quantized = bool(operators & _QUANTIZED) or any(
        name.startswith(("QLinear", "QGemm", "QAttention")) for name in operators
    )
    arithmetic = "int8" if is_quantized or is_dynamic else _coarsest(_element_types(model))
    return {"arithmetic": arithmetic, "dynamic_quantization": is_dynamic}


def _element_types(model: onnx.ModelProto) -> set[str]:
    kinds = {tensor.data_type for tensor in iter_tensors(model)}
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        kinds.add(value.type.tensor_type.elem_type)
    for node in iter_nodes(model):
        if node.op_type == "Cast":
            kinds.update(a.i for a in node.attribute if a.name == "to")
    names = onnx.TensorProto.DataType
    return {names.Name(kind).lower() for kind in kinds if kind in names.values()}


def _coarsest(kinds: set[str]) -> str:
    if any(kind.startswith("float8") for kind in kinds):
        return "float8"
    for kind in ("bfloat16", "float16"):
        if kind in kinds:
            return kind
    return "float64" if "double" in kinds and "float" not in kinds else "float32"
