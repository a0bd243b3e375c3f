"""Runners in processes of their own against the same runners in this one.

A run with two ONNX Runtime models, both isolated, against the run that isn't: in one thread, where
the two processes are at work at once, and in as many as the machine has cores, where nothing is
idle meanwhile. One session alone, whose batches are sent ahead; the round trip of a batch that
isn't, with runners that answer at no cost; and how long it takes from the end of a worker to the
next answer.
"""

from __future__ import annotations

import copy
import os
import signal
import time
from dataclasses import dataclass
from functools import partial
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
SIZES = (WIDTH, 576, 576, 10)  # about 1 ms a batch on a core of 2025


@dataclass(frozen=True)
class Isolation:
    """All figures of isolation."""

    name: str = "isolation"
    labels: tuple[str, ...] = (
        "isolation, two sessions of about 1 ms, a batch of both",
        "isolation, the same on two threads",
        "isolation, one session of about 1 ms, a batch after the other",
        "isolation, round trip of a batch of 256 x 64 float32",
        "isolation, from the end of a worker to the next answer",
    )

    def measure(self, scale: Scale) -> list[Row]:
        return [
            *self._sessions(scale),
            self._alone(scale),
            self._round_trip(scale),
            self._restart(scale),
        ]

    def _sessions(self, scale: Scale) -> list[Row]:
        batches = scale.size(2_000, 2)
        x = random_values(batches * BATCH, (WIDTH,))
        golden = pack(scale.folder / "isolation.arrow", np.arange(len(x)), {"x": x})
        models = [mlp(scale.folder / f"i{n}.onnx", SIZES, n * 1e-6) for n in range(2)]
        plain = _plan(golden, models)
        isolated = copy.deepcopy(plain)
        for table in isolated["runners"].values():
            table["isolate"] = "process"
        found = in_turn(
            scale,
            {
                f"{name} {threads}": partial(lambda p, n: run_seconds(p, n)[0], plan, threads)
                for threads in (1, 2)
                for name, plan in (("plain", plain), ("isolated", isolated))
            },
        )
        golden.unlink()
        ms = {key: [1e3 * s / batches for s in values] for key, values in found.items()}
        return [
            Row.against(
                self.labels[threads - 1],
                ms[f"isolated {threads}"],
                "ms/batch",
                ms[f"plain {threads}"],
                "in this process",
                limit=limit,
            )
            for threads, limit in ((1, 1.05), (2, None))
        ]

    def _alone(self, scale: Scale) -> Row:
        """One session, asked for batch after batch as a block's are; no other side hides it."""
        table = {"model": str(mlp(scale.folder / "a.onnx", SIZES, 0))}
        isolated_table = {**table, "isolate": "process"}
        times = scale.size(1_000, 2)
        with (
            _prepared(table, scale.folder) as plain,
            _prepared(isolated_table, scale.folder) as isolated,
        ):
            found = in_turn(
                scale,
                {
                    "plain": lambda: _seconds_a_batch(plain, times, is_ahead=True),
                    "isolated": lambda: _seconds_a_batch(isolated, times, is_ahead=True),
                },
            )
        ms = {key: [1e3 * s for s in values] for key, values in found.items()}
        label, what = self.labels[2], "in this process"
        return Row.against(label, ms["isolated"], "ms", ms["plain"], what, limit=1.05)

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
        label, what = self.labels[3], "in this process"
        return Row.against(label, us["isolated"], "µs", us["plain"], what)

    def _restart(self, scale: Scale) -> Row:
        table = {"model": str(mlp(scale.folder / "r.onnx", SIZES, 0)), "isolate": "process"}
        with _prepared(table, scale.folder) as runner:
            assert isinstance(runner, IsolatedRunner)
            found = in_turn(scale, {"restart": lambda: _restart_seconds(runner)})
        return Row.of(self.labels[4], found["restart"], "s")


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


def _seconds_a_batch(runner: Runner, times: int, *, is_ahead: bool = False) -> float:
    batches, session = [_batch(), _batch()], runner.session()
    session.run(batches[0]).release()
    started = time.perf_counter()
    for n in range(times):
        following = batches[(n + 1) % 2] if is_ahead and n + 1 < times else None
        session.run(batches[n % 2], following).release()
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
