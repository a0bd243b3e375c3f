"""What was read is let go of in order, never what another thread still reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.test_places import mapped_kib
from tests.packs import write_pack

from paritygate.api.plans import load_plan
from paritygate.comparison.rows import KeepHint
from paritygate.core.events import ignore
from paritygate.core.tensors import Block
from paritygate.pipeline.drive import drive
from paritygate.pipeline.letting_go import LettingGo
from paritygate.pipeline.prepare import Preparation, prepare_plan
from paritygate.pipeline.threads import Threads

NAMES, SAMPLES = ("a.arrow", "b.arrow"), 12_000


class Pack:
    """Remembers up to where it was let go of."""

    def __init__(self) -> None:
        self.stops: list[int] = []

    def done_until(self, stop: int) -> None:
        self.stops.append(stop)


@given(st.integers(1, 12).flatmap(lambda n: st.permutations(range(n))))
def test_nothing_is_let_go_of_before_all_that_is_before_it_is_done(order: list[int]) -> None:
    packs: list[Any] = [Pack(), Pack()]
    blocks = [Block(0, 7 + at, 10 * at, 10 * at + 10) for at in range(len(order))]
    letting_go = LettingGo([*packs, packs[0]], blocks)
    finished: set[int] = set()
    for at in order:
        letting_go.finish(blocks[at])
        finished.add(at)
        leading = next(n for n in range(len(order) + 1) if n not in finished)
        for pack in packs:
            assert (pack.stops[-1] if pack.stops else 0) == 10 * leading
    assert packs[0].stops == sorted(packs[0].stops) == packs[1].stops
    letting_go.end()
    assert packs[0].stops[-1] == 10 * len(order)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [900, 2_900, 12_000])
def test_nothing_stays_mapped(tmp_path: Path, threads: int, rows: int) -> None:
    ready = two_recordings(tmp_path, rows)
    hints = {"s": KeepHint(5)}
    with ready.resources:
        assert ready.prepared.reads_runs
        most = Threads(threads, "option")
        driven = drive(ready.prepared, ready.blocks, most, lambda _: hints, hints, ignore)
        assert driven.tally.stages["s"].failed == SAMPLES
        assert sum(mapped_kib(tmp_path / name) for name in NAMES) < 1_000


def test_nothing_stays_mapped_that_no_thread_came_to_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = LettingGo.finish

    def finish_first(letting_go: LettingGo, block: Block) -> None:
        if block.start == 0:  # after that another thread is always busy
            finish(letting_go, block)

    monkeypatch.setattr(LettingGo, "finish", finish_first)
    ready = two_recordings(tmp_path, 2_900)
    hints = {"s": KeepHint(5)}
    with ready.resources:
        drive(ready.prepared, ready.blocks, Threads(2, "option"), lambda _: hints, hints, ignore)
        assert sum(mapped_kib(tmp_path / name) for name in NAMES) < 1_000


def two_recordings(folder: Path, rows: int) -> Preparation:
    """Recordings of which every sample fails, of so many rows a record batch."""
    y = np.random.default_rng(1).standard_normal((SAMPLES, 500)).astype(np.float32)
    for name, values in zip(NAMES, (y, y + np.float32(1)), strict=True):
        write_pack(folder / name, range(SAMPLES), outputs={"y": values}, rows_per_batch=rows)
    tolerance = {"outputs": {"y": {"atol": 1e-3, "rtol": 0.0}}}
    plan: dict[str, Any] = {
        "golden": "a.arrow",
        "runners": {"a": "recorded", "b": "b.arrow"},
        "stages": [{"name": "s", "reference": "a", "candidate": "b", **tolerance}],
    }
    return prepare_plan(load_plan(plan, folder=folder))
