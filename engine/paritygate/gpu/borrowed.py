"""Memory of a device that another library has written, as an array of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from paritygate.gpu.device import cuda


class _Memory:
    """What the CUDA array interface asks of an object; it keeps the owner of the memory."""

    def __init__(
        self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object
    ) -> None:
        self._owner = owner
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "data": (pointer, False),
            "strides": None,
            "version": 3,
            "stream": None,
        }


def borrow(pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object) -> Any:
    """An array over memory of the current device; whoever wrote it is done.

    Args:
        pointer: its address there.
        shape: of the array, which has an element and lies C-contiguous.
        dtype: one that NumPy has itself.
        owner: keeps the memory as it is as long as the array is there.
    """
    return cuda.as_cuda_array(_Memory(pointer, shape, dtype, owner), sync=False)
