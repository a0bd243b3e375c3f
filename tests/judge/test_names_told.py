"""Two sides that call their only output differently: what is told mends it, as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.command import invoke
from tests.models import scale_model
from tests.packs import write_pack

import paritygate
from paritygate.judge.suggest import suggest_name

X = np.random.default_rng(3).normal(size=(20, 4)).astype(np.float32)


@pytest.mark.slow
def test_what_is_told_of_names_mends_a_run_without_a_plan(tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "g.arrow", np.arange(20), {"x": X})
    models = [str(scale_model(tmp_path / f"{o}.onnx", 2.0, out_name=o)) for o in ("output", "y")]
    line = ["run", "--ref", models[0], "--cand", models[1], "--golden", str(pack)]
    line += ["--atol", "1e-6", "--rtol", "0", "--out", str(tmp_path / "runs")]
    held = invoke(*line)
    assert held.exit_code == 1
    text = " ".join(held.stdout.split())
    assert "no output compared: 20 of 20 samples answered by both sides, 20 failed" in text
    told = re.search(r"if 'y' is what the reference calls 'output', write (.*?) in the plan", text)
    assert told is not None, text
    assert told[1] == 'runners.candidate.outputs = { "output" = "y" }'
    (setting,) = set(re.findall(r"or --set (\S+) on the command line", text))
    mended = invoke(*line, "--set", setting)
    assert mended.exit_code == 0, mended.output
    assert "20 of 20 samples compared, none failed" in mended.stdout


def test_only_what_can_be_meant_is_told() -> None:
    model, function = ("a", "torch", ["y"]), ("b", "python", ["z"])
    assert "write runners.a.outputs" in (suggest_name(model, function) or "")
    assert suggest_name(("a", "python", ["y"]), function) is None
    assert suggest_name(("a", "torch", ["y", "w"]), ("b", "torch", ["z"])) is None
    assert suggest_name(("a", "torch", []), ("b", "torch", ["z"])) is None
    odd = suggest_name(("a", "torch", ['y "1"']), ("b", "onnxruntime", ["z:0"]))
    assert odd is not None
    assert r'{ "y \"1\"" = "z:0" }' in odd
    assert "--set" not in odd


def test_batches_of_the_caller_are_said_to_be_his() -> None:
    def less_its_mean(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": given["x"] - given["x"].mean(axis=0, keepdims=True)}

    def the_same(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return less_its_mean(given)

    result = paritygate.verify(
        less_its_mean, the_same, [{"x": X}, {"x": X[:1]}], atol=1e-6, rtol=0.0
    )
    assert (
        "batch sizes: reference in the batches of this run only; the caller chose them, so no "
        "sample was run in a batch of other samples"
    ) in result.summary["not_judged"]
    assert not any("approves no batch sizes" in line for line in result.summary["not_judged"])
