"""What kernels of the GPU compile to: no fused multiply-add, nothing flushed, nothing spilled."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from numba import types
from tests.gpu.compiled import deciding
from tests.gpu.compiled.ptx import CHIPS, RECORD, cases, compiled, ptx_of, taken_by

from paritygate.gpu import rules
from paritygate.gpu.device import distance, order_of, rule, widen
from paritygate.kernels import scalar

PRODUCTS = {
    *("scan", "keep_failing", "measure", "rank", "widen_bits"),
    *("scan_whole", "keep_failing_whole"),
    *deciding.PRODUCTS,
}
_RECORDED = json.loads(RECORD.read_text())
_ARITHMETIC = re.compile(
    r"^\s+(?:@\S+\s+)?((?:fma|mad|mul|add|sub|div|neg)\.\S*f(?:16|32|64)\S*)", re.M
)


def operations(ptx: str) -> set[str]:
    return set(_ARITHMETIC.findall(ptx))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("name", "dtype"), cases())
def test_a_kernel_rounds_each_product_and_takes_what_it_took(
    name: str, dtype: str, chip: str, tmp_path: Path
) -> None:
    ptx = compiled(name, dtype, chip)
    assert f".target {chip}" in ptx
    found = operations(ptx)
    assert not {op for op in found if op.startswith(("fma", "mad"))}
    assert not {op for op in found if op.startswith("mul") and ".rn" not in op}  # ptxas may fuse
    assert not {op for op in found if op.endswith("f32")}  # errors are of float64
    assert ".ftz" not in ptx
    assert ".approx" not in ptx
    assert ("mul.rn.f64" in found) == (name in PRODUCTS)
    taken = taken_by(ptx, chip, tmp_path)
    assert taken["spilled"] == 0
    assert taken == _RECORDED[f"{name} {dtype} {chip}"], "python -m tests.gpu.compiled.ptx"


def plain(ref: Any, atol: float, rtol: float, out: Any) -> None:
    out[0] = atol + rtol * abs(widen(ref[0]))


def ours(ref: Any, atol: float, rtol: float, out: Any) -> None:
    out[0] = rules.allowed(widen(ref[0]), atol, rtol)


def test_what_is_looked_for_is_there_where_it_may_be() -> None:
    arguments = (types.float32[::1], types.float64, types.float64, types.float64[::1])
    assert "fma.rn.f64" in operations(ptx_of(plain, arguments, "sm_80"))
    assert operations(ptx_of(ours, arguments, "sm_80")) == {"mul.rn.f64", "add.f64"}


def test_a_rule_is_the_one_of_the_cpu() -> None:
    assert rule(scalar.allowed).py_func.__code__ is scalar.allowed.py_func.__code__  # type: ignore[attr-defined]


def within(ref: Any, cand: Any, bound: float, out: Any) -> None:
    error = distance(ref[0], cand[0])
    out[0] = 1 if error <= rules.integer_bound(bound) else order_of(error)


@pytest.mark.parametrize(("dtype", "order"), [(types.int64, "s64"), (types.uint64, "u64")])
def test_integers_of_64_bits_are_never_rounded_to_be_compared(dtype: Any, order: str) -> None:
    ptx = ptx_of(within, (dtype[::1], dtype[::1], types.float64, types.int64[::1]), "sm_80")
    compared = re.findall(r"setp\.\S\S\.(\S+)", ptx)
    assert compared == [order, "f64", "u64"]  # which is larger; a bound below 2^64; within it
    assert "cvt.rn.f64" not in ptx
