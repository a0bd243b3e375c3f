"""What a device decides is what the CPU decides: in the simulator, and on hardware."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec.structs import replace

from paritygate.comparison import canary
from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.decisions_on_device import DeviceDecisions
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.place import Place
from paritygate.comparison.placed import PlacedComparer
from paritygate.comparison.placed_decisions import PlacedDecisions
from paritygate.core.bands import parse_bands
from paritygate.core.dtypes import is_float, limits_of, numpy_dtype
from paritygate.core.policy import DecisionRule, Tolerance

BANDS = (
    "no < 0.5 <= yes",
    "accept < 0.2 <= review <= 0.8 < reject",
    "a <= 0 < b < 0.1 <= c <= 0.2 < d <= 0.7 < e < 1e30 <= f",
    "a < -3e38 <= b < 3e38 <= c",
)
WHOLE = ("no < 2 <= yes", "a <= 1 < b < 3 <= c <= 5 < d")
SPECIAL = (
    np.nan,
    np.nan,
    np.inf,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    5e-324,
    1e-45,
    3e38,
    -3e38,
    0.2,
    0.5,
    0.8,
)
TOLERANCES = (
    Tolerance(),
    Tolerance(1e-6, 1e-6),
    Tolerance(0.05, 0.0),
    Tolerance(0.0, 0.4, nonfinite="match"),
    Tolerance(1e30, 0.999),
)
FLOATS = ("float32", "float64")


@st.composite
def scores(draw: st.DrawFn, dtypes: tuple[str, str], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Scores of both sides: anywhere, or of few values, with some that are special."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    is_whole = not is_float(dtypes[0])
    made = rng.random(shape) * draw(st.sampled_from([1.0, 300.0]))
    if not is_whole:
        made -= draw(st.sampled_from([0.0, 0.5, 2.0]))
    if is_whole or draw(st.booleans()):
        made = np.round(made * draw(st.sampled_from([2, 10]))) / (1 if is_whole else 10)
    noise = rng.normal(size=shape) * draw(st.sampled_from([0.0, 1e-7, 1e-2, 1.0]))
    other = made + (np.round(noise * 2) if is_whole else noise)
    if not is_whole and draw(st.sampled_from([True, True, False])):
        share = draw(st.sampled_from([0.1, 0.4]))
        at = rng.random(shape) < share
        made[at] = rng.choice(SPECIAL, shape)[at]
        if draw(st.booleans()):
            other[at] = made[at]
        else:
            at = rng.random(shape) < share
            other[at] = rng.choice(SPECIAL, shape)[at]
    if draw(st.booleans()):  # rows that are alike
        made[...] = made[:1]
    return tuple(_as(side, dtype) for side, dtype in zip((made, other), dtypes, strict=True))


def _as(values: Any, dtype: str) -> Any:
    if dtype in ("int64", "uint64"):  # among them neighbours that are one float64
        whole = np.abs(values).astype(np.int64)
        return (whole + np.where(whole > 4, 2**53, 0)).astype(dtype)
    if not is_float(dtype):
        low, high = (0, 1) if dtype == "bool" else limits_of(dtype)
        values = np.clip(values, low, high)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(numpy_dtype(dtype))


@st.composite
def cases(draw: st.DrawFn, kind: str, dtypes: tuple[str, str]) -> dict[str, Any]:
    """A rule with its tolerance and scores of some samples."""
    is_whole = not is_float(dtypes[0])
    samples = draw(st.sampled_from([13, 0, 1, 3, 13, 20]))
    texts = WHOLE if is_whole else BANDS if dtypes[0] in FLOATS else BANDS[:2]
    if dtypes[0] == "bool":
        texts = ("no < 1 <= yes",)
    if kind == "bands":
        each = draw(st.sampled_from([None, 0, 3]))
        shape: tuple[int, ...] = () if each is None else (each,)
        given = {
            "bands": parse_bands(draw(st.sampled_from(texts))),
            "elementwise": each is not None,
        }
    else:
        classes = draw(st.sampled_from([2, 3, 4, 9, 17]))
        shape = draw(st.sampled_from([(classes,), (2, classes), (classes, 3)]))
        given = {"axis": 1 if shape[0] == classes else 2}
        if kind == "argmax":
            given["argmax"] = True
        else:
            given["order"] = draw(st.sampled_from(["set", "ranked"]))
            most = classes if given["order"] == "ranked" else classes - 1
            given["topk"] = min(most, draw(st.sampled_from([1, 2, 5, 17])))
        if draw(st.booleans()):
            names = tuple(f"c{k}" for k in range(classes))
            given |= {"ref_labels": names, "cand_labels": (*names[2:], *names[:2])}
    ref, cand = draw(scores(dtypes, (samples, *shape)))
    return {
        "rule": DecisionRule(
            "d", "s", compare_as=draw(st.sampled_from(["output", "float64"])), **given
        ),
        "tolerance": draw(st.sampled_from(TOLERANCES)),
        "stats": draw(st.sampled_from(["gate", "full"])),
        "ref": ref,
        "cand": cand,
        "labelled": draw(st.booleans()),
    }


def comparers(case: dict[str, Any]) -> tuple[DeviceDecisions, DecisionComparer]:
    names = [_name(case[side]) for side in ("ref", "cand")]
    given = case["rule"], case["tolerance"], *names, case["ref"].shape[1:], case["stats"]
    return DeviceDecisions(*given), DecisionComparer(*given)


def _name(array: Any) -> str:
    return str(array.dtype.name)


def labels(comparer: DecisionComparer, samples: int, seed: int) -> Any:
    """A label for each sample, some unknown; None where a sample has several decisions."""
    rng = np.random.default_rng(seed)
    return comparer.truth_codes(rng.integers(-1, len(comparer.names) + 1, samples))


def check(case: dict[str, Any], ordinals: Any, cuts: list[int]) -> None:
    """Decide in batches that begin at `cuts`, and the whole on the CPU."""
    device, host = comparers(case)
    ref, cand = case["ref"], case["cand"]
    truth = labels(host, len(ref), len(cuts)) if case["labelled"] else None
    deciding = device.begin()
    edges = [0, *sorted(cut % (len(ref) + 1) for cut in cuts), len(ref)]
    for start, stop in pairwise(edges):
        own = None if truth is None else truth[start:stop]
        deciding.add(ref[start:stop], cand[start:stop], ordinals[start:stop], own)
    tally, flipped = deciding.finish()
    with np.errstate(invalid="ignore"):
        expected, detail = host.compare(ref, cand, np.asarray(ordinals, np.int64), truth)
    assert tally.to_json() == expected.to_json()
    assert tally == expected
    np.testing.assert_array_equal(flipped.rows, detail.flipped_rows)
    np.testing.assert_array_equal(flipped.margins, detail.flip_margins)
    rows = np.arange(len(ref))
    ours, theirs = device.look_at(rows, ref, cand).told(rows), detail.told(rows)
    assert (ours.ref, ours.cand) == (theirs.ref, theirs.cand)
    np.testing.assert_array_equal(ours.margin, theirs.margin)


def placed(place: Place, case: dict[str, Any]) -> tuple[PlacedComparer, PlacedDecisions]:
    """What compares a case's elements on a GPU, and what decides them there."""
    names = _name(case["ref"]), _name(case["cand"])
    shape, stats = case["ref"].shape[1:], case["stats"]
    return (
        PlacedComparer(place, "s", "s", tolerance_of(case), *names, shape, stats),
        PlacedDecisions(place, "s", case["rule"], tolerance_of(case), names, shape, stats),
    )


def tolerance_of(case: dict[str, Any]) -> Tolerance:
    """That of a case, where elements are compared too."""
    names = _name(case["ref"]), _name(case["cand"])
    other = None if names[0] == names[1] else names[1]
    given = {"atol": 0.0, "rtol": 0.0} if "bool" in names else {}
    return replace(case["tolerance"], candidate_dtype=other, **given)


def check_sent(
    both: tuple[PlacedComparer, PlacedDecisions], case: dict[str, Any], ordinals: Any
) -> None:
    """Decide samples of the host as they are sent for their elements, and on the CPU."""
    elements, decisions = both
    ref, cand = case["ref"], case["cand"]
    names = _name(ref), _name(cand)
    given = tolerance_of(case), *names, ref.shape[1:], case["stats"]
    host = DecisionComparer(case["rule"], *given)
    truth = labels(host, len(ref), len(ref)) if case["labelled"] else None
    sent = decisions.along(ref, cand, ordinals, truth)
    if not len(ref):
        assert sent is None
        return
    assert sent is not None
    counted = elements.compare(ref, cand, ordinals, is_lazy=True, in_order=True, along=[sent])
    with np.errstate(all="ignore"):
        expected, detail = host.compare(ref, cand, ordinals, truth)
        alone = ElementComparer(*given).compare(ref, cand, ordinals, is_lazy=False)
    assert canary.difference(counted, alone) == ""
    found = sent.found()
    assert found is not None
    tally, lazy = found
    assert tally.to_json() == expected.to_json()
    assert tally == expected
    np.testing.assert_array_equal(lazy.flipped_rows, detail.flipped_rows)
    np.testing.assert_array_equal(lazy.flip_margins, detail.flip_margins)
    rows = detail.flipped_rows[:1000]
    with np.errstate(all="ignore"):
        ours, theirs = lazy.told(rows), detail.told(rows)
    assert (ours.ref, ours.cand) == (theirs.ref, theirs.cand)
    np.testing.assert_array_equal(ours.margin, theirs.margin)
