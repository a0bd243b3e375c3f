"""The kept files do what they should, and a short run of the fuzzer finds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.corpus import CORPUS

ROOT = Path(__file__).parents[2]
OUTCOMES = """
import shutil, sys
from pathlib import Path
from tests.golden.hostile import outcome
for path in sorted(Path(sys.argv[1]).iterdir()):
    print(path.name, flush=True)
    shutil.copy(path, sys.argv[2])
    found = outcome(Path(sys.argv[2]))
    assert found == {"good": "read", "bad": "refused"}[path.name.partition("-")[0]], found
"""


def run(*args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_the_kept_files_are_read_or_refused(tmp_path: Path) -> None:
    done = run("-c", OUTCOMES, str(CORPUS), str(tmp_path / "pack"))
    assert done.returncode == 0, done.stdout.splitlines()[-1:] + done.stderr.splitlines()[-5:]
    assert len(done.stdout.splitlines()) > 20


def test_the_kept_files_are_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.iterdir()) < 300_000


@pytest.mark.slow
def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "found").mkdir()
    done = run(
        *("-m", "tests.fuzz.fuzz_pack", "-runs=4000", "-max_total_time=30", "-seed=1"),
        *(str(tmp_path / "found"), str(CORPUS)),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done" in done.stderr
