"""The plan's tables against both models' graphs: each difference by itself, all of them at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests import models
from tests.packs import write_pack

import paritygate

FLOAT = TensorProto.FLOAT


def plan(folder: Path, **more: Any) -> dict[str, Any]:
    """Two models `y = 2 x`, `[batch, 4]`, that differ in their metadata."""
    write_pack(folder / "g.arrow", [1, 2], {"x": np.ones((2, 4), np.float32)})
    models.scale_model(folder / "a.onnx", 2.0)
    models.scale_model(folder / "b.onnx", 2.0, metadata={"author": "another"})
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {"a": str(folder / "a.onnx"), "b": str(folder / "b.onnx")},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
        **more,
    }


def problems(table: dict[str, Any]) -> list[str]:
    return list(paritygate.check(table).problems)


@pytest.mark.parametrize(
    ("output", "dims", "told"),
    [
        ({"dtype": "float64"}, {}, "outputs.y.dtype is float64, it answers float32"),
        ({"shape": ["batch", 5]}, {}, "outputs.y.shape: dim 0 of a sample is 5, it answers 4"),
        ({"shape": ["batch"]}, {}, "outputs.y.shape has 0 dims a sample, it answers 1"),
        (
            {"shape": ["batch", "n"]},
            {"n": {"min": 1, "max": 3}},
            "dim 0 of a sample is 'n', from 1 to 3, it answers 4",
        ),
    ],
)
def test_a_run_would_hold_by_it(
    tmp_path: Path, output: dict[str, Any], dims: dict[str, Any], told: str
) -> None:
    table = plan(tmp_path, outputs={"y": output}, dims=dims)
    found = problems(table)
    assert len(found) == 2
    for runner, problem in zip("ab", found, strict=True):
        assert problem.startswith(f"runner '{runner}': ")
        assert told in problem
    assert paritygate.run(table, out=None).verdict == "hold"


@pytest.mark.parametrize(
    ("output", "dims"),
    [
        ({"dtype": "float32", "shape": ["batch", 4]}, {}),
        ({"shape": ["batch", "n"]}, {"n": {"min": 1, "max": 8}}),
        ({"meaning": "twice"}, {}),
    ],
)
def test_what_agrees(tmp_path: Path, output: dict[str, Any], dims: dict[str, Any]) -> None:
    table = plan(tmp_path, outputs={"y": output}, dims=dims)
    assert problems(table) == []
    assert paritygate.run(table, out=None).verdict == "release"


def test_all_at_once(tmp_path: Path) -> None:
    table = plan(tmp_path, outputs={"y": {"dtype": "float16", "shape": ["batch", 2]}})
    assert len(problems(table)) == 4


def test_a_declared_dtype_of_the_candidate_is_no_difference(tmp_path: Path) -> None:
    models.save_model(
        tmp_path / "c.onnx",
        [
            helper.make_node("Add", ["x", "x"], ["t"]),
            helper.make_node("Cast", ["t"], ["y"], to=TensorProto.FLOAT16),
        ],
        {"x": (FLOAT, ["batch", 4])},
        {"y": (TensorProto.FLOAT16, ["batch", 4])},
    )
    table = plan(tmp_path, outputs={"y": {"dtype": "float32"}})
    table["runners"]["b"] = str(tmp_path / "c.onnx")
    assert problems(table) == ["runner 'b': outputs.y.dtype is float32, it answers float16"]
    table["stages"][0]["default"]["candidate_dtype"] = "float16"
    assert problems(table) == []
    assert paritygate.run(table, out=None).verdict == "release"


def test_an_output_that_nobody_answers_is_told(tmp_path: Path) -> None:
    table = plan(tmp_path, outputs={"yy": {"dtype": "float64"}})
    told = "outputs.yy: no runner answers it"
    notes = [text for status, text in paritygate.check(table).lines if status == "note"]
    assert sum(text.startswith(told) for text in notes) == 1
    not_judged = paritygate.run(table, out=None).summary["not_judged"]
    assert sum(text.startswith(told) for text in not_judged) == 1


def test_inputs_of_both_sides_are_told_together(tmp_path: Path) -> None:
    table = plan(tmp_path)
    models.scale_model(tmp_path / "a.onnx", 2.0, width=5)
    models.scale_model(tmp_path / "b.onnx", 2.0, dtype=TensorProto.DOUBLE)
    with pytest.raises(paritygate.ParityError) as caught:
        paritygate.run(table, out=None)
    assert caught.value.exit_code == 2
    said = str(caught.value)
    assert "float32[batch, 5], the pack has" in said
    assert "the model takes float64, the pack has float32" in said
