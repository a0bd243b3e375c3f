"""What a person waits for: `--help`, and the demo on a machine that has compiled nothing yet."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Row, Scale, in_turn, seconds

HELP_LIMIT_S, DEMO_LIMIT_S = 0.3, 15.0
DEMO_ROUNDS = 3


@dataclass(frozen=True)
class Help:
    """`paritygate --help` as a process."""

    name: str = "command, --help"
    labels: tuple[str, ...] = ("command, --help",)

    def measure(self, scale: Scale) -> list[Row]:
        found = in_turn(
            scale,
            {
                "help": lambda: seconds(lambda: _python("-m", "paritygate_frontends", "--help")),
                "bare": lambda: seconds(lambda: _python("-c", "pass")),
            },
        )
        what = "python -c pass"
        return [
            Row.against(
                self.name,
                found["help"],
                "s",
                found["bare"],
                what,
                limit=HELP_LIMIT_S,
                limited="ours",
            )
        ]


@dataclass(frozen=True)
class Demo:
    """`paritygate demo` as a process, with every cache empty and then with the same caches."""

    name: str = "command, demo"
    labels: tuple[str, ...] = ("command, demo, cold caches", "command, demo, warm caches")

    def measure(self, scale: Scale) -> list[Row]:
        if scale.quick:
            once = [seconds(lambda: _demo(scale.folder / "demo"))]
            return [Row.of(label, once, "s", DEMO_LIMIT_S) for label in self.labels]
        rounds = [_cold_and_warm(scale.folder) for _ in range(DEMO_ROUNDS)]
        cold, warm = zip(*rounds, strict=True)
        return [
            Row.of(self.labels[0], cold, "s", DEMO_LIMIT_S),
            Row.against(self.labels[1], warm, "s", cold, "cold caches"),
        ]


def _cold_and_warm(parent: Path) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder = Path(name)
        caches = {key: str(folder / key) for key in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
        cold = seconds(lambda: _demo(folder / "first", **caches))
        return cold, seconds(lambda: _demo(folder / "again", **caches))


def _demo(out: Path, **env: str) -> None:
    _python("-m", "paritygate_frontends", "demo", "--out", str(out), **env)


def _python(*args: str, **env: str) -> None:
    subprocess.run(
        [sys.executable, *args], check=True, stdout=subprocess.DEVNULL, env={**os.environ, **env}
    )
