"""Run the command line: in this process, as a real process, and on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from paritygate_frontends.cli.app import app

COMMAND = (sys.executable, "-m", "paritygate_frontends")


def invoke(*args: str | Path) -> Any:
    """Run in this process; `.exit_code`, `.stdout`, `.stderr`."""
    return CliRunner().invoke(app, [str(arg) for arg in args], prog_name="paritygate")


def environment(**changes: str) -> dict[str, str]:
    """This process' environment, without what changes how terminals are drawn on."""
    drawing = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "PARITYGATE_DEBUG")
    return {
        **{key: value for key, value in os.environ.items() if key not in drawing},
        "TERM": "xterm-256color",
        **changes,
    }


def execute(*args: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run as a process with pipes."""
    return subprocess.run(
        [*COMMAND, *map(str, args)],
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=120,
    )


def on_terminal(
    *args: str | Path, cwd: Path, columns: int = 100, changes: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run as a process with a terminal for output and errors; exit code and all that it drew."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, args)],
        cwd=cwd,
        env=environment(COLUMNS=str(columns), **(changes or {})),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    drawn = bytearray()
    with suppress(OSError):  # EIO: the other end is closed
        while piece := os.read(ours, 65_536):
            drawn += piece
    os.close(ours)
    return process.wait(timeout=60), drawn.decode("utf-8")
