"""Kernels of decisions for pairs of dtypes: the simulator takes what a compiler may refuse."""

from __future__ import annotations

from typing import Any

import pytest
from numba import types
from tests.gpu.compiled.deciding import kernels
from tests.gpu.compiled.ptx import ptx_of
from tests.gpu.compiled.test_ptx import operations

F32, F64 = types.float32[::1], types.float64[::1]
INTS, NATURALS = types.int64[::1], types.uint64[::1]
CASES = (
    ("decide_bands", (F32, F64, F32)),
    ("decide_argmax", (F32, F32, F32, F64)),
    ("decide_argmax", (INTS, NATURALS, F64, F64)),
    ("decide_topk", (NATURALS, INTS, F64, F64)),
    ("look_up", (types.uint8[::1], F32, F32)),
    ("cast", (F64, F32)),
    ("cast", (types.uint32[::1], F64)),
    ("cast", (NATURALS, F64)),
)


@pytest.mark.parametrize(("name", "dtypes"), CASES)
def test_pairs_of_dtypes_are_compiled(name: str, dtypes: tuple[Any, ...]) -> None:
    function, arguments = kernels()[name]
    given = arguments(F32)
    ptx = ptx_of(function, (*dtypes, *given[len(dtypes) :]), "sm_90")
    found = operations(ptx)
    assert found <= {"add.f64", "sub.f64", "mul.rn.f64"}
    assert ("mul.rn.f64" in found) == name.startswith("decide")
    assert ".ftz" not in ptx
