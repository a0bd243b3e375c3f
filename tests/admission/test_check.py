"""The checker runs in a child: what it refuses, dies of or never ends is told in one sentence."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from tests import models

from paritygate.admission.check import PendingCheck, check_model, start_check
from paritygate.core.errors import FolderError


def test_sound_model(tmp_path: Path) -> None:
    result = check_model(models.scale_model(tmp_path / "m.onnx"))
    assert result.ok, result.message


def test_model_with_an_unknown_operator_is_refused(tmp_path: Path) -> None:
    path = models.save_model(
        tmp_path / "m.onnx",
        [helper.make_node("NoSuchOperator", ["x"], ["y"])],
        {"x": (models.FLOAT, ["batch"])},
        {"y": (models.FLOAT, ["batch"])},
    )
    result = check_model(path)
    assert not result.ok
    assert "NoSuchOperator" in result.message
    assert "m.onnx" in result.message


def test_full_check_infers_shapes(tmp_path: Path) -> None:
    path = models.save_model(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 3])},
        {"w": np.zeros((5, 3), np.float32)},
    )
    assert not check_model(path).ok


def test_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"")
    assert not check_model(path).ok


def test_several_checks_at_once(tmp_path: Path) -> None:
    good = start_check(models.scale_model(tmp_path / "good.onnx"))
    bad = start_check(tmp_path / "absent.onnx")
    assert good.result().ok
    assert not bad.result().ok
    assert good.result() is good.result()


def test_messages_name_the_file_that_the_plan_names(tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "m.onnx"
    copy.parent.mkdir()
    models.external_data_model(copy)
    (copy.parent / "weights.bin").unlink()
    result = start_check(copy, shown=tmp_path / "plan" / "m.onnx").result()
    assert not result.ok
    assert str(copy.parent) not in result.message
    assert f"{tmp_path / 'plan' / 'm.onnx'}: " in result.message
    assert str(tmp_path / "plan" / "weights.bin") in result.message


def _child(tmp_path: Path, code: str, timeout_s: float = 30.0) -> PendingCheck:
    return PendingCheck(tmp_path / "m.onnx", timeout_s, [sys.executable, "-c", code])


def test_crash_is_named_by_its_signal(tmp_path: Path) -> None:
    code = "import os, signal; os.write(2, b'last words'); os.kill(os.getpid(), signal.SIGSEGV)"
    result = _child(tmp_path, code).result()
    assert not result.ok
    assert "crashed (SIGSEGV)" in result.message
    assert "last words" in result.message


def test_killed_child_is_told(tmp_path: Path) -> None:
    pending = _child(tmp_path, "import time; time.sleep(600)")
    os.kill(pending._process.pid, signal.SIGKILL)
    assert "SIGKILL" in pending.result().message


def test_child_that_never_ends_is_killed(tmp_path: Path) -> None:
    pending = _child(tmp_path, "import time; time.sleep(600)", timeout_s=0.2)
    result = pending.result()
    assert not result.ok
    assert "didn't finish in 0.2 s" in result.message
    assert pending._process.poll() == -signal.SIGKILL


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "print('{}')", "print('[1]')", "print()"])
def test_no_answer_is_no_pass(tmp_path: Path, code: str) -> None:
    result = _child(tmp_path, code).result()
    assert not result.ok
    assert "no answer" in result.message


def test_failing_exit_with_a_good_answer_is_no_pass(tmp_path: Path) -> None:
    code = 'print(\'{"ok": true, "message": ""}\', flush=True); raise SystemExit(1)'
    assert not _child(tmp_path, code).result().ok


def test_stderr_is_capped(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('x' * 1000000); raise SystemExit(1)"
    assert len(_child(tmp_path, code).result().message) < 2000


def test_no_room_for_temporary_files_is_no_fault_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = models.scale_model(tmp_path / "m.onnx")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(FolderError, match="no temporary file can be written .*TMPDIR"):
        start_check(path)


def test_the_child_has_one_thread_for_linear_algebra_unless_others_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, sys; sys.stderr.write(os.environ['OPENBLAS_NUM_THREADS']); sys.exit(3)"
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert _child(tmp_path, code).result().message.endswith(": 1")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    assert _child(tmp_path, code).result().message.endswith(": 2")
