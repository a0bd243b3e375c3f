"""One run of a model with any inputs: names, dtypes and shapes are ONNX Runtime's to judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paritygate.core.dtypes import dtype_name
from paritygate.core.tensors import Array
from paritygate.runners.layout import Axis
from paritygate.runners.ort_types import to_value
from paritygate.runners.ort_wiring import Wiring


def run_raw(inference: Any, wiring: Wiring, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Answers by the model's own names; of tensors their type and shape.

    Args:
        inference: the session.
        wiring: what our names are in the model; others are passed on as they are.
        inputs: name -> array with its samples first.

    Raises:
        Exception: whatever ONNX Runtime makes of it.
    """
    theirs, axes = dict(wiring.feeds), wiring.layout.inputs
    feeds = {name: np.ascontiguousarray(array) for name, array in wiring.fixed.items()}
    for ours, array in inputs.items():
        moved = _moved(array, axes.get(ours, 0))
        feeds[theirs.get(ours, ours)] = np.ascontiguousarray(moved)
    names = [node.name for node in inference.get_outputs()]
    if any(array.dtype == object for array in feeds.values()):
        return dict(zip(names, inference.run(names, feeds), strict=True))
    values = {name: to_value(array, dtype_name(array.dtype)) for name, array in feeds.items()}
    found = zip(names, inference.run_with_ort_values(names, values), strict=True)
    return {name: f"{v.data_type()}{list(v.shape())}" for name, v in found if v.is_tensor()}


def _moved(array: Array, axis: Axis) -> Array:
    if axis is None:
        return array[0] if len(array) == 1 else array
    return np.moveaxis(array, 0, axis) if axis < array.ndim else array
