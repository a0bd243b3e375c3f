"""What a device counts is what the CPU counts: in the simulator, and on hardware."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.on_device import DeviceComparer
from paritygate.core.policy import Tolerance
from paritygate.gpu.device import TILE

SPECIAL = (0.0, -0.0, 1.0, -1.0, 1e-40, -3e-45, 5e-324, 3.4e38, -1.7e308, 1e-300, 2.0**-50)
BROKEN = (float("nan"), float("inf"), float("-inf"))
TOLERANCE = Tolerance(2.0**-10, 0.0)  # of `planted`
WORST = ("index", "excess", "error")


@st.composite
def tolerances(draw: st.DrawFn) -> Tolerance:
    return Tolerance(
        atol=draw(st.sampled_from([0.0, 1e-6, 1.0, 1e300, 1.7e308])),
        rtol=draw(st.sampled_from([0.0, 1e-6, 1e-2, 0.999])),
        nonfinite=draw(st.sampled_from(["fail", "match"])),
        max_abs=draw(st.sampled_from([None, 1e-3, 5.0])),
        max_outlier_fraction=draw(st.sampled_from([0.0, 0.3])),
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Values of both sides that are alike in most places, of some tiles."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    width = draw(st.sampled_from([1, 3, 16, 5 * TILE + 1]))
    count = draw(st.integers(1, 9 * TILE // width + 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([1.0, 1e-3, 1e30, 1e-38, 2.0**-60]))
    spread = draw(st.sampled_from([0.0, 3.0, 12.0]))
    with np.errstate(over="ignore", under="ignore"):
        size = np.exp(rng.normal(size=count * width) * spread) * scale
        ref = (rng.normal(size=count * width) * size).astype(dtype)
        noise = draw(st.sampled_from([0.0, 1e-7, 1e-5, 1e-2]))
        steps = np.round(rng.normal(size=ref.size) * 2) if draw(st.booleans()) else 1.0
        cand = (ref * (1 + noise * steps)).astype(dtype)
        if draw(st.booleans()):  # values so coarse that errors tie
            ref, cand = np.round(ref), np.round(ref) + np.round(steps * 2)
            ref, cand = ref.astype(dtype), np.broadcast_to(cand, ref.shape).astype(dtype)
        for _ in range(draw(st.integers(0, 6))):
            at = draw(st.integers(0, ref.size - 1))
            pool = SPECIAL + BROKEN if draw(st.booleans()) else SPECIAL
            ref[at] = draw(st.sampled_from(pool))
            cand[at] = ref[at] if draw(st.booleans()) else draw(st.sampled_from(pool))
    return ref.reshape(count, width), cand.reshape(count, width)


@st.composite
def planted(draw: st.DrawFn) -> tuple[Any, Any]:
    """Values whose errors are small, but for a few in some of many tiles, none of them the worst.

    What isn't the worst so far can still fail, and must not be passed over.
    """
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    width = draw(st.sampled_from([1, 4]))
    size = 20 * TILE
    ref = np.full(size, draw(st.sampled_from([1.0, -4.0])), dtype)
    factor = np.full(size, draw(st.sampled_from([0.0, 0.25])))
    factor[: draw(st.integers(0, 6 * TILE))] = draw(st.sampled_from([0.75, 3.0, 64.0, np.inf]))
    for at in draw(st.lists(st.integers(0, size - 1), max_size=6)):
        factor[at] = draw(st.sampled_from([0.0, 0.5, 1.0, 1.125, 2.0, 3.0, np.nan]))
    cand = (ref + factor * TOLERANCE.atol).astype(dtype)
    return ref.reshape(-1, width), cand.reshape(-1, width)


def comparers(
    ref: Any, tolerance: Tolerance, stats: str = "gate"
) -> tuple[DeviceComparer, ElementComparer]:
    return comparers_of((ref.dtype.name, ref.dtype.name), tolerance, ref.shape[1:], stats)


def comparers_of(
    names: tuple[str, str], tolerance: Tolerance, shape: tuple[int, ...], stats: str
) -> tuple[DeviceComparer, ElementComparer]:
    made = (kind(tolerance, *names, shape, stats) for kind in _KINDS)
    return next(made), next(made)


_KINDS: tuple[Any, Any] = (DeviceComparer, ElementComparer)


def check(
    ref: Any,
    cand: Any,
    tolerance: Tolerance,
    ordinals: Any,
    cuts: list[int],
    stats: str = "full",
    names: tuple[str, str] | None = None,
) -> None:
    """Compare in batches that begin at `cuts`, and the whole on the CPU."""
    names = names or (ref.dtype.name, cand.dtype.name)
    device, host = comparers_of(names, tolerance, ref.shape[1:], stats)
    comparison = device.begin()
    edges = [0, *sorted(cut % (len(ref) + 1) for cut in cuts), len(ref)]
    for start, stop in pairwise(edges):
        comparison.add(ref[start:stop], cand[start:stop], ordinals[start:stop])
    tally, detail = comparison.finish()
    expected, all_details = host.compare(ref, cand, np.asarray(ordinals))
    assert tally.to_json() == expected.to_json()
    np.testing.assert_array_equal(detail.rules, all_details.rules)
    np.testing.assert_array_equal(detail.failing_elements, all_details.failing_elements)
    rows = np.arange(len(ref))
    for name in WORST:  # of failing samples at once, of others when they are looked at
        found = getattr(detail.worst.of(detail.rows), name)
        np.testing.assert_array_equal(found, getattr(all_details.worst, name)[detail.rows], name)
    device.look_at(detail, rows, ref, cand)
    for name in WORST:
        found = getattr(detail.worst.of(rows), name)
        np.testing.assert_array_equal(found, getattr(all_details.worst, name), name)
