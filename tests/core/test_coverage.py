"""`[require_coverage]`: demands that nothing could meet are faults of the plan."""

from __future__ import annotations

from typing import Any

import pytest

from paritygate.api.plans import load_plan
from paritygate.core.errors import PlanError

BANDS = {"output": "y", "bands": "low < 0.5 <= high"}
ARGMAX = {"output": "y", "argmax": True}
EQUAL = {"output": "y", "equal": True}


def plan(wanted: Any, **more: Any) -> dict[str, Any]:
    stage = {"reference": "a", "candidate": "b", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
    return {
        "golden": "g.arrow",
        "runners": {"a": "a.onnx", "b": "b.onnx"},
        "stages": [stage],
        "require_coverage": wanted,
        **more,
    }


def problems(wanted: Any, **more: Any) -> list[str]:
    with pytest.raises(PlanError) as caught:
        load_plan(plan(wanted, **more))
    return [str(problem) for problem in caught.value.problems]


def test_all_at_once_with_their_paths() -> None:
    wanted = {
        "decisions": {"cass": {"ties": 1}, "band": {"each_class": 2, "values": 3}},
        "batch_sizes": True,
        "dims": True,
        "ranges": True,
    }
    found = problems(wanted, decisions={"band": BANDS, "class": ARGMAX})
    assert len(found) == 6
    assert found[0].startswith("require_coverage.decisions.cass: no such decision; did you mean")
    assert found[1] == (
        "require_coverage.decisions.band.each_class: belongs to a decision of classes: argmax, "
        "topk, labels"
    )
    assert found[2].endswith("band.values: belongs to a decision of equal and python")
    assert found[3].startswith("require_coverage.batch_sizes: the plan approves no batch sizes")
    assert found[4].startswith("require_coverage.dims: no shape of [inputs]")
    assert found[5] == "require_coverage.ranges: no input of [inputs] has a range"


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, "require_coverage: demands nothing; give at least one of decisions, batch_sizes"),
        ({"dims": False}, "require_coverage: demands nothing"),
        ({"decisions": {"band": {}}}, "require_coverage.decisions.band: demands nothing"),
        ({"dimensions": True}, "require_coverage.dimensions: isn't a known key"),
        ({"decisions": {"band": {"tie": 1}}}, "decisions.band.tie: isn't a known key; did you"),
        ({"decisions": {"band": {"ties": 0}}}, "require_coverage.decisions.band.ties"),
        ({"decisions": {"band": {"within": 0.0}}}, "require_coverage.decisions.band.within"),
        ({"zeros": 1}, "require_coverage.zeros"),
    ],
)
def test_what_is_no_demand(wanted: Any, told: str) -> None:
    (found,) = problems(wanted, decisions={"band": BANDS})
    assert told in found


@pytest.mark.parametrize(
    ("decision", "demand", "fits"),
    [
        (BANDS, {"each_side": 1, "within": 0.1, "ties": 1}, True),
        (ARGMAX, {"each_class": 1, "ties": 1}, True),
        (ARGMAX, {"each_side": 1}, False),
        (EQUAL, {"values": 2}, True),
        (EQUAL, {"each_class": 2}, False),
        (EQUAL, {"ties": 2}, False),
        ({**EQUAL, "labels": ["x", "y"]}, {"each_class": 2}, True),
    ],
)
def test_each_kind_of_decision_has_its_demands(
    decision: dict[str, Any], demand: dict[str, Any], fits: bool
) -> None:
    wanted = {"decisions": {"d": demand}}
    if fits:
        load_plan(plan(wanted, decisions={"d": decision}))
    else:
        assert problems(wanted, decisions={"d": decision})


def test_no_demand_leaves_the_canonical_plan_as_it_was() -> None:
    data = plan({"zeros": True})
    demanded = load_plan(data)
    del data["require_coverage"]
    assert "require_coverage" not in load_plan(data).canonical()
    assert demanded.canonical()["require_coverage"]["zeros"] is True
