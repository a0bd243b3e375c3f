"""The kept models do what they should, and a short run of the fuzzer finds nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.admission.hostile import outcome
from tests.fuzz.models import MODELS
from tests.fuzz.test_fuzz import run


def test_the_kept_models_are_read_or_refused(tmp_path: Path) -> None:
    kept = sorted(MODELS.iterdir())
    assert len(kept) >= 4
    for path in kept:
        shutil.copy(path, tmp_path / "m")
        wanted = {"good": "read", "bad": "refused"}[path.name.partition("-")[0]]
        assert outcome(tmp_path / "m") == wanted, path.name


def test_the_kept_models_are_small() -> None:
    assert sum(path.stat().st_size for path in MODELS.iterdir()) < 100_000


@pytest.mark.slow
def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "found").mkdir()
    done = run(
        *("-m", "tests.fuzz.fuzz_inspect", "-runs=4000", "-max_total_time=30", "-seed=1"),
        *(str(tmp_path / "found"), str(MODELS)),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done" in done.stderr
