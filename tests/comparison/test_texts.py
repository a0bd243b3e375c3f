"""Texts are equal or not: counts, the first difference, and no figure of errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.comparison.comparers import make_comparer
from paritygate.comparison.texts import TextComparer
from paritygate.core.policy import Tolerance
from paritygate.core.verdict import rule_names
from paritygate.tally.output import OutputTally
from paritygate.tally.texts import SHOWN

WORDS = st.sampled_from(["cat", "dog", "", "Cat", "cat ", "ca\u0301t", "c\u00e1t", "\u0000", "x"])


def texts(rows, width):
    array = np.empty((len(rows), width), object)
    for i, row in enumerate(rows):
        array[i] = row
    return array


def compare(ref, cand, ordinals=None, stats="full"):
    comparer = make_comparer(Tolerance(), "string", "string", ref.shape[1:], stats)
    ordinals = np.arange(len(ref)) if ordinals is None else np.asarray(ordinals)
    return comparer.compare(ref, cand, ordinals)


@st.composite
def pairs(draw):
    shape = draw(st.integers(0, 6)), draw(st.integers(0, 3))
    rows = st.lists(
        st.lists(WORDS, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    )
    ref, cand = draw(rows), draw(rows)
    keep = draw(st.lists(st.booleans(), min_size=shape[0], max_size=shape[0]))
    cand = [r if k else c for r, c, k in zip(ref, cand, keep, strict=True)]
    return ref, cand, shape[1]


@given(pairs(), st.randoms(use_true_random=False))
def test_every_difference_counts_and_the_first_is_kept(pair, random):
    ref, cand, width = pair
    ordinals = random.sample(range(50), len(ref))
    tally, detail = compare(texts(ref, width), texts(cand, width), ordinals)
    differing = [[j for j in range(width) if r[j] != c[j]] for r, c in zip(ref, cand, strict=True)]
    assert detail.failing_elements.tolist() == [len(d) for d in differing]
    assert [bool(r) for r in detail.rules] == [bool(d) for d in differing]
    assert tally.failing_elements == sum(map(len, differing))
    assert tally.elements == len(ref) * width
    firsts = [(o, d[0], i) for i, (o, d) in enumerate(zip(ordinals, differing, strict=True)) if d]
    if not firsts:
        assert tally.difference is None
        return
    ordinal, index, i = min(firsts)
    assert (tally.difference.ordinal, tally.difference.index) == (ordinal, index)
    assert (tally.difference.ref, tally.difference.cand) == (ref[i][index], cand[i][index])


@given(pairs(), st.data())
def test_split_anywhere_and_merged_in_any_order_is_the_whole(pair, data):
    ref, cand, width = pair
    ref, cand = texts(ref, width), texts(cand, width)
    whole, _ = compare(ref, cand)
    cut = data.draw(st.integers(0, len(ref)))
    parts = [
        compare(ref[p], cand[p], np.arange(len(ref))[p])[0] for p in (slice(cut), slice(cut, None))
    ]
    for left, right in (parts, parts[::-1]):
        stored = OutputTally.from_json(json.loads(json.dumps(left.to_json())))
        assert stored.merge(right) == whole


def test_figures_of_errors_are_null_with_the_reason():
    tally, detail = compare(texts([["cat"], ["dog"]], 1), texts([["cat"], ["dig"]], 1))
    assert rule_names(int(detail.rules[1])) == ["tolerance.exceeded"]
    figures = tally.figures()
    assert figures["first_difference"] == {"ordinal": 1, "index": 0, "ref": "dog", "cand": "dig"}
    for name in ("mean_error", "max_abs_error", "rmse", "sqnr_db", "max_ulp", "finite_pairs"):
        assert figures[name] is None
        assert "texts" in figures["not_computed"][name]
    assert json.loads(json.dumps(figures)) == figures


def test_texts_and_numbers_do_not_merge():
    with pytest.raises(ValueError, match=r"\(texts\).*\(floats\)"):
        OutputTally(text=True).merge(OutputTally())


def test_a_long_text_is_cut_where_it_is_told():
    tally, _ = compare(texts([["a" * 5000]], 1), texts([["a" * 4999]], 1))
    assert tally.difference.ref == "a" * SHOWN + "... (5000 characters)"
    assert tally.failing_elements == 1


@pytest.mark.parametrize("other", [None, 1, 1.5, float("nan"), b"cat"])
def test_what_is_no_text_never_agrees(other):
    both = texts([[other]], 1)
    assert compare(both, both)[0].failing_samples == 1


@pytest.mark.parametrize(
    ("tolerance", "words"),
    [
        (Tolerance(atol=1.0), "strings are judged exactly: found atol 1"),
        (Tolerance(rtol=0.1), "rtol 0.1"),
        (Tolerance(max_abs=1.0), "leave out max_abs"),
        (Tolerance(atol=float("nan")), "atol: found nan"),
    ],
)
def test_tolerances_of_texts_are_refused(tolerance, words):
    with pytest.raises(ValueError, match=words):
        TextComparer(tolerance, "string", "string", (1,), "full")


@pytest.mark.parametrize("other", ["float32", "bool", "int64"])
def test_texts_are_compared_with_texts_alone(other):
    for pair in (("string", other), (other, "string")):
        with pytest.raises(ValueError, match="strings aren't compared with one another"):
            make_comparer(Tolerance(), *pair, (1,), "full")


def test_arrays_other_than_declared_are_refused():
    comparer = TextComparer(Tolerance(), "string", "string", (1,), "full")
    good = texts([["a"]], 1)
    with pytest.raises(ValueError, match=r"candidate: found float64\[1, 1\]"):
        comparer.compare(good, np.zeros((1, 1)), np.arange(1))
    with pytest.raises(ValueError, match=r"reference: found string\[1, 1\]"):
        comparer.compare(good, good, np.arange(2))
