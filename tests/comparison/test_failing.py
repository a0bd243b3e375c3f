"""Whatever samples fail, and for whatever reason: the same bits as element by element."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paritygate.comparison import elements as comparison
from paritygate.comparison import looks, scan, work
from paritygate.comparison.details import NOT_LOOKED, SampleDetail, Worst
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.marks import Marks
from paritygate.core.policy import Tolerance
from paritygate.core.verdict import SAMPLE_RULES

STRETCH, TILE = 48, 200
DETAIL = ("rules", "failing_elements", "worst_index", "worst_excess", "worst_error")
NAN, INF = float("nan"), float("inf")
KINDS = {
    "none": (),
    "nan": ((NAN, NAN), (NAN, 1.0), (1.0, NAN)),
    "inf": ((INF, INF), (-INF, -INF), (INF, -INF), (INF, 1.0), (1.0, -INF)),
    "both": ((NAN, NAN), (INF, NAN), (NAN, -INF), (INF, INF), (0.0, INF)),
    "huge": ((3.4e38, -3.4e38), (1e38, 1e38), (-3.4e38, 3.4e38)),
}


@pytest.fixture(autouse=True)
def many_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few elements a stretch that a small array has many of them."""
    monkeypatch.setattr(scan, "STRETCH", STRETCH)
    monkeypatch.setattr(scan, "_PART", 4 * STRETCH)
    monkeypatch.setattr(comparison, "_TILE", TILE)
    monkeypatch.setattr(looks, "_TILE", STRETCH)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any, Tolerance, Any]:
    """Values of both sides, where some samples fail or aren't finite."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    width = draw(st.sampled_from([1, 2, 3, 7, 8, 16, 17, 100]))
    count = draw(st.integers(1, 400 // width + 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ref = np.round(rng.normal(size=(count, width)) * 4, draw(st.integers(0, 7))).astype(dtype)
    if draw(st.booleans()):
        ref[rng.random(ref.shape) < 0.3] = 0.0
    cand = ref.copy()
    share = draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))
    of_it = draw(st.sampled_from([0.1, 0.6, 1.0]))
    fails = (rng.random(count) < share)[:, None] & (rng.random(ref.shape) < of_it)
    same = draw(st.booleans())
    cand[fails] += dtype(0.5) if same else rng.choice([0.25, 0.5, 3.0, -0.5], fails.sum())
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    broken = np.flatnonzero(rng.random(count) < draw(st.sampled_from([0.02, 0.4, 1.0])))
    for i in broken.tolist() if kind else []:
        place = rng.integers(0, width, draw(st.integers(1, 2)))
        ref[i, place], cand[i, place] = kind[rng.integers(len(kind))]
    tolerance = Tolerance(
        atol=draw(st.sampled_from([0.0, 0.25, 0.3])),
        rtol=draw(st.sampled_from([0.0, 1e-3, 0.25])),
        nonfinite=draw(st.sampled_from(["fail", "match"])),
        max_abs=draw(st.sampled_from([None, 0.4, 0.1, 0.5])),
        max_outlier_fraction=draw(st.sampled_from([0.0, 0.3])),
    )
    return ref, cand, tolerance, draw(st.sampled_from(["gate", "full"]))


@st.composite
def integer_cases(draw: st.DrawFn) -> tuple[Any, Any, Tolerance, Any]:
    """The same of integers, out to the ends of their dtype."""
    dtype = np.dtype(draw(st.sampled_from([np.int8, np.uint16, np.int64, np.uint64])))
    width = draw(st.sampled_from([1, 3, 16, 100]))
    count = draw(st.integers(1, 400 // width + 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ends = np.iinfo(dtype)
    wide = rng.integers(ends.min, ends.max, (count, width), dtype, endpoint=True)
    ref = wide if draw(st.booleans()) else (wide % dtype.type(50)).astype(dtype)
    cand = ref.copy()
    fails = rng.random(count) < draw(st.sampled_from([0.02, 0.4, 1.0]))
    fails = fails[:, None] & (rng.random(ref.shape) < draw(st.sampled_from([0.1, 1.0])))
    cand[fails] ^= rng.choice(np.array([1, 2, 3, 64, ends.max], dtype), int(fails.sum()))
    tolerance = Tolerance(
        atol=draw(st.sampled_from([0.0, 1.0, 2.5])),
        rtol=draw(st.sampled_from([0.0, 0.1])),
        max_abs=draw(st.sampled_from([None, 2.0, 0.5])),
        max_outlier_fraction=draw(st.sampled_from([0.0, 0.3])),
    )
    return ref, cand, tolerance, draw(st.sampled_from(["gate", "full"]))


def comparer(ref: Any, cand: Any, tolerance: Tolerance, stats: Any) -> ElementComparer:
    return ElementComparer(tolerance, ref.dtype.name, cand.dtype.name, ref.shape[1:], stats)


def plain(value: float, count: int = 40, width: int = 3) -> Any:
    return np.full((count, width), value, np.float32)


def tied_far_apart() -> Any:
    """Two elements of one excess in two stretches; the second has the larger error."""
    ref, cand = np.ones((6, 16)), np.ones((6, 16))
    ref[0, 5], cand[0, 5] = 100, 110
    ref[1, 3], cand[1, 3] = 1, 1.5
    ref[5, 2], cand[5, 2] = 2, 3
    return ref, cand, Tolerance(0.0, 0.25), "gate"


@settings(max_examples=300, deadline=None)
@example(tied_far_apart())
@example((plain(0), plain(0.5), Tolerance(1.0, 0.0, max_abs=0.5), "gate"))  # at the cap
@given(cases())
@example((plain(0), plain(1), Tolerance(0.0, 0.0), "gate"))  # every excess is infinite
@example((plain(0), plain(INF), Tolerance(0.0, 0.0), "full"))
@example((plain(NAN), plain(NAN), Tolerance(0.0, 0.0, nonfinite="match"), "full"))
@example((plain(3e38, 40, 1), plain(-3e38, 40, 1), Tolerance(0.0, 0.9), "full"))
def test_failing_samples_are_counted_as_element_by_element(case: Any) -> None:
    ref, cand, *_ = case
    judge, ordinals = comparer(*case), np.arange(len(ref)) * 2 + 3
    slow, all_details = judge.compare(ref, cand, ordinals)
    fast, details = judge.compare(ref, cand, ordinals, is_lazy=True, in_order=True)
    assert fast.to_json() == slow.to_json()
    assert (details.counts > 0).all()
    rows, rules = details.failed()
    np.testing.assert_array_equal(rows, np.flatnonzero(all_details.rules))
    np.testing.assert_array_equal(rules, all_details.rules[rows])
    judge.look_at(details, rows, ref, cand)
    assert (details.worst_index == NOT_LOOKED).sum() == len(ref) - len(rows)
    judge.look_at(details, np.arange(len(ref)), ref, cand)
    for name in DETAIL:
        np.testing.assert_array_equal(getattr(details, name), getattr(all_details, name), name)
    assert [details.failing_of(i) for i in range(len(ref))] == details.failing_elements.tolist()


@settings(max_examples=150, deadline=None)
@given(integer_cases())
def test_failing_samples_of_integers_are_counted_as_element_by_element(case: Any) -> None:
    ref, cand, *_ = case
    judge, ordinals = comparer(*case), np.arange(len(ref)) * 2 + 3
    slow, all_details = judge.compare(ref, cand, ordinals)
    fast, details = judge.compare(ref, cand, ordinals, is_lazy=True)
    assert fast.to_json() == slow.to_json()
    judge.look_at(details, np.arange(len(ref)), ref, cand)
    for name in DETAIL:
        np.testing.assert_array_equal(getattr(details, name), getattr(all_details, name), name)


@settings(max_examples=60, deadline=None)
@given(cases(), st.lists(st.integers(0, 400), max_size=3), st.randoms(use_true_random=False))
def test_parts_in_any_order_merge_to_the_whole(case: Any, cuts: list[int], random: Any) -> None:
    ref, cand, *_ = case
    judge, ordinals = comparer(*case), np.arange(len(ref))
    whole, _ = judge.compare(ref, cand, ordinals, is_lazy=True)
    ends = [0, *sorted(min(c, len(ref)) for c in cuts), len(ref)]
    parts = [slice(*pair) for pair in itertools.pairwise(ends)]
    random.shuffle(parts)
    tallies = [
        judge.compare(ref[p], cand[p], ordinals[p], is_lazy=True, in_order=True)[0] for p in parts
    ]
    merged = tallies[0]
    for tally in tallies[1:]:
        merged = merged.merge(tally)
    assert merged.to_json() == whole.to_json()


def test_wide_samples_that_fail_and_others_of_another_byte_order() -> None:
    rng = np.random.default_rng(3)
    ref = rng.normal(size=(9, 1000)).astype(np.float32)
    cand = ref.copy()
    cand[4, 100:900:7] += 1
    cand[7, 3], ref[7, 999] = NAN, INF
    judge = comparer(ref, cand, Tolerance(1e-3, 0.0), "full")
    slow, all_details = judge.compare(ref, cand, np.arange(9))
    swapped = [side.astype(">f4") for side in (ref, cand)]
    fast, details = judge.compare(*swapped, np.arange(9), is_lazy=True)
    judge.look_at(details, np.arange(9), *swapped)
    assert fast.to_json() == slow.to_json()
    for name in DETAIL:
        np.testing.assert_array_equal(getattr(details, name), getattr(all_details, name), name)


def test_half_precision_of_another_byte_order_is_read() -> None:
    ref = np.ones((9, 3), np.float16)
    cand = ref.copy()
    cand[4, 1], cand[7, 2] = 2, 3
    swapped = [side.astype(">f2") for side in (ref, cand)]
    judge = ElementComparer(Tolerance(0.5, 0.0), "float16", "float16", (3,), "full")
    tally, details = judge.compare(*swapped, np.arange(9), is_lazy=True)
    judge.look_at(details, np.arange(9), *swapped)
    assert tally.failing_samples == 2
    assert details.worst_error[[4, 7]].tolist() == [1.0, 2.0]


def test_what_is_beside_a_value_that_is_not_finite_is_not_judged_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ref = np.ones((200, 3), np.float32)
    ref[::10, 1] = NAN
    judged: list[int] = []
    judge = comparer(ref, ref, Tolerance(0.0, 0.0, nonfinite="match"), "full")
    whole = work.Work.judge
    monkeypatch.setattr(
        work.Work,
        "judge",
        lambda own, start, stop: (judged.append(stop - start), whole(own, start, stop))[0],
    )
    tally, _ = judge.compare(ref, ref.copy(), np.arange(200), is_lazy=True)
    assert sum(judged) == 20
    assert (tally.samples, tally.failing_samples, tally.agreeing_nonfinite) == (200, 0, 20)


RULES = sorted(SAMPLE_RULES)
MARKS = st.lists(
    st.tuples(st.sampled_from(RULES), st.sampled_from("ab"), st.sets(st.integers(0, 99))),
    max_size=5,
)


@given(MARKS, st.sampled_from([100, 100_000]))
def test_marks_are_those_of_single_samples(marks: list[Any], samples: int) -> None:
    made = Marks(samples)
    rules: dict[int, int] = {}
    subjects: dict[tuple[str, str], set[int]] = {}
    for rule, subject, rows in marks:
        made.add(rule, subject, np.array(sorted(rows), np.int64))
        for row in rows:
            rules[row] = rules.get(row, 0) | SAMPLE_RULES[rule]
            subjects.setdefault((rule, subject), set()).add(row)
    rows, bits = made.failed()
    assert list(zip(rows.tolist(), bits.tolist(), strict=True)) == sorted(rules.items())
    assert {k: v.tolist() for k, v in made.subjects.items()} == {
        k: sorted(v) for k, v in subjects.items()
    }


def test_parts_of_a_block_are_joined_with_their_worst_elements() -> None:
    def part(rules: list[int]) -> SampleDetail:
        n = len(rules)
        found = np.array(rules, np.int64)
        return SampleDetail.of_all(found, found * 2, np.arange(n), np.ones(n), np.zeros(n) + n)

    joined = SampleDetail.joined(
        [(np.array([1, 4, 5]), part([1, 0, 3])), (np.array([0, 3]), part([0, 8]))], 6
    )
    assert joined.rules.tolist() == [0, 1, 0, 8, 0, 3]
    assert joined.failing_elements.tolist() == [0, 2, 0, 16, 0, 6]
    assert joined.worst_index.tolist() == [0, 0, NOT_LOOKED, 1, 1, 2]
    assert joined.worst_error.tolist() == [2, 3, 0, 2, 3, 3]
    worst = Worst(np.array([2]), np.array([7]), np.array([9.0]), np.array([8.0]))
    joined.looked_at(worst)
    assert joined.worst_index.tolist() == [0, 0, 7, 1, 1, 2]


def test_room_is_written_over_only_once_nothing_refers_to_it() -> None:
    judge = ElementComparer(Tolerance(0.5, 0.0), "float32", "float32", (1,), "gate")
    zeros, ones = plain(0, 5000, 1), plain(1, 5000, 1)

    def failing(cand: Any) -> SampleDetail:
        return judge.compare(zeros, cand, np.arange(5000), is_lazy=True, in_order=True)[1]

    first = failing(ones)
    place, part = first.rows.ctypes.data, first.rows[4000:]
    del first
    few = ones.copy()
    few[:1000] = 0
    second = failing(few)
    assert second.rows.ctypes.data != place
    assert part.tolist() == list(range(4000, 5000))
    assert second.rows.tolist() == list(range(1000, 5000))
    del part
    third = failing(ones)
    assert third.rows.ctypes.data == place  # else each block would have pages to be mapped
    assert second.rows.tolist() == list(range(1000, 5000))


@pytest.mark.parametrize("cap", [None, 0.4])
def test_a_worse_excess_is_found_where_few_samples_fail_or_none_by_the_tolerance(cap: Any) -> None:
    count = 50 * STRETCH
    ref, cand = np.full((2, count, 1), 1000.0, np.float32)
    fails = np.arange(7, count, STRETCH // 2)
    cand[fails] = 999.0
    worst = fails + 5 if cap else fails
    ref[worst] = 1.0
    cand[worst] = 1.0 + 0.002 * np.arange(1, len(fails) + 1, dtype=np.float32)[:, None]
    ref[3], cand[3] = 1000.0, 950.0  # the largest error
    rtol = 0.25 if cap else 0.001
    judge = comparer(ref, cand, Tolerance(0.0, rtol, max_abs=cap), "gate")
    fast, _ = judge.compare(ref, cand, np.arange(count), is_lazy=True, in_order=True)
    slow, _ = judge.compare(ref, cand, np.arange(count))
    assert fast.to_json() == slow.to_json()
    assert fast.max_excess is not None
    assert fast.max_excess.ordinal == worst[-1]
    assert fast.failing_samples == len(fails) + 1
