"""The checker runs in a child: what it refuses, dies of or never ends is told in one sentence."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx.checker
import pytest
from onnx import helper
from tests import models

from paritygate.admission import check
from paritygate.admission.check import PendingCheck, check_model, start_check
from paritygate.core.errors import FolderError


def test_sound_model(tmp_path: Path) -> None:
    result = check_model(models.scale_model(tmp_path / "m.onnx"))
    assert result.ok, result.message


def unknown_operator(path: Path) -> Path:
    return models.save_model(
        path,
        [helper.make_node("NoSuchOperator", ["x"], ["y"])],
        {"x": (models.FLOAT, ["batch"])},
        {"y": (models.FLOAT, ["batch"])},
    )


def test_model_with_an_unknown_operator_is_refused(tmp_path: Path) -> None:
    result = check_model(unknown_operator(tmp_path / "m.onnx"))
    assert not result.ok
    assert "NoSuchOperator" in result.message
    assert "m.onnx" in result.message


def shapes_that_do_not_fit(path: Path) -> Path:
    return models.save_model(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 3])},
        {"w": np.zeros((5, 3), np.float32)},
    )


def test_full_check_infers_shapes(tmp_path: Path) -> None:
    assert not check_model(shapes_that_do_not_fit(tmp_path / "m.onnx")).ok


@pytest.mark.parametrize("make", [unknown_operator, shapes_that_do_not_fit])
def test_the_child_says_what_the_package_says(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path / "m.onnx")
    with pytest.raises(Exception, match=".") as raised:
        onnx.checker.check_model(str(path), full_check=True)
    assert check_model(path).message == f"{path}: {' '.join(str(raised.value).split())}"


CHILD = """
import runpy, sys
sys.argv = ["child", {path!r}]
runpy.run_path({child!r}, run_name="__main__")
print(*sys.modules, file=sys.stderr)
raise SystemExit(3)
"""


def test_the_child_loads_the_checker_and_not_the_package_around_it(tmp_path: Path) -> None:
    path = models.scale_model(tmp_path / "m.onnx")
    done = subprocess.run(
        [sys.executable, "-P", "-c", CHILD.format(path=str(path), child=str(check._CHILD))],
        capture_output=True,
        text=True,
    )
    assert done.stdout == '{"ok": true, "message": ""}\n'
    assert not {"onnx", "numpy", "google.protobuf"} & set(done.stderr.split())


@pytest.mark.parametrize("text", ["", "raise ValueError('found by the package')"])
def test_without_the_compiled_checker_the_package_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    package = tmp_path / "onnx"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "checker.py").write_text(f"def check_model(path, full_check): {text or 'pass'}")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = check_model(tmp_path / "absent.onnx")
    assert result.ok is not bool(text)
    assert ("found by the package" in result.message) is bool(text)


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
