"""Elements against the brute-force oracle, and the algebra of their tallies."""

import ctypes
import json
import math
import platform
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import naive

from paritygate.comparison import elements
from paritygate.comparison.elements import ElementComparer
from paritygate.core.errors import DenormalError, ParityError
from paritygate.core.policy import Tolerance
from paritygate.core.verdict import rule_names
from paritygate.tally.output import OutputTally

DETAIL = ("rules", "failing_elements", "worst_index", "worst_excess", "worst_error")
FLOATS = ("float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SPECIAL = {
    "float32": [
        0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-40,
        1.1754943508222875e-38, 3.4028234663852886e38, -3.4028234663852886e38, 16777217.0, 0.1,
    ],
    "float64": [
        0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1e-310,
        2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308,
        3.4028234663852886e38, 3.4028235677973366e38, 1e200, 1e-200, 0.1,
    ],
}  # fmt: skip
TOLERANCES = st.sampled_from([0.0, 1e-300, 1e-9, 1e-6, 1e-3, 0.1, 0.5, 1.0, 2.5, 1e18, 1e300])
RELATIVE = st.sampled_from([0.0, 1e-9, 1e-5, 1e-3, 0.1, 0.999])
WIDTHS = st.sampled_from([0, 1, 2, 3, 10, 16, 17])


def compare(ref, cand, tolerance=None, stats="full", ordinals=None):
    comparer = ElementComparer(
        tolerance or Tolerance(), ref.dtype.name, cand.dtype.name, ref.shape[1:], stats
    )
    if ordinals is None:
        ordinals = np.arange(len(ref))
    return comparer.compare(ref, cand, np.asarray(ordinals))


def rows(values, dtype="float32"):
    """One element a sample."""
    return np.array(values, dtype).reshape(-1, 1)


def dumped(tally):
    return json.dumps(tally.to_json(), sort_keys=True)


@st.composite
def float_pairs(draw):
    """(ref, cand) of `(samples, width)`; the candidate is often close, equal or non-finite."""
    dtypes = draw(st.sampled_from(FLOATS)), draw(st.sampled_from(FLOATS))
    shape = draw(st.integers(0, 5)), draw(WIDTHS)
    count = shape[0] * shape[1]
    bits = 32 if "float32" in dtypes else 64
    plain = st.floats(-10, 10, width=bits)
    anything = st.one_of(
        plain,
        st.sampled_from(SPECIAL[dtypes[0]]),
        st.floats(width=32 if dtypes[0] == "float32" else 64),
    )
    ref = np.array(draw(st.lists(anything, min_size=count, max_size=count)), dtypes[0])
    steps = draw(st.lists(st.integers(-5, 5), min_size=count, max_size=count))
    with np.errstate(all="ignore"):
        cand = ref.astype(dtypes[1])
        cand += np.array(steps, dtypes[1]) * np.spacing(cand)
    for k in draw(st.lists(st.integers(0, max(0, count - 1)), max_size=4)):
        if count:
            cand[k] = draw(st.sampled_from(SPECIAL[dtypes[1]]))
    return ref.reshape(shape), cand.reshape(shape)


@st.composite
def integer_pairs(draw):
    dtype = draw(st.sampled_from(INTEGERS))
    limits = np.iinfo(dtype)
    count = (shape := (draw(st.integers(0, 5)), draw(WIDTHS)))[0] * shape[1]
    edges = [limits.min, limits.min + 1, 0, 1, 2, limits.max - 1, limits.max]
    values = st.one_of(st.integers(limits.min, limits.max), st.sampled_from(edges))
    ref, cand = (draw(st.lists(values, min_size=count, max_size=count)) for _ in range(2))
    for k in draw(st.lists(st.integers(0, max(0, count - 1)), max_size=6)):
        if count:
            cand[k] = ref[k]
    return np.array(ref, dtype).reshape(shape), np.array(cand, dtype).reshape(shape)


tolerances = st.builds(
    Tolerance,
    atol=TOLERANCES,
    rtol=RELATIVE,
    nonfinite=st.sampled_from(["fail", "match"]),
    max_outlier_fraction=st.sampled_from([0.0, 0.1, 0.29, 0.5]),
    max_abs=st.one_of(st.none(), TOLERANCES),
)


def check_detail(ref, cand, tolerance, detail):
    for i, (r, c) in enumerate(zip(ref.tolist(), cand.tolist(), strict=True)):
        found = {
            "rules": set(rule_names(int(detail.rules[i]))),
            "failing": detail.failing_elements[i],
            "worst_index": detail.worst_index[i],
            "worst_excess": detail.worst_excess[i],
            "worst_error": detail.worst_error[i],
        }
        assert found == naive.judge_sample(
            r,
            c,
            atol=tolerance.atol,
            rtol=tolerance.rtol,
            cap=tolerance.max_abs,
            outliers=math.floor(Fraction(repr(tolerance.max_outlier_fraction)) * len(r)),
            match=tolerance.nonfinite == "match",
        )


def check_counts(ref, cand, detail, tally):
    r, c = ref.reshape(-1).tolist(), cand.reshape(-1).tolist()
    table = naive.class_table(r, c)
    names = naive.CLASS_NAMES
    assert tally.classes == tuple(table.get((x, y), 0) for x in names for y in names)
    assert tally.samples == len(ref)
    assert tally.empty_samples == (len(ref) if ref[:1].size == 0 else 0)
    assert tally.elements == len(r)
    assert tally.finite_pairs == len(naive.finite_pairs(r, c))
    assert tally.failing_samples == sum(bits != 0 for bits in detail.rules.tolist())
    assert tally.failing_elements == sum(detail.failing_elements.tolist())
    for bit, samples in zip((1, 2, 4, 8, 16), tally.rule_samples, strict=True):
        assert samples == sum(bool(bits & bit) for bits in detail.rules.tolist())


def check_sums(ref, cand, tally, names):
    terms = naive.terms(ref.reshape(-1).tolist(), cand.reshape(-1).tolist())
    if ref.dtype.kind == "f" and ref[:1].size >= 16:
        of_samples = [naive.sample_sums(*p) for p in zip(ref.tolist(), cand.tolist(), strict=True)]
        for at, name in enumerate(("squared_refs", "squared_errors", "ref_errors")):
            terms[name] = [sums[at] for sums in of_samples]
    for name in names:
        found = getattr(tally, name)
        assert found.value() == naive.to_float(naive.exact_sum(terms[name])), name
        assert found.overflowed == sum(not math.isfinite(t) for t in terms[name]), name
    expected = {}
    for error in terms["abs_errors"]:
        bin_ = naive.histogram_bin(error)
        expected[str(bin_)] = expected.get(str(bin_), 0) + 1
    assert tally.histogram.to_json() == expected


def check_extreme(extreme, candidates):
    """`candidates`: (keys, ordinal, index, ref, cand); the first in order must have been kept."""
    if not candidates:
        assert extreme is None
        return
    keys, ordinal, index, ref, cand = min(
        candidates, key=lambda x: (tuple(-k for k in x[0]), x[1], x[2])
    )
    assert (extreme.keys, extreme.ordinal, extreme.index) == (keys, ordinal, index)
    assert (extreme.ref, extreme.cand) == (ref, cand)


def placed(ref, cand, ordinals):
    """(ordinal, index, ref, cand) of pairs that are finite on both sides."""
    for ordinal, r, c in zip(ordinals, ref.tolist(), cand.tolist(), strict=True):
        for index, x, y in naive.finite_pairs(r, c):
            yield ordinal, index, x, y


def check_extremes(ref, cand, tolerance, tally, ordinals):
    errors, excesses = [], []
    for ordinal, index, r, c in placed(ref, cand, ordinals):
        error, bound = abs(c - r), tolerance.atol + tolerance.rtol * abs(float(r))
        errors.append(((error,), ordinal, index, r, c))
        excesses.append(((naive.excess(error, bound), error), ordinal, index, r, c))
    check_extreme(tally.max_abs_error, errors)
    check_extreme(tally.max_excess, excesses)


def check_ulp(ref, cand, tolerance, tally, ordinals):
    single = cand.dtype == np.float32
    steps, above = [], []
    for ordinal, index, r, c in placed(ref, cand, ordinals):
        apart = naive.ulp_steps(r, c, single)
        if apart is not None:
            steps.append(((apart,), ordinal, index, r, c))
            if abs(r) >= tolerance.atol:
                above.append(steps[-1])
    check_extreme(tally.max_ulp, steps)
    check_extreme(tally.max_ulp_above_atol, above)
    assert tally.ulp_undefined == ref.size - len(steps)


@settings(deadline=None, max_examples=300)
@given(float_pairs(), tolerances, st.randoms(use_true_random=False))
def test_floats_are_judged_and_measured_as_the_oracle_does(pair, tolerance, random):
    ref, cand = pair
    ordinals = random.sample(range(100), len(ref))
    tally, detail = compare(ref, cand, tolerance, ordinals=ordinals)
    check_detail(ref, cand, tolerance, detail)
    check_counts(ref, cand, detail, tally)
    check_sums(ref, cand, tally, list(naive.terms([], [])))
    check_extremes(ref, cand, tolerance, tally, ordinals)
    check_ulp(ref, cand, tolerance, tally, ordinals)
    beyond = 0
    if (ref.dtype, cand.dtype) == (np.float64, np.float32):
        finite = [r for r in ref.reshape(-1).tolist() if math.isfinite(r)]
        beyond = sum(math.isinf(naive.round_to_single(r)) for r in finite)
    assert tally.ref_beyond_cand_range == beyond


@settings(deadline=None, max_examples=300)
@given(integer_pairs(), tolerances, st.randoms(use_true_random=False))
def test_integers_are_judged_and_measured_as_the_oracle_does(pair, tolerance, random):
    ref, cand = pair
    ordinals = random.sample(range(100), len(ref))
    tally, detail = compare(ref, cand, tolerance, ordinals=ordinals)
    check_detail(ref, cand, tolerance, detail)
    check_counts(ref, cand, detail, tally)
    check_sums(ref, cand, tally, ["abs_errors", "errors", "squared_errors"])
    check_extremes(ref, cand, tolerance, tally, ordinals)


@settings(deadline=None, max_examples=60)
@given(st.one_of(float_pairs(), integer_pairs()), tolerances)
def test_gate_tier_is_the_full_tier_without_its_own_figures(pair, tolerance):
    full, full_detail = compare(*pair, tolerance)
    gate, gate_detail = compare(*pair, tolerance, stats="gate")
    for name in DETAIL:
        assert np.array_equal(getattr(gate_detail, name), getattr(full_detail, name))
    names = ("samples", "classes", "rule_samples", "failing_elements", "max_abs_error")
    for name in (*names, "max_excess", "abs_errors", "errors", "ref_beyond_cand_range"):
        assert getattr(gate, name) == getattr(full, name)
    assert gate.tier == "gate"
    assert (gate.max_ulp, gate.worst_sqnr, gate.histogram.total) == (None, None, 0)


@settings(deadline=None, max_examples=150)
@given(st.one_of(float_pairs(), integer_pairs()), tolerances, st.data())
def test_split_anywhere_and_merged_in_any_order_is_the_whole(pair, tolerance, data):
    ref, cand = pair
    whole, detail = compare(ref, cand, tolerance)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ref)), max_size=4)))
    parts = [slice(i, j) for i, j in zip([0, *cuts], [*cuts, len(ref)], strict=True)]
    found = [compare(ref[p], cand[p], tolerance, ordinals=np.arange(len(ref))[p]) for p in parts]
    joined = np.concatenate([d.rules for _, d in found])
    assert np.array_equal(joined, detail.rules)
    tallies = data.draw(st.permutations([t for t, _ in found]))
    while len(tallies) > 1:  # any tree
        i = data.draw(st.integers(0, len(tallies) - 2))
        left, right = tallies[i : i + 2]
        tallies[i : i + 2] = [OutputTally.from_json(json.loads(dumped(left))).merge(right)]
    assert dumped(tallies[0]) == dumped(whole)


@settings(deadline=None, max_examples=40)
@given(float_pairs(), st.randoms(use_true_random=False))
def test_order_of_samples_changes_nothing(pair, random):
    ref, cand = pair
    order = random.sample(range(len(ref)), len(ref))
    shuffled, _ = compare(ref[order], cand[order], ordinals=order)
    assert dumped(shuffled) == dumped(compare(ref, cand)[0])


def test_tiles_are_invisible(monkeypatch):
    rng = np.random.default_rng(7)
    ref = rng.normal(size=(50, 20)).astype(np.float32)
    cand = (ref + rng.normal(size=ref.shape) * 1e-3).astype(np.float32)
    cand[31, 7] = np.nan
    whole, detail = compare(ref, cand, Tolerance(1e-3, 1e-3))
    monkeypatch.setattr(elements, "_TILE", 70)
    tiled, tiled_detail = compare(ref, cand, Tolerance(1e-3, 1e-3))
    assert dumped(tiled) == dumped(whole)
    for name in DETAIL:
        assert np.array_equal(getattr(detail, name), getattr(tiled_detail, name))


def test_sums_of_many_terms_stay_exact():
    rng = np.random.default_rng(8)
    ref = np.zeros(70_000)
    cand = np.ldexp(rng.uniform(-1, 1, ref.size), rng.integers(-60, 60, ref.size))
    cand[:5000] = 1.7976931348623157e308 / 8192
    tally, _ = compare(ref.reshape(1, -1), cand.reshape(1, -1))
    assert tally.errors.value() == math.fsum(cand.tolist())
    assert tally.abs_errors.value() == math.fsum(np.abs(cand).tolist())


# Decisions on single elements -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("ref", "cand", "dtype", "atol", "rtol", "rules"),
    [
        (0.0, 1.0, "float64", 1.0, 0.0, []),
        (0.0, np.nextafter(1.0, 2), "float64", 1.0, 0.0, ["tolerance.exceeded"]),
        (0.0, -1.0, "float64", 1.0, 0.0, []),
        (-8.0, -12.0, "float64", 0.0, 0.5, []),
        (-8.0, np.nextafter(-12.0, -13), "float64", 0.0, 0.5, ["tolerance.exceeded"]),
        (8.0, 12.0, "float64", 0.0, 0.5, []),
        (12.0, 8.0, "float64", 0.0, 0.25, ["tolerance.exceeded"]),
        (0.0, -0.0, "float32", 0.0, 0.0, []),
        (1e-40, 2e-40, "float32", 0.0, 0.0, ["tolerance.exceeded"]),
        (1e-40, 2e-40, "float32", 1e-45, 0.0, ["tolerance.exceeded"]),
        (1.7e308, -1.7e308, "float64", 1e308, 0.9, ["tolerance.exceeded"]),
        (1.7e308, 1.6e308, "float64", 1.7e308, 0.9, ["tolerance.exceeded"]),
        (1.7e308, 1.7e308, "float64", 1.7e308, 0.9, []),
        (2147483647, -1, "int32", 1.0, 0.0, ["tolerance.exceeded"]),
        (1, 2, "uint64", 0.0, 0.0, ["tolerance.exceeded"]),
        (2, 1, "uint64", 0.0, 0.0, ["tolerance.exceeded"]),
        (0, 255, "uint8", 254.0, 0.0, ["tolerance.exceeded"]),
        (255, 0, "uint8", 255.0, 0.0, []),
        (-128, 127, "int8", 254.0, 0.0, ["tolerance.exceeded"]),
        (-128, 127, "int8", 255.0, 0.0, []),
        (200000, 200001, "int64", 0.0, 0.0, ["tolerance.exceeded"]),
        (200000, 200001, "int64", 0.0, 1e-5, []),
        (99999, 100000, "int64", 0.0, 1e-5, ["tolerance.exceeded"]),
        (2**53, 2**53 + 1, "int64", 0.0, 0.0, ["tolerance.exceeded"]),
        (0, 2**53 + 1, "int64", 2.0**53, 0.0, ["tolerance.exceeded"]),
        (-(2**63), 2**63 - 1, "int64", 1.8e19, 0.0, ["tolerance.exceeded"]),
        (-(2**63), 2**63 - 1, "int64", 1.9e19, 0.0, []),
        (0, 2**64 - 1, "uint64", 1.8446744073709550e19, 0.0, ["tolerance.exceeded"]),
        (False, True, "bool", 0.0, 0.0, ["tolerance.exceeded"]),
        (True, True, "bool", 0.0, 0.0, []),
    ],
)  # fmt: skip
def test_single_elements(ref, cand, dtype, atol, rtol, rules):
    tally, detail = compare(rows([ref], dtype), rows([cand], dtype), Tolerance(atol, rtol))
    assert rule_names(int(detail.rules[0])) == rules
    assert tally.failing_samples == len(rules)


def test_a_fused_multiply_add_would_pass_what_fails():
    # rtol * ref is 2^-53 (1 + 2^-78): rounded alone it leaves a tie, which goes down to 1.
    atol, rtol, ref = 1.0, 0.5 * (1 + 2.0**-26), 2.0**-52 * (1 - 2.0**-26 + 2.0**-52)
    fused = naive.to_float(Fraction(atol) + Fraction(rtol) * Fraction(ref))
    cand = 1 + 2.0**-51
    assert atol + rtol * ref < cand - ref <= fused
    _, detail = compare(rows([ref], "float64"), rows([cand], "float64"), Tolerance(atol, rtol))
    assert rule_names(int(detail.rules[0])) == ["tolerance.exceeded"]


NAN = math.nan
INF = math.inf


@pytest.mark.parametrize(
    ("ref", "cand", "under_fail", "under_match"),
    [
        (NAN, NAN, "nonfinite.reference", None),
        (INF, INF, "nonfinite.reference", None),
        (-INF, -INF, "nonfinite.reference", None),
        (INF, -INF, "nonfinite.mismatch", "nonfinite.mismatch"),
        (-INF, INF, "nonfinite.mismatch", "nonfinite.mismatch"),
        (NAN, INF, "nonfinite.mismatch", "nonfinite.mismatch"),
        (INF, NAN, "nonfinite.mismatch", "nonfinite.mismatch"),
        (NAN, 1.0, "nonfinite.mismatch", "nonfinite.mismatch"),
        (INF, 1.0, "nonfinite.mismatch", "nonfinite.mismatch"),
        (-INF, 1.0, "nonfinite.mismatch", "nonfinite.mismatch"),
        (1.0, NAN, "nonfinite.candidate", "nonfinite.candidate"),
        (1.0, INF, "nonfinite.candidate", "nonfinite.candidate"),
        (1.0, -INF, "nonfinite.candidate", "nonfinite.candidate"),
    ],
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_nonfinite_rules(dtype, ref, cand, under_fail, under_match):
    for rule, nonfinite in ((under_fail, "fail"), (under_match, "match")):
        tolerance = Tolerance(1e300, 0.9, nonfinite, max_outlier_fraction=0.9, max_abs=1e300)
        tally, detail = compare(rows([ref], dtype), rows([cand], dtype), tolerance)
        assert rule_names(int(detail.rules[0])) == [rule] * (rule is not None)
        assert tally.failing_elements == (rule is not None)
        assert detail.worst_index[0] == (0 if rule else -1)
        assert detail.worst_excess[0] == (math.inf if rule else 0.0)


def test_nan_payload_and_sign_do_not_matter():
    codes = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32)
    ref = codes.view(np.float32).reshape(-1, 1)
    _, detail = compare(ref, ref[::-1], Tolerance(nonfinite="match"))
    assert not detail.rules.any()


def test_a_nonfinite_failure_outranks_every_finite_one():
    ref = np.array([[1.7e308, 0.0, 0.0]])
    _, detail = compare(ref, np.array([[-1.7e308, math.nan, math.nan]]), Tolerance(1.0, 0.0))
    assert detail.worst_index.tolist() == [1]
    assert rule_names(int(detail.rules[0])) == ["tolerance.exceeded", "nonfinite.candidate"]
    assert detail.failing_elements.tolist() == [3]


def test_outliers_are_bounded_by_an_integer_and_never_nonfinite():
    tolerance = Tolerance(0.1, 0.0, max_outlier_fraction=0.29, max_abs=10.0)
    ref = np.zeros((3, 100), np.float32)
    cand = ref.copy()
    cand[0, :29] = cand[1, :30] = 1.0
    cand[2, 50] = math.nan
    tally, detail = compare(ref, cand, tolerance)
    names = [rule_names(int(bits)) for bits in detail.rules]
    assert names == [[], ["tolerance.exceeded"], ["nonfinite.candidate"]]
    assert detail.failing_elements.tolist() == [29, 30, 1]
    assert tally.failing_elements == 60
    assert tally.failing_samples == 2


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_hard_cap_holds_even_within_the_tolerance(dtype):
    ref, cand = rows([0, 0, 0], dtype), rows([2, -3, 4], dtype)
    _, detail = compare(ref, cand, Tolerance(100.0, 0.0, max_abs=3.0))
    assert [rule_names(int(b)) for b in detail.rules] == [[], [], ["tolerance.hard_cap"]]
    assert detail.failing_elements.tolist() == [0, 0, 1]


def test_cap_of_integers_is_not_rounded():
    ref, cand = rows([0, 0], "int64"), rows([2**53, 2**53 + 1], "int64")
    _, detail = compare(ref, cand, Tolerance(1e18, 0.0, max_abs=float(2**53)))
    assert [rule_names(int(b)) for b in detail.rules] == [[], ["tolerance.hard_cap"]]


@given(st.floats(0, 1e300), st.floats(0, 0.999), st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
@example(0.0, 0.0, 1.0, 1.0000000000000002)
@settings(deadline=None)
def test_excess_is_above_one_exactly_where_an_element_fails(atol, rtol, ref, cand):
    pair = rows([ref], "float64"), rows([cand], "float64")
    _, detail = compare(*pair, Tolerance(atol, rtol), stats="gate")
    assert (detail.worst_excess[0] > 1) == (detail.rules[0] != 0)


# Samples by energy ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32), st.sampled_from([1e-8, 1e-4, 1.0, 3.0]), st.integers(16, 20))
def test_worst_samples_by_sqnr_and_cosine(seed, noise, width):
    rng = np.random.default_rng(seed)
    ref = rng.normal(size=(4, width))
    cand = ref + noise * rng.normal(size=ref.shape) * rng.uniform(0, 1, (4, 1))
    cand[rng.integers(4), rng.integers(width)] = math.nan
    ref[2] = 0
    tally, _ = compare(ref, cand, ordinals=[10, 11, 12, 13])
    ratios, angles = {}, {}
    for ordinal, r, c in zip(range(10, 14), ref.tolist(), cand.tolist(), strict=True):
        rr, ee, _ = naive.energies(r, c)
        if rr:
            ratios[ordinal] = float(ee / rr)
            angles[ordinal] = naive.one_minus_cosine(r, c)
    assert (tally.ranked_samples, tally.sqnr_undefined, tally.cosine_undefined) == (4, 1, 1)
    figures = tally.figures()
    worst = figures["worst_sample_by_sqnr"]
    assert worst["ordinal"] == max(ratios, key=ratios.get)
    assert worst["sqnr_db"] == pytest.approx(-10 * math.log10(max(ratios.values())), rel=1e-9)
    worst = figures["worst_sample_by_cosine"]
    assert worst["one_minus_cosine"] == pytest.approx(max(angles.values()), rel=1e-6)
    assert angles[worst["ordinal"]] == pytest.approx(max(angles.values()), rel=1e-6)


def test_a_cosine_of_denormal_sums_does_not_depend_on_the_samples_before():
    ref = np.ones((2, 16))
    ref[1] = 1.6e-162  # its square is a denormal
    cand = ref * np.array([[1.0], [0.03]])
    cand[0, 0] = 1.2
    whole, _ = compare(ref, cand, Tolerance(1.0), ordinals=[0, 1])
    parts = [compare(ref[i:][:1], cand[i:][:1], Tolerance(1.0), ordinals=[i])[0] for i in range(2)]
    assert whole == parts[0].merge(parts[1])
    assert whole.cosine_undefined == 1


@pytest.mark.parametrize(
    ("factor", "expected"), [(-1.0, 2.0), (-0.5, 2.0), (2.0, 0.0), (1.0, 0.0), (0.0, None)]
)
def test_cosine_of_a_scaled_sample(factor, expected):
    ref = np.arange(1.0, 17.0).reshape(1, 16)
    tally, _ = compare(ref, ref * factor)
    figures = tally.figures()
    whole, sample = figures["one_minus_cosine"], figures["worst_sample_by_cosine"]
    if expected is None:
        assert (whole, sample, tally.cosine_undefined) == (None, None, 1)
        assert "undefined" in figures["not_computed"]["one_minus_cosine"]
    else:
        assert whole == pytest.approx(expected, abs=1e-15)
        assert sample["one_minus_cosine"] == pytest.approx(expected, abs=1e-15)


def test_narrow_samples_have_no_energy_figures_and_wide_ones_do():
    for width, reason in ((15, "samples have fewer than 16 elements"), (16, None)):
        ref = np.ones((2, width), np.float32)
        figures = compare(ref, ref)[0].figures()
        assert figures["not_computed"].get("worst_sample_by_sqnr") == reason
        assert figures["sqnr_db"] == "inf"


# Arrays as they come ----------------------------------------------------------------------------


def test_strided_read_only_unaligned_and_big_endian_arrays_compare_alike():
    rng = np.random.default_rng(3)
    ref = rng.normal(size=(7, 2, 3)).astype(np.float32)
    cand = ref + np.float32(0.5)
    expected = dumped(compare(ref, cand)[0])
    locked = ref.copy()
    locked.setflags(write=False)
    unaligned = np.frombuffer(b"x" + ref.tobytes(), np.float32, offset=1).reshape(ref.shape)
    assert not unaligned.flags.aligned
    views = [np.asfortranarray(ref), np.repeat(ref, 2, axis=2)[:, :, ::2], locked, unaligned]
    for view in [*views, ref.astype(">f4")]:
        assert dumped(compare(view, cand)[0]) == expected
    assert ref.flags.writeable
    assert not locked.flags.writeable


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,), (4, 0)])
def test_shapes_of_samples(shape):
    ref = np.zeros((3, *shape), np.float32)
    tally, detail = compare(ref, ref)
    assert tally.elements == ref.size
    assert tally.empty_samples == (0 if ref.size else 3)
    assert detail.worst_index.tolist() == [0 if ref.size else -1] * 3


def test_bools_are_true_or_false_whatever_their_byte():
    ref = np.array([[1], [2], [0]], np.uint8).view(np.bool_)
    cand = np.array([[255], [0], [0]], np.uint8).view(np.bool_)
    _, detail = compare(ref, cand)
    assert detail.rules.tolist() == [0, 1, 0]


@pytest.mark.parametrize(("ref", "cand"), [("int8", "int64"), ("uint8", "uint32")])
def test_integers_of_one_signedness_mix(ref, cand):
    top = np.iinfo(ref).max
    tally, detail = compare(rows([top, top], ref), rows([top, top + 1], cand))
    assert detail.rules.tolist() == [0, 1]
    assert tally.figures()["max_steps"] == 1


@pytest.mark.parametrize(
    ("ref", "cand", "sentence"),
    [
        ("int64", "uint64", "signed and unsigned integers aren't compared; cast one side"),
        ("uint8", "int8", "signed and unsigned"),
        ("float32", "int8", "floats, integers, bools and strings aren't compared"),
        ("bool", "uint8", "floats, integers, bools"),
        ("complex64", "float32", "complex64 can't be compared; allowed are float16"),
        ("str", "str", "str can't be compared"),
        ("string", "string", "TextComparer"),
    ],
)
def test_pairs_that_are_refused(ref, cand, sentence):
    with pytest.raises(ValueError, match=sentence):
        ElementComparer(Tolerance(), ref, cand, (1,), "full")


@pytest.mark.parametrize(
    ("tolerance", "field"),
    [
        (Tolerance(atol=math.inf), "atol"),
        (Tolerance(atol=math.nan), "atol"),
        (Tolerance(atol=-1.0), "atol"),
        (Tolerance(rtol=1.0), "rtol"),
        (Tolerance(rtol=math.nan), "rtol"),
        (Tolerance(rtol=-0.1), "rtol"),
        (Tolerance(max_abs=math.nan), "max_abs"),
        (Tolerance(max_abs=math.inf), "max_abs"),
        (Tolerance(max_outlier_fraction=1.0), "max_outlier_fraction"),
        (Tolerance(nonfinite="ignore"), "nonfinite"),
    ],
)
def test_vacuous_tolerances_are_refused(tolerance, field):
    with pytest.raises(ValueError, match=rf"^{field}: found"):
        ElementComparer(tolerance, "float32", "float32", (1,), "full")


def test_unknown_tier_is_refused():
    with pytest.raises(ValueError, match="stats: found 'all'"):
        ElementComparer(Tolerance(), "float32", "float32", (1,), "all")


@pytest.mark.parametrize(
    "cand", [np.zeros((2, 3)), np.zeros((3, 2), np.float32), np.zeros((2, 4), np.float32)]
)
def test_arrays_that_are_not_as_declared_are_refused(cand):
    comparer = ElementComparer(Tolerance(), "float32", "float32", (3,), "full")
    with pytest.raises(ValueError, match=r"candidate: found .* this comparison is of float32"):
        comparer.compare(np.zeros((2, 3), np.float32), cand, np.arange(2))


def test_threads_share_a_comparer():
    rng = np.random.default_rng(5)
    ref = rng.normal(size=(200, 50))
    cand = ref + rng.normal(size=ref.shape) * 1e-3
    comparer = ElementComparer(Tolerance(1e-3, 1e-3), "float64", "float64", (50,), "full")
    found = []
    work = [
        threading.Thread(
            target=lambda: found.append(dumped(comparer.compare(ref, cand, np.arange(200))[0]))
        )
        for _ in range(4)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


# Denormals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", ["_SINGLE_DENORMAL", "_DOUBLE_DENORMAL"])
def test_a_flushed_denormal_stops_the_comparison(monkeypatch, probe):
    monkeypatch.setattr(elements, probe, np.zeros_like(getattr(elements, probe)))
    with pytest.raises(DenormalError, match="flushes denormal") as caught:
        compare(rows([1e-40]), rows([2e-40]))
    assert isinstance(caught.value, ParityError)
    assert (caught.value.code, caught.value.exit_code) == ("environment.denormals_flushed", 2)


if platform.machine() == "x86_64" and platform.system() == "Linux":

    def test_a_thread_that_flushes_denormals_is_noticed():
        libm = ctypes.CDLL("libm.so.6")
        caught = []

        def work():
            saved, flushing = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
            libm.fegetenv(saved)
            flushing.raw = saved.raw
            control = int.from_bytes(flushing.raw[28:32], "little") | 0x8040  # FTZ, DAZ
            flushing.raw = flushing.raw[:28] + control.to_bytes(4, "little")
            libm.fesetenv(flushing)
            try:
                compare(rows([1e-40]), rows([2e-40]))
            except DenormalError as e:
                caught.append(e)
            finally:
                libm.fesetenv(saved)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert len(caught) == 1
        assert compare(rows([1e-40]), rows([2e-40]))[0].failing_samples == 1
