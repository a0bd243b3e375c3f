"""Errors as the driver's bindings raise them: those of launches have no code."""

from __future__ import annotations

import importlib

import pytest

from paritygate.comparison.placed import is_out_of_memory


class CopyError(RuntimeError):
    """As Numba raises it of copies and allocations; its own is imported with a driver only."""

    def __init__(self, code: int) -> None:
        super().__init__(code, "copying")
        self.code = code


@pytest.mark.parametrize(
    ("name", "is_memory"),
    [("CUDA_ERROR_OUT_OF_MEMORY", True), ("CUDA_ERROR_ILLEGAL_ADDRESS", False)],
)
def test_memory_that_a_launch_lacks_is_told_apart(name: str, is_memory: bool) -> None:
    codes = importlib.import_module("cuda.bindings.driver").CUresult
    raising = importlib.import_module("cuda.core._utils.cuda_utils")
    launched = raising.CUDAError(f"{name}: what the driver says of it")
    assert is_out_of_memory(launched) == is_memory
    copied = CopyError(getattr(codes, name))
    assert is_out_of_memory(copied) == is_memory
