"""Commands as processes of their own: how they end, what they say, what they need."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# What `wait4` says of a process begins with what the one that it was forked from had: this one has
# little when it forks the one that works.
_COMMAND = """
import resource, runpy, sys
try:
    runpy.run_module("paritygate_frontends", run_name="__main__", alter_sys=True)
finally:
    own = open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]
    forked = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print("peak-kib", max(int(own), forked), file=sys.stderr)
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its code, all that it said, its peak in MiB and its seconds."""

    code: int
    text: str
    peak_mib: int
    seconds: float


def run_command(*args: str | Path, cwd: Path, limit_s: float = 120.0) -> Ended:
    """Run `paritygate` and wait; it is killed at the limit."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *map(str, args)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    timer = threading.Timer(limit_s, process.kill)
    timer.start()
    text, _ = process.communicate()
    timer.cancel()
    peak = re.search(r"peak-kib (\d+)\s*\Z", text)
    assert peak is not None, text[-2_000:]
    told = " ".join(text[: peak.start()].split())
    return Ended(process.returncode, told, int(peak[1]) >> 10, time.monotonic() - started)


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
