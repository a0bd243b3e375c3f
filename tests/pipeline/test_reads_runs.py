"""Recordings in pack order: read by the threads themselves, ids only where a sample fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs import write_pack

import paritygate
from paritygate.api.plans import load_plan
from paritygate.comparison.rows import KeepHint
from paritygate.core.errors import GoldenError
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline import block_sizes
from paritygate.pipeline.lane import Lane, Shared
from paritygate.pipeline.prepare import Preparation, prepare_plan
from paritygate.pipeline.span import BlockResult, Hints, Prepared, read_block

SAMPLES = 300
STAGE = {"name": "s", "reference": "a", "candidate": "b"}


def pair(folder: Path, ids: Sequence[int | str], rows: int, failing: Sequence[int]) -> Path:
    y = np.random.default_rng(7).standard_normal((len(ids), 3)).astype(np.float32)
    near = y.copy()
    near[list(failing), 1] += np.float32(0.5)
    write_pack(
        folder / "a.arrow", ids, outputs={"y": y, "k": np.arange(len(ids))}, rows_per_batch=64
    )
    path = folder / "b.arrow"
    return write_pack(path, ids, outputs={"y": near, "k": np.arange(len(ids))}, rows_per_batch=rows)


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_BLOCK", "MAX_BATCHED_BLOCK", "_MOST_NUMBERS"):
        monkeypatch.setattr(block_sizes, name, 80)


def prepared(folder: Path) -> Preparation:
    plan: dict[str, Any] = {
        "golden": "a.arrow",
        "runners": {"a": "recorded", "b": "b.arrow"},
        "stages": [{**STAGE, "outputs": {"y": {"atol": 1e-3, "rtol": 0.0}}}],
    }
    return prepare_plan(load_plan(plan, folder=folder))


def results(ready: Preparation) -> list[BlockResult]:
    hints = Hints({"s": KeepHint(5)})
    with Lane(ready.prepared, Shared()) as lane:
        return [lane.run_block(read_block(ready.prepared, b), hints) for b in ready.blocks]


def told(found: Sequence[BlockResult]) -> list[Any]:
    stages = [result.stages["s"] for result in found]
    return [
        [
            stage.tally.to_json(),
            stage.failed.ordinals.tolist(),
            stage.failed.ids.tolist(),
            stage.failed.rules.tolist(),
            stage.worst.ordinals.tolist(),
            [repr((row.ordinal, row.values, row.tensors)) for row in stage.rows.values()],
        ]
        for stage in stages
    ]


@pytest.mark.parametrize("rows", [64, 37, 1, 300])
@pytest.mark.parametrize("failing", [(), (5, 64, 65, 299), range(SAMPLES)])
@pytest.mark.parametrize("is_text", [False, True])
def test_what_is_found_is_what_is_found_where_all_ids_are_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    failing: Sequence[int],
    is_text: bool,
) -> None:
    ids = [f"id {7 * i % 1013}" if is_text else 7 * i % 1013 for i in range(SAMPLES)]
    pair(tmp_path, ids, rows, failing)
    ready = prepared(tmp_path)
    with ready.resources:
        assert ready.prepared.reads_runs
        assert len(ready.blocks) > 3
        ours = told(results(ready))
        monkeypatch.setitem(vars(ready.prepared), "reads_runs", False)
        assert ours == told(results(ready))
        assert sum(len(one[1]) for one in ours) == len(failing)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_nothing_that_is_counted_depends_on_how_blocks_are_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    n, width = data.draw(st.integers(1, 200)), data.draw(st.sampled_from((1, 3, 20)))
    ref = rng.standard_normal((n, width)).astype(np.float32)
    cand = ref + rng.normal(0, 1e-3, ref.shape).astype(np.float32)
    for side in (ref, cand):
        for value in data.draw(st.lists(st.sampled_from((np.nan, np.inf, -np.inf, 0.0)))):
            side[rng.integers(n), rng.integers(width)] = value
    for name, y in (("a", ref), ("b", cand)):
        outputs = {"y": y, "score": np.nan_to_num(y[:, 0])}
        rows = data.draw(st.integers(1, 90))
        sites = {"site": [f"s{at % 3}" for at in range(n)]}
        path = folder / f"{name}.arrow"
        write_pack(path, range(n), outputs=outputs, slices=sites, rows_per_batch=rows)
    plan: dict[str, Any] = {
        "golden": "a.arrow",
        "slices": ["site"],
        "runners": {"a": "recorded", "b": "b.arrow"},
        "decisions": {"d": {"output": "score", "bands": "no < 0 <= yes"}},
        "stages": [{**STAGE, "default": {"atol": 1e-3, "rtol": 1e-4}}],
    }
    ready = prepare_plan(load_plan(plan, folder=folder))
    with ready.resources:
        assert ready.prepared.reads_runs
        ours = told(results(ready))
        vars(ready.prepared)["reads_runs"] = False
        theirs = told(results(ready))
    assert ours == theirs


def test_no_id_is_read_of_samples_that_are_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair(tmp_path, range(SAMPLES), 37, ())
    ready = prepared(tmp_path)
    with ready.resources:

        def refuse(*_: object) -> None:
            raise AssertionError("an id was read")

        for name in ("ids", "take_ids"):
            monkeypatch.setattr(GoldenPack, name, refuse)
        assert sum(result.stages["s"].tally.compared for result in results(ready)) == SAMPLES


@pytest.mark.parametrize("threads", [1, 3])
def test_a_recording_that_can_not_be_read_costs_its_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    path = pair(tmp_path, range(SAMPLES), 64, (3,))
    read = GoldenPack.output

    def fail(pack: GoldenPack, name: str, start: int, stop: int, *room: Any) -> Any:
        if pack.files[0].path == path and start <= 70 < stop:
            raise GoldenError(f"{path}: damaged")
        return read(pack, name, start, stop, *room)

    monkeypatch.setattr(GoldenPack, "output", fail)
    found = []
    for is_slow in (False, True):
        if is_slow:
            monkeypatch.setattr(Prepared, "reads_runs", False)
        result = paritygate.compare(
            tmp_path / "a.arrow", path, atol=1e-3, rtol=0.0, out=None, threads=threads
        )
        found.append([(reason.code, reason.message) for reason in result.reasons])
    assert "runner.disagreement" in {code for code, _ in found[0]}
    assert "damaged" in str(found[0])
    assert found[0] == found[1]


def test_a_fault_of_ours_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pair(tmp_path, range(SAMPLES), 64, ())

    def fail(*_: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(GoldenPack, "output", fail)
    with pytest.raises(ZeroDivisionError, match="of ours"):
        paritygate.compare(tmp_path / "a.arrow", path, atol=0.0, rtol=0.0, out=None)
