"""The judge: clean facts release; each single fault holds, with its code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from paritygate.api.plans import load_plan
from paritygate.comparison.rows import KeepHint, SampleRows, Side
from paritygate.comparison.stage import StageComparer
from paritygate.core.plan import Plan
from paritygate.core.verdict import Verdict
from paritygate.judge import RunFacts, SideFacts, StageFacts, judge
from paritygate.runners.base import Finding
from paritygate.tally.output import OutputTally
from paritygate.tally.stage import FirstError, Hits, StageTally

N = 8


def make_plan(**more: Any) -> Plan:
    return load_plan(
        {
            "golden": "g.arrow",
            "runners": {"a": "a.onnx", "b": "b.onnx"},
            "stages": [
                {
                    "name": "s",
                    "reference": "a",
                    "candidate": "b",
                    "outputs": {"y": {"atol": 0.1, "rtol": 0.0}},
                    "flips": {"band": 1},
                }
            ],
            "decisions": {"band": {"output": "y", "bands": "low < 0.5 <= high"}},
            **more,
        }
    )


def tally(cand: list[float], plan: Plan, ref: float = 0.0) -> StageTally:
    everyone = np.ones(N, np.bool_)
    nobody = np.zeros(N, np.bool_)
    rows = SampleRows(0, np.arange(N), np.arange(N) + 100, {}, {}, Hits())
    sides = [
        Side({"y": np.full((N, 1), ref, np.float32)}, everyone, nobody),
        Side({"y": np.array(cand, np.float32).reshape(N, 1)}, everyone, nobody),
    ]
    comparer = StageComparer(plan, plan.stages[0], "full")
    return comparer.compare(rows, *sides, KeepHint(10)).tally


def facts(found: StageTally | None, plan: Plan | None = None, **stage: Any) -> RunFacts:
    plan = plan or make_plan()
    made = StageFacts(
        plan.stages[0],
        SideFacts("a", "id-a"),
        SideFacts("b", "id-b"),
        found,
        {"band": ("low", "high")},
    )
    return RunFacts(plan, N, N, [replace(made, **stage)], lambda ordinal: ordinal + 100)


CLEAN = [0.05] * N


def test_clean_facts_release() -> None:
    judgement = judge(facts(tally(CLEAN, make_plan())))
    assert judgement.verdict is Verdict.RELEASE
    assert judgement.reasons == ()
    assert judgement.stages == {"s": Verdict.RELEASE}


def codes(run: RunFacts) -> list[str]:
    judgement = judge(run)
    assert judgement.verdict is Verdict.HOLD
    assert set(judgement.stages.values()) <= {Verdict.HOLD}
    return [r.code for r in judgement.reasons]


def test_tolerance_sentence_names_both_values_and_the_bound() -> None:
    plan = make_plan()
    judgement = judge(facts(tally([0.05] * (N - 1) + [0.25], plan), plan))
    (reason,) = judgement.reasons
    assert reason.code == "tolerance.exceeded"
    assert reason.ids == (107,)
    for part in ("1 of 8", "id 107", "reference 0,", "candidate 0.25", "|error| 0.25", "0.1"):
        assert part in reason.message


def test_flips_hold_beyond_their_budget_only() -> None:
    plan = make_plan()
    loose = make_plan(
        stages=[
            {
                "name": "s",
                "reference": "a",
                "candidate": "b",
                "outputs": {"y": {"atol": 1.0, "rtol": 0.0}},
                "flips": {"band": 1},
            }
        ]
    )
    one, two = [0.6] + [0.0] * (N - 1), [0.6, 0.6] + [0.0] * (N - 2)
    assert judge(facts(tally(one, loose), loose)).verdict is Verdict.RELEASE
    assert codes(facts(tally(two, loose), loose)) == ["decision.flip"]
    reasons = judge(facts(tally(two, loose), loose)).reasons
    assert "low -> high 2x" in reasons[0].message
    assert "1 allowed" in reasons[0].message
    assert "tolerance.exceeded" in codes(facts(tally(one, plan), plan))


def change_tally(**fields: Any) -> Callable[[StageTally], StageTally]:
    return lambda clean: replace(clean, **fields)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (change_tally(compared=0), "evidence.empty"),
        (change_tally(outputs={}, decisions={}), "evidence.empty"),
        (change_tally(outputs={"y": OutputTally()}), "evidence.empty"),
        (change_tally(seen=N - 1), "evidence.unaccounted"),
        (change_tally(seen=N + 1), "evidence.unaccounted"),
        (change_tally(undeclared={("candidate", "aux"): N}), "output.undeclared"),
        (
            change_tally(
                rules={("runner.error", "candidate"): Hits(1, ((3, 103),))},
                errors={"candidate": FirstError(3, "it broke", 1)},
            ),
            "runner.error",
        ),
        (change_tally(rules={("sample.missing", "candidate"): Hits(1)}), "sample.missing"),
        (change_tally(rules={("sample.rejected", ""): Hits(1)}), "sample.rejected"),
        (change_tally(rules={("output.missing", "y (candidate)"): Hits(1)}), "output.missing"),
        (change_tally(rules={("dtype.mismatch", "y"): Hits(1)}), "dtype.mismatch"),
        (change_tally(rules={("shape.mismatch", "y"): Hits(1)}), "shape.mismatch"),
        (change_tally(rules={("nonfinite.candidate", "y"): Hits(1)}), "nonfinite.candidate"),
        (change_tally(rules={("nonfinite.mismatch", "y"): Hits(1)}), "nonfinite.mismatch"),
        (change_tally(rules={("nonfinite.reference", "y"): Hits(1)}), "nonfinite.reference"),
        (change_tally(rules={("tolerance.hard_cap", "y"): Hits(1)}), "tolerance.hard_cap"),
    ],
)
def test_each_fault_in_a_tally_holds(change: Callable[[StageTally], StageTally], code: str) -> None:
    plan = make_plan()
    assert code in codes(facts(change(tally(CLEAN, plan)), plan))


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"cand": SideFacts("b", "id-a")}, "policy.same_runner"),
        (
            {"cand": SideFacts("b", "id-b", (Finding("placement.downgraded", "on the CPU"),))},
            "placement.downgraded",
        ),
        ({"ref": SideFacts("a", "id-a", (Finding("sample.extra", "1 more"),))}, "sample.extra"),
    ],
)
def test_each_fault_of_a_side_holds(stage: dict[str, Any], code: str) -> None:
    plan = make_plan()
    assert codes(facts(tally(CLEAN, plan), plan, **stage)) == [code]


def test_a_candidate_that_does_not_load_holds_its_stage() -> None:
    cand = SideFacts("b", load_failure=("runner.load_failed", "no such file"))
    assert codes(facts(None, cand=cand)) == ["runner.load_failed", "stage.not_run"]


def test_self_stage_may_compare_a_thing_with_itself() -> None:
    table = make_plan().table.model_dump(by_alias=True, exclude_none=True)
    table["stages"][0]["self"] = True
    plan = load_plan({**table, "runners": {"a": "a.onnx", "b": "b.onnx"}})
    run = facts(tally(CLEAN, plan), plan, cand=SideFacts("b", "id-a"))
    assert judge(run).verdict is Verdict.RELEASE


def test_too_few_samples_hold() -> None:
    plan = make_plan(min_samples=N + 1)
    assert codes(facts(tally(CLEAN, plan), plan)) == ["evidence.too_few"]


def test_a_part_of_the_pack_is_incomplete_at_best() -> None:
    plan = make_plan()
    clean = replace(facts(tally(CLEAN, plan), plan), samples=N + 5)
    judgement = judge(clean)
    assert judgement.verdict is Verdict.INCOMPLETE
    assert judgement.reasons[0].message.endswith("asks for more: 8 of 13 samples were judged")
    bad = replace(facts(tally([9.0] * N, plan), plan), samples=N + 5)
    assert judge(bad).verdict is Verdict.HOLD


def test_no_stage_at_all_holds() -> None:
    run = replace(facts(tally(CLEAN, make_plan())), stages=[])
    assert codes(run) == ["evidence.empty"]


def test_a_release_says_what_it_did_not_judge() -> None:
    notes = judge(facts(tally(CLEAN, make_plan()))).not_judged
    text = "\n".join(notes)
    for word in ("labels", "placement", "latency", "inputs", "noise"):
        assert word in text
