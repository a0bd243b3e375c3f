"""Errors as the driver's bindings raise them: those of launches have no code."""

from __future__ import annotations

import importlib

import pytest

from paritygate.comparison.placed import is_out_of_memory


@pytest.mark.parametrize(
    ("name", "is_memory"),
    [("CUDA_ERROR_OUT_OF_MEMORY", True), ("CUDA_ERROR_ILLEGAL_ADDRESS", False)],
)
def test_memory_that_a_launch_lacks_is_told_apart(name: str, is_memory: bool) -> None:
    codes = importlib.import_module("cuda.bindings.driver").CUresult
    raising = importlib.import_module("cuda.core._utils.cuda_utils")
    launched = raising.CUDAError(f"{name}: what the driver says of it")
    assert is_out_of_memory(launched) == is_memory
    numba = importlib.import_module("numba.cuda.cudadrv.driver")
    assert is_out_of_memory(numba.CudaAPIError(getattr(codes, name), "copying")) == is_memory
