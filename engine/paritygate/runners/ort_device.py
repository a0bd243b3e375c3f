"""Outputs that ONNX Runtime leaves on a GPU: which ones can be, and as tensors of ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from paritygate.core.dtypes import HALF_BYTES, STRING, numpy_dtype
from paritygate.core.tensors import TensorSpec
from paritygate.gpu.tensor import DeviceTensor
from paritygate.runners.ort_load import Loaded
from paritygate.runners.ort_types import BRIDGED
from paritygate.runners.ort_wiring import Wiring

DEVICE = "cuda"
_GRAPH = "cuda_graph"  # in names of options: buffers of a graph can't be changed
_GRAPHS = ("1", "True", "true")


def stayable(loaded: Loaded, wiring: Wiring) -> frozenset[str]:
    """Outputs that may be left on the GPU: of the first device, of shapes that are known."""
    given = [pair for options in loaded.provider_options.values() for pair in options.items()]
    is_first = all(value == "0" for name, value in given if name == "device_id")
    has_graphs = any(value in _GRAPHS for name, value in given if _GRAPH in name)
    if loaded.device != DEVICE or not wiring.is_bound or not is_first or has_graphs:
        return frozenset()
    declared = wiring.declared or {}
    return frozenset(
        name
        for name, spec in declared.items()
        if name not in wiring.layout.outputs and is_plain(spec)
    )


def is_plain(spec: TensorSpec) -> bool:
    """Whether an output has elements of a byte or more, in a shape that is known."""
    has_bytes = spec.dtype not in (*HALF_BYTES, STRING)
    return has_bytes and len(spec.shape) > 1 and all(_is_size(dim) for dim in spec.shape[1:])


def _is_size(dim: object) -> bool:
    return isinstance(dim, int) and dim > 0


def tensor_of(value: Any, dtype: str) -> DeviceTensor:
    """What an OrtValue holds on the device; nothing may be writing it any more.

    Raises:
        ValueError: it is elsewhere, or isn't what was declared.
    """
    from paritygate.gpu.borrowed import borrow

    shape, kind = tuple(int(dim) for dim in value.shape()), numpy_dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if value.device_name().lower() != DEVICE or value.tensor_size_in_bytes() != size or not size:
        raise ValueError(
            f"{value.tensor_size_in_bytes()} bytes on {value.device_name()}, asked for was "
            f"{dtype}{list(shape)} on {DEVICE}"
        )
    bits = np.dtype(f"u{kind.itemsize}") if dtype in BRIDGED else kind
    return DeviceTensor([borrow(int(value.data_ptr()), shape, bits, value)], kind)
