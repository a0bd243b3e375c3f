"""Runners in processes of their own against the same runners in this one.

A run with two ONNX Runtime models, both isolated, against the run that isn't, in one thread; the
round trip of a batch alone, with runners that answer at no cost; and how long it takes from the end
of a worker to the next answer.
"""

from __future__ import annotations

import copy
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench.make import mlp, pack, random_values
from bench.measure import Row, Scale, in_turn, run_seconds

from paritygate.core.tensors import Batch, ColumnSpec
from paritygate.runners.base import PrepareContext, Runner
from paritygate.runners.isolate.runner import IsolatedRunner
from paritygate.runners.registry import parse_runner, prepare

BATCH, WIDTH = 256, 64


@dataclass(frozen=True)
class Isolation:
    """All figures of isolation."""

    name: str = "isolation"
    labels: tuple[str, ...] = (
        "isolation, two sessions of about 1 ms, a batch of both",
        "isolation, round trip of a batch of 256 x 64 float32",
        "isolation, from the end of a worker to the next answer",
    )

    def measure(self, scale: Scale) -> list[Row]:
        return [self._sessions(scale), self._round_trip(scale), self._restart(scale)]

    def _sessions(self, scale: Scale) -> Row:
        batches = scale.size(500, 2)
        x = random_values(batches * BATCH, (WIDTH,))
        golden = pack(scale.folder / "isolation.arrow", np.arange(len(x)), {"x": x})
        sizes = (WIDTH, 576, 576, 10)
        models = [mlp(scale.folder / f"i{n}.onnx", sizes, n * 1e-6) for n in range(2)]
        plain = _plan(golden, models)
        isolated = copy.deepcopy(plain)
        for table in isolated["runners"].values():
            table["isolate"] = "process"
        found = in_turn(
            scale,
            {
                "plain": lambda: run_seconds(plain, 1)[0],
                "isolated": lambda: run_seconds(isolated, 1)[0],
            },
        )
        golden.unlink()
        ms = {key: [1e3 * s / batches for s in values] for key, values in found.items()}
        return Row.against(
            self.labels[0],
            ms["isolated"],
            "ms/batch",
            ms["plain"],
            "in this process",
            limit=1.05,
        )

    def _round_trip(self, scale: Scale) -> Row:
        times = scale.size(5_000, 5)
        with _null(scale.folder, None) as plain, _null(scale.folder, "process") as isolated:
            found = in_turn(
                scale,
                {
                    "plain": lambda: _seconds_a_batch(plain, times),
                    "isolated": lambda: _seconds_a_batch(isolated, times),
                },
            )
        us = {key: [1e6 * s for s in values] for key, values in found.items()}
        label, what = self.labels[1], "in this process"
        return Row.against(label, us["isolated"], "µs", us["plain"], what)

    def _restart(self, scale: Scale) -> Row:
        sizes = (WIDTH, 576, 576, 10)
        table = {"model": str(mlp(scale.folder / "r.onnx", sizes, 0)), "isolate": "process"}
        with _prepared(table, scale.folder) as runner:
            assert isinstance(runner, IsolatedRunner)
            found = in_turn(scale, {"restart": lambda: _restart_seconds(runner)})
        return Row.of(self.labels[2], found["restart"], "s")


def _plan(golden: Path, models: list[Path]) -> dict[str, Any]:
    runners = {
        name: {"kind": "onnxruntime", "model": str(path), "batch_size": BATCH}
        for name, path in zip(("ref", "cand"), models, strict=True)
    }
    stage = {
        "reference": "ref",
        "candidate": "cand",
        "outputs": {"y": {"atol": 1e-2, "rtol": 1e-2}},
    }
    dims = {"batch": {"sizes": [BATCH]}}
    return {"golden": str(golden), "dims": dims, "runners": runners, "stages": [stage]}


def _null(folder: Path, isolate: str | None) -> Runner:
    table: dict[str, Any] = {"kind": "null", "echo": {"y": "x"}}
    return _prepared(table if isolate is None else {**table, "isolate": isolate}, folder)


def _prepared(table: object, folder: Path) -> Runner:
    spec, problems = parse_runner("runner", table, folder)
    assert spec is not None, problems
    columns = {"x": ColumnSpec("x", "float32", (WIDTH,))}
    return prepare(spec, PrepareContext(folder, None, columns))


def _batch() -> Batch:
    x = random_values(BATCH, (WIDTH,))
    x.flags.writeable = False
    return Batch(0, 0, 0, BATCH, BATCH, np.arange(BATCH), {"x": x})


def _seconds_a_batch(runner: Runner, times: int) -> float:
    batch, session = _batch(), runner.session()
    session.run(batch).release()
    started = time.perf_counter()
    for _ in range(times):
        session.run(batch).release()
    found = (time.perf_counter() - started) / times
    session.close()
    return found


def _restart_seconds(runner: IsolatedRunner) -> float:
    batch, session = _batch(), runner.session()
    session.run(batch).release()
    os.kill(runner.worker().pid, signal.SIGKILL)
    started = time.perf_counter()
    session.run(batch).release()
    found = time.perf_counter() - started
    session.close()
    return found


ISOLATION = Isolation()
