"""A real second provider: OpenVINO, in an environment of its own (`make openvino`)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from onnx import TensorProto, helper
from tests import models
from tests.packs import write_pack

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-openvino" / "bin" / "python"
CPU, OPENVINO = "CPUExecutionProvider", "OpenVINOExecutionProvider"
FLOAT = TensorProto.FLOAT
RNG = np.random.default_rng(5)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="there is no .venv-openvino; `make openvino` makes it"
    ),
]


def command(
    folder: Path, *args: str, python: str = str(PYTHON)
) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(ROOT / part) for part in ("engine", "frontends"))
    return subprocess.run(
        [python, "-m", "paritygate_frontends.cli.main", *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def plan(folder: Path, x: np.ndarray, rule: dict[str, Any] | None = None, **cand: Any) -> None:
    """The CPU against OpenVINO, one model file."""
    write_pack(folder / "golden.arrow", np.arange(len(x)), {"x": x})
    table = {
        "golden": "golden.arrow",
        "runners": {
            "cpu": {"model": "model.onnx", "providers": [CPU]},
            "npu": {"model": "model.onnx", "providers": [OPENVINO, CPU], **cand},
        },
        "stages": [
            {
                "reference": "cpu",
                "candidate": "npu",
                "default": rule or {"atol": 1e-4, "rtol": 1e-4},
            }
        ],
    }
    (folder / "plan.toml").write_text(tomli_w.dumps(table), encoding="utf-8")


def run(folder: Path, code: int, python: str = str(PYTHON)) -> dict[str, Any]:
    done = command(folder, "run", "plan.toml", "--json", "--out", "runs", python=python)
    assert done.returncode == code, done.stdout + done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def codes(summary: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in summary["reasons"]]


def save(folder: Path, nodes: list[Any], width: tuple[int, ...], **weights: np.ndarray) -> None:
    models.save_model(
        folder / "model.onnx",
        nodes,
        {"x": (FLOAT, ["batch", *width])},
        {"y": (FLOAT, ["batch", None])},
        weights,
        opsets={"ai.onnx.ml": 3},
    )


def perceptron(folder: Path) -> None:
    node = helper.make_node
    save(
        folder,
        [
            node("Gemm", ["x", "w", "b"], ["h"], name="first"),
            node("Relu", ["h"], ["r"], name="relu"),
            node("Gemm", ["r", "v"], ["y"], name="second"),
        ],
        (8,),
        w=RNG.normal(size=(8, 32)).astype(np.float32),
        b=RNG.normal(size=32).astype(np.float32),
        v=RNG.normal(size=(32, 4)).astype(np.float32),
    )


def convolution(folder: Path) -> None:
    node = helper.make_node
    save(
        folder,
        [
            node("Conv", ["x", "w"], ["c"], name="conv", pads=[1] * 4),
            node("Relu", ["c"], ["r"], name="relu"),
            node("Flatten", ["r"], ["f"], name="flat"),
            node("MatMul", ["f", "v"], ["y"], name="matmul"),
        ],
        (3, 8, 8),
        w=RNG.normal(size=(4, 3, 3, 3)).astype(np.float32),
        v=RNG.normal(size=(256, 5)).astype(np.float32),
    )


def stump(source: str) -> Any:
    """A tree of one split: which side of 0 the first feature is on."""
    return helper.make_node(
        "TreeEnsembleRegressor",
        [source],
        ["y"],
        name="trees",
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.0, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[-1.0, 1.0],
    )


def test_a_model_that_runs_there_as_a_whole_is_released(tmp_path: Path) -> None:
    perceptron(tmp_path)
    plan(tmp_path, RNG.normal(size=(40, 8)).astype(np.float32))
    summary = run(tmp_path, 0)
    placed = summary["runners"]["npu"]["placement"]
    assert placed["assigned"] == {
        OPENVINO: {"nodes": 3, "op_types": {"Gemm": 2, "Relu": 1}},
    }
    assert list(placed["executed"]) == [OPENVINO]
    assert placed["in_force"] == placed["in_force_after"] == [OPENVINO, CPU]
    assert any("subgraphs that OpenVINO" in text for text in placed["not_observable"])
    (stage,) = summary["stages"]
    assert list(stage)[:5] == ["name", "verdict", "reference", "candidate", "differences"]
    (providers,) = [d for d in stage["differences"] if d["what"] == "providers"]
    assert providers == {"what": "providers", "reference": CPU, "candidate": f"{OPENVINO}, {CPU}"}


def test_a_convolution_is_released(tmp_path: Path) -> None:
    convolution(tmp_path)
    plan(tmp_path, RNG.normal(size=(20, 3, 8, 8)).astype(np.float32), {"atol": 1e-3, "rtol": 1e-3})
    assert run(tmp_path, 0)["runners"]["npu"]["placement"]["fallback"]["count"] == 0


def test_trees_stay_on_the_cpu_and_hold_though_the_numbers_agree(tmp_path: Path) -> None:
    save(tmp_path, [stump("x")], (2,))
    x = RNG.normal(size=(40, 2)).astype(np.float32)
    plan(tmp_path, x, {"atol": 0.0, "rtol": 0.0}, allowed_fallback=["TreeEnsembleRegressor"])
    summary = run(tmp_path, 1)
    assert codes(summary) == ["placement.downgraded"]
    assert "took none of the model's nodes (1 on CPU" in summary["reasons"][0]["message"]
    assert summary["stages"][0]["samples"]["failed"] == 0


def test_a_node_that_stays_behind_holds_until_the_plan_allows_it(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gemm", ["x", "w"], ["g"], name="gemm"), stump("g")]
    save(tmp_path, nodes, (8,), w=RNG.normal(size=(8, 2)).astype(np.float32))
    x = RNG.normal(size=(40, 8)).astype(np.float32)
    plan(tmp_path, x)
    summary = run(tmp_path, 1)
    assert codes(summary) == ["placement.fallback"]
    (reason,) = summary["reasons"]
    for part in ("1 of 2 nodes", OPENVINO, "1 TreeEnsembleRegressor ('trees') on " + CPU):
        assert part in reason["message"]
    line = re.search(r"allowed_fallback = \[.*\]", reason["next"])
    assert line is not None

    checked = command(tmp_path, "check", "plan.toml")
    assert checked.returncode == 1
    assert "placement.fallback" in checked.stdout

    plan(tmp_path, x, None, **tomllib.loads(line[0]))
    placed = run(tmp_path, 0)["runners"]["npu"]["placement"]
    assert placed["fallback"] == {
        "count": 1,
        "nodes": [f"trees (TreeEnsembleRegressor) on {CPU}"],
    }
    assert placed["executed"][CPU]["op_types"] == {"TreeEnsembleRegressor": 1}
    checked = command(tmp_path, "check", "plan.toml")
    assert checked.returncode == 0, checked.stdout
    assert f"nodes assigned: 1 on {CPU}, 1 on {OPENVINO}" in " ".join(checked.stdout.split())


def test_a_nan_that_becomes_0_holds(tmp_path: Path) -> None:
    save(tmp_path, [helper.make_node("Relu", ["x"], ["y"], name="relu")], (4,))
    x = np.array([[1, 2, -3, 4], [np.nan, 1, 2, 3]], np.float32)
    plan(tmp_path, x, {"atol": 100.0, "rtol": 0.5, "nonfinite": "match"})
    summary = run(tmp_path, 1)
    assert codes(summary) == ["nonfinite.mismatch"]
    assert summary["reasons"][0]["ids"] == [1]


def test_doctor_runs_a_model_on_it(tmp_path: Path) -> None:
    done = command(tmp_path, "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"ok +{OPENVINO} +runs a small model", done.stdout), done.stdout


APART = {"isolate": {"interpreter": str(PYTHON)}}


def test_the_cpu_of_one_build_against_openvino_of_another(tmp_path: Path) -> None:
    import onnxruntime

    convolution(tmp_path)
    x = RNG.normal(size=(20, 3, 8, 8)).astype(np.float32)
    plan(tmp_path, x, {"atol": 1e-3, "rtol": 1e-3}, **APART)
    summary = run(tmp_path, 0, sys.executable)
    runners = summary["runners"]
    assert runners["cpu"]["runtime_version"] == onnxruntime.__version__
    assert runners["npu"]["runtime_version"] == "1.24.1"
    placed = runners["npu"]["placement"]
    assert placed["in_force_after"] == [OPENVINO, CPU]
    assert list(placed["executed"]) == list(placed["assigned"]) == [OPENVINO]
    assert list(runners["cpu"]["placement"]["executed"]) == [CPU]
    first, second, *others = summary["stages"][0]["differences"]
    assert (first["what"], second["what"]) == ("runtime", "runtime build")
    assert first["candidate"] == "onnxruntime 1.24.1"
    assert "interpreter" in {one["what"] for one in others}


def test_a_node_that_stays_behind_in_another_process_holds(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gemm", ["x", "w"], ["g"], name="gemm"), stump("g")]
    save(tmp_path, nodes, (8,), w=RNG.normal(size=(8, 2)).astype(np.float32))
    x = RNG.normal(size=(40, 8)).astype(np.float32)
    plan(tmp_path, x, **APART)
    assert codes(run(tmp_path, 1, sys.executable)) == ["placement.fallback"]
    plan(tmp_path, x, allowed_fallback=["trees"], **APART)
    assert codes(run(tmp_path, 0, sys.executable)) == []


def test_a_nan_that_becomes_0_in_another_process_holds(tmp_path: Path) -> None:
    save(tmp_path, [helper.make_node("Relu", ["x"], ["y"], name="relu")], (4,))
    x = np.array([[1, 2, -3, 4], [np.nan, 1, 2, 3]], np.float32)
    plan(tmp_path, x, {"atol": 100.0, "rtol": 0.5, "nonfinite": "match"}, **APART)
    assert codes(run(tmp_path, 1, sys.executable)) == ["nonfinite.mismatch"]
