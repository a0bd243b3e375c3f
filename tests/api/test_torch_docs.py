"""docs/torch.md: its examples are true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests import torch_models

import paritygate

PAGE = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")


def test_the_three_line_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    with torch_models.old_ways():
        exec(compile(code, "docs/torch.md", "exec"), {})
    assert (tmp_path / "model.onnx").is_file()


def test_the_runners_are_runners(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    plan = tomllib.loads(text)
    names = list(plan["runners"])
    plan["golden"] = "g.arrow"
    near = {"atol": 1e-5, "rtol": 1e-4}
    plan["stages"] = [
        {"reference": names[0], "candidate": name, "default": near} for name in names[1:]
    ]
    loaded = paritygate.load_plan(plan, folder=tmp_path)
    assert {spec.kind for spec in loaded.runners.values()} == {"torch"}
