"""Commands as processes of their own: how they end, what they say, what they need."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a command ended: its code, all that it said, its peak in MiB and its seconds."""

    code: int
    text: str
    peak_mib: int
    seconds: float


def run_command(*args: str | Path, cwd: Path, limit_s: float = 120.0) -> Ended:
    """Run `paritygate` and wait; it is killed at the limit."""
    command = [sys.executable, "-m", "paritygate_frontends", *map(str, args)]
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    timer = threading.Timer(limit_s, process.kill)
    timer.start()
    assert process.stdout is not None
    text = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    told = " ".join(text.split())
    return Ended(process.returncode, told, usage.ru_maxrss >> 10, time.monotonic() - started)


def check_refused(ended: Ended, *words: str, peak_mib: int = 700, seconds: float = 60.0) -> None:
    """One sentence, exit 2, no crash, bounded memory and time."""
    assert ended.code == 2, ended
    assert "Traceback" not in ended.text, ended.text
    assert "fault of paritygate" not in ended.text, ended.text
    assert len(ended.text) < 2_000, ended.text
    for word in words:
        assert word in ended.text, ended.text
    assert ended.peak_mib < peak_mib, ended
    assert ended.seconds < seconds, ended
