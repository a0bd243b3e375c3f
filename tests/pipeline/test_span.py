"""Spans: the same tally, bit for bit, for any threads, any split and any merge order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack

from paritygate.api.plans import load_plan
from paritygate.comparison.rows import KeepHint
from paritygate.core.events import Event, Progress
from paritygate.core.tensors import BlockSizes, cut_blocks
from paritygate.pipeline.execute import Options, execute
from paritygate.pipeline.lane import run_span
from paritygate.pipeline.prepare import CallableRunner, Preparation, prepare_plan
from paritygate.tally.stage import Tally

SAMPLES = 700


def make_pack(folder: Path, samples: int = SAMPLES, files: int = 2) -> Path:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((samples, 6)).astype(np.float32)
    x[5, 2] = np.nan
    x[17] = np.inf
    x[19, 1] = 1e-42
    ids = np.arange(samples) * 3 + 11
    for number, rows in enumerate(np.array_split(np.arange(samples), files)):
        write_pack(
            folder / f"g{number}.arrow",
            ids[rows],
            inputs={"x": x[rows]},
            label=(ids[rows] % 6).tolist(),
            slices={"site": [f"s{i % 3}" for i in ids[rows]]},
            rows_per_batch=97,
        )
    return folder


def ref(given: dict[str, Any]) -> dict[str, Any]:
    return {"y": given["x"] * np.float32(1.5), "n": (given["x"][:, :2] > 0).astype(np.int32)}


def cand(given: dict[str, Any]) -> dict[str, Any]:
    y = given["x"] * np.float32(1.5)
    y[:, 3] += np.where(given["x"][:, 0] > 1.2, np.float32(0.4), np.float32(1e-7))
    return {"y": y, "n": (given["x"][:, :2] > 0.001).astype(np.int32)}


def plan_dict(**more: Any) -> dict[str, Any]:
    return {
        "golden": "g*.arrow",
        "slices": ["site"],
        "dims": {"batch": {"sizes": [1, 16], "check_samples": 0}},
        "runners": {
            "a": {"kind": "python", "call": "m:f"},
            "b": {"kind": "python", "call": "m:f"},
        },
        "stages": [
            {
                "name": "s",
                "reference": "a",
                "candidate": "b",
                "outputs": {"y": {"atol": 1e-6, "rtol": 1e-5}, "n": {"atol": 0.0, "rtol": 0.0}},
            }
        ],
        "decisions": {"class": {"output": "y", "argmax": True}},
        **more,
    }


CALLABLES = {"a": CallableRunner(ref), "b": CallableRunner(cand)}


@pytest.fixture
def ready(tmp_path: Path) -> Any:
    make_pack(tmp_path)
    plan = load_plan(plan_dict(), folder=tmp_path)
    made = prepare_plan(plan, callables=CALLABLES)
    with made.resources:
        yield made


def with_blocks(ready: Preparation, size: int) -> list[Any]:
    return cut_blocks(ready.prepared.samples, BlockSizes(size, size))


def test_any_split_and_any_order_of_merging_gives_the_same_bits(ready: Preparation) -> None:
    whole = run_span(ready.prepared, with_blocks(ready, 16))
    expected = whole.to_json()
    assert whole.samples == SAMPLES
    assert whole.stages["s"].failed > 0
    assert whole.stages["s"].flips > 0
    shuffler = random.Random(3)
    for _ in range(4):
        blocks = with_blocks(ready, 16)
        shuffler.shuffle(blocks)
        cut = shuffler.randrange(1, len(blocks))
        parts = [run_span(ready.prepared, p) for p in (blocks[:cut], blocks[cut:])]
        shuffler.shuffle(parts)
        assert parts[0].merge(parts[1]).to_json() == expected


@pytest.mark.parametrize("size", [16, 32, 112, 704])
def test_any_block_size_gives_the_same_statistics(ready: Preparation, size: int) -> None:
    expected = run_span(ready.prepared, with_blocks(ready, 16)).to_json()
    found = run_span(ready.prepared, with_blocks(ready, size)).to_json()
    assert found["stages"] == expected["stages"]


def test_tally_survives_json(ready: Preparation) -> None:
    tally = run_span(ready.prepared, with_blocks(ready, 64))
    assert Tally.from_json(tally.to_json()) == tally


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same_run(tmp_path: Path, threads: int) -> None:
    make_pack(tmp_path, files=3)
    plan = load_plan(plan_dict(), folder=tmp_path)
    events: list[Event] = []
    outcome = execute(
        plan,
        Options(
            out=tmp_path / f"runs{threads}",
            threads=threads,
            cuts=(16,) * 43 + (12,),
            callables=CALLABLES,
            observer=events.append,
        ),
    )
    one = execute(plan, Options(threads=1, callables=CALLABLES))
    assert outcome.tally.to_json()["stages"] == one.tally.to_json()["stages"]
    assert [r.message for r in outcome.judgement.reasons] == [
        r.message for r in one.judgement.reasons
    ]
    last = [e for e in events if isinstance(e, Progress)][-1]
    assert (last.samples, last.total) == (SAMPLES, SAMPLES)
    assert last.failed == outcome.tally.stages["s"].failed
    assert last.flips == outcome.tally.stages["s"].flips


def test_each_distinct_runner_runs_each_sample_once(tmp_path: Path) -> None:
    make_pack(tmp_path)
    seen: dict[str, list[int]] = {"a": [], "b": [], "c": []}

    def counting(name: str, function: Any) -> CallableRunner:
        def call(given: dict[str, Any]) -> Any:
            seen[name].append(len(given["x"]))
            return function(given)

        return CallableRunner(call)

    table = plan_dict()
    table["runners"]["c"] = {"kind": "python", "call": "m:f"}
    table["stages"].append({**table["stages"][0], "name": "t", "reference": "b", "candidate": "c"})
    table["stages"].append({**table["stages"][0], "name": "u", "reference": "a", "candidate": "c"})
    execute(
        load_plan(table, folder=tmp_path),
        Options(
            callables={
                "a": counting("a", ref),
                "b": counting("b", cand),
                "c": counting("c", ref),
            }
        ),
    )
    full, tail = divmod(SAMPLES, 16)
    for calls in seen.values():
        assert sorted(calls) == sorted([16] * full + [16] * bool(tail))


def test_tails_are_padded_with_the_last_sample_and_padding_is_not_counted(tmp_path: Path) -> None:
    make_pack(tmp_path, samples=21, files=1)
    batches: list[Any] = []

    def keep(given: dict[str, Any]) -> Any:
        batches.append(given["x"].copy())
        return ref(given)

    plan = load_plan(plan_dict(), folder=tmp_path)
    outcome = execute(
        plan, Options(threads=1, callables={"a": CallableRunner(keep), "b": CallableRunner(cand)})
    )
    assert [len(b) for b in batches] == [16, 16]
    assert (batches[1][5:] == batches[1][4]).all()
    assert outcome.tally.stages["s"].compared == 21
    assert outcome.tally.stages["s"].outputs["y"].elements == 21 * 6


def test_runner_that_raises_costs_its_batch_only(tmp_path: Path) -> None:
    make_pack(tmp_path)

    def fragile(given: dict[str, Any]) -> Any:
        if (given["x"] == np.inf).all(axis=1).any():
            raise ValueError("no infinite sensors")
        return ref(given)

    plan = load_plan(plan_dict(), folder=tmp_path)
    outcome = execute(
        plan,
        Options(callables={"a": CallableRunner(ref), "b": CallableRunner(fragile)}, out=tmp_path),
    )
    tally = outcome.tally.stages["s"]
    assert tally.rules[("runner.disagreement", "candidate")].samples == 16
    assert tally.compared == SAMPLES - 16
    assert tally.seen == SAMPLES
    assert "no infinite sensors" in tally.errors["candidate"].text
    codes = [r.code for r in outcome.judgement.reasons]
    assert "runner.disagreement" in codes
    assert outcome.judgement.verdict == "hold"


def test_reader_errors_end_the_run_and_leave_nothing(tmp_path: Path) -> None:
    make_pack(tmp_path)
    plan = load_plan(plan_dict(), folder=tmp_path)

    def broken(_event: Event) -> None:
        raise RuntimeError("observer broke")

    with pytest.raises(RuntimeError, match="observer broke"):
        execute(plan, Options(out=tmp_path / "runs", callables=CALLABLES, observer=broken))
    assert not (tmp_path / "runs").exists()


def test_keep_hint_prunes_only_what_cannot_enter(ready: Preparation) -> None:
    from paritygate.pipeline.collect import Collector

    limited = load_plan(plan_dict(max_failures=3), folder=ready.prepared.plan.folder)
    kept = []
    for size in (16, 64, 704):
        made = prepare_plan(limited, callables=CALLABLES)
        with made.resources:
            from paritygate.pipeline.lane import Lane, Shared
            from paritygate.pipeline.span import Hints, read_block

            collector = Collector(made.prepared, None)
            with Lane(made.prepared, Shared()) as lane:
                hints = Hints(collector.hints())
                for block in with_blocks(made, size):
                    hints.by_stage = collector.take(
                        lane.run_block(read_block(made.prepared, block), hints)
                    )
            kept.append(
                (
                    [r.ordinal for r in collector._worst["s"].rows()],
                    [r.ordinal for r in collector._flips["s"].rows()],
                )
            )
    assert kept[0] == kept[1] == kept[2]
    assert len(kept[0][0]) == 3
    assert KeepHint(3).worst == -np.inf
