"""Files of torch on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests import torch_models  # noqa: E402
from tests.frontends.command import invoke  # noqa: E402
from tests.packs import write_pack  # noqa: E402

COMMAND = [sys.executable, "-m", "paritygate_frontends.cli.main"]


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=120
    )


@pytest.mark.slow
def test_two_files_without_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net = torch_models.Net().eval()
    x = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
    write_pack(tmp_path / "g.arrow", np.arange(20), {"x": x})
    torch_models.scripted(net, tmp_path / "net.pt")
    torch_models.exported(net, tmp_path / "net.pt2", torch.zeros(2, 4))
    torch_models.scripted(torch_models.Net(1), tmp_path / "other.pt")
    torch.save(net, tmp_path / "pickled.pt")
    sides = ["--ref", "net.pt2", "--golden", "g.arrow", "--atol", "1e-5", "--rtol", "1e-4"]
    done = command(tmp_path, "run", "--cand", "net.pt", *sides, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "release"
    held = invoke("run", "--cand", "other.pt", *sides, "--json")
    assert held.exit_code == 1, held.stderr
    assert json.loads(held.stdout)["verdict"] == "hold"
    held = invoke("run", "--cand", "pickled.pt", *sides)
    assert held.exit_code == 1
    assert "HOLD" in held.stdout
    assert "is a pickle" in " ".join(held.stdout.split())
    assert invoke("explain").exit_code == 0
