"""A worker that takes the place of a killed one loads the same bytes, whatever the file holds."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import models

import paritygate


def workers() -> list[int]:
    """Child processes that run a runner."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            command = (entry / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == os.getpid() and b"spec_from_file_location" in command:
            found.append(int(entry.name))
    return found


@pytest.mark.slow
def test_the_weights_are_cut_off_and_the_worker_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "staging"
    root.mkdir()
    monkeypatch.setenv("PARITYGATE_STAGING", str(root))
    table = models.mapped_table(tmp_path / "m.onnx")
    killed: list[int] = []

    def ref(given: dict[str, Any]) -> dict[str, Any]:
        if not killed:
            killed.extend(workers())
            os.truncate(tmp_path / "table.bin", 16)
            for worker in killed:
                os.kill(worker, signal.SIGKILL)
        return {"y": table[given["x"]]}

    batches = [{"x": np.arange(n, n + 8)} for n in range(0, 256, 8)]
    cand = {"model": str(tmp_path / "m.onnx"), "isolate": "process"}
    result = paritygate.verify(ref, cand, batches, atol=0, rtol=0)
    assert len(killed) == 1
    assert result.verdict == "hold"
    assert "evidence.changed" in {reason.code for reason in result.reasons}
    assert {r.code for r in result.reasons} <= {"evidence.changed", "runner.crashed"}
    stage = result.summary["stages"][0]
    assert stage["outputs"]["y"]["failing_elements"] == 0
    assert stage["samples"]["compared"] == 256
    assert list(root.iterdir()) == []
