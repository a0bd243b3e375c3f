from __future__ import annotations

from pathlib import Path

import pytest
from tests.frontends.command import invoke
from tests.frontends.plans import make_plan

from paritygate import api


def test_a_good_plan(tmp_path: Path) -> None:
    result = invoke("check", make_plan(tmp_path, 1.5))
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("nothing to mend\n")
    assert not (tmp_path / "runs").exists()


def test_both_sides_the_same(tmp_path: Path) -> None:
    result = invoke("check", make_plan(tmp_path, 1.0), "--set", "runners.other.model=ref.onnx")
    assert result.exit_code == 1
    assert "policy.same_runner" in result.stdout
    assert "1 problem to mend" in result.stdout


def test_a_bad_plan(tmp_path: Path) -> None:
    result = invoke("check", make_plan(tmp_path), "--set", "a=1", "--set", "b=2")
    assert result.exit_code == 2
    assert "2 problems to mend" in result.stdout


def test_doctor_on_this_machine() -> None:
    result = invoke("doctor")
    assert result.exit_code == 0, result.output
    assert any(line.split()[:2] == ["ok", "kernels"] for line in result.stdout.splitlines())
    assert "CPUExecutionProvider" in result.stdout


def test_doctor_on_a_machine_that_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [("ok", "numpy", "2"), ("fail", "onnxruntime", "isn't installed")]
    monkeypatch.setattr(api, "doctor", lambda: lines)
    result = invoke("doctor")
    assert result.exit_code == 2
    assert "fail  onnxruntime  isn't installed" in result.stdout
