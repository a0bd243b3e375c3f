"""A machine that can't check a model says nothing about the model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import models

_CODE = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (CAP, CAP))
from paritygate.admission.check import check_model
result = check_model(Path(sys.argv[1]))
print(result.ok, result.is_judged)
"""


def checked(path: Path, limit: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _CODE.replace("CAP", str(limit)), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_small_file_size_limit_is_kept(tmp_path: Path) -> None:
    path = models.scale_model(tmp_path / "m.onnx")
    assert checked(path, 9000) == "True True"


def test_a_check_that_cannot_answer_is_not_a_malformed_model(tmp_path: Path) -> None:
    path = models.scale_model(tmp_path / "m.onnx")
    assert checked(path, 4) == "False False"  # too small for an answer
