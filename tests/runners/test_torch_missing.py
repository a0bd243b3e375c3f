"""Without torch, and before it is needed: these run whether it is installed or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(folder: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


WITHOUT = """
import sys
sys.modules["torch"] = None
from pathlib import Path
from paritygate.core.errors import RunnerLoadError
from paritygate.runners.registry import prepare
from paritygate.testing import context_of, spec_of
try:
    prepare(spec_of("m.pt2"), context_of(Path()))
except RunnerLoadError as e:
    print(e.is_plan_fault, e)
"""


def test_a_missing_torch_names_the_extra(tmp_path: Path) -> None:
    told = run(tmp_path, WITHOUT)
    assert told.startswith("True runner 'runner' needs torch, which can't be imported")
    assert "'paritygate[torch]'" in told


def test_a_plan_is_read_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys, paritygate\n"
        "from paritygate.testing import spec_of\n"
        "spec_of({'factory': 'net:build', 'weights': 'w.safetensors'})\n"
        "paritygate.plan_schema()\n"
        "print(sorted({'torch', 'safetensors'} & set(sys.modules)))\n"
    )
    assert run(tmp_path, code) == "[]"
