"""Names that nobody uses are told or refused; what nobody uses refuses no run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import models
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import GoldenError, PlanError

N = 6
Y = np.arange(N * 2, dtype=np.float32).reshape(-1, 2)
MARK = {"of": ["cand"] * N}
HALF_LABELLED = pa.array(["a", None] * (N // 2))
RULE = {"atol": 0.5, "rtol": 0.0}


def recorded(folder: Path, label: Any = None, **stage: Any) -> dict[str, Any]:
    write_pack(folder / "g.arrow", np.arange(N), outputs={"y": Y, "z": Y}, label=label)
    write_pack(folder / "c.arrow", np.arange(N), outputs={"y": Y, "z": Y}, slices=MARK)
    stage = {"name": "s", "reference": "a", "candidate": "b", "outputs": {"y": RULE}, **stage}
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {"a": "recorded", "b": str(folder / "c.arrow")},
        "stages": [stage],
    }


BAND = {"output": "y", "bands": "a < 0.5 <= b"}


def test_a_null_label_that_no_decision_uses_is_a_note(tmp_path: Path) -> None:
    result = paritygate.run(recorded(tmp_path, HALF_LABELLED, ignore=["z"]), out=None)
    assert result.verdict == "release", result.explain()
    assert "labels: no decision uses the column 'label'" in result.not_judged


@pytest.mark.parametrize("more", [{"label": "label"}, {"decisions": {"d": BAND}}])
def test_a_null_label_that_is_named_or_used_is_refused(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    plan = recorded(tmp_path, HALF_LABELLED, ignore=["z"]) | more
    with pytest.raises(GoldenError) as caught:
        paritygate.run(plan, out=None)
    assert caught.value.code == "golden.null_label"


def test_decisions_with_labels_of_their_own_leave_the_default_ones_alone(tmp_path: Path) -> None:
    y = Y[:, :1].copy()
    truth = pa.array(["a"] * N)
    for name in ("g", "c"):
        write_pack(
            tmp_path / f"{name}.arrow",
            np.arange(N),
            outputs={"y": y},
            columns={"truth": truth, "label": HALF_LABELLED},
        )
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {"a": "recorded", "b": str(tmp_path / "c.arrow")},
        "stages": [{"reference": "a", "candidate": "b", "outputs": {"y": RULE}}],
        "decisions": {"d": {**BAND, "label_column": "truth"}},
    }
    result = paritygate.run(plan, out=None)
    assert "golden" in result.summary
    assert result.summary["stages"][0]["decisions"]["d"]["labels"]["labelled"] == N


def test_ignoring_what_neither_recording_has_is_a_fault_of_the_plan(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        paritygate.run(recorded(tmp_path, ignore=["z", "zz"]), out=None)
    (problem,) = caught.value.problems
    assert problem.path == "stages.s.ignore"
    assert problem.message == "neither side answers an output 'zz'; known: y, z"


def test_ignoring_what_one_side_has_is_fine(tmp_path: Path) -> None:
    plan = recorded(tmp_path, ignore=["z"])
    write_pack(tmp_path / "c.arrow", np.arange(N), outputs={"y": Y}, slices=MARK)
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()


FUNCTIONS = """\
def ref(d):
    return {"y": d["x"] * 2, "aux": d["x"]}

def cand(d):
    return {"y": d["x"] + d["x"], "aux": d["x"]}
"""


def test_ignoring_what_no_function_answers_is_told(tmp_path: Path) -> None:
    (tmp_path / "fns.py").write_text(FUNCTIONS)
    write_pack(tmp_path / "g.arrow", np.arange(N), {"x": Y})
    stage = {"name": "s", "reference": "a", "candidate": "b", "outputs": {"y": RULE}}
    plan = {
        "golden": "g.arrow",
        "runners": {"a": "fns:ref", "b": "fns:cand"},
        "stages": [{**stage, "ignore": ["aux", "aus"]}],
    }
    result = paritygate.run(paritygate.load_plan(plan, folder=tmp_path), out=None)
    assert result.verdict == "release", result.explain()
    told = [n for n in result.not_judged if "ignore names" in n]
    assert told == ["stage s: ignore names 'aus', which neither side answers; known: aux, y"]


WANDERING = """\
import os
HERE = os.getcwd()

def ref(d):
    os.chdir("/")
    return {"y": d["x"] * 3}

def cand(d):
    os.chdir("/")
    return {"y": d["x"] * 2}
"""


def test_functions_that_change_the_current_folder_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wander.py").write_text("import os\nos.chdir('/')\n" + WANDERING)
    write_pack(tmp_path / "g.arrow", np.arange(N), {"x": Y})
    models.scale_model(tmp_path / "m.onnx", 2.0, width=2)
    plan = {
        "golden": "g.arrow",
        "runners": {"a": "wander:ref", "b": "wander:cand", "m": "m.onnx"},
        "stages": [
            {"name": "s", "reference": "a", "candidate": "b", "outputs": {"y": RULE}},
            {"name": "t", "reference": "m", "candidate": "b", "outputs": {"y": RULE}},
        ],
    }
    loaded = paritygate.load_plan(plan, folder=".")
    result = paritygate.run(loaded, out="runs")
    assert result.folder is not None
    assert result.folder.parent == tmp_path / "runs"
    assert (result.folder / "failures" / "s-00000.arrow").is_file()
    assert [s["verdict"] for s in result.summary["stages"]] == ["hold", "release"]


def test_an_input_without_a_contract_beside_one_with_is_told(tmp_path: Path) -> None:
    x = np.ones((N, 2), np.float32)
    write_pack(tmp_path / "g.arrow", np.arange(N), {"x": x, "y": x})
    echo = {"kind": "null", "echo": {"out": "x", "more": "y"}}
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "inputs": {"x": {"range": [0.0, 2.0]}},
        "runners": {"a": echo, "b": echo},
        "stages": [{"reference": "a", "candidate": "b", "default": RULE, "self": True}],
    }
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()
    told = "inputs: y without a contract: range and missing values unchecked"
    assert [n for n in result.not_judged if n.startswith("inputs:")] == [told]


def test_inputs_that_a_recording_brings_along_are_not_said_to_be_the_same(tmp_path: Path) -> None:
    y = np.arange(4, dtype=np.float32)
    ref = write_pack(tmp_path / "ref.arrow", range(4), inputs={"x": y, "z": y}, outputs={"y": y})
    cand = write_pack(tmp_path / "cand.arrow", range(4), inputs={"x": y + 9}, outputs={"y": y})
    told = "inputs: the recording of candidate has x too, which was not compared with the pack's"
    result = paritygate.compare(ref, cand, out=None)
    assert [n for n in result.not_judged if n.startswith(told)]
    plain = write_pack(tmp_path / "plain.arrow", range(4), outputs={"y": y})
    for sides in ((ref, plain), (plain, cand)):
        assert "recording of" not in "\n".join(paritygate.compare(*sides, out=None).not_judged)


@pytest.mark.parametrize("use", [{"slices": ["pred"]}, {"label": "pred"}])
def test_columns_of_a_recording_that_are_no_outputs_are_told(
    tmp_path: Path, use: dict[str, Any]
) -> None:
    y = pa.array(np.arange(2, dtype=np.float32))
    for name, pred in (("ref", ["a", "b"]), ("cand", ["b", "a"])):
        table = pa.table({"sample_id": [1, 2], "y": y, "pred": pred})
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as file:
            file.write_table(table)
    plan = {
        "golden": str(tmp_path / "ref.arrow"),
        "outputs_from": "all",
        "runners": {
            "a": "recorded",
            "b": {"path": str(tmp_path / "cand.arrow"), "outputs_from": "all"},
        },
        "stages": [{"reference": "a", "candidate": "b", "outputs": {"y": RULE}}],
        "decisions": {"band": {"output": "y", "bands": "low < 0.5 <= high"}},
        **use,
    }
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()
    assert "columns: pred of the recording of b are not compared" in result.not_judged
