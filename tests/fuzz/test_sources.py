"""The kept sources do what they should, and short runs of the fuzzers find nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fuzz.corpus import SOURCES
from tests.fuzz.targets import TARGETS
from tests.fuzz.test_fuzz import run

MAKEFILE = Path(__file__).parents[2].joinpath("Makefile").read_text(encoding="utf-8")
FILES = sorted(path for path in SOURCES.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_kept_source_is_read_or_refused(tmp_path: Path, path: Path) -> None:
    wanted = {"good": "read", "bad": "refused"}[path.name.partition("-")[0]]
    assert TARGETS[path.parent.name](tmp_path, path.read_bytes()) == wanted


def test_every_target_has_sources_and_they_are_small() -> None:
    line = next(line for line in MAKEFILE.splitlines() if line.startswith("FUZZ_SOURCES"))
    assert line.partition(":= ")[2].split() == list(TARGETS)
    assert {path.parent.name for path in FILES} == set(TARGETS)
    assert sum(path.stat().st_size for path in FILES) < 100_000


@pytest.mark.slow
def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    for target in TARGETS:
        (tmp_path / target).mkdir()
    done = run(
        *("-m", "tests.fuzz.fuzz_sources", "all", "-runs=1500", "-max_total_time=20", "-seed=1"),
        *(str(tmp_path), str(SOURCES)),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ended = [line for line in done.stderr.splitlines() if " ended with " in line]
    assert ended == [f"{target} ended with 0" for target in TARGETS]
    assert len(re.findall(r"^Done \d{2,} runs", done.stderr, re.MULTILINE)) == len(TARGETS)
