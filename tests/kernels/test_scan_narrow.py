"""Narrow floats by their bits: every one of them."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.scan_narrow import form_of
from paritygate.core.dtypes import NARROW_FLOATS, numpy_dtype
from paritygate.core.policy import Tolerance
from paritygate.kernels import elements, scan_narrow, sums
from paritygate.tally.exact import ExactSum

BITS = {1: np.uint8, 2: np.uint16}
LEFT_OUT = {"float8_e5m2fnuz": 32768.0}  # from here on float16 has no such numbers


def everything(name: str) -> tuple[Any, Any]:
    """All bits of a dtype, as the kernel is given them, and their numbers."""
    dtype = numpy_dtype(name)
    codes = np.arange(1 << (8 * dtype.itemsize), dtype=BITS[dtype.itemsize])
    with np.errstate(invalid="ignore"):
        numbers = codes.view(dtype).astype(np.float64)
    return codes.view(np.int16) if name == "bfloat16" else codes, numbers


def scanned(ref: Any, cand: Any, name: str) -> tuple[int, Any, Any]:
    """How many stretches of one element are counted, and sums of their errors."""
    rule = elements.Rule(1e39, 0.0, math.inf, 0, False, math.inf, (1, 2, 4, 8, 16))
    at = np.zeros((2, 2), np.int64)
    found = elements.Found(
        np.zeros((4, 4), np.int64), np.zeros(1, np.int64), at, np.full(2, 1e39), np.ones(1)
    )
    chunks = np.zeros((2, sums.CHUNKS), np.int64)
    state = scan_narrow.State(np.full(2, -1.0), np.array([True]), np.zeros(1, np.int64))
    room = scan_narrow.Room(np.empty(1), np.empty(1))
    counted = scan_narrow.scan_narrow(
        ref, cand, form_of(name), 1, 0, 1, 0, rule, found, chunks, state, room
    )
    assert found.classes[0, 0] == counted
    return counted, ExactSum.from_chunks(chunks[0]), ExactSum.from_chunks(chunks[1])


@pytest.mark.parametrize("name", NARROW_FLOATS)
def test_every_number_is_read_and_none_that_is_not_finite(name: str) -> None:
    bits, numbers = everything(name)
    limit = LEFT_OUT.get(name, math.inf)
    for at in range(0, len(bits), 1 if len(bits) == 256 else 7):
        one, number = bits[at : at + 1], numbers[at]
        is_read = abs(number) < limit and (number == 0 or abs(number) >= 2.0**-85)
        counted, total, magnitude = scanned(bits[:1], one, name)
        assert counted == int(is_read), (name, at)
        if is_read:
            assert (total.value(), magnitude.value()) == (number, abs(number))


@pytest.mark.parametrize(
    "sizes", [(1.0,) * 40, (2.0**-9, 1.0) * 20, (2.0**-9,) * 40, (255 / 1024,) * 40]
)
def test_sums_of_more_units_than_32_bits_hold(sizes: tuple[float, ...]) -> None:
    size = scan_narrow.PIECE
    ref = np.zeros((len(sizes), size), numpy_dtype("bfloat16"))
    ref[:, 0] = 2.0**-16  # a unit is 2^-23
    cand = ref.copy()
    cand[:, 1:] = np.array(sizes)[:, None]
    judge = ElementComparer(Tolerance(2.0, 0.0), "bfloat16", "bfloat16", (size,), "gate")
    tally, _ = judge.compare(ref, cand, np.arange(len(ref)), is_lazy=True)
    assert tally.errors.value() == tally.abs_errors.value() == sum(sizes) * (size - 1)


_ALL_HALVES = """
import numpy as np
from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance

codes = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
for other in (codes, codes[np.random.default_rng(0).permutation(codes.size)]):
    ref, cand = (side.reshape(-1, 4) for side in (codes, other))
    tolerance = Tolerance(1e-2, 1e-2, nonfinite="match")
    judge = ElementComparer(tolerance, "float16", "float16", (4,), "gate")
    fast, details = judge.compare(ref, cand, np.arange(len(ref)), is_lazy=True)
    slow, all_details = judge.compare(ref, cand, np.arange(len(ref)))
    assert fast.to_json() == slow.to_json()
    assert np.array_equal(details.rules, all_details.rules)
    print(fast.failing_elements > 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="others widen float16 by themselves")
def test_a_processor_that_cannot_widen_float16_reads_all_of_them(tmp_path: Path) -> None:
    chosen = {"NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run(
        [sys.executable, "-c", _ALL_HALVES],
        env=os.environ | chosen | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["False", "True"]), done.stderr
