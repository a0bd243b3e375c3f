"""Agreement over nothing holds or is told: not a number anywhere, nothing decided, dead outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack

import paritygate

N = 12


def recorded(folder: Path, ref: Any, cand: Any, labels: Any = None, **rule: Any) -> dict[str, Any]:
    write_pack(folder / "g.arrow", np.arange(N), outputs={"y": ref}, label=labels)
    write_pack(folder / "c.arrow", np.arange(N), outputs={"y": cand}, slices={"of": ["cand"] * N})
    tolerance = {"atol": 0.5, "rtol": 0.0, **rule}
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {"a": "recorded", "b": str(folder / "c.arrow")},
        "stages": [{"name": "s", "reference": "a", "candidate": "b", "outputs": {"y": tolerance}}],
    }


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_outputs_that_are_nowhere_finite_hold_even_where_they_match(
    tmp_path: Path, value: float
) -> None:
    dead = np.full((N, 2), value, np.float32)
    result = paritygate.run(recorded(tmp_path, dead, dead, nonfinite="match"), out=None)
    (reason,) = result.reasons
    assert (reason.code, reason.output) == ("evidence.empty", "y")
    assert "all of its 24 elements" in reason.message


def test_one_finite_element_is_evidence(tmp_path: Path) -> None:
    mostly = np.full((N, 2), np.nan, np.float32)
    mostly[3, 1] = 1
    result = paritygate.run(recorded(tmp_path, mostly, mostly, nonfinite="match"), out=None)
    assert result.verdict == "release", result.explain()


@pytest.mark.parametrize("rule", [{"argmax": True}, {"bands": "a < 0.5 <= b"}])
@pytest.mark.parametrize("budget", [0, N])
def test_a_decision_that_nobody_ever_makes_holds(
    tmp_path: Path, rule: dict[str, Any], budget: int
) -> None:
    width = 3 if "argmax" in rule else 1
    y = np.arange(N * width, dtype=np.float32).reshape(N, width)
    y[:, 0] = np.nan
    plan = recorded(tmp_path, y, y, nonfinite="match")
    plan["decisions"] = {"d": {"output": "y", **rule}}
    plan["stages"][0]["flips"] = {"d": budget}
    result = paritygate.run(plan, out=None)
    assert ("evidence.empty", "d") in [(r.code, r.decision) for r in result.reasons]
    assert "undefined on both sides for all 12 samples" in result.explain()


@pytest.mark.parametrize("rule", [{"argmax": True}, {"topk": 2}, {"topk": 3, "order": "ranked"}])
@pytest.mark.parametrize("places", [1, 2])
def test_decisions_of_several_places_hold_where_none_is_ever_made(
    tmp_path: Path, rule: dict[str, Any], places: int
) -> None:
    y = np.arange(N * 6, dtype=np.float32).reshape(N, 2, 3)
    y[:, :places, 0] = np.nan
    plan = recorded(tmp_path, y, y, nonfinite="match")
    plan["decisions"] = {"d": {"output": "y", **rule}}
    result = paritygate.run(plan, out=None)
    codes = [(r.code, r.decision) for r in result.reasons]
    assert codes == ([("evidence.empty", "d")] if places == 2 else [])


def test_a_decision_that_is_made_once_is_evidence(tmp_path: Path) -> None:
    y = np.full((N, 1), np.nan, np.float32)
    y[0] = 1
    plan = recorded(tmp_path, y, y, nonfinite="match")
    plan["decisions"] = {"d": {"output": "y", "bands": "a < 0.5 <= b"}}
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()


@pytest.mark.parametrize(
    ("labels", "is_told"), [(["c"] * N, True), (["c"] * (N - 1) + ["b"], False)]
)
def test_labels_of_which_none_is_a_class_are_told(
    tmp_path: Path, labels: list[str], is_told: bool
) -> None:
    y = np.arange(N, dtype=np.float32).reshape(N, 1)
    plan = recorded(tmp_path, y, y, labels)
    plan["decisions"] = {"d": {"output": "y", "bands": "a < 0.5 <= b"}}
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()
    told = any("none of its 12 labels is a name or an index" in n for n in result.not_judged)
    assert told is is_told


@pytest.mark.parametrize("changed", [None, "ref", "cand"])
def test_an_output_that_never_changes_is_told(tmp_path: Path, changed: str | None) -> None:
    sides = {side: np.tile(np.float32([0.25, 0.75]), (N, 1)) for side in ("ref", "cand")}
    sides["cand"] += np.float32(0.125)
    if changed is not None:
        sides[changed][-1, 0] += np.float32(0.0625)
    result = paritygate.run(recorded(tmp_path, sides["ref"], sides["cand"]), out=None)
    assert result.verdict == "release", result.explain()
    told = any(
        "output y is the same for all 12 samples on both sides" in n for n in result.not_judged
    )
    assert told is (changed is None)
