"""Why a provider of ONNX Runtime isn't in force: the libraries that it needs, or the GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paritygate.gpu.driver import NoCudaError, find_chips

_SHARED = "libonnxruntime_providers_shared.so"
_LIBRARIES = {
    "CUDAExecutionProvider": "libonnxruntime_providers_cuda.so",
    "TensorrtExecutionProvider": "libonnxruntime_providers_tensorrt.so",
}
MEND = (
    "install what it is made for (CUDA and cuDNN: pip install 'onnxruntime-gpu[cuda,cudnn]'), and "
    "name the folders in LD_LIBRARY_PATH"
)


def why_not_in_force(
    provider: str,
    folder: Path,
    load: Callable[..., Any] = ctypes.CDLL,
    chips: Callable[[], object] = find_chips,
) -> str:
    """Why a provider that was asked for isn't in force; empty where that can't be told.

    Args:
        provider: its name.
        folder: where onnxruntime's own libraries are.
        load: loads a library.
        chips: looks for GPUs.
    """
    library = _LIBRARIES.get(provider)
    if library is None or not (folder / library).exists():
        return ""
    try:
        load(str(folder / _SHARED), ctypes.RTLD_GLOBAL)
        load(str(folder / library))
    except OSError as e:
        return f"a library that it needs can't be loaded: {e}"
    try:
        chips()
    except NoCudaError as e:
        return f"there is no GPU to run it on: {e}"
    return ""
