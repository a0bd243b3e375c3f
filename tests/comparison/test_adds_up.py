"""What a GPU may have counted: all that the CPU counts, and nothing that contradicts itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paritygate.comparison.adds_up import what_is_wrong, what_was_not_sent
from paritygate.comparison.details import SampleDetail, Worst
from paritygate.comparison.elements import ElementComparer
from paritygate.core.dtypes import numpy_dtype
from paritygate.core.policy import Tolerance
from paritygate.tally.exact import ExactSum
from paritygate.tally.output import OutputTally

SAMPLES, WIDTH = 12, 5
ROWS = np.arange(70, 70 + SAMPLES)
SPECIAL = (0.0, -0.0, 1.0, 1.001, 9.0, -3.0, 1e-45, 3e38, -3e38, 1e308, -1e308, 5e-324)
NONFINITE = (np.nan, np.inf, -np.inf)
WHOLE = (0, 1, 2, 3, 9, 2**53, 2**53 + 1, 2**62, 2**63 - 1)
FLOATS = ("float16", "float32", "float64")
TOLERANCES = (
    Tolerance(),
    Tolerance(1e-3, 1e-3),
    Tolerance(1e-3, 1e-3, nonfinite="match", max_outlier_fraction=0.4),
    Tolerance(0.5, 0.0, max_abs=0.25),
    Tolerance(1e-3, 0.9, max_abs=2.0, max_outlier_fraction=0.2),
    Tolerance(1e308, 0.9),
)
Change = Callable[[OutputTally, SampleDetail], tuple[OutputTally, SampleDetail]]


def of_dtype(values: Any, dtype: str) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype in FLOATS:
            return np.array(values, numpy_dtype(dtype))
        top = np.iinfo(dtype).max
        return np.array([[min(int(v), top) for v in row] for row in values], numpy_dtype(dtype))


@settings(max_examples=120)
@given(
    data=st.data(),
    dtype=st.sampled_from([*FLOATS, "int8", "int32", "int64", "uint64"]),
    tolerance=st.sampled_from(TOLERANCES),
    stats=st.sampled_from(["gate", "full"]),
    width=st.sampled_from([1, 3, 17]),
)
def test_what_the_cpu_counts_adds_up(
    data: st.DataObject, dtype: str, tolerance: Tolerance, stats: Any, width: int
) -> None:
    some = st.sampled_from((*SPECIAL, *NONFINITE, *SPECIAL) if dtype in FLOATS else WHOLE)
    samples = data.draw(st.integers(1, 4))
    rows = st.lists(st.lists(some, min_size=width, max_size=width), min_size=samples)
    ref, cand = (of_dtype(data.draw(rows)[:samples], dtype) for _ in range(2))
    kept = data.draw(st.sampled_from([0, 1, 2]))
    cand = ref if kept == 0 else np.where(np.arange(width) % 3 < kept, ref, cand)
    comparer = ElementComparer(tolerance, dtype, dtype, (width,), stats)
    ordinals = data.draw(st.permutations(range(samples)))
    order = np.array(ordinals, np.int64) + 2**40
    found = comparer.compare(ref, cand, order)
    assert what_is_wrong(comparer, found, order) == ""
    assert what_was_not_sent(comparer, found, (ref, cand), order) == ""


def counted(kind: str, tolerance: Tolerance, stats: Any = "gate", dtype: str = "float32") -> Any:
    rng = np.random.default_rng(3)
    ref = rng.normal(size=(SAMPLES, WIDTH)) * 3
    cand = ref * (1 + 1e-5 * rng.normal(size=ref.shape))
    if kind == "far":
        cand[3:10, 1] += 9
        cand[5, 3] -= 20
    if kind == "broken":
        cand[4, 1], cand[6, 0], ref[7, 2], cand[7, 2] = np.nan, np.inf, np.inf, 3.0
    comparer = ElementComparer(tolerance, dtype, dtype, (WIDTH,), stats)
    with np.errstate(invalid="ignore"):
        sides = ref.astype(dtype), cand.astype(dtype)
    tally, detail = comparer.compare(*sides, ROWS)
    assert what_is_wrong(comparer, (tally, detail), ROWS) == ""
    assert what_is_wrong(comparer, (tally, detail), range(70, 70 + SAMPLES)) == ""
    assert detail.rows.size > 2
    return comparer, tally, detail


def worst_with(detail: SampleDetail, **changed: Any) -> SampleDetail:
    worst = detail.worst.of(detail.rows)
    return replace(detail, worst=replace(worst, **changed))


def unlisted(tally: OutputTally, detail: SampleDetail) -> tuple[OutputTally, SampleDetail]:
    none = replace(detail, rows=detail.rows[:0], counts=detail.counts[:0], bits=detail.bits[:0])
    return replace(tally, failing_elements=0, failing_samples=0), none


CHANGES: dict[str, Change] = {
    "no rule": lambda t, d: (replace(t, failing_samples=0), replace(d, bits=d.bits * 0)),
    "half of the rules": lambda t, d: (
        replace(t, failing_samples=2),
        replace(d, bits=d.bits * (np.arange(d.bits.size) < 2).astype(np.uint8)),
    ),
    "rules that aren't counted": lambda t, d: (replace(t, failing_samples=0), d),
    "unknown rules": lambda t, d: (t, replace(d, bits=d.bits | np.uint8(128))),
    "no failing sample": unlisted,
    "too many failing elements": lambda t, d: (
        replace(t, failing_elements=int((d.counts + 9).sum())),
        replace(d, counts=d.counts + np.uint32(9)),
    ),
    "no worst elements": lambda t, d: (
        t,
        worst_with(d, excess=np.zeros(d.rows.size), error=np.zeros(d.rows.size)),
    ),
    "NaN for worst elements": lambda t, d: (
        t,
        worst_with(d, excess=np.full(d.rows.size, np.nan), error=np.full(d.rows.size, np.nan)),
    ),
    "worst elements beyond the sample": lambda t, d: (
        t,
        worst_with(d, index=np.full(d.rows.size, WIDTH)),
    ),
}


@pytest.mark.parametrize("kind", ["far", "broken"])
@pytest.mark.parametrize("name", CHANGES)
def test_lists_that_contradict_the_counts_are_noticed(name: str, kind: str) -> None:
    comparer, tally, detail = counted(kind, Tolerance(1e-3, 1e-3))
    assert what_is_wrong(comparer, CHANGES[name](tally, detail), ROWS)


@pytest.mark.parametrize("kind", ["far", "broken"])
@pytest.mark.parametrize("name", ["no rule", "no failing sample", "unknown rules"])
def test_they_are_beside_outliers_and_a_cap_too(name: str, kind: str) -> None:
    tolerance = Tolerance(1e-3, 1e-3, max_abs=0.5, max_outlier_fraction=0.4)
    comparer, tally, detail = counted(kind, tolerance)
    assert what_is_wrong(comparer, CHANGES[name](tally, detail), ROWS)


def test_outliers_that_are_tolerated_break_no_rule() -> None:
    comparer, tally, detail = counted("far", Tolerance(1e-3, 1e-3, max_outlier_fraction=0.4))
    assert tally.failing_samples == 0
    listed = replace(detail, bits=detail.bits | np.uint8(1))
    changed = replace(tally, failing_samples=detail.rows.size), listed
    assert "of which 2 are tolerated" in what_is_wrong(comparer, changed, ROWS)


def extreme_with(name: str, **changed: Any) -> Change:
    def change(tally: OutputTally, detail: SampleDetail) -> tuple[OutputTally, SampleDetail]:
        at = replace(getattr(tally, name), **changed)
        return replace(tally, **{name: at}), detail

    return change


@pytest.mark.parametrize("name", ["max_abs_error", "max_excess"])
@pytest.mark.parametrize(
    "changed",
    [
        {"ordinal": 0},
        {"ordinal": 82},
        {"index": WIDTH},
        {"ref": 0.0, "cand": 0.0},
        {"keys": (0.0, 0.0)},
    ],
)
def test_extremes_that_are_of_no_element_are_noticed(name: str, changed: Any) -> None:
    comparer, tally, detail = counted("far", Tolerance(1e-3, 1e-3))
    assert what_is_wrong(comparer, extreme_with(name, **changed)(tally, detail), ROWS)


@pytest.mark.parametrize(
    "changed",
    [
        {"max_abs_error": None, "max_excess": None},
        {"abs_errors": ExactSum()},
        {"abs_errors": ExactSum(1 << 1090)},
        {"errors": ExactSum(-(1 << 1085))},
        {"errors": ExactSum(0, 1)},
        {"at_limits": (0, 0, 61, 0)},
        {"ref_beyond_cand_range": -1},
        {"ulp_undefined": 61},
        {"sqnr_undefined": 13},
        {"classes": (0,) * 16},
        {"samples": SAMPLES - 1},
    ],
)
def test_counts_and_sums_that_cant_be_are_noticed(changed: Any) -> None:
    comparer, tally, detail = counted("far", Tolerance(1e-3, 1e-3), "full")
    assert what_is_wrong(comparer, (replace(tally, **changed), detail), ROWS)


def test_the_sample_with_the_largest_excess_is_listed_with_it() -> None:
    comparer, tally, detail = counted("far", Tolerance(1e-3, 1e-3))
    worst = detail.worst.of(detail.rows)
    top = int(worst.excess.argmax())
    less = worst.excess.copy()
    less[top] = 1.5
    told = what_is_wrong(comparer, (tally, worst_with(detail, excess=less)), ROWS)
    assert told == "the sample that has its largest excess isn't listed with it"
    left = np.arange(detail.rows.size) != top
    kept = SampleDetail(
        SAMPLES, detail.rows[left], detail.bits[left], detail.counts[left],
        Worst(detail.rows[left], worst.index[left], worst.excess[left], worst.error[left]),
    )  # fmt: skip
    fewer = replace(tally, failing_elements=int(kept.counts.sum()), failing_samples=kept.rows.size)
    assert what_is_wrong(comparer, (fewer, kept), ROWS) == told


def test_rules_of_values_that_arent_finite_are_held_against_classes() -> None:
    comparer, tally, detail = counted("broken", Tolerance(1e-3, 1e-3))
    for bits in (4, 8, 16, 1):
        changed = replace(detail, bits=np.full_like(detail.bits, bits))
        assert what_is_wrong(comparer, (tally, changed), ROWS)


def test_a_histogram_that_lacks_errors_is_noticed() -> None:
    comparer, tally, detail = counted("far", Tolerance(1e-3, 1e-3), "full")
    none = replace(tally, histogram=type(tally.histogram)())
    told = what_is_wrong(comparer, (none, detail), ROWS)
    assert told == "its histogram doesn't hold all errors"


def test_an_error_over_the_cap_that_nobody_lists_is_noticed() -> None:
    comparer, tally, detail = counted("far", Tolerance(1e3, 0.0, max_abs=0.1))
    told = what_is_wrong(comparer, unlisted(tally, detail), ROWS)
    assert told.endswith("and lists 0 failing elements")
    exceeded = replace(detail, bits=np.full_like(detail.bits, 1))
    assert "no samples above the cap" in what_is_wrong(comparer, (tally, exceeded), ROWS)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_values_that_were_not_sent_are_noticed(dtype: str) -> None:
    whole = np.arange(SAMPLES * WIDTH).reshape(SAMPLES, WIDTH) % 3 > 0
    ref = whole.astype(numpy_dtype(dtype))
    cand = (~whole).astype(numpy_dtype(dtype))
    comparer = ElementComparer(Tolerance(), dtype, dtype, (WIDTH,), "full")
    found = comparer.compare(ref, cand, ROWS)
    assert what_was_not_sent(comparer, found, (ref, cand), ROWS) == ""
    assert what_was_not_sent(comparer, found, (object(), object()), ROWS) == ""
    assert "and was sent" in what_was_not_sent(comparer, found, (cand, object()), ROWS)
    assert "and was sent" in what_was_not_sent(comparer, found, (ref, ref), ROWS)


@pytest.mark.parametrize("bad", [9.0, np.nan])
def test_samples_that_dont_fail_as_they_are_listed_are_noticed(bad: float) -> None:
    ref = np.ones((SAMPLES, WIDTH), np.float32)
    cand = ref.copy()
    cand[4, 2] = bad
    comparer = ElementComparer(Tolerance(), "float32", "float32", (WIDTH,), "gate")
    tally, detail = comparer.compare(ref, cand, ROWS)
    assert what_was_not_sent(comparer, (tally, detail), (ref, cand), ROWS) == ""
    worst = detail.worst.of(detail.rows)
    moved = replace(detail, rows=detail.rows - 1, worst=replace(worst, rows=detail.rows - 1))
    told = what_was_not_sent(comparer, (tally, moved), (ref, cand), ROWS)
    assert told == "the worst elements of samples that it lists have other errors"
