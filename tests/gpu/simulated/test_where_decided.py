"""Where a run that compares on a GPU decides, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gpu.simulated import test_staying
from tests.gpu.simulated.test_staying import ALL, BOTH, SAMPLES

from paritygate.comparison import placed_decisions
from paritygate.core.tensors import TensorSpec

MORE = """
[decisions.soft]
output = "y"
argmax = true
transform = "softmax"
[decisions.own]
output = "y"
python = "functions:decide"
[decisions.count]
output = "n"
equal = true
elementwise = true
"""
FUNCTION = """
def decide(y):
    return ["up" if row[0] > 0 else "down" for row in y]
"""
CPU = "stage 's', decision '{}': decided on the CPU: {}"
KINDS = "a GPU decides bands, argmax and topk of scores as they are, not {}"
plan = test_staying.plan


@pytest.fixture
def made(plan: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Decisions that a GPU was given to decide, in the order in which they were tried out."""
    monkeypatch.setattr(test_staying, "PLAN", test_staying.PLAN + MORE)
    monkeypatch.setattr(test_staying, "CODE", test_staying.CODE + FUNCTION)
    whole = TensorSpec("n", "int32", ("batch", 2))
    monkeypatch.setitem(test_staying.DECLARED, "n", whole)
    names, real = [], placed_decisions.PlacedDecisions._try_out

    def try_out(self: Any, rule: Any, *args: Any) -> None:
        names.append(rule.name)
        real(self, rule, *args)

    monkeypatch.setattr(placed_decisions.PlacedDecisions, "_try_out", try_out)
    return names


def on(cuda: int) -> dict[str, int]:
    return {"cuda": cuda, "cpu": SAMPLES - cuda}


def test_each_decision_is_told_where_it_was_made(
    plan: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    ours, _ = test_staying.run(plan, monkeypatch, "cuda", BOTH, dtype="int32")
    theirs, _ = test_staying.run(plan, monkeypatch, "cpu", {}, dtype="int32")
    test_staying.same(ours, theirs)
    found = ours.summary["comparison"]
    there = {"top": on(35), "side": on(35)}
    assert found["decisions"]["s"] == dict.fromkeys(("soft", "own", "count"), on(0)) | there
    assert found["notes"] == [
        CPU.format("soft", KINDS.format("scores after softmax")),
        CPU.format("own", KINDS.format("functions")),
        CPU.format("count", KINDS.format("equal")),
    ]
    assert made == ["top", "side"]


def test_nothing_is_tried_out_for_decisions_of_outputs_that_lie_elsewhere(
    plan: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    ours, _ = test_staying.run(plan, monkeypatch, "cuda", {"ref": ALL}, dtype="int32")
    assert made == []
    found = ours.summary["comparison"]
    assert set(map(str, found["decisions"]["s"].values())) == {str(on(0))}
    assert CPU.format("side", "output 'z' doesn't lie on the GPU on both sides") in found["notes"]
    assert found["samples"]["s"]["z"] == {"cuda": SAMPLES, "cpu": 0}


def test_auto_says_nothing_of_decisions_of_outputs_that_it_compares_on_the_cpu(
    plan: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    leave = dict.fromkeys(BOTH, frozenset({"z"}))
    ours, _ = test_staying.run(plan, monkeypatch, "auto", leave, dtype="int32")
    assert made == ["side"]
    found = ours.summary["comparison"]
    assert (found["decisions"], found["notes"]) == ({"s": {"side": on(35)}}, [])
