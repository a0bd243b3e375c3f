"""Decisions in `assert_parity` and `verify`: the tables of a plan, on arrays."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import paritygate
from paritygate.core.errors import PlanError

REF = np.array([[0.5, 0.3, 0.2], [0.1, 0.5, 0.4]], np.float32)
NEAR = np.array([[0.5, 0.24, 0.26], [0.1, 0.5, 0.4]], np.float32)
WIDE = {"atol": 0.1, "rtol": 0.0}


def message(ref: Any, cand: Any, decisions: Any, **rules: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        paritygate.assert_parity(ref, cand, decisions=decisions, **{**WIDE, **rules})
    return str(caught.value)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"argmax": True}, None),
        ({"topk": 1}, None),
        ({"topk": 2}, "  sample 0: 0, 1 -> 0, 2, margin 0.1"),
        ({"topk": 3, "order": "ranked"}, "  sample 0: 0 > 1 > 2 -> 0 > 2 > 1, margin 0.1"),
        (
            {"bands": "no < 0.25 <= yes", "elementwise": True},
            "  sample 0: yes at [1] -> no at [1], margin 0.05",
        ),
        (
            {"bands": "no < 0.25 <= yes", "elementwise": True},
            "decision 'd': 1 of 2 samples changed in 2 of 6 places",
        ),
        ({"python": "operator:itemgetter"}, "decision 'd' could not be made"),
    ],
)
def test_what_changed(table: Any, told: str | None) -> None:
    if told is None:
        paritygate.assert_parity(REF, NEAR, **WIDE, decisions={"d": table})
        return
    assert told in message(REF, NEAR, {"d": table})


def test_elements_and_decisions_are_told_together() -> None:
    told = message(REF, NEAR, {"d": {"topk": 2}}, atol=0.0)
    assert "tolerance.exceeded" in told
    assert "decision 'd'" in told


def test_mappings_name_their_outputs() -> None:
    ref, cand = {"p": REF, "id": np.array([1, 2])}, {"p": NEAR, "id": np.array([1, 2])}
    decisions = {"top": {"output": "p", "topk": 2}, "same": {"output": "id", "equal": True}}
    told = message(ref, cand, decisions)
    assert told.startswith("'p': decision 'top': 1 of 2 samples changed")
    paritygate.assert_parity(ref, cand, **WIDE, decisions={"same": decisions["same"]})


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"a": {"topk": 0}, "b": {"argmx": True}}, "decisions.a.topk"),
        ({"a": {"topk": 0}, "b": {"argmx": True}}, "did you mean 'argmax'"),
        ({"a": {"argmax": True, "equal": True}}, "exactly one"),
        ({"a": {"output": "y", "argmax": True}}, "there is one array only"),
        ({"a": {"equal": True}}, "a float is decided by bands"),
        ({"a": {"argmax": True, "ref_labels": ["a"], "cand_labels": ["b"]}}, "cand_labels"),
    ],
)
def test_unusable_decisions(tables: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        paritygate.assert_parity(REF, NEAR, **WIDE, decisions=tables)


def test_a_scalar_has_no_samples() -> None:
    with pytest.raises(ValueError, match="no samples"):
        paritygate.assert_parity(1.0, 1.0, decisions={"d": {"bands": "a < 1 <= b"}})


def test_verify_takes_the_same_tables() -> None:
    def run(decisions: Any) -> Any:
        return paritygate.verify(
            lambda given: {"p": REF[given["row"]]},
            lambda given: {"p": NEAR[given["row"]]},
            {"row": np.arange(2)},
            **WIDE,
            decisions=decisions,
        )

    held = run({"top": {"output": "p", "topk": 2}, "first": {"output": "p", "topk": 1}})
    assert [(r.code, r.decision) for r in held.reasons] == [("decision.flip", "top")]
    assert run({"first": {"output": "p", "topk": 1}}).verdict == "release"
    with pytest.raises(PlanError, match="exactly one"):
        run({"first": {"output": "p", "topk": 1, "argmax": True}})
