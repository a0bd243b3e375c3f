"""Decisions that a GPU may have counted: all that the CPU counts, and nothing that contradicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paritygate.comparison.decide.argmax import ArgmaxJudge
from paritygate.comparison.decide.topk import TopkJudge
from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.decisions_add_up import what_is_wrong, what_is_wrongly_listed
from paritygate.core.bands import parse_bands
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.tally.decision import DecisionTally
from paritygate.tally.records import LabelTally, MarginAt

RULES = {
    "bands": (DecisionRule("d", "y", bands=parse_bands("low < 0 <= high")), ()),
    "each": (DecisionRule("d", "y", bands=parse_bands("a <= 1 < b"), elementwise=True), (3,)),
    "argmax": (DecisionRule("d", "y", argmax=True), (3,)),
    "positions": (DecisionRule("d", "y", argmax=True, axis=1), (3, 2)),
    "set": (DecisionRule("d", "y", topk=2), (4,)),
    "ranked": (DecisionRule("d", "y", topk=4, order="ranked"), (4,)),
}
SCORES = (0.0, -0.0, 1.0, 1.001, 2.0, -3.0, 3e38, -3e38, np.inf, -np.inf, np.nan)


def decide(kind: str, ref: Any, cand: Any, truth: Any, **given: Any) -> tuple[DecisionTally, Any]:
    rule, shape = RULES[kind]
    tolerance, stats = Tolerance(1e-3, 1e-3, **given), "full"
    made = DecisionComparer(rule, tolerance, "float32", "float32", shape, stats)
    tally, detail = made.compare(ref, cand, np.arange(len(ref)) + 9, truth)
    return tally, detail.flipped_rows


@settings(max_examples=100)
@given(
    data=st.data(),
    kind=st.sampled_from(sorted(RULES)),
    nonfinite=st.sampled_from(["fail", "match"]),
    is_labelled=st.booleans(),
)
def test_what_the_cpu_decides_adds_up(
    data: st.DataObject, kind: str, nonfinite: str, is_labelled: bool
) -> None:
    shape = RULES[kind][1]
    samples = data.draw(st.integers(1, 5))
    size = samples * int(np.prod(shape))
    values = st.lists(st.sampled_from(SCORES), min_size=size, max_size=size)
    ref, cand = (np.array(data.draw(values), np.float32).reshape(samples, *shape) for _ in range(2))
    if data.draw(st.booleans()):
        cand = ref
    has_labels = is_labelled and kind not in ("each", "positions")
    truth = np.arange(samples) % 3 - 1 if has_labels else None
    tally, flipped = decide(kind, ref, cand, truth, nonfinite=nonfinite)
    assert what_is_wrong(tally, flipped, np.arange(samples) + 9) == ""


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"margin_min": None}, "no smallest margin of 6"),
        ({"margin_min": MarginAt(np.nan, 9)}, "the smallest margin is nan"),
        ({"margin_min": MarginAt(0.0, 15)}, "wasn't sent: row 15"),
        ({"tied_ref": 7}, "up to 7 ties"),
        ({"at_risk": -1}, "ties or risks in 6 decisions"),
        ({"depends_on_compare_as": 9}, "up to 9 ties"),
        ({"labels": LabelTally()}, "0 labels of 6"),
        ({"labels": LabelTally(6, 0, 4, 4, 1, 0)}, "that don't balance"),
        ({"samples": 5}, "decided 5 of 6"),
        ({"flips": 0}, "and 0 that flipped"),
        ({"margins": None, "matrix": {}}, "counted 0 pairs of 6"),
    ],
)
def test_counts_that_contradict_each_other_are_noticed(changed: Any, message: str) -> None:
    ref = np.arange(18, dtype=np.float32).reshape(6, 3) % 7
    tally, flipped = decide("argmax", ref, ref[:, ::-1].copy(), np.arange(6) % 3)
    assert what_is_wrong(tally, flipped, range(9, 15)) == ""
    assert message in what_is_wrong(replace(tally, **changed), flipped, np.arange(9, 15))
    assert "listed twice" in what_is_wrong(tally, np.zeros_like(flipped), range(9, 15))


def listed(kind: str, rows: Any, pairs: Any, margins: Any = None, *, match: bool = False) -> str:
    rule, shape = RULES[kind]
    made = DecisionComparer(rule, Tolerance(), "float32", "float32", shape, "gate")
    assert isinstance(made._ranked, ArgmaxJudge | TopkJudge)
    given = np.ones(len(rows)) if margins is None else np.array(margins)
    codes = np.array(pairs, np.int64).reshape(len(rows), 2, len(pairs[0]) // 2 if pairs else 1)
    return what_is_wrongly_listed(
        np.array(rows), given, codes, 9, 4, judge=made._ranked, match=match
    )


def test_what_may_have_flipped_is_believed() -> None:
    assert listed("argmax", [], []) == ""
    assert listed("argmax", [0, 8], [[0, 1], [3, -1]]) == ""
    assert listed("argmax", [2], [[-1, -1]], [np.nan]) == ""
    assert listed("argmax", [2], [[-1, 0]], [np.nan], match=True) == ""
    assert listed("set", [2], [[0, 1, 2, 0]], [np.inf]) == ""
    assert listed("ranked", [2], [[0, 1, 2, 3, 1, 0, 2, 3]], [0.0]) == ""


@pytest.mark.parametrize(
    ("kind", "rows", "pairs", "margins", "match"),
    [
        ("argmax", [0, 0], [[0, 1], [0, 1]], None, False),
        ("argmax", [3, 2], [[0, 1], [0, 1]], None, False),
        ("argmax", [-1], [[0, 1]], None, False),
        ("argmax", [9], [[0, 1]], None, False),
        ("argmax", [2], [[0, 0]], None, False),
        ("argmax", [2], [[-1, -1]], [np.nan], True),
        ("argmax", [2], [[0, 4]], None, False),
        ("argmax", [2], [[-2, 0]], None, False),
        ("argmax", [2], [[-1, 0]], [0.0], False),
        ("argmax", [2], [[1, 0]], [np.nan], False),
        ("argmax", [2], [[1, 0]], [-1.0], False),
        ("set", [2], [[0, 1, 1, 0]], None, False),
        ("ranked", [2], [[0, 1, 2, 3, 0, 1, 2, 3]], None, False),
    ],
)
def test_what_cant_have_flipped_is_noticed(
    kind: str, rows: Any, pairs: Any, margins: Any, match: bool
) -> None:
    assert listed(kind, rows, pairs, margins, match=match)
