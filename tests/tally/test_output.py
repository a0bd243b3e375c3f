"""Merge algebra and figures of an output's tally, made by hand."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive

from paritygate.tally.exact import ExactSum
from paritygate.tally.extremes import Extreme
from paritygate.tally.histogram import Histogram
from paritygate.tally.output import OutputTally, one_minus_cosine
from paritygate.tally.texts import Difference

counts = st.integers(0, 5)
sums = st.lists(st.floats(allow_nan=False), max_size=3).map(ExactSum.from_floats)
extremes = st.none() | st.builds(
    Extreme,
    keys=st.tuples(st.floats(0, allow_nan=False).map(abs)),
    ordinal=counts,
    index=counts,
    ref=st.floats(allow_nan=False),
    cand=st.floats(allow_nan=False),
)
histograms = st.lists(st.floats(0, 10), max_size=4).map(Histogram.of)
KINDS = {
    "int": counts,
    "tuple[int, ...]": None,
    "Extreme | None": extremes,
    "ExactSum": sums,
    "Histogram": histograms,
    "Difference | None": st.none()
    | st.builds(Difference, ordinal=counts, index=counts, ref=st.text(), cand=st.text()),
}


def tallies():
    fields = {}
    for name, kind in OutputTally.__annotations__.items():
        if name in ("tier", "integer", "text"):
            continue
        length = {"rule_samples": 5, "classes": 16, "at_limits": 4}.get(name)
        fields[name] = st.tuples(*[counts] * length) if length else KINDS[kind]
    return st.builds(OutputTally, **fields)


def dumped(tally):
    return json.dumps(tally.to_json(), sort_keys=True)


@settings(deadline=None, max_examples=60)
@given(tallies(), tallies(), tallies())
def test_merge_is_associative_and_commutative_and_has_an_identity(x, y, z):
    assert dumped(x.merge(y).merge(z)) == dumped(x.merge(y.merge(z)))
    assert dumped(x.merge(y)) == dumped(y.merge(x))
    assert dumped(x.merge(OutputTally())) == dumped(x) == dumped(OutputTally().merge(x))


@settings(deadline=None, max_examples=60)
@given(tallies(), tallies())
def test_merge_adds_every_count(x, y):
    merged = x.merge(y)
    for name in OutputTally.__struct_fields__:
        mine, theirs, found = (getattr(t, name) for t in (x, y, merged))
        if name not in ("tier", "integer") and isinstance(mine, int):
            assert found == mine + theirs
        if isinstance(mine, tuple):
            assert found == tuple(a + b for a, b in zip(mine, theirs, strict=True))


@settings(deadline=None, max_examples=60)
@given(tallies())
def test_json_round_trip(tally):
    back = OutputTally.from_json(json.loads(json.dumps(tally.to_json(), allow_nan=False)))
    assert back == tally
    assert dumped(back) == dumped(tally)


@pytest.mark.parametrize("other", [OutputTally(tier="gate"), OutputTally(integer=True)])
def test_unlike_tallies_do_not_merge(other):
    with pytest.raises(ValueError, match="compare all parts alike"):
        OutputTally().merge(other)


def tally_of(ref, cand, **fields):
    """A tally of flat lists, from the oracle's terms."""
    terms = {name: ExactSum.from_floats(t) for name, t in naive.terms(ref, cand).items()}
    table = naive.class_table(ref, cand)
    names = naive.CLASS_NAMES
    classes = tuple(table.get((x, y), 0) for x in names for y in names)
    errors = naive.terms(ref, cand)["abs_errors"]
    top = Extreme((max(errors),), 0, 0, 0.0, 0.0) if errors else None
    return OutputTally(
        **(terms | {"classes": classes, "max_abs_error": top, "histogram": Histogram.of(errors)}),
        **fields,
    )


numbers = st.floats() | st.floats(-10, 10)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(numbers, numbers), max_size=4),
    st.sampled_from(["gate", "full"]),
    st.booleans(),
)
def test_every_missing_figure_has_a_reason(pairs, tier, integer):
    ref, cand = [r for r, _ in pairs], [c for _, c in pairs]
    figures = tally_of(ref, cand, tier=tier, integer=integer).figures()
    json.dumps(figures, allow_nan=False)
    missing = {name for name, figure in figures.items() if figure is None}
    assert missing == set(figures["not_computed"])
    assert all(figures["not_computed"].values())


def test_figures_of_a_small_case():
    ref, cand = [3.0, 4.0, math.nan, math.inf], [3.5, 3.5, math.nan, 1.0]
    figures = tally_of(ref, cand).figures()
    assert figures["elements"] == 4
    assert figures["finite_pairs"] == 2
    assert figures["nonfinite"] == {
        "ref": 2,
        "cand": 1,
        "agreeing": 1,
        "disagreeing": 1,
        "table": {"nan": {"nan": 1}, "inf": {"finite": 1}},
    }
    assert figures["mean_error"] == 0.0
    assert figures["mean_abs_error"] == 0.5
    assert figures["rmse"] == 0.5
    assert figures["sqnr_db"] == pytest.approx(10 * math.log10(25 / 0.5))
    assert figures["one_minus_cosine"] == pytest.approx(naive.one_minus_cosine(ref, cand))
    assert figures["abs_error_quantiles"] == {"p50": 0.5, "p90": 0.5, "p99": 0.5, "p99.9": 0.5}
    assert figures["max_abs_error"]["value"] == 0.5


def test_bias_keeps_its_sign():
    assert tally_of([1.0, 1.0], [0.5, 1.0]).figures()["mean_error"] == -0.25


def test_no_noise_and_no_energy_are_told_apart():
    clean = tally_of([1.0], [1.0]).figures()
    assert (clean["sqnr_db"], clean["one_minus_cosine"], clean["rmse"]) == ("inf", 0.0, 0.0)
    silent = tally_of([0.0], [1.0]).figures()
    assert (silent["sqnr_db"], silent["one_minus_cosine"]) == (None, None)
    assert silent["not_computed"]["sqnr_db"] == "undefined: no energy"


def test_overflow_is_said():
    figures = tally_of([1e200], [2e200]).figures()
    assert figures["mean_error"] == 1e200
    assert figures["not_computed"]["rmse"] == "a term overflowed float64"
    assert figures["not_computed"]["sqnr_db"] == "a term overflowed float64"


def test_nothing_is_said_of_nothing():
    figures = OutputTally().figures()
    assert figures["not_computed"]["mean_error"] == "no element is finite on both sides"
    assert figures["max_abs_error"] is None


def test_gate_tier_says_what_it_left_out():
    reasons = OutputTally(tier="gate").figures()["not_computed"]
    assert reasons["rmse"] == reasons["max_ulp"] == "belongs to the statistics tier 'full'"


def test_integers_have_steps_and_no_ulp():
    figures = OutputTally(
        integer=True, max_abs_error=Extreme((3,), 7, 1, 5, 8), classes=(1,) + (0,) * 15
    ).figures()
    assert figures["max_steps"] == 3
    assert figures["not_computed"]["max_ulp"] == "not meaningful for integers"
    assert figures["not_computed"]["sqnr_db"] == "not meaningful for integers"
    assert "max_steps" not in OutputTally().figures()


samples = st.lists(st.floats(-1e3, 1e3).filter(lambda x: x == 0 or abs(x) > 1e-3), min_size=2)


def exact(value):
    units = value * 2**1074
    assert units.denominator == 1
    return ExactSum(int(units))


@settings(deadline=None)
@given(samples, st.sampled_from([1e-8, 1e-3, 1.0, -1.0, -2.0]), st.randoms())
def test_one_minus_cosine_of_exact_sums(ref, size, random):
    cand = [r + size * r * random.random() for r in ref]
    expected = naive.one_minus_cosine(ref, cand)
    found = one_minus_cosine(*(exact(e) for e in naive.energies(ref, cand)))
    if expected is None:
        assert found is None
    else:
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-40)


def test_one_minus_cosine_at_the_ends_of_the_range():
    tiny, huge = ExactSum(1), exact(Fraction(1.7976931348623157e308))
    assert one_minus_cosine(tiny, ExactSum(), ExactSum()) == 0.0
    assert one_minus_cosine(tiny, huge, ExactSum()) == pytest.approx(1.0)
    assert one_minus_cosine(huge, tiny, ExactSum()) == 0.0
    assert one_minus_cosine(tiny, ExactSum(4), ExactSum(-2)) == 2.0


def _raised(data: object, by: int) -> object:
    """JSON of a tally with every ordinal in it raised."""
    if isinstance(data, dict):
        return {k: v + by if k == "ordinal" else _raised(v, by) for k, v in data.items()}
    return data


@given(tallies(), st.integers(0, 9))
def test_a_moved_tally_has_every_ordinal_moved_and_nothing_else(tally, by):
    assert tally.moved(by).to_json() == _raised(tally.to_json(), by)
