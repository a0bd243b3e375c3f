"""Blocks that lie on a device are judged as on the CPU: in the simulator, and on hardware."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from paritygate.comparison import canary
from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.place import Place
from paritygate.comparison.placed import PlacedComparer
from paritygate.comparison.placed_decisions import PlacedDecisions
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.gpu.driver import Chip
from paritygate.gpu.tensor import DeviceTensor

CHIP = Chip("A", "9.0", 1 << 30, "", "13.0")


def there(array: Any, *cuts: int) -> DeviceTensor:
    """An array of the host in several arrays of the device."""
    bits = array if array.dtype.kind in "fiub" else array.view(f"u{array.itemsize}")
    parts = [cuda.to_device(part.copy()) for part in np.split(bits, cuts)]
    return DeviceTensor(parts, array.dtype)


def check_gathered(array: Any, cuts: list[int], rows: Any) -> None:
    """Some samples come back as they are, and no others."""
    found = there(array, *cuts)
    picked = found.picked(np.asarray(rows))
    assert picked.dtype == array.dtype
    np.testing.assert_array_equal(picked, array[rows])
    assert found._host is None


def comparer(dtype: str, width: int, stats: Any = "gate") -> PlacedComparer:
    """What compares blocks of an output on a device."""
    tolerance = Tolerance(1e-3, 1e-3) if dtype.startswith("f") else Tolerance()
    return PlacedComparer(Place(CHIP), "s", "y", tolerance, dtype, dtype, (width,), stats)


def block(seed: int, dtype: str, samples: int, width: int, *, fails: bool) -> tuple[Any, Any]:
    """Both sides of a block, where it fails in one sample of four and more."""
    rng = np.random.default_rng(seed)
    ref = np.clip(np.round(rng.normal(size=(samples, width)) * 50), -100, 100)
    cand = ref.copy()
    if fails:
        cand[3::4] += rng.integers(1, 4, cand[3::4].shape)
        cand[5, 1] += 3
        if dtype.startswith("f"):
            cand[9, 2] = np.nan
    return ref.astype(dtype), cand.astype(dtype)


def check_block(ours: PlacedComparer, sides: tuple[Any, Any], first: int) -> None:
    """A block is judged as on the CPU, and so are the samples of it that come back."""
    ref, cand = sides
    dtype, samples = ref.dtype.name, len(ref)
    rows = np.arange(first, first + samples)
    host = ElementComparer(ours.tolerance, dtype, dtype, ref.shape[1:], ours.stats)
    expected = host.compare(ref, cand, rows, is_lazy=False)
    own, other = there(ref, samples // 5, samples // 2), there(cand, samples // 3)
    found = ours.compare(own, other, rows, is_lazy=True)
    assert canary.difference(found, expected) == ""
    some = np.unique([0, 3, 5, 9, 11, *range(12, samples, 7)])
    ours.look_at(found[1], some, own, other)
    ours.confirm(found[1], some, own, other)
    assert own._host is None
    np.testing.assert_array_equal(found[1].worst.of(some).index, expected[1].worst.of(some).index)


def check_decided(kind: str, samples: int, width: int) -> None:
    """Blocks that are decided one after the other, by the same memory, are as on the CPU."""
    rule = DecisionRule("d", "y", argmax=kind == "argmax", topk=2 if kind == "topk" else None)
    given = rule, Tolerance(1e-3, 1e-3)
    ours = PlacedDecisions(Place(CHIP), "s", *given, ("float32",) * 2, (width,), "full")
    host = DecisionComparer(*given, "float32", "float32", (width,), "full")
    rng = np.random.default_rng(2)
    for number, noise in enumerate((0.0, 0.5, 0.0)):
        ref = rng.normal(size=(samples, width)).astype(np.float32)
        cand = (ref + noise * rng.normal(size=ref.shape)).astype(np.float32)
        rows = np.arange(samples * number, samples * (number + 1))
        expected, detail = host.compare(ref, cand, rows)
        found = ours.compare_lazily(there(ref, samples // 3), there(cand), rows, None)
        assert found is not None
        assert found[0].to_json() == expected.to_json()
        np.testing.assert_array_equal(found[1].flipped_rows, detail.flipped_rows)
        some = np.arange(0, samples, 5)
        told, by_cpu = found[1].told(some), detail.told(some)
        assert (told.ref, told.cand) == (by_cpu.ref, by_cpu.cand)
        assert (found[0].flips > 0) == (noise > 0)
