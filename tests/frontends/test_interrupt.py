from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.command import COMMAND, environment
from tests.packs import write_pack

SLOW = """\
import time


def answer(inputs):
    time.sleep(0.05)
    return {"y": inputs["x"] + 0}


def other(inputs):
    return {"y": inputs["x"] + 0}
"""

PLAN = """\
name = "slow"
golden = "golden.arrow"
[runners]
ref = { kind = "python", call = "slow:answer", batch_size = 1, outputs = ["y"] }
cand = { kind = "python", call = "slow:other", batch_size = 1, outputs = ["y"] }
[[stages]]
reference = "ref"
candidate = "cand"
outputs.y = { atol = 0, rtol = 0 }
"""


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        if any(folder.glob(pattern)) or process.poll() is not None:
            return
        time.sleep(0.05)


@pytest.mark.slow
def test_control_c_ends_with_130_and_leaves_no_finished_folder(tmp_path: Path) -> None:
    write_pack(
        tmp_path / "golden.arrow", np.arange(20_000), {"x": np.zeros((20_000, 2), np.float32)}
    )
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "plan.toml").write_text(PLAN)
    process = subprocess.Popen(
        [*COMMAND, "run", "plan.toml", "--json"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(tmp_path / "runs", "*.partial", process)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.startswith("interrupted")
    assert "Traceback" not in err
    assert json.loads(out)["reasons"][0]["code"] == "run.interrupted"
    assert [p for p in (tmp_path / "runs").iterdir() if not p.name.endswith(".partial")] == []
