"""Top-k, equality, element-wise bands, other axes, transforms, labels by name, user functions."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive_decisions as naive

from paritygate.comparison.decide.function import DecisionError, Function
from paritygate.comparison.decisions import DecisionComparer
from paritygate.core.bands import parse_bands
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.tally.decision import DecisionTally

YES = "no < 0.5 <= yes"


def comparer(
    shape, dtype="float32", cand=None, tolerance=None, stats="full", function=None, **rule
):
    made = DecisionRule("d", "y", **rule)
    return DecisionComparer(
        made, tolerance or Tolerance(), dtype, cand or dtype, shape, stats, function
    )


def compare(made, ref, cand, truth=None):
    dtypes = made._dtypes
    sides = [
        np.array(side, np.object_ if dtype == "string" else dtype)
        for side, dtype in zip((ref, cand), dtypes, strict=True)
    ]
    return made.compare(*sides, np.arange(len(ref)), truth)


def split_and_merged(made, ref, cand, truth, data):
    """The whole must have the bits of its parts, merged in any order."""
    ordinals = np.arange(len(ref)) + 10
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ref)), max_size=3)))
    spans = list(itertools.pairwise([0, *cuts, len(ref)]))
    parts = [
        made.compare(ref[a:b], cand[a:b], ordinals[a:b], None if truth is None else truth[a:b])[0]
        for a, b in spans
    ]
    merged = reduce(DecisionTally.merge, data.draw(st.permutations(parts)))
    whole, _ = made.compare(ref, cand, ordinals, truth)
    text = json.dumps(whole.to_json(), allow_nan=False)
    assert json.dumps(merged.to_json(), allow_nan=False) == text
    assert json.dumps(DecisionTally.from_json(json.loads(text)).to_json()) == text


# --- top-k ---------------------------------------------------------------------------------------


@st.composite
def ranked_rows(draw):
    dtype = draw(st.sampled_from(("float32", "float64", "int16", "uint64")))
    width = draw(st.integers(2, 6))
    if dtype.startswith("float"):
        element = st.sampled_from((0.0, -0.0, 1.0, 2.0, 5e-324, math.inf, -math.inf, math.nan))
        element = st.sampled_from((0.0, 1.0, 1.5, 2.0, 3.0)) | element
    else:
        element = st.integers(0, 4)
    row = st.lists(element, min_size=width, max_size=width)
    sides = draw(st.lists(st.tuples(row, row), min_size=1, max_size=10))
    return dtype, width, [s[0] for s in sides], [s[1] for s in sides]


@settings(deadline=None)
@given(
    case=ranked_rows(),
    ranked=st.booleans(),
    nonfinite=st.sampled_from(("fail", "match")),
    data=st.data(),
)
def test_topk_equals_the_oracle(case, ranked, nonfinite, data):
    dtype, width, ref, cand = case
    k = data.draw(st.integers(1, width if ranked else width - 1))
    order = "ranked" if ranked else "set"
    made = comparer(
        (width,), dtype, tolerance=Tolerance(0.25, nonfinite=nonfinite), topk=k, order=order
    )
    truth = np.array(data.draw(st.lists(st.integers(-1, width - 1), min_size=len(ref),
                                        max_size=len(ref))), np.int64)  # fmt: skip
    tally, detail = compare(made, ref, cand, truth)
    ref, cand = (np.array(side).astype(dtype).tolist() for side in (ref, cand))
    codes = [(naive.topk(r, k), naive.topk(c, k)) for r, c in zip(ref, cand, strict=True)]
    same = (lambda r, c: r == c) if ranked else (lambda r, c: set(r) == set(c))
    flips = [(nonfinite == "fail") if r[0] == c[0] == -1 else not same(r, c) for r, c in codes]
    assert detail.flipped.tolist() == flips
    assert tally.flips == sum(flips)
    pairs = Counter(pair for r, c in codes for pair in naive.topk_pairs(r, c, ranked))
    assert dict(tally.matrix) == dict(pairs)
    assert tally.undefined_ref == sum(r[0] == -1 for r, _ in codes)
    assert tally.at_risk == sum(naive.topk_at_risk(r, k, ranked, 0.25, 0.0) for r in ref)
    assert (tally.tied_ref, tally.tied_cand) == tuple(
        sum(naive.topk_tied(row, k, ranked) for row in side) for side in (ref, cand)
    )
    np.testing.assert_array_equal(detail.margin, [naive.topk_margin(r, k, ranked) for r in ref])
    known = [t != -1 for t in truth]
    right = [(t in r, t in c) for (r, c), t in zip(codes, truth.tolist(), strict=True)]
    assert tally.labels.correct_ref == sum(r for (r, _), y in zip(right, known, strict=True) if y)
    assert tally.labels.changed_to_wrong == sum(
        r and not c for (r, c), y in zip(right, known, strict=True) if y
    )


@settings(deadline=None)
@given(case=ranked_rows(), ranked=st.booleans(), data=st.data())
def test_topk_split_anywhere_is_the_whole(case, ranked, data):
    dtype, width, ref, cand = case
    made = comparer((width,), dtype, topk=1, order="ranked" if ranked else "set")
    ref, cand = np.array(ref).astype(dtype), np.array(cand).astype(dtype)
    split_and_merged(made, ref, cand, np.arange(len(ref)) % 3 - 1, data)


def test_a_set_keeps_its_members_in_another_order_and_a_ranking_does_not():
    ref, cand = [[3.0, 2.0, 1.0]], [[2.0, 3.0, 1.0]]
    labels = ("cat", "dog", "owl")
    tally, detail = compare(comparer((3,), topk=2, labels=labels), ref, cand)
    assert (tally.flips, detail.tell(0)) == (0, ("cat, dog", "dog, cat"))
    made = comparer((3,), topk=2, order="ranked", labels=labels)
    tally, detail = compare(made, ref, cand)
    assert (tally.flips, detail.tell(0)) == (1, ("cat > dog", "dog > cat"))
    assert tally.figures(made.names, 0.0)["matrix"] == {"cat": {"dog": 1}, "dog": {"cat": 1}}
    made = comparer((3,), topk=2, labels=labels)
    tally, detail = compare(made, ref, [[3.0, 1.0, 2.0]])
    assert (tally.flips, detail.margin.tolist()) == (1, [1.0])
    assert tally.figures(made.names, 0.0)["matrix"] == {"cat": {"cat": 1}, "dog": {"owl": 1}}


def test_topk_at_every_axis_is_topk_of_the_moved_array():
    rng = np.random.default_rng(2)
    ref = rng.integers(0, 5, (6, 4, 3, 2)).astype(np.float32)
    cand = np.where(rng.random(ref.shape) < 0.1, ref + 1, ref).astype(np.float32)
    for axis in (1, 2, 3, -1, -3):
        made = comparer((4, 3, 2), topk=1, axis=axis)
        tally, detail = made.compare(ref, cand, np.arange(6))
        rows = [np.moveaxis(side, axis, -1).reshape(6, -1, ref.shape[axis]) for side in (ref, cand)]
        flips = [
            [naive.topk(r, 1) != naive.topk(c, 1) for r, c in zip(*sample, strict=True)]
            for sample in zip(*(side.tolist() for side in rows), strict=True)
        ]
        assert tally.position_flips == sum(map(sum, flips))
        assert tally.flips == sum(map(any, flips))
        assert detail.flipped.tolist() == [any(f) for f in flips]
        assert tally.positions == rows[0].shape[0] * rows[0].shape[1]


# --- several decisions a sample ------------------------------------------------------------------


scores = st.sampled_from((0.1, 0.49, 0.5, 0.51, 0.9, math.nan, math.inf, -0.0))


@settings(deadline=None)
@given(
    data=st.data(),
    shape=st.sampled_from(((3,), (2, 2), (1,), (0,))),
    nonfinite=st.sampled_from(("fail", "match")),
)
def test_elementwise_bands_equal_the_oracle(data, shape, nonfinite):
    each = math.prod(shape)
    sample = st.lists(scores, min_size=each, max_size=each)
    pairs = data.draw(st.lists(st.tuples(sample, sample), min_size=1, max_size=6))
    sides = [
        np.array([p[s] for p in pairs], np.float32).reshape(len(pairs), *shape) for s in (0, 1)
    ]
    tolerance = Tolerance(0.015, nonfinite=nonfinite)
    made = comparer(shape, tolerance=tolerance, bands=parse_bands(YES), elementwise=True)
    tally, detail = made.compare(*sides, np.arange(len(pairs)))
    ref, cand = (side.reshape(len(pairs), each).tolist() for side in sides)
    codes = [
        [tuple(naive.band(x, [0.5], [True]) for x in pair) for pair in zip(*row, strict=True)]
        for row in zip(ref, cand, strict=True)
    ]
    flips = [[naive.is_flip(*pair, nonfinite) for pair in row] for row in codes]
    assert detail.flipped.tolist() == [any(row) for row in flips]
    assert (tally.samples, tally.positions) == (len(pairs), len(pairs) * each)
    assert (tally.flips, tally.position_flips) == (sum(map(any, flips)), sum(map(sum, flips)))
    assert dict(tally.matrix) == dict(Counter(pair for row in codes for pair in row))
    assert tally.at_risk == sum(
        naive.band_at_risk(r, [0.5], 0.015, 0.0) for row in ref for r in row
    )
    lost = [
        (-naive.band_margin(r, [0.5]), i, p)
        for i, row in enumerate(ref)
        for p, r in enumerate(row)
        if flips[i][p] and not math.isnan(r)
    ]
    widest = tally.flip_margin_max
    assert (widest and (-widest.margin, widest.ordinal, widest.position)) == min(lost, default=None)


@settings(deadline=None)
@given(data=st.data())
def test_elementwise_split_anywhere_is_the_whole(data):
    pairs = data.draw(st.lists(st.tuples(*[scores] * 4), min_size=1, max_size=8))
    values = np.array(pairs, np.float32).reshape(-1, 2, 2)
    made = comparer((2,), bands=parse_bands(YES), elementwise=True)
    split_and_merged(made, values[:, 0], values[:, 1], None, data)


def test_the_flip_with_the_largest_margin_is_told():
    made = comparer((2, 2), bands=parse_bands(YES), elementwise=True)
    ref = [[[0.1, 0.4], [0.9, 0.1]], [[0.1, 0.45], [0.9, 0.1]]]
    cand = [[[0.1, 0.6], [0.1, 0.1]], [[0.1, 0.45], [0.9, 0.1]]]
    tally, detail = compare(made, ref, cand)
    assert detail.tell(0) == ("yes at [1, 0]", "no at [1, 0]")
    assert detail.tell(1) == ("no at [0, 1]", "no at [0, 1]")
    assert (tally.flips, tally.position_flips) == (1, 2)
    assert (tally.flip_margin_max.ordinal, tally.flip_margin_max.position) == (0, 2)


def test_a_segmentation_is_an_argmax_over_the_channels():
    rng = np.random.default_rng(0)
    ref = rng.normal(size=(5, 3, 4, 6)).astype(np.float32)
    cand = ref.copy()
    cand[2, :, 1, 5] = -cand[2, :, 1, 5]
    made = comparer((3, 4, 6), argmax=True, axis=1, labels=("sky", "road", "car"))
    tally, detail = made.compare(ref, cand, np.arange(5))
    changed = [naive.argmax(side[2, :, 1, 5].tolist()) for side in (ref, cand)]
    assert changed[0] != changed[1]
    assert (tally.flips, tally.position_flips, tally.positions) == (1, 1, 5 * 24)
    assert detail.flipped.tolist() == [False, False, True, False, False]
    names = tuple(f"{made.names[code]} at [1, 5]" for code in changed)
    assert detail.tell(2) == names
    assert made.truth_codes(np.array([0, 1, 2])) is None


# --- equality ------------------------------------------------------------------------------------


@settings(deadline=None)
@given(data=st.data(), dtype=st.sampled_from(("int64", "uint64", "int8", "bool", "string")))
def test_equal_values_equal_the_oracle(data, dtype):
    value = {
        "int64": st.sampled_from((-(2**63), -1, 0, 2**53, 2**53 + 1, 2**63 - 1)),
        "uint64": st.sampled_from((0, 1, 2**63, 2**64 - 1)),
        "int8": st.integers(-128, 127),
        "bool": st.booleans(),
        "string": st.sampled_from(("", "a", "A", "undefined", "é", "a\n", "x" * 500, "x" * 501)),
    }[dtype]
    pairs = data.draw(st.lists(st.tuples(value, value), min_size=1, max_size=12))
    ref, cand = [p[0] for p in pairs], [p[1] for p in pairs]
    made = comparer((), dtype, equal=True)
    truth = made.truth_codes(np.array(ref, np.object_)) if dtype != "bool" else None
    tally, detail = compare(made, ref, cand, truth)
    assert detail.flipped.tolist() == [r != c for r, c in pairs]
    assert tally.flips == sum(r != c for r, c in pairs)
    assert sum(tally.matrix.values()) == len(pairs)
    assert sum(n for (r, c), n in tally.matrix.items() if r == c) == len(pairs) - tally.flips
    if truth is not None:
        assert tally.labels.correct_ref == len(pairs)
        assert tally.labels.changed_to_wrong == tally.flips
    figures = tally.figures(made.names, 1.0)
    assert (figures["at_risk"], figures["at_risk_observed"]) == (None, None)
    kind = np.object_ if dtype == "string" else dtype
    split_and_merged(made, np.array(ref, kind), np.array(cand, kind), truth, data)


def test_wide_ids_are_told_apart_unless_the_plan_says_float64():
    ref, cand = [2**53], [2**53 + 1]
    tally, _ = compare(comparer((), "int64", equal=True), ref, cand)
    assert (tally.flips, tally.depends_on_compare_as) == (1, 1)
    tally, _ = compare(comparer((), "int64", equal=True, compare_as="float64"), ref, cand)
    assert (tally.flips, tally.depends_on_compare_as) == (0, 1)


def test_ids_are_compared_by_name_where_each_side_has_labels_of_its_own():
    rule = {"equal": True, "ref_labels": ("cat", "dog"), "cand_labels": ("dog", "cat")}
    made = comparer((), "int64", **rule)
    tally, detail = compare(made, [0, 1, 0, 9], [1, 0, 0, 9])
    assert detail.flipped.tolist() == [False, False, True, True]
    assert detail.tell(2) == ("cat", "dog")
    assert detail.tell(3) == ("9 (no name in ref_labels)", "9 (no name in cand_labels)")
    truth = made.truth_codes(np.array(["cat", "cat", "owl", None], np.object_))
    tally, _ = compare(made, [0, 1, 0, 9], [1, 0, 0, 9], truth)
    assert (tally.labels.labelled, tally.labels.unknown, tally.labels.correct_ref) == (2, 2, 1)


def test_many_different_texts_are_bounded_the_same_for_any_split():
    ref = np.array([f"text {i:06d}" for i in range(6000)], np.object_)
    cand = ref.copy()
    cand[5990:] = "other"
    made = comparer((), "string", equal=True)
    whole, _ = made.compare(ref, cand, np.arange(6000))
    parts = [
        made.compare(ref[a : a + 700], cand[a : a + 700], np.arange(a, min(a + 700, 6000)))[0]
        for a in range(0, 6000, 700)
    ]
    assert reduce(DecisionTally.merge, parts[::-1]).to_json() == whole.to_json()
    assert len(whole.matrix) + whole.other_pairs == 6000
    assert sum(r != c for r, c in whole.matrix) == 10


# --- labels by name ------------------------------------------------------------------------------


@settings(deadline=None)
@given(data=st.data(), kind=st.sampled_from(("argmax", "set", "ranked")), seed=st.integers(0, 99))
def test_permuted_classes_agree_by_name(data, kind, seed):
    names = ("cat", "dog", "owl", "bee")
    order = data.draw(st.permutations(range(4)))
    rows = np.random.default_rng(seed).permuted(np.tile(np.arange(4.0), (5, 1)), axis=1)
    cand = rows[:, order]
    rule = {"argmax": True} if kind == "argmax" else {"topk": 2, "order": kind}
    made = comparer((4,), ref_labels=names, cand_labels=tuple(names[i] for i in order), **rule)
    tally, detail = compare(made, rows, cand)
    assert (tally.flips, made.names) == (0, names)
    by_index, _ = compare(comparer((4,), **rule), rows, cand)
    oracle = {
        "argmax": lambda row: naive.argmax(row),
        "set": lambda row: set(naive.topk(row, 2)),
        "ranked": lambda row: naive.topk(row, 2),
    }[kind]
    assert by_index.flips == sum(
        oracle(r) != oracle(c) for r, c in zip(rows.tolist(), cand.tolist(), strict=True)
    )
    lost = cand.copy()
    lost[0] = np.roll(lost[0], 1)
    changed = [names[order[i]] for i in naive.topk(lost[0].tolist(), 2)]
    meant = [names[i] for i in naive.topk(rows[0].tolist(), 2)]
    differs = {
        "argmax": changed[0] != meant[0],
        "set": set(changed) != set(meant),
        "ranked": changed != meant,
    }[kind]
    tally, detail = compare(made, rows, lost)
    assert detail.flipped[0] == differs


def test_nan_is_undefined_on_the_side_with_an_order_of_its_own():
    made = comparer((2,), argmax=True, ref_labels=("a", "b"), cand_labels=("b", "a"))
    tally, detail = compare(made, [[1, 0], [1, 0]], [[math.nan, 1], [0, 1]])
    assert detail.cand.tolist() == [-1, 0]
    assert tally.flips == 1


# --- transforms ----------------------------------------------------------------------------------


def test_bands_on_a_logit_are_bands_on_its_sigmoid():
    made = comparer((), bands=parse_bands("no < 0.2 <= yes"), transform="sigmoid")
    logit = math.log(0.2 / 0.8)
    tally, detail = compare(made, [logit - 1e-3, logit + 1e-3, 0.0], [logit + 1e-3, 9.0, math.nan])
    assert detail.ref.tolist() == [0, 1, 1]
    assert detail.cand.tolist() == [1, 1, -1]
    assert (tally.flips, tally.at_risk) == (2, None)
    figures = tally.figures(made.names, 0.1)
    assert figures["transform"] == "sigmoid"
    assert "before sigmoid" in figures["not_computed"]["at_risk"]


def test_a_transformed_score_is_compared_in_the_dtype_of_the_output():
    just_below = 0.5 - 1e-9  # float32 0.5 after the sigmoid of a tiny negative logit
    logit = math.log(just_below / (1 - just_below))
    for compare_as, code in (("output", 1), ("float64", 0)):
        made = comparer((), bands=parse_bands(YES), transform="sigmoid", compare_as=compare_as)
        tally, detail = compare(made, [logit], [logit])
        assert detail.ref.tolist() == detail.cand.tolist() == [code]
        assert tally.depends_on_compare_as == 1


def test_elementwise_bands_after_a_softmax_over_an_axis():
    made = comparer((3, 2), bands=parse_bands(YES), elementwise=True, transform="softmax", axis=1)
    ref = np.zeros((1, 3, 2), np.float32)
    ref[0, 0, 0] = 5
    tally, detail = made.compare(ref, np.zeros_like(ref), np.arange(1))
    assert detail.ref.tolist() == [[1, 0, 0, 0, 0, 0]]
    assert (tally.flips, tally.position_flips) == (1, 1)


# --- functions -----------------------------------------------------------------------------------


def by(call, **rule):
    function = Function("rules:decide", call, {})
    return comparer((2,), python="rules:decide", function=function, **rule)


def test_a_function_decides():
    made = by(lambda y: ["big" if row.sum() > 1 else "small" for row in y])
    truth = made.truth_codes(np.array(["big", "small", None], np.object_))
    tally, detail = compare(made, [[1, 1], [0, 0], [1, 1]], [[1, 1], [1, 1], [0, 0]], truth)
    assert detail.flipped.tolist() == [False, True, True]
    assert detail.tell(1) == ("small", "big")
    assert tally.matrix == {("big", "big"): 1, ("big", "small"): 1, ("small", "big"): 1}
    assert (tally.labels.labelled, tally.labels.changed_to_wrong) == (2, 1)
    figures = tally.figures(made.names, 1.0)
    assert figures["depends_on_compare_as"] is None


def test_labels_of_another_type_say_nothing():
    made = comparer((), "int64", equal=True)
    tally, _ = compare(made, [1, 2], [1, 2], made.truth_codes(np.array(["1", "2"], np.object_)))
    assert (tally.labels.labelled, tally.labels.unknown) == (0, 2)
    made = by(lambda y: ["big" if row.sum() > 1 else "small" for row in y])
    truth = made.truth_codes(np.array([1, 0]))
    tally, _ = compare(made, [[1, 1], [0, 0]], [[1, 1], [0, 0]], truth)
    assert (tally.labels.labelled, tally.labels.unknown) == (0, 2)
    made = by(lambda y: [bool(row.sum() > 1) for row in y])
    tally, _ = compare(
        made, [[1, 1], [0, 0]], [[1, 1], [0, 0]], made.truth_codes(np.array([True, True]))
    )
    assert (tally.labels.labelled, tally.labels.correct_ref) == (2, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda y: 1 / 0, "ZeroDivisionError"),
        (lambda y: exit(0), "SystemExit"),
        (lambda y: None, "answered a NoneType"),
        (lambda y: [1] * (len(y) + 1), "3 values for 2 samples"),
        (lambda y: np.zeros((2, 1), int), "answered a list for sample 0"),
        (lambda y: y[:, 0], "answered a float for sample 0"),
        (lambda y: [None, None], "answered a NoneType for sample 0"),
        (lambda y: [1, "a"], "answered int and str"),
        (lambda y: [True, 1], "answered bool and int"),
        (lambda y: y.fill(0), "read-only"),
        (lambda y: [str(v) for v in y[:, 0]] if y[0, 0] else [0, 0], "answers str"),
    ],
)
def test_a_function_that_fails_never_decides(call, words):
    with pytest.raises(DecisionError, match=re.escape(words)):
        compare(by(call), [[1, 1], [1, 1]], [[0, 0], [0, 0]])


def test_equal_numbers_of_different_types_never_meet():
    for answers in ((np.array([1, 2]), [1, 2]), (np.array([True, False]), [True, False])):
        turns = iter(answers)
        tally, _ = compare(by(lambda y, turns=turns: next(turns)), [[1, 1]] * 2, [[1, 1]] * 2)
        assert tally.flips == 0


def test_a_function_is_given_the_dtype_to_compare_in():
    seen = []
    for compare_as in ("output", "float64"):
        function = Function("f", lambda y: seen.append(y.dtype.name) or [0] * len(y), {})
        made = comparer(
            (), "float32", "float64", python="m:f", function=function, compare_as=compare_as
        )
        compare(made, [1.0], [1.0])
    assert seen == ["float32", "float32", "float64", "float64"]


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "dtype", "shape", "words"),
    [
        ({"topk": 3}, "float32", (3,), "a set of all classes can't change; give at most 2"),
        ({"topk": 4, "order": "ranked"}, "float32", (3,), "give at most 3"),
        ({"topk": 1}, "float32", (1,), "at least two classes"),
        ({"topk": 1}, "float32", (), "at least two classes"),
        ({"argmax": True, "axis": 3}, "float32", (3, 2), "axes 0 (the samples) to 2"),
        ({"argmax": True, "axis": -3}, "float32", (3, 2), "axes 0 (the samples) to 2"),
        ({"equal": True}, "float32", (), "a float is decided by bands"),
        ({"equal": True}, "int64", (2,), "equal needs one value a sample"),
        ({"equal": True, "labels": ("a",)}, "bool", (), "labels name class ids"),
        ({"topk": 1, "labels": ("a",)}, "float32", (3,), "1 labels for 3"),
        (
            {"argmax": True, "ref_labels": ("a", "b"), "cand_labels": ("b", "a")},
            "float32",
            (3,),
            "2 labels for 3",
        ),
        ({"python": "m:f"}, "float32", (3,), "wasn't loaded"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(rule, dtype, shape, words):
    with pytest.raises(ValueError, match=re.escape(words)) as refusal:
        comparer(shape, dtype, **rule)
    assert "'d' of output 'y'" in str(refusal.value)
