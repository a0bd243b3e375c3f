"""Outputs of torch that stay on a GPU: which ones can, and as tensors of ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from paritygate.core.dtypes import numpy_dtype
from paritygate.gpu.tensor import DeviceTensor
from paritygate.runners.ort_device import is_plain
from paritygate.runners.ort_wiring import Wiring
from paritygate.runners.torch_arrays import BITS, name_of

_FIRST = ("cuda", "cuda:0")


def stayable(device: str, wiring: Wiring, *, is_declared: bool) -> frozenset[str]:
    """Outputs that may be left on the GPU: of the first device, of shapes that are known.

    Args:
        device: where the program runs.
        wiring: what it answers.
        is_declared: whether the program says so itself.
    """
    if device not in _FIRST or not is_declared:
        return frozenset()
    moved = wiring.layout.outputs
    return frozenset(
        name for name, spec in wiring.outputs.items() if name not in moved and is_plain(spec)
    )


def lies_there(tensor: Any) -> bool:
    """Whether a tensor's elements lie on the first GPU, and are some."""
    return bool(tensor.is_cuda and tensor.get_device() == 0 and tensor.numel())


def to_device_tensor(tensor: Any) -> DeviceTensor:
    """A copy of a tensor's elements there, which torch may still be writing; see `wait`."""
    from paritygate.gpu.borrowed import borrow

    kind = numpy_dtype(name_of(tensor.dtype))
    own = tensor.detach().resolve_neg().contiguous().clone()
    bits = np.dtype(f"u{kind.itemsize}") if name_of(tensor.dtype) in BITS else kind
    return DeviceTensor([borrow(int(own.data_ptr()), tuple(own.shape), bits, own)], kind)


def wait() -> None:
    """Wait for what this thread has had torch do on the first GPU."""
    import torch

    torch.cuda.current_stream(0).synchronize()
