"""What a person waits for: `--help`, a check, the demo where nothing has been compiled yet."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.measure import Row, Scale, in_turn, seconds
from bench.recorded import write

import paritygate_frontends

HELP_LIMIT_S, DEMO_LIMIT_S = 0.3, 15.0
CHECK_LIMIT = 3.0
LIBRARIES = "import numba, numpy, onnxruntime, pyarrow"
PLAN = Path(paritygate_frontends.__file__).parent / "demo_data" / "cancer.toml"
DEMO_ROUNDS = 3
COMPILE_LIMIT_S, LOAD_LIMIT_S = 4.0, 0.5
COMPILE_SAMPLES, COMPILE_WIDTH = 2_000, 1_000
KERNELS = """
import json, sys
import paritygate
ref, cand, stats = sys.argv[1:]
result = paritygate.compare(ref, cand, atol=1e-4, rtol=1e-4, out=None, stats=stats)
result.raise_for_hold()
print(json.dumps(result.summary["timing"]))
"""


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
class Check:
    """Processor time of `paritygate check` of a demo's plan, with all children that it starts."""

    name: str = "command, check"
    labels: tuple[str, ...] = ("command, check",)

    def measure(self, scale: Scale) -> list[Row]:
        check = ("-m", "paritygate_frontends", "check", str(PLAN))
        found = in_turn(
            scale,
            {
                "check": lambda: _processor_seconds(*check),
                "bare": lambda: _processor_seconds("-c", LIBRARIES),
            },
        )
        return [
            Row.against(self.name, found["check"], "s", found["bare"], LIBRARIES, limit=CHECK_LIMIT)
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


@dataclass(frozen=True)
class Compile:
    """Kernels of a comparison of two clean float32 recordings: compiled, then from the cache."""

    stats: Literal["gate", "full"]

    @property
    def name(self) -> str:
        return f"kernels, float32, {self.stats}"

    @property
    def labels(self) -> tuple[str, ...]:
        return (f"{self.name}, compiled", f"{self.name}, from the cache")

    def measure(self, scale: Scale) -> list[Row]:
        paths = [scale.folder / f"compiled-{side}.arrow" for side in ("ref", "cand")]
        for path, noise in zip(paths, (0.0, 1e-6), strict=True):
            write(path, COMPILE_SAMPLES, COMPILE_WIDTH, noise)
        rounds = [self._kernels(scale.folder, paths) for _ in range(1 if scale.quick else 5)]
        compiled, loaded = zip(*rounds, strict=True)
        return [
            Row.of(self.labels[0], compiled, "s", COMPILE_LIMIT_S),
            Row.of(self.labels[1], loaded, "s", LOAD_LIMIT_S),
        ]

    def _kernels(self, parent: Path, paths: Sequence[Path]) -> tuple[float, float]:
        """Seconds in which kernels are compiled for one run, and loaded by a second one."""
        with tempfile.TemporaryDirectory(dir=parent) as name:
            args = (KERNELS, *map(str, paths), self.stats)
            cold, warm = (json.loads(_python("-c", *args, NUMBA_CACHE_DIR=name)) for _ in range(2))
        assert cold["compiling_s"] > 0.0
        assert warm["compiling_s"] == 0.0
        return cold["kernels_s"], warm["kernels_s"]


def _cold_and_warm(parent: Path) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder = Path(name)
        caches = {key: str(folder / key) for key in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
        cold = seconds(lambda: _demo(folder / "first", **caches))
        return cold, seconds(lambda: _demo(folder / "again", **caches))


def _demo(out: Path, **env: str) -> None:
    _python("-m", "paritygate_frontends", "demo", "--out", str(out), **env)


def _processor_seconds(*args: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _python(*args)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def _python(*args: str, **env: str) -> bytes:
    done = subprocess.run(
        [sys.executable, *args], check=True, stdout=subprocess.PIPE, env={**os.environ, **env}
    )
    return done.stdout
