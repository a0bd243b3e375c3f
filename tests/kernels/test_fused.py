"""No kernel that decides is compiled to fused multiply-adds, which round once where rules do twice.

What decides is compiled, unless it is in the cache; then all that is in the cache is looked at, of
whatever dtypes, since machine code that kernels call stands in files of its own there.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import paritygate.kernels

# Kernels with a product that decides, or that goes into an exact sum; all others are looked at too.
DECIDING = {
    "elements.judge_floats",
    "measures.add_any_products",
    "measures.add_energies",
    "measures.measure_wide",
    "scan.look",
    "scan.scan_floats",
    "scan_failing.keep_suspects",
    "scan_failing.scan_failing",
    "scan_full.scan_full",
    "scan_bands._come_near",
    "scan_integers.scan_integers",
    "scan_narrow.judge",
    "scan_ranks.scan_argmax",
    "settle.settle",
    "worst.find_worst",
}
ROOT = Path(__file__).parents[2]
ENGINE = Path(paritygate.kernels.__file__).parents[2]
SHOW = """
import sys
import numba, numpy as np
from tests.kernels.assembly import assembly_of, is_suspect, kept_assemblies
from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance

@numba.njit(fastmath=True)
def fused(a, b, c):
    return a * b + c

fused(1.0, 2.0, 3.0)
print("fused", *map(assembly_of, fused.overloads.values()))
assert all(map(is_suspect, fused.overloads.values()))

from paritygate.comparison.decisions import DecisionComparer
from paritygate.core.bands import parse_bands
from paritygate.core.policy import DecisionRule

x = np.linspace(0, 1, 8192).astype("float32")
bands = DecisionRule("d", "s", bands=parse_bands("no < 0.5 <= yes"))
decide = DecisionComparer(bands, Tolerance(1e-3, 1e-3), "float32", "float32", (), "gate")
decide.compare_lazily(x, x, np.arange(8192))
argmax = DecisionRule("d", "s", argmax=True)
decide = DecisionComparer(argmax, Tolerance(1e-3, 1e-3), "float32", "float32", (32,), "gate")
decide.compare_lazily(x.reshape(256, 32), x.reshape(256, 32), np.arange(256))

for dtype in ("float32", "float64"):
    x = np.linspace(0.5, 1.5, 64).astype(dtype).reshape(4, 16)
    for width in (4, 16):
        judge = ElementComparer(Tolerance(1e-3, 1e-3), dtype, dtype, (width,), "full")
        for is_lazy in (False, True):
            y = x.reshape(-1, width)
            for error in (1e-4, 1e-2, np.nan):
                z = y + y.dtype.type(error)
                _, detail = judge.compare(y, z, np.arange(len(y)), is_lazy=is_lazy)
                judge.look_at(detail, np.arange(len(y)), y, z)
x = np.array([1.0, 1e-30] * 32, np.float32).reshape(16, 4)  # products far apart
judge = ElementComparer(Tolerance(1e-3, 1e-3), "float32", "float32", (4,), "full")
judge.compare(x, x * np.float32(1.0001), np.arange(len(x)), is_lazy=True)
x = np.linspace(0.5, 1.5, 5000, dtype=np.float32).reshape(1, 5000)  # more than a piece
judge = ElementComparer(Tolerance(1e-3, 1e-3), "float32", "float32", (5000,), "full")
judge.compare(x, x * np.float32(1.0001), np.arange(1), is_lazy=True)
x = np.ones((16384, 1), np.float32)
judge = ElementComparer(Tolerance(1e-3, 1e-3), "float32", "float32", (1,), "gate")
judge.compare(x, x + np.float32(1), np.arange(len(x)), is_lazy=True)
x = np.arange(64, dtype=np.int8).reshape(4, 16)
judge = ElementComparer(Tolerance(1.0, 1e-3), "int8", "int8", (16,), "gate")
judge.compare(x, x + np.int8(1), np.arange(4), is_lazy=True)
x = x.astype(np.float16)
judge = ElementComparer(Tolerance(1.0, 1e-3), "float16", "float16", (16,), "gate")
judge.compare(x, x, np.arange(4), is_lazy=True)
for name, text in kept_assemblies(frozenset(sys.argv[1:])):
    print("kernel", name, text)
"""


@pytest.mark.slow
@pytest.mark.skipif("fma" not in Path("/proc/cpuinfo").read_text().split(), reason="has no FMA")
def test_no_kernel_that_decides_has_a_fused_multiply_add() -> None:
    environment = {
        k: v for k, v in os.environ.items() if k == "NUMBA_CACHE_DIR" or not k.startswith("NUMBA_")
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(ENGINE), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *DECIDING],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    fused, *kernels = done.stdout.split("kernel ")
    assert "vfmadd" in fused  # what is looked for is there where it may be
    assert {text.split()[0] for text in kernels} >= DECIDING
    shown = {text.split()[0]: text for text in kernels if text.split()[1:]}
    for name in DECIDING:
        assert any(product in shown[name] for product in ("mulsd", "mulpd", "mulps")), name
    for text in kernels:
        for instruction in ("vfmadd", "vfmsub", "vfnmadd", "vfnmsub"):
            assert instruction not in text, text.split()[0]
