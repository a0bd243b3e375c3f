"""Files that are overwritten while a run judges them: what was digested isn't what ran."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import models
from tests.packs import write_pack

from paritygate.api.plans import load_plan
from paritygate.core.errors import GoldenError
from paritygate.pipeline.execute import Options, Outcome, execute
from paritygate.pipeline.prepare import CallableRunner

N = 64
X = np.linspace(-1, 1, N * 4, dtype=np.float32).reshape(N, 4)


def overwrite_in_place(path: Path) -> None:
    """Write the same bytes into the same inode and put the time of the last change back."""
    before = path.stat()
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def run_with(folder: Path, act: Callable[[], None], **plan: Any) -> Outcome:
    """Run a pair in which the reference acts in the middle of its first batch."""
    done: list[bool] = []

    def ref(given: dict[str, Any]) -> dict[str, Any]:
        if not done:
            done.append(True)
            act()
        return {"y": given["x"] @ np.eye(4, dtype=np.float32)}

    table = {
        "golden": "g.arrow",
        "dims": {"batch": {"sizes": [8]}},
        "runners": {"a": {"kind": "python", "call": "m:f"}, "b": "c.onnx"},
        "stages": [
            {
                "name": "s",
                "reference": "a",
                "candidate": "b",
                "outputs": {"y": {"atol": 1e-6, "rtol": 0.0}},
            }
        ],
        **plan,
    }
    return execute(
        load_plan(table, folder=folder),
        Options(out=folder / "runs", callables={"a": CallableRunner(ref)}),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_pack(tmp_path / "g.arrow", np.arange(N), {"x": X})
    write_pack(tmp_path / "r.arrow", np.arange(N), outputs={"y": X})
    models.external_data_model(tmp_path / "c.onnx")
    return tmp_path


def test_files_that_nobody_touches_release(folder: Path) -> None:
    assert run_with(folder, lambda: None).judgement.verdict == "release"


@pytest.mark.parametrize("change", [overwrite_in_place, replace])
@pytest.mark.parametrize("name", ["g.arrow", "c.onnx", "weights.bin"])
def test_a_changed_file_holds_and_is_named(
    folder: Path, name: str, change: Callable[[Path], None]
) -> None:
    outcome = run_with(folder, lambda: change(folder / name))
    (reason,) = outcome.judgement.reasons
    assert reason.code == "evidence.changed"
    assert str(folder / name) in reason.message
    assert outcome.judgement.verdict == "hold"
    assert outcome.summary["stages"][0]["verdict"] == "hold"


def test_a_changed_recording_holds(folder: Path) -> None:
    outcome = run_with(
        folder,
        lambda: overwrite_in_place(folder / "r.arrow"),
        runners={"a": {"kind": "python", "call": "m:f"}, "b": "r.arrow"},
    )
    assert [r.code for r in outcome.judgement.reasons] == ["evidence.changed"]


def test_a_removed_pack_is_no_fault_of_ours(folder: Path) -> None:
    try:
        outcome = run_with(folder, (folder / "g.arrow").unlink)
    except GoldenError as e:  # removed before it was digested
        assert "can't be digested any more" in str(e)
        assert not (folder / "runs").exists()
    else:
        assert [r.code for r in outcome.judgement.reasons] == ["evidence.changed"]
