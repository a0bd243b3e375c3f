"""Decisions of whole outputs: flips, ties at edges, compare_as, labels, refusals."""

from __future__ import annotations

import itertools
import json
import math
import re
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive_decisions as naive

from paritygate.comparison.decisions import DecisionComparer
from paritygate.core.bands import parse_bands
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.tally.decision import DecisionTally, MarginAt

THREE = "accept < 0.2 <= review <= 0.8 < reject"
THREE_OTHER_TIES = "accept <= 0.2 < review < 0.8 <= reject"
ZERO = Tolerance()


def bands_comparer(text=THREE, ref="float32", cand=None, tolerance=ZERO, stats="full", **rule):
    made = DecisionRule("disposition", "score", bands=parse_bands(text), **rule)
    return DecisionComparer(made, tolerance, ref, cand or ref, (), stats)


def argmax_comparer(classes=3, ref="float32", cand=None, tolerance=ZERO, stats="full", **rule):
    made = DecisionRule("class", "logits", argmax=True, **rule)
    return DecisionComparer(made, tolerance, ref, cand or ref, (classes,), stats)


def compare(comparer, ref, cand, dtypes=("float32", "float32"), truth=None):
    with np.errstate(over="ignore"):
        ref, cand = np.array(ref).astype(dtypes[0]), np.array(cand).astype(dtypes[1])
    return comparer.compare(ref, cand, np.arange(len(ref)), truth)


# --- threshold crossings and ties ----------------------------------------------------------------


@pytest.mark.parametrize("text", [THREE, THREE_OTHER_TIES])
def test_close_scores_on_both_sides_of_an_edge_flip(text):
    comparer = bands_comparer(text, tolerance=Tolerance(1e-6, 1e-5))
    tally, detail = compare(comparer, [0.1999999, 0.8000001], [0.2000001, 0.7999999])
    assert detail.ref.tolist() == [0, 2]
    assert detail.cand.tolist() == [1, 1]
    assert detail.flipped.tolist() == [True, True]
    assert (tally.flips, tally.at_risk) == (2, 2)
    assert tally.matrix == {(0, 1): 1, (2, 1): 1}


@pytest.mark.parametrize(
    ("text", "codes"), [(THREE, [1, 1]), (THREE_OTHER_TIES, [0, 2])], ids=["inwards", "outwards"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_score_equal_to_an_edge_falls_where_the_rule_says(text, codes, dtype):
    comparer = bands_comparer(text, ref=dtype)
    tally, detail = compare(comparer, [0.2, 0.8], [0.2, 0.8], (dtype, dtype))
    assert detail.ref.tolist() == detail.cand.tolist() == codes
    assert [sides.on for sides in tally.edges] == [1, 1]
    assert detail.margin.tolist() == [0.0, 0.0]


def test_one_step_beside_an_edge():
    edge = np.float32(0.2)
    below, above = np.nextafter(edge, [np.float32(-1), np.float32(1)])
    _, detail = compare(bands_comparer(), [below, edge, above], [below, edge, above])
    assert detail.ref.tolist() == [0, 1, 1]
    _, detail = compare(bands_comparer(THREE_OTHER_TIES), [below, edge, above], [above] * 3)
    assert detail.ref.tolist() == [0, 0, 1]


def test_compare_as_float64_makes_the_tie_rule_of_float32_scores_dead():
    as_output = bands_comparer(THREE_OTHER_TIES)
    as_float64 = bands_comparer(THREE_OTHER_TIES, compare_as="float64")
    assert float(np.float32(0.2)) > 0.2
    for comparer, code in ((as_output, 0), (as_float64, 1)):
        tally, detail = compare(comparer, [0.2, 0.1], [0.2, 0.1])
        assert detail.ref.tolist() == [code, 0]
        assert tally.depends_on_compare_as == 1
    tally, _ = compare(as_output, [0.1, 0.3], [0.1, 0.3])
    assert tally.depends_on_compare_as == 0


def test_a_wider_candidate_is_rounded_to_the_dtype_of_the_reference():
    just_below = np.nextafter(np.float64(np.float32(0.8)), 0)  # rounds to float32(0.8)
    dtypes = ("float32", "float64")
    text = "accept < 0.8 <= reject"
    tally, detail = compare(
        bands_comparer(text, *dtypes, compare_as="output"), [0.8], [just_below], dtypes
    )
    assert (detail.cand.tolist(), tally.flips, tally.depends_on_compare_as) == ([1], 0, 0)
    text = "accept < 0.5 <= reject"
    just_below = np.nextafter(np.float64(0.5), 0)
    for compare_as, code in (("output", 1), ("float64", 0)):
        comparer = bands_comparer(text, *dtypes, compare_as=compare_as)
        tally, detail = compare(comparer, [0.5], [just_below], dtypes)
        assert detail.cand.tolist() == [code]
        assert tally.flips == 1 - code
        assert tally.depends_on_compare_as == 1


def test_argmax_of_a_wider_candidate_ties_where_the_product_would():
    dtypes = ("float32", "float64")
    row = [1.0, 1.0 + 1e-12]
    for compare_as, code in (("output", 0), ("float64", 1)):
        comparer = argmax_comparer(2, *dtypes, compare_as=compare_as)
        tally, detail = compare(comparer, [[2, 1]], [row], dtypes)
        assert detail.cand.tolist() == [code]
        assert (tally.tied_cand, tally.depends_on_compare_as) == (1 - code, 1)


def test_argmax_of_large_integers():
    row = [2**60, 2**60 + 1]
    tally, detail = compare(argmax_comparer(2, "int64"), [row], [row], ("int64", "int64"))
    assert detail.ref.tolist() == [1]
    assert (tally.tied_ref, tally.depends_on_compare_as) == (0, 1)
    comparer = argmax_comparer(2, "int64", compare_as="float64")
    tally, detail = compare(comparer, [row], [row], ("int64", "int64"))
    assert detail.ref.tolist() == [0]
    assert (tally.tied_ref, tally.depends_on_compare_as) == (1, 1)


def test_integer_scores():
    comparer = bands_comparer("low < 0 <= mid <= 10 < high", ref="int8")
    dtypes = ("int8", "int8")
    tally, detail = compare(comparer, [-128, -1, 0, 10, 11, 127], [0] * 6, dtypes)
    assert detail.ref.tolist() == [0, 0, 1, 1, 2, 2]
    assert tally.depends_on_compare_as == 0
    comparer = bands_comparer(f"low < {2**53 - 1} <= high", ref="int64")
    huge = [2**53 - 2, 2**53 - 1, 2**53, 2**63 - 1]
    _, detail = compare(comparer, huge, huge, ("int64", "int64"))
    assert detail.ref.tolist() == [0, 1, 1, 1]


def test_bools_can_be_scores():
    comparer = bands_comparer("no < 1 <= yes", ref="bool")
    tally, detail = compare(comparer, [True, False], [True, True], ("bool", "bool"))
    assert detail.ref.tolist() == [1, 0]
    assert tally.flips == 1


# --- non-finite ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("nonfinite", "flips"), [("fail", 3), ("match", 2)])
def test_undefined_decisions(nonfinite, flips):
    nan = math.nan
    comparer = bands_comparer(tolerance=Tolerance(nonfinite=nonfinite))
    tally, detail = compare(comparer, [nan, nan, 0.1, 0.1], [nan, 0.1, nan, 0.1])
    assert detail.ref.tolist() == [-1, -1, 0, 0]
    assert detail.cand.tolist() == [-1, 0, -1, 0]
    assert detail.flipped.tolist() == [nonfinite == "fail", True, True, False]
    assert np.isnan(detail.margin).tolist() == [True, True, False, False]
    assert (tally.flips, tally.undefined_ref, tally.undefined_cand) == (flips, 2, 2)
    figures = tally.figures(comparer.names, 0.0)
    assert figures["matrix"]["undefined"] == {"undefined": 1, "accept": 1}
    assert tally.flip_margin_max == MarginAt(float(np.float32(0.2)) - float(np.float32(0.1)), 2)


def test_infinite_scores_are_decided_and_never_at_risk():
    comparer = bands_comparer(tolerance=Tolerance(1.0, 0.5))
    tally, detail = compare(comparer, [math.inf, -math.inf], [math.inf, -math.inf])
    assert detail.ref.tolist() == [2, 0]
    assert detail.margin.tolist() == [math.inf, math.inf]
    assert (tally.flips, tally.at_risk) == (0, 0)


# --- against the oracle, split and merged --------------------------------------------------------


@st.composite
def scored(draw):
    dtypes = draw(st.sampled_from(list(itertools.product(("float32", "float64"), repeat=2))))
    steps = [
        float(np.nextafter(dtype(edge), dtype(way)))
        for dtype in (np.float32, np.float64)
        for edge in (0.2, 0.8)
        for way in (-1, edge, 1)
    ]
    score = st.sampled_from((*steps, 0.2, 0.8, math.nan, math.inf, -math.inf, -0.0, 1e300))
    sides = draw(st.lists(st.tuples(score, score), max_size=20))
    return dtypes, [side[0] for side in sides], [side[1] for side in sides]


@settings(deadline=None)
@given(
    case=scored(),
    text=st.sampled_from((THREE, THREE_OTHER_TIES)),
    compare_as=st.sampled_from(("output", "float64")),
    nonfinite=st.sampled_from(("fail", "match")),
    data=st.data(),
)
def test_bands_equal_the_oracle(case, text, compare_as, nonfinite, data):
    dtypes, ref, cand = case
    truth = data.draw(st.lists(st.integers(-1, 2), min_size=len(ref), max_size=len(ref)))
    comparer = bands_comparer(
        text, *dtypes, Tolerance(1e-7, 0.0, nonfinite=nonfinite), compare_as=compare_as
    )
    tally, detail = compare(comparer, ref, cand, dtypes, np.array(truth, np.int64))
    rule = parse_bands(text)
    codes = {how: oracle_band_codes(ref, cand, dtypes, rule, how) for how in ("output", "float64")}
    expected = codes[compare_as]
    assert list(zip(detail.ref.tolist(), detail.cand.tolist(), strict=True)) == expected
    assert tally.depends_on_compare_as == sum(map(tuple.__ne__, *codes.values()))
    assert_counts(tally, detail, expected, nonfinite, truth)


def oracle_band_codes(ref, cand, dtypes, rule, how):
    stored = [naive.to_float32 if dtype == "float32" else float for dtype in dtypes]
    seen = naive.to_float32 if how == "output" and dtypes[0] == "float32" else float
    edges = [seen(edge) for edge in rule.edges]
    return [
        tuple(
            naive.band(seen(store(score)), edges, rule.tie_up)
            for store, score in zip(stored, pair, strict=True)
        )
        for pair in zip(ref, cand, strict=True)
    ]


def assert_counts(tally, detail, codes, nonfinite, truth):
    counted = naive.count([r for r, _ in codes], [c for _, c in codes], nonfinite, truth)
    assert tally.samples == len(codes)
    assert tally.flips == detail.flipped.sum() == counted.flips
    assert dict(tally.matrix) == dict(counted.matrix)
    names = ("labelled", "unknown", "correct_ref", "correct_cand")
    for name in (*names, "changed_to_wrong", "changed_to_right"):
        assert getattr(tally.labels, name) == counted.labels[name], name
    known = [(m, i) for i, m in enumerate(detail.margin.tolist()) if not math.isnan(m)]
    assert tally.margin_min == (MarginAt(*min(known)) if known else None)
    lost = [
        (margin, i)
        for i, (margin, flipped) in enumerate(zip(detail.margin, detail.flipped, strict=True))
        if flipped and not math.isnan(margin)
    ]
    low = min(lost, default=None)
    high = min(lost, key=lambda at: (-at[0], at[1]), default=None)
    assert tally.flip_margin_min == (low and MarginAt(*low))
    assert tally.flip_margin_max == (high and MarginAt(*high))


@st.composite
def classified(draw):
    dtype = draw(st.sampled_from(("float32", "float64", "int16", "uint64")))
    width = draw(st.integers(2, 4))
    if dtype.startswith("float"):
        element = st.sampled_from((0.0, -0.0, 1.0, 1.0000001, math.nan, math.inf, -math.inf))
    else:
        element = st.integers(0, 3)
    row = st.lists(element, min_size=width, max_size=width)
    sides = draw(st.lists(st.tuples(row, row), min_size=1, max_size=12))
    return dtype, width, [side[0] for side in sides], [side[1] for side in sides]


@settings(deadline=None)
@given(case=classified(), nonfinite=st.sampled_from(("fail", "match")), data=st.data())
def test_argmax_equals_the_oracle(case, nonfinite, data):
    dtype, width, ref, cand = case
    truth = data.draw(st.lists(st.integers(-1, width - 1), min_size=len(ref), max_size=len(ref)))
    comparer = argmax_comparer(width, dtype, tolerance=Tolerance(0.25, 0.0, nonfinite=nonfinite))
    tally, detail = compare(comparer, ref, cand, (dtype, dtype), np.array(truth, np.int64))
    ref, cand = (np.array(side).astype(dtype).tolist() for side in (ref, cand))
    codes = [(naive.argmax(r), naive.argmax(c)) for r, c in zip(ref, cand, strict=True)]
    assert list(zip(detail.ref.tolist(), detail.cand.tolist(), strict=True)) == codes
    assert tally.tied_ref == sum(map(naive.tied, ref))
    assert tally.tied_cand == sum(map(naive.tied, cand))
    assert tally.at_risk == sum(naive.argmax_at_risk(row, 0.25, 0.0) for row in ref)
    assert tally.depends_on_compare_as == 0
    assert_counts(tally, detail, codes, nonfinite, truth)


@settings(deadline=None)
@given(case=scored(), stats=st.sampled_from(("gate", "full")), data=st.data())
def test_split_anywhere_and_merged_in_any_order_is_the_whole(case, stats, data):
    dtypes, ref, cand = case
    comparer = bands_comparer(THREE, *dtypes, Tolerance(1e-3), stats, compare_as="output")
    with np.errstate(over="ignore"):
        ref, cand = np.array(ref).astype(dtypes[0]), np.array(cand).astype(dtypes[1])
    ordinals, truth = np.arange(len(ref)) + 1000, np.arange(len(ref)) % 4 - 1
    whole, _ = comparer.compare(ref, cand, ordinals, truth)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ref)), max_size=4)))
    spans = list(itertools.pairwise([0, *cuts, len(ref)]))
    parts = [comparer.compare(ref[a:b], cand[a:b], ordinals[a:b], truth[a:b])[0] for a, b in spans]
    shuffled = data.draw(st.permutations(parts))
    merged = reduce(DecisionTally.merge, shuffled)
    assert json.dumps(merged.to_json()) == json.dumps(whole.to_json())
    assert DecisionTally.from_json(json.loads(json.dumps(merged.to_json()))).to_json() == (
        whole.to_json()
    )


def test_threads_give_what_one_thread_gives():
    generator = np.random.default_rng(3)
    comparer = argmax_comparer(5, tolerance=Tolerance(0.01))
    ref = generator.normal(size=(4000, 5)).astype(np.float32)
    cand = ref + generator.normal(scale=0.01, size=ref.shape).astype(np.float32)
    spans = [slice(i, i + 250) for i in range(0, 4000, 250)]
    ordinals = np.arange(4000)
    whole, _ = comparer.compare(ref, cand, ordinals)
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(lambda s: comparer.compare(ref[s], cand[s], ordinals[s])[0], spans)
        assert reduce(DecisionTally.merge, parts).to_json() == whole.to_json()
    assert whole.flips > 0


# --- layouts -------------------------------------------------------------------------------------


def test_any_layout_is_read_and_none_is_written():
    values = np.array([[1, 2, 3], [6, 5, 4]], np.float32)
    comparer = argmax_comparer(3)
    ordinals = np.arange(2)
    wide = np.full((2, 6), 9, np.float32)
    wide[:, ::2] = values
    frozen = values.copy()
    frozen.flags.writeable = False
    for layout in (np.asfortranarray(values), wide[:, ::2], frozen, values.astype(">f4")):
        tally, detail = comparer.compare(layout, values, ordinals)
        assert detail.ref.tolist() == [2, 0]
        assert tally.flips == 0
    assert values.flags.writeable
    half = argmax_comparer(3, "float16")
    tally, _ = half.compare(values.astype(">f2"), values.astype(np.float16), ordinals)
    assert tally.flips == 0


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_score_of_any_rank(shape):
    rule = DecisionRule("d", "score", bands=parse_bands(THREE))
    comparer = DecisionComparer(rule, ZERO, "float32", "float32", shape, "gate")
    scores = np.full((2, *shape), 0.9, np.float32)
    tally, detail = comparer.compare(scores, scores, np.arange(2))
    assert detail.ref.tolist() == [2, 2]
    assert tally.margins is None


def test_no_samples():
    tally, detail = compare(bands_comparer(), np.empty(0), np.empty(0))
    assert (tally.samples, tally.flips, detail.ref.size) == (0, 0, 0)
    tally, detail = compare(argmax_comparer(), np.empty((0, 3)), np.empty((0, 3)))
    assert (tally.samples, tally.matrix) == (0, {})


def test_one_class_decides_nothing():
    with pytest.raises(ValueError, match="at least two classes"):
        argmax_comparer(1)


# --- names and labels ----------------------------------------------------------------------------


def test_names():
    assert bands_comparer().names == ("accept", "review", "reject")
    assert argmax_comparer(3).names == ("0", "1", "2")
    assert argmax_comparer(2, labels=("cat", "dog")).names == ("cat", "dog")


def test_labels_that_repeat_stay_apart():
    comparer = argmax_comparer(4, labels=("crane", "cat", "crane", "undefined"))
    assert comparer.names == ("crane (0)", "cat", "crane (2)", "undefined (3)")
    truth = comparer.truth_codes(np.array(["crane", "cat", "undefined"], object))
    assert truth.tolist() == [-1, 1, 3]
    with pytest.raises(ValueError, match="told apart"):
        argmax_comparer(3, labels=("a", "a", "a (0)"))


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (np.array(["reject", "accept", "other", None], object), [2, 0, -1, -1]),
        (np.array(["review", ""]), [1, -1]),
        (np.array([0, 2, 3, -1, 2**62]), [0, 2, -1, -1, -1]),
        (np.array([0, 2**64 - 1], np.uint64), [0, -1]),
        (np.array([1, -128], np.int8), [1, -1]),
        (np.array([True, False]), [1, 0]),
        (np.array([1, None, "accept"], object), [1, -1, 0]),
        (np.array([], np.int64), []),
    ],
)
def test_truth_codes(values, codes):
    truth = bands_comparer().truth_codes(values)
    assert truth.dtype == np.int64
    assert truth.tolist() == codes


def test_class_indices_as_text_are_names():
    assert argmax_comparer(3).truth_codes(np.array(["2", "3"], object)).tolist() == [2, -1]


def test_a_float_column_is_no_label():
    assert bands_comparer().truth_codes(np.array([0.0, 1.0])) is None


def test_labels_are_judged_on_both_sides():
    truth = np.array([0, 0, 1, 2, -1, 2])
    tally, _ = compare(
        bands_comparer(),
        [0.1, 0.1, 0.1, 0.9, 0.1, math.nan],
        [0.1, 0.5, 0.5, 0.9, 0.1, 0.9],
        truth=truth,
    )
    labels = tally.labels
    assert (labels.labelled, labels.unknown) == (5, 1)
    assert (labels.correct_ref, labels.correct_cand) == (3, 4)
    assert (labels.changed_to_wrong, labels.changed_to_right) == (1, 2)
    tally, _ = compare(bands_comparer(), [0.1], [0.1])
    assert tally.labels is None


def test_an_undefined_decision_is_not_right_about_an_unknown_label():
    tally, _ = compare(bands_comparer(), [math.nan], [0.1], truth=np.array([-1]))
    assert (tally.labels.correct_ref, tally.labels.changed_to_wrong) == (0, 0)


# --- refusals ------------------------------------------------------------------------------------


def rule_of(**changes):
    return DecisionRule(**{"name": "d", "output": "y", "bands": parse_bands(THREE), **changes})


@pytest.mark.parametrize(
    ("rule", "dtypes", "shape", "words"),
    [
        (rule_of(), ("float32",) * 2, (2,), "one score a sample"),
        (rule_of(), ("float32",) * 2, (0,), "0 elements"),
        (rule_of(bands=None), ("float32",) * 2, (), "exactly one"),
        (rule_of(argmax=True), ("float32",) * 2, (1,), "exactly one"),
        (rule_of(labels=("a", "b", "c")), ("float32",) * 2, (), "remove labels"),
        (rule_of(), ("int8",) * 2, (), "0.2 is fractional"),
        (rule_of(), ("float32", "float64"), (), 'compare_as = "output"'),
        (rule_of(compare_as="output"), ("float32", "int8"), (), "share no scale"),
        (rule_of(), ("complex64",) * 2, (), "complex64 can't be judged"),
        (rule_of(), ("string",) * 2, (), "texts have no order"),
        (
            rule_of(bands=parse_bands("a < 0.2 <= b < 0.2000000001 <= c")),
            ("float32",) * 2,
            (),
            "0.2 and 0.2000000001 are the same number in float32",
        ),
        (
            rule_of(bands=parse_bands("a < 0.2 <= b < 1e39 <= c")),
            ("float32",) * 2,
            (),
            "1e+39 is beyond the range of float32",
        ),
        (rule_of(bands=parse_bands("a < -1 <= b")), ("uint8",) * 2, (), "not in 0 to 255"),
        (rule_of(bands=parse_bands("a < 128 <= b")), ("int8",) * 2, (), "not in -128 to 127"),
        (rule_of(bands=parse_bands(f"a < {2**53} <= b")), ("int64",) * 2, (), "not in"),
        (rule_of(bands=None, argmax=True), ("float32",) * 2, (), "class axis"),
        (rule_of(bands=None, argmax=True), ("float32",) * 2, (0,), "class axis"),
        (rule_of(bands=None, argmax=True), ("float32",) * 2, (5, 1), "at least two classes"),
        (rule_of(bands=None, argmax=True, axis=0), ("float32",) * 2, (3,), "axis is 0"),
        (rule_of(bands=None, argmax=True, labels=("a",)), ("float32",) * 2, (3,), "1 labels for 3"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(rule, dtypes, shape, words):
    with pytest.raises(ValueError, match=re.escape(words)) as refusal:
        DecisionComparer(rule, ZERO, *dtypes, shape, "full")
    assert "'d' of output 'y'" in str(refusal.value)


def test_edges_that_meet_in_float32_are_fine_in_float64():
    text = "a < 0.2 <= b < 0.2000000001 <= c"
    _, detail = compare(bands_comparer(text, compare_as="float64"), [0.2], [0.1])
    assert detail.ref.tolist() == [2]
    _, detail = compare(
        bands_comparer(text, ref="float64"), [0.20000000005], [0.1], ("float64",) * 2
    )
    assert detail.ref.tolist() == [1]


def test_arrays_other_than_announced_are_refused():
    comparer = bands_comparer()
    good, ordinals = np.zeros(3, np.float32), np.arange(3)
    with pytest.raises(ValueError, match="cand is float64"):
        comparer.compare(good, good.astype(np.float64), ordinals)
    with pytest.raises(ValueError, match=re.escape("ref is float32[2]")):
        comparer.compare(good[:2], good, ordinals)
    with pytest.raises(ValueError, match="1 labels for 3 samples"):
        comparer.compare(good, good, ordinals, np.array([0]))
