"""Standard streams that are closed, or that can't be written."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from tests.frontends.command import COMMAND, environment
from tests.frontends.plans import make_plan

FULL = "standard output can't be written: No space left on device"


def shell(folder: Path, args: str, redirections: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"{shlex.join(COMMAND)} {args} {redirections}"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_changes_no_verdict(tmp_path: Path, closed: str) -> None:
    make_plan(tmp_path, 1.5)
    done = shell(tmp_path, "run plan.toml", closed)
    assert done.returncode == 1
    assert done.stderr == ""
    assert done.stdout.startswith("HOLD" if closed == "2>&-" else "")
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "summary.json").read_text().startswith("{")


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_without_a_verdict(tmp_path: Path, closed: str) -> None:
    done = shell(tmp_path, "run nothing.toml --json", closed)
    assert done.returncode == 2
    assert ("no such file" in done.stdout) == (closed == "2>&-")
    assert ("no such file" in done.stderr) == (closed == ">&-")


@pytest.mark.slow
@pytest.mark.parametrize("args", ["--help", "run --help", "--version", "doctor", "run plan.toml"])
def test_a_full_disk_is_told(tmp_path: Path, args: str) -> None:
    make_plan(tmp_path, 1.5)
    done = shell(tmp_path, args, ">/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith(f"UNJUDGED  output.unwritable\n{FULL}")
    assert "report it" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.slow
def test_errors_that_cannot_be_written_leave_the_exit_code(tmp_path: Path) -> None:
    assert shell(tmp_path, "run nothing.toml", "2>/dev/full").returncode == 2
    assert shell(tmp_path, "run --limit 0", "2>/dev/full").returncode == 2
    assert shell(tmp_path, "run nothing.toml", ">/dev/full 2>/dev/full").returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("args", ["--help", "run --help"])
def test_help_whose_reader_has_gone_away(tmp_path: Path, args: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, *args.split()],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), errors) == (0, b"")
