"""Programs of torch in processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests import torch_models  # noqa: E402
from tests.packs import write_pack  # noqa: E402
from tests.runners import test_torch  # noqa: E402

import paritygate  # noqa: E402

pytestmark = pytest.mark.slow


def judged(folder: Path, ref: dict[str, Any], cand: dict[str, Any]) -> paritygate.RunResult:
    x = np.random.default_rng(1).normal(size=(24, 4)).astype(np.float32)
    write_pack(folder / "g.arrow", np.arange(24), {"x": x})
    plan = {
        "golden": "g.arrow",
        "runners": {"a": ref, "b": cand},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 1e-6, "rtol": 1e-5}}],
    }
    return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)


def test_two_runners_that_ask_for_other_settings(tmp_path: Path) -> None:
    """They hold for a whole process, so each gets one of its own."""
    net = torch_models.Net().eval()
    torch_models.scripted(net, tmp_path / "a.pt")
    torch_models.exported(net, tmp_path / "b.pt2", torch.zeros(2, 4))
    had = torch.get_num_threads()
    other = {"seed": 3, "intra_op_num_threads": 2, "deterministic": False}
    result = judged(tmp_path, {"model": "a.pt"}, {"model": "b.pt2", **other})
    assert result.verdict == "release", result.explain()
    told = {d["what"]: d["candidate"] for d in result.summary["stages"][0]["differences"]}
    assert told["seed"] == "3"
    assert told["intra-op threads"] == "2"
    assert told["deterministic algorithms"] == "no"
    assert torch.get_num_threads() == had


def test_what_the_first_batch_shows_comes_back(tmp_path: Path) -> None:
    torch_models.scripted(test_torch.Counting(), tmp_path / "a.pt")
    torch_models.scripted(torch_models.Twice(), tmp_path / "b.pt")
    result = judged(tmp_path, {"model": "b.pt"}, {"model": "a.pt", "isolate": True})
    assert "runner.not_repeatable" in [reason.code for reason in result.reasons]


def test_a_module_that_ends_its_process(tmp_path: Path) -> None:
    torch_models.scripted(torch_models.Twice(), tmp_path / "b.pt")
    (tmp_path / "net.py").write_text(
        "import os, torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n"
        "        if (x[:, 0] > 0.91).any():\n            os.abort()\n        return x * 2\n"
    )
    made = {"factory": "net:N", "isolate": True, "batch_size": 1}
    result = judged(tmp_path, {"model": "b.pt"}, made)
    codes = [reason.code for reason in result.reasons]
    assert codes[0] == "runner.crashed", result.explain()
