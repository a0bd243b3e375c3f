"""What onnx.checker lets pass and no runtime runs: no outputs, data beyond a shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx

from paritygate.admission.concerns import short, some
from paritygate.admission.errors import AdmissionError
from paritygate.admission.model import iter_tensors
from paritygate.admission.values import PACKED_BITS, count_bytes, count_elements, dtype_text

_FIELDS = ("float_data", "double_data", "int64_data", "uint64_data", "int32_data")


def check_runnable(model: onnx.ModelProto, shown: Path) -> None:
    """Refuse a model that passes the check of its structure and that no runtime runs.

    Args:
        model: without external data.
        shown: its name in messages.

    Raises:
        AdmissionError: it has no outputs, or a tensor holds more than its shape says.
    """
    if not model.graph.output:
        raise AdmissionError(
            f"the model is malformed: {shown}: the graph has no outputs; export it with what it is "
            "to answer"
        )
    for tensor in iter_tensors(model):
        told = _left_over(tensor)
        if told:
            raise AdmissionError(
                f"the model is malformed: {shown}: tensor {short(tensor.name)!r} holds {told}; "
                "export the model again"
            )


def note_outputs(model: onnx.ModelProto) -> Iterator[str]:
    """Outputs that the graph lists more than once; a runtime answers them as often."""
    names = Counter(value.name for value in model.graph.output)
    repeated = [name for name, count in names.items() if count > 1]
    if repeated:
        yield f"the graph lists an output more than once: {some(repeated)}"


def _left_over(tensor: onnx.TensorProto) -> str:
    kind = f"{dtype_text(tensor)}{list(tensor.dims)}"
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return ""
    if tensor.HasField("raw_data"):
        has, needs = len(tensor.raw_data), count_bytes(tensor)
        return f"{has:,} bytes, a {kind} has {needs:,}" if 0 < needs < has else ""
    parts = 2 if dtype_text(tensor).startswith("complex") else 1
    if dtype_text(tensor).upper() in PACKED_BITS:
        return ""
    has = max(len(getattr(tensor, name)) for name in _FIELDS)
    needs = count_elements(tensor) * parts
    return f"{has:,} numbers, a {kind} has {needs:,}" if has > needs else ""
