"""`verify` and the doors around it, on real models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import models

import paritygate
from paritygate.core.errors import ParityError, PlanError

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
BANDS = "accept < 0.2 <= review <= 0.8 < reject"


def test_two_models(tmp_path: Path) -> None:
    ref = models.sigmoid_score(tmp_path / "a.onnx")
    near = models.sigmoid_score(tmp_path / "b.onnx", bias=1e-6)
    far = models.sigmoid_score(tmp_path / "c.onnx", bias=2.0)
    decisions = {"d": {"output": "score", "bands": BANDS}}
    inputs = [{"x": X}, {"x": X * 0}, {"x": X[:1] * 100}]
    result = paritygate.verify(ref, near, inputs, atol=1e-5, rtol=1e-5, decisions=decisions)
    assert result.verdict == "release", result.explain()
    assert result.raise_for_hold() is result
    assert result.summary["stages"][0]["samples"]["compared"] == 7
    held = paritygate.verify(ref, far, inputs, atol=10.0, rtol=0.0, decisions=decisions)
    assert [r.code for r in held.reasons] == ["decision.flip"]
    with pytest.raises(paritygate.HoldError, match=r"decision\.flip"):
        held.raise_for_hold()


@pytest.mark.parametrize("as_rules", [str, lambda rule: [rule], lambda rule: (rule,)])
def test_decisions_as_rules(as_rules: Any) -> None:
    def ref(given: dict[str, Any]) -> dict[str, Any]:
        return {"score": given["x"][:, :1] * 0 + np.float32(0.1999)}

    def cand(given: dict[str, Any]) -> dict[str, Any]:
        return {"score": given["x"][:, :1] * 0 + np.float32(0.2001)}

    rules = as_rules(f"score: {BANDS}")
    result = paritygate.verify(ref, cand, {"x": X}, atol=1.0, rtol=0.0, decisions=rules)
    assert [(r.code, r.decision) for r in result.reasons] == [("decision.flip", "score")]


@pytest.mark.parametrize("given", [7, [7], [{"output": "score"}], "score", {"d": 7}])
def test_decisions_that_are_neither_tables_nor_rules(given: Any) -> None:
    def same(inputs: dict[str, Any]) -> dict[str, Any]:
        return {"score": inputs["x"]}

    with pytest.raises(PlanError, match=r"decisions"):
        paritygate.verify(same, same, {"x": X}, atol=1.0, rtol=0.0, decisions=given)


def test_each_dict_is_one_batch_of_its_own_size() -> None:
    sizes: list[int] = []

    def ref(given: dict[str, Any]) -> dict[str, Any]:
        sizes.append(len(given["x"]))
        return {"y": given["x"] * 2}

    def cand(given: dict[str, Any]) -> dict[str, Any]:
        return {"y": given["x"] + given["x"]}

    batches = [{"x": X}, {"x": X[:1]}, {"x": np.concatenate([X, X])}]
    assert paritygate.verify(ref, cand, batches, atol=0.0, rtol=0.0).verdict == "release"
    assert sizes == [3, 1, 6]


def test_a_batch_coupled_side_is_found_by_another_batch_size() -> None:
    def coupled(given: dict[str, Any]) -> dict[str, Any]:
        return {"y": given["x"] - given["x"].mean()}

    def single(given: dict[str, Any]) -> dict[str, Any]:
        return {"y": given["x"] - given["x"].mean(axis=1, keepdims=True)}

    one = paritygate.verify(coupled, single, {"x": X[:1]}, atol=1e-5, rtol=0.0)
    several = paritygate.verify(coupled, single, [{"x": X[:1]}, {"x": X}], atol=1e-5, rtol=0.0)
    assert one.verdict == "release"
    assert several.verdict == "hold"


def test_callable_that_returns_a_plain_array() -> None:
    result = paritygate.verify(
        lambda given: given["x"] * 2,
        lambda given: given["x"] + given["x"],
        {"x": X},
        atol=0.0,
        rtol=0.0,
        outputs=["y"],
    )
    assert result.verdict == "release"


def test_runner_tables_name_settings(tmp_path: Path) -> None:
    model = str(models.linear_softmax(tmp_path / "m.onnx"))
    plain = {"model": model, "graph_optimization_level": "disable"}
    full = {"model": model, "graph_optimization_level": "all"}
    result = paritygate.verify(plain, full, {"x": X}, atol=1e-6, rtol=1e-6)
    assert result.verdict == "release"
    same = paritygate.verify(full, full, {"x": X}, atol=1e-6, rtol=1e-6)
    assert [r.code for r in same.reasons] == ["policy.same_runner"]


@pytest.mark.parametrize(
    ("inputs", "word"),
    [
        ([], "at least one"),
        ({}, "no input"),
        ({"x": 1.0}, r"scalar.*need a plan: \[constants\]"),
        ({"x": [1j]}, "known"),
        ({"x": ["text", None]}, "not all of which are texts"),
        ([{"x": X}, {"z": X}], "the first has"),
        ([{"x": X}, {"x": X[:, :2]}], "once a shape"),
        ({"x": X, "z": X[:2]}, "unequal batch sizes.*need a plan"),
    ],
)
def test_inputs_that_cannot_be_run(inputs: Any, word: str) -> None:
    with pytest.raises(PlanError, match=word):
        paritygate.verify(lambda g: g, lambda g: g, inputs, atol=0.0, rtol=0.0)


def test_no_rows_prove_nothing() -> None:
    result = paritygate.verify(
        lambda g: {"y": g["x"]}, lambda g: {"y": g["x"] + 0}, {"x": X[:0]}, atol=0.0, rtol=0.0
    )
    assert [r.code for r in result.reasons] == ["evidence.empty"]


def test_missing_model_is_told_by_side(tmp_path: Path) -> None:
    model = models.scale_model(tmp_path / "a.onnx")
    (tmp_path / "broken.onnx").write_bytes(model.read_bytes()[:-20])
    held = paritygate.verify(model, tmp_path / "broken.onnx", {"x": X}, atol=0.0, rtol=0.0)
    assert held.verdict == "hold"
    assert held.reasons[0].code == "admission.invalid_model"
    with pytest.raises(ParityError, match=r"broken\.onnx"):
        paritygate.verify(tmp_path / "broken.onnx", model, {"x": X}, atol=0.0, rtol=0.0)
    with pytest.raises(ParityError, match=r"none\.onnx: no such file"):
        paritygate.verify(model, tmp_path / "none.onnx", {"x": X}, atol=0.0, rtol=0.0)


def test_inputs_that_a_model_does_not_take(tmp_path: Path) -> None:
    ref = models.scale_model(tmp_path / "a.onnx")
    cand = models.scale_model(tmp_path / "b.onnx", factor=1.001)
    with pytest.raises(ParityError, match="float32"):
        paritygate.verify(ref, cand, {"x": X.astype(np.float64)}, atol=0.0, rtol=0.0)
    with pytest.raises(ParityError, match="x"):
        paritygate.verify(ref, cand, {"wrong": X}, atol=0.0, rtol=0.0)


def test_doctor_finds_this_machine_able() -> None:
    lines = {name: (status, text) for status, name, text in paritygate.doctor()}
    assert lines["kernels"][0] == "ok"
    assert "CPUExecutionProvider" in lines["providers"][1]
    if "AzureExecutionProvider" in lines["providers"][1]:  # in every build for the CPU
        status, text = lines["AzureExecutionProvider"]
        assert status == "note"
        assert "took 0 of the 2 nodes" in text


def test_doctor_says_where_models_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[str, str]:
        return next(
            (status, text) for status, name, text in paritygate.doctor() if "copies" in name
        )

    monkeypatch.setenv("PARITYGATE_STAGING", str(tmp_path))
    status, text = told()
    assert status == "note"
    assert text.startswith(f"in {tmp_path}, ")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("PARITYGATE_STAGING", str(tmp_path / "absent"))
    status, text = told()
    assert status == "fail"
    assert "isn't a folder" in text


def test_import_is_light() -> None:
    code = (
        "import sys, paritygate; "
        "heavy = {'numba', 'onnxruntime', 'onnx', 'torch', 'numpy', 'pyarrow', 'cupy'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_reached() -> None:
    for name in paritygate.__all__:
        assert callable(getattr(paritygate, name))
    assert set(paritygate.__all__) <= set(dir(paritygate))
    with pytest.raises(AttributeError):
        paritygate.nothing  # noqa: B018


def test_an_output_named_twice_loses_none() -> None:
    x = {"x": np.ones((4, 2), np.float32)}
    sides = (lambda d: (d["x"], d["x"])), (lambda d: (d["x"] * 9, d["x"]))
    with pytest.raises(PlanError, match="outputs: names an output twice"):
        paritygate.verify(*sides, x, atol=1.0, rtol=0.0, outputs=("y", "y"))
    table = {"kind": "python", "call": "os.path:join", "outputs": ["y", "y"]}
    with pytest.raises(PlanError, match=r"runners.candidate.outputs: names an output twice"):
        paritygate.verify(sides[0], table, x, atol=1.0, rtol=0.0, outputs="y")


def test_one_name_is_given_as_a_text() -> None:
    x = {"x": np.ones((4, 2), np.float32)}
    sides = (lambda d: d["x"]), (lambda d: d["x"] + np.float32(0.5))
    result = paritygate.verify(*sides, x, atol=1.0, rtol=0.0, outputs="scores")
    assert result.verdict == "release", result.explain()
    assert list(result.summary["stages"][0]["outputs"]) == ["scores"]
