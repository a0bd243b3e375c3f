"""Where a run that compares on a GPU decides, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.gpu.simulated import test_staying
from tests.gpu.simulated.test_staying import ALL, BOTH, SAMPLES, WIDTH
from tests.gpu.simulator import threads_in_turns
from tests.packs import write_pack

from paritygate.comparison import place, placed_decisions
from paritygate.comparison.stage import StageComparer
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
    there = {"top": on(SAMPLES), "side": on(SAMPLES)}
    assert found["decisions"]["s"] == dict.fromkeys(("soft", "own", "count"), on(0)) | there
    assert found["notes"] == [
        CPU.format("soft", KINDS.format("scores after softmax")),
        CPU.format("own", KINDS.format("functions")),
        CPU.format("count", KINDS.format("equal")),
    ]
    assert made == ["top", "side"]


@pytest.mark.parametrize("leave", [{}, {"ref": ALL}])
@pytest.mark.parametrize("threads", [1, 2])
def test_decisions_of_outputs_that_are_sent_are_made_there_too(
    plan: Path, monkeypatch: pytest.MonkeyPatch, made: list[str], leave: Any, threads: int
) -> None:
    monkeypatch.setattr(place, "SENT_BYTES", 90)  # a few samples of each output
    with threads_in_turns(StageComparer, "compare"):
        ours, _ = test_staying.run(plan, monkeypatch, "cuda", leave, dtype="int32", threads=threads)
    theirs, _ = test_staying.run(plan, monkeypatch, "cpu", {}, dtype="int32")
    test_staying.same(ours, theirs)
    assert made == ["top", "side"]
    found = ours.summary["comparison"]
    assert found["samples"]["s"]["z"] == on(SAMPLES)
    assert (found["decisions"]["s"]["top"], found["decisions"]["s"]["side"]) == (on(50), on(50))
    assert [note for note in found["notes"] if "decided on the CPU" in note] == [
        CPU.format("soft", KINDS.format("scores after softmax")),
        CPU.format("own", KINDS.format("functions")),
        CPU.format("count", KINDS.format("equal")),
    ]


def test_labels_are_sent_along(
    plan: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    x = np.random.default_rng(5).normal(size=(SAMPLES, WIDTH)).astype(np.float32)
    truth = np.random.default_rng(6).integers(-1, WIDTH, SAMPLES)
    write_pack(plan / "golden.arrow", np.arange(SAMPLES), {"x": x}, label=truth)
    monkeypatch.setattr(place, "SENT_BYTES", 90)
    ours, _ = test_staying.run(plan, monkeypatch, "cuda", {}, dtype="int32")
    theirs, _ = test_staying.run(plan, monkeypatch, "cpu", {}, dtype="int32")
    test_staying.same(ours, theirs)
    decided = ours.summary["stages"][0]["decisions"]
    assert decided["top"]["labels"] is not None
    assert ours.summary["comparison"]["decisions"]["s"]["top"] == on(SAMPLES)


def test_samples_without_an_answer_leave_their_block_to_the_cpu(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = test_staying.run(plan, monkeypatch, "cuda", {}, size=7, fails=True)
    theirs, _ = test_staying.run(plan, monkeypatch, "cpu", {}, size=7, fails=True)
    test_staying.same(ours, theirs)
    assert ours.summary["stages"][0]["samples"]["errors"] > 0
    found = ours.summary["comparison"]
    assert found["decisions"]["s"]["side"] == found["samples"]["s"]["z"]


def test_auto_says_nothing_of_decisions_of_outputs_that_it_compares_on_the_cpu(
    plan: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    leave = dict.fromkeys(BOTH, frozenset({"z"}))
    ours, _ = test_staying.run(plan, monkeypatch, "auto", leave, dtype="int32")
    assert made == ["side"]
    found = ours.summary["comparison"]
    assert (found["decisions"], found["notes"]) == ({"s": {"side": on(SAMPLES)}}, [])
