"""The decision tally: merge algebra, exact JSON, figures."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincinv

from paritygate.tally.decision import (
    DecisionTally,
    EdgeSides,
    LabelTally,
    MarginAt,
    flip_rate_upper,
)
from paritygate.tally.histogram import Histogram

NAMES = ("accept", "review", "reject")

counts = st.integers(0, 2**40)
margins = st.floats(0, math.inf)
places = st.none() | st.builds(MarginAt, margins, counts)
histograms = st.lists(margins, max_size=5).map(lambda xs: Histogram.of(np.array(xs, np.float64)))
codes = st.integers(-1, 2)
distances = st.none() | st.floats(0, 1e300, exclude_min=True)
edge_sides = st.builds(EdgeSides, counts, counts, counts, distances, distances)


@st.composite
def tallies(draw, kind, tier, labelled):
    return DecisionTally(
        kind=kind,
        tier=tier,
        samples=draw(counts),
        flips=draw(counts),
        matrix=draw(st.dictionaries(st.tuples(codes, codes), st.integers(1, 2**40), max_size=4)),
        tied_ref=draw(counts),
        tied_cand=draw(counts),
        at_risk=draw(counts),
        depends_on_compare_as=draw(counts),
        margins=draw(histograms) if tier == "full" else None,
        margin_min=draw(places),
        flip_margins=draw(histograms),
        flip_margin_min=draw(places),
        flip_margin_max=draw(places),
        edges=draw(st.tuples(*[edge_sides] * 2)) if kind == "bands" else (),
        labels=LabelTally(*draw(st.tuples(*[counts] * 6))) if labelled else None,
    )


@st.composite
def alike(draw, size):
    kind = draw(st.sampled_from(("bands", "argmax")))
    tier = draw(st.sampled_from(("gate", "full")))
    labelled = draw(st.booleans())
    return [draw(tallies(kind, tier, labelled)) for _ in range(size)]


@given(alike(3))
def test_merge_is_associative_and_commutative(three):
    a, b, c = three
    assert a.merge(b).to_json() == b.merge(a).to_json()
    assert a.merge(b).merge(c).to_json() == a.merge(b.merge(c)).to_json()


@given(alike(2))
def test_merge_adds_counts_and_leaves_its_sides_alone(two):
    before = [json.dumps(t.to_json()) for t in two]
    both = two[0].merge(two[1])
    for name in ("samples", "flips", "at_risk", "tied_ref", "tied_cand", "undefined_ref"):
        assert getattr(both, name) == sum(getattr(t, name) for t in two)
    for key in {*two[0].matrix, *two[1].matrix}:
        assert both.matrix[key] == sum(t.matrix.get(key, 0) for t in two)
    assert [json.dumps(t.to_json()) for t in two] == before


@given(alike(1))
def test_json_round_trip_is_exact(one):
    written = json.dumps(one[0].to_json(), allow_nan=False)
    again = DecisionTally.from_json(json.loads(written))
    assert json.dumps(again.to_json()) == written
    assert again.flip_margin_max == one[0].flip_margin_max
    assert dict(again.matrix) == dict(one[0].matrix)


def test_merge_refuses_what_does_not_belong_together():
    bands = DecisionTally("bands", "gate", edges=(EdgeSides(),))
    for other in (
        DecisionTally("argmax", "gate"),
        DecisionTally("bands", "full", edges=(EdgeSides(),)),
        DecisionTally("bands", "gate", edges=(EdgeSides(), EdgeSides())),
    ):
        with pytest.raises(ValueError, match="don't merge"):
            bands.merge(other)


def test_equal_margins_go_to_the_lowest_ordinal():
    tallies_ = [
        DecisionTally(
            "argmax",
            "gate",
            margin_min=MarginAt(m, o),
            flip_margin_min=MarginAt(m, o),
            flip_margin_max=MarginAt(m, o),
        )
        for m, o in ((0.5, 7), (0.25, 9), (0.5, 3), (0.25, 4))
    ]
    merged = reduce(DecisionTally.merge, tallies_)
    assert merged.margin_min == merged.flip_margin_min == MarginAt(0.25, 4)
    assert merged.flip_margin_max == MarginAt(0.5, 3)


# --- the bound of the flip rate ------------------------------------------------------------------


@pytest.mark.parametrize("samples", [1, 2, 10, 100, 1000, 10**6, 10**9])
def test_bound_without_flips_is_that_of_the_beta_distribution(samples):
    found = flip_rate_upper(0, samples)
    assert found == pytest.approx(float(betaincinv(1, samples, 0.95)), rel=1e-12)


def test_bound_known_values():
    assert flip_rate_upper(0, 100) == pytest.approx(0.029513, abs=1e-6)
    assert flip_rate_upper(0, 0) == 1.0
    assert flip_rate_upper(5, 5) == 1.0


@given(st.integers(1, 60), st.data())
def test_bound_is_where_so_few_flips_have_five_percent(samples, data):
    flips = data.draw(st.integers(0, samples - 1))
    rate = Fraction(flip_rate_upper(flips, samples))
    at_most = sum(
        math.comb(samples, k) * rate**k * (1 - rate) ** (samples - k) for k in range(flips + 1)
    )
    assert float(at_most) == pytest.approx(0.05, rel=1e-6)


# --- figures -------------------------------------------------------------------------------------


def example(**changes):
    values = {
        "kind": "bands",
        "tier": "full",
        "samples": 8,
        "flips": 2,
        "matrix": {(0, 0): 4, (0, 1): 1, (-1, -1): 1, (2, 2): 1, (1, -1): 1},
        "margins": Histogram.of(np.array([0.0, 0.01, 0.02, 0.3, 0.5, 0.5, math.inf])),
        "margin_min": MarginAt(0.0, 3),
        "flip_margins": Histogram.of(np.array([0.01])),
        "flip_margin_min": MarginAt(0.01, 5),
        "flip_margin_max": MarginAt(0.01, 5),
        "edges": (EdgeSides(4, 1, 2, 0.25, 0.5), EdgeSides(6, 0, 1, 0.125)),
        "labels": LabelTally(6, 2, 5, 4, 2, 1),
    }
    return DecisionTally(**{**values, **changes})


def test_figures():
    figures = example(at_risk=3, depends_on_compare_as=1).figures(NAMES, 0.01)
    assert figures["samples"] == 8
    assert figures["flips"] == 2
    assert figures["agreement"] == 0.75
    assert figures["undefined"] == {"ref": 1, "cand": 2}
    assert figures["matrix"] == {
        "accept": {"accept": 4, "review": 1},
        "review": {"undefined": 1},
        "reject": {"reject": 1},
        "undefined": {"undefined": 1},
    }
    assert figures["tied"] is None
    assert figures["edges"] == [
        {
            "between": ["accept", "review"],
            "below": 4,
            "on": 1,
            "above": 2,
            "nearest_below": 0.25,
            "nearest_above": 0.5,
        },
        {
            "between": ["review", "reject"],
            "below": 6,
            "on": 0,
            "above": 1,
            "nearest_below": 0.125,
            "nearest_above": None,
        },
    ]
    assert figures["margin_min"] == {"margin": 0.0, "ordinal": 3}
    assert figures["flip_margin"] == {
        "min": {"margin": 0.01, "ordinal": 5},
        "median": 0.01,
        "max": {"margin": 0.01, "ordinal": 5},
    }
    assert figures["at_risk"] == 3
    assert figures["depends_on_compare_as"] == 1
    assert figures["labels"] == {
        "labelled": 6,
        "unknown": 2,
        "correct_ref": 5,
        "correct_cand": 4,
        "changed_to_wrong": 2,
        "changed_to_right": 1,
    }
    assert figures["flip_rate_upper_95"] == flip_rate_upper(2, 8)


def test_figures_of_argmax():
    figures = example(kind="argmax", edges=(), tied_ref=2, tied_cand=1, labels=None).figures(
        NAMES, 0.01
    )
    assert figures["tied"] == {"ref": 2, "cand": 1}
    assert figures["edges"] is None
    assert figures["labels"] is None


def test_figures_of_nothing():
    figures = DecisionTally("argmax", "gate").figures(("0",), None)
    assert figures["agreement"] is None
    assert figures["flip_rate_upper_95"] == 1.0
    assert figures["margin_min"] is None
    assert figures["flip_margin"] == {"min": None, "median": None, "max": None}


def test_at_risk_observed_is_an_upper_bound_by_less_than_a_bin():
    assert example().figures(NAMES, 0.0)["at_risk_observed"] == 1
    assert example().figures(NAMES, 0.01)["at_risk_observed"] == 2
    assert example().figures(NAMES, 0.0196)["at_risk_observed"] == 3  # the bin of 0.02
    assert example(kind="argmax").figures(NAMES, 0.01)["at_risk_observed"] == 3
    assert example().figures(NAMES, 1e308)["at_risk_observed"] == 6


@given(st.lists(st.floats(0, 1e6), max_size=30), st.floats(0, 1e6))
def test_at_risk_observed_bounds_the_true_count(found, error):
    tally = example(margins=Histogram.of(np.array(found, np.float64)))
    observed = tally.figures(NAMES, error)["at_risk_observed"]
    assert sum(m <= error for m in found) <= observed
    assert observed <= sum(m <= error * 1.1250001 + 2**-1070 for m in found)


@pytest.mark.parametrize(
    ("tally", "error", "words"),
    [
        (example(tier="gate", margins=None), 0.1, "tier full"),
        (example(), None, "no error was measured"),
    ],
)
def test_a_figure_that_is_not_computed_has_a_reason(tally, error, words):
    figures = tally.figures(NAMES, error)
    assert figures["at_risk_observed"] is None
    assert words in figures["not_computed"]["at_risk_observed"]


def test_a_computed_figure_needs_no_reason():
    assert example().figures(NAMES, 0.1)["not_computed"] == {}
