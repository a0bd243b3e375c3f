"""`run` with two ONNX Runtime models against a bare loop that calls both sessions.

Models, batches and session settings are the same (one intra-op thread, all optimisations). The
bare loop calls both sessions and keeps no output; once it leaves the threads to the runtime. A run
counts as a whole less its start (`timing.startup_s`: models loaded and checked, pack scanned), in a
process that is warm; whole processes count from launch to end.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from bench.make import Array, convnet, mlp, pack, random_values
from bench.measure import Row, Scale, in_turn, run_seconds, seconds

LIMIT = 1.05
THREADS = 2
_TRIAL_BATCH = 256
LOOP = """
import sys
import numpy as np
import onnxruntime as ort
import pyarrow as pa

ref, cand, golden, batch = *sys.argv[1:4], int(sys.argv[4])
options = ort.SessionOptions()
options.intra_op_num_threads = 1
sessions = [ort.InferenceSession(p, options, ["CPUExecutionProvider"]) for p in (ref, cand)]
shape = [-1, *sessions[0].get_inputs()[0].shape[1:]]
with pa.memory_map(golden) as source:
    table = pa.ipc.open_file(source)
    for number in range(table.num_record_batches):
        part = table.get_batch(number).column("in.x").storage
        x = part.flatten().to_numpy().reshape(shape)
        for at in range(0, len(x), batch):
            for session in sessions:
                session.run(None, {"x": x[at : at + batch]})
"""
RUN = """
import json, sys, paritygate
paritygate.run(json.loads(sys.argv[1]), out=None).raise_for_hold()
"""


@dataclass(frozen=True)
class ModelPair:
    """Two models of one architecture, the weights of the second disturbed by a few ULP.

    Attributes:
        limit: of the bare loop, with as many threads; None: what is done once a run is too much of
            it to be limited.
        of_default: of the bare loop whose threads are the runtime's.
        is_long: neither the runtime's threads nor whole processes are measured.
        times: as many rounds as elsewhere; a round's ratio is off by a tenth on a machine that
            others use too, and by a third where a batch takes a part of a millisecond.
    """

    title: str
    save: Callable[[Path, float], Path]
    sample: tuple[int, ...]
    batch: int
    batches: int
    limit: float | None = LIMIT
    of_default: float | None = 1.0
    is_long: bool = False
    times: int = 1

    @property
    def name(self) -> str:
        return f"two sessions, {self.title}"

    @property
    def labels(self) -> tuple[str, ...]:
        labels = (
            f"{self.name}, a batch of one model",
            f"{self.name}, 1 thread against 1",
            f"{self.name}, {THREADS} threads against {THREADS}",
            f"{self.name}, {THREADS} threads against 1",
            f"{self.name}, {THREADS} threads against ORT's own",
            f"{self.name}, whole process",
        )
        return labels[:4] if self.is_long else labels

    def measure(self, scale: Scale) -> list[Row]:
        batches = scale.size(self.batches, 2)
        x = random_values(batches * self.batch, self.sample)
        golden = pack(scale.folder / "sessions.arrow", np.arange(len(x)), {"x": x})
        models = [self.save(scale.folder / f"{n}.onnx", e) for n, e in (("ref", 0), ("cand", 1e-6))]
        plan = _plan(golden, models, self.batch)
        sessions = [_session(path, 1) for path in models]
        by_default = [_session(path, 0) for path in models]
        parts = [x[at : at + self.batch] for at in range(0, len(x), self.batch)]
        command = [*map(str, models), str(golden), str(self.batch)]
        works: dict[str, Callable[[], float]] = {
            "one": lambda: seconds(lambda: _loop(sessions[:1], parts)),
            "loop 1": lambda: seconds(lambda: _loop(sessions, parts)),
            "run 1": lambda: _run(plan, 1),
            "loop n": lambda: _threaded_loop(sessions, parts),
            "run n": lambda: _run(plan, THREADS),
        }
        if not self.is_long:
            works |= {
                "loop default": lambda: seconds(lambda: _loop(by_default, parts)),
                "loop process": lambda: seconds(lambda: _python(LOOP, *command)),
                "run process": lambda: seconds(lambda: _python(RUN, json.dumps(plan))),
            }
        found = in_turn(scale, works, times=self.times)
        golden.unlink()
        ms = {key: [1e3 * s / batches for s in values] for key, values in found.items()}
        one, unit, labels = "bare loop", "ms/batch", self.labels
        many = f"bare loop, {THREADS} threads"
        naive = "bare loop, ORT's default threads"
        process = "process of the bare loop"
        rows = [
            Row.of(labels[0], ms["one"], unit),
            Row.against(labels[1], ms["run 1"], unit, ms["loop 1"], one, limit=self.limit),
            Row.against(labels[2], ms["run n"], unit, ms["loop n"], many, limit=self.limit),
            Row.against(labels[3], ms["run n"], unit, ms["loop 1"], one, limit=self.limit),
        ]
        if self.is_long:
            return rows
        return [
            *rows,
            Row.against(
                labels[4], ms["run n"], unit, ms["loop default"], naive, limit=self.of_default
            ),
            Row.against(labels[5], found["run process"], "s", found["loop process"], process),
        ]


def _save_mlp(sizes: tuple[int, ...]) -> Callable[[Path, float], Path]:
    return lambda path, noise: mlp(path, sizes, noise)


def _save_mlp_of(ms: float) -> Callable[[Path, float], Path]:
    """The smallest MLP, in steps of 32 hidden units, whose batches take so long on this machine."""

    @cache
    def width() -> int:
        with TemporaryDirectory() as folder:
            path = Path(folder, "trial.onnx")
            x = random_values(_TRIAL_BATCH, (64,))
            for hidden in range(128, 1025, 32):
                session = _session(mlp(path, (64, hidden, hidden, 10), 0), 1)
                times = [seconds(lambda: _loop([session], [x])) for _ in range(60)]  # noqa: B023
                if 1e3 * statistics.median(times) >= ms:
                    break
        return hidden

    return lambda path, noise: mlp(path, (64, width(), width(), 10), noise)


def _save_convnet(side: int, channels: int) -> Callable[[Path, float], Path]:
    return lambda path, noise: convnet(path, side, channels, noise)


_SMALL = _save_mlp_of(1.0)
PAIRS = (
    ModelPair(
        "two layers on 10 numbers", _save_mlp((10, 64, 1)), (10,), 4096, 1500, 2.0, None, times=3
    ),
    ModelPair("MLP of 1 ms for half a second", _SMALL, (64,), _TRIAL_BATCH, 500, None),
    ModelPair("MLP of 1 ms", _SMALL, (64,), _TRIAL_BATCH, 2000, is_long=True, times=3),
    ModelPair("MLP of about 3 ms", _save_mlp((64, 896, 896, 10)), (64,), 256, 300),
    ModelPair("convolutions of about 3 ms", _save_convnet(28, 32), (1, 28, 28), 64, 300),
)


def _plan(golden: Path, models: list[Path], batch: int) -> dict[str, Any]:
    runners = {
        name: {
            "kind": "onnxruntime",
            "model": str(path),
            "batch_size": batch,
            "intra_op_num_threads": 1,
        }
        for name, path in zip(("ref", "cand"), models, strict=True)
    }
    return {
        "golden": str(golden),
        "dims": {"batch": {"sizes": [batch]}},
        "runners": runners,
        "stages": [
            {
                "reference": "ref",
                "candidate": "cand",
                "outputs": {"y": {"atol": 1e-2, "rtol": 1e-2}},
            }
        ],
    }


def _session(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _loop(sessions: list[Any], parts: list[Array]) -> None:
    for part in parts:
        for session in sessions:
            session.run(None, {"x": part})


def _threaded_loop(sessions: list[Any], parts: list[Array]) -> float:
    """The bare loop's batches spread over threads that are already there."""
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda _: None, range(THREADS)))
        shares = [parts[number::THREADS] for number in range(THREADS)]
        return seconds(lambda: list(pool.map(lambda share: _loop(sessions, share), shares)))


def _run(plan: dict[str, Any], threads: int) -> float:
    found, result = run_seconds(plan, threads)
    result.raise_for_hold()
    return found


def _python(code: str, *args: str) -> None:
    subprocess.run([sys.executable, "-c", code, *args], check=True)
