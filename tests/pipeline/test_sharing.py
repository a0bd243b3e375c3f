"""Batches that several threads run: each once, in its place, and none is lost."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from onnx import helper
from tests import models
from tests.packs import write_pack

from paritygate.api.plans import load_plan
from paritygate.comparison.rows import SampleRows
from paritygate.core.errors import RunnerError
from paritygate.core.events import Progress
from paritygate.core.tensors import Array, Batch, Block
from paritygate.pipeline import drive
from paritygate.pipeline.batches import Batches, Cut
from paritygate.pipeline.execute import Options, Outcome, execute
from paritygate.pipeline.gather import Gather
from paritygate.pipeline.lane import Lane
from paritygate.pipeline.sharing import (
    Pace,
    SharedBatches,
    Sharing,
    most_threads,
    shares_batches,
)
from paritygate.runners import ort_fill
from paritygate.runners.base import Filler, Lease, Limits
from paritygate.runners.failures import SampleFailure
from paritygate.tally.stage import Hits

ROWS, COUNT = 3, 7


def shared(width: int = 2, count: int = COUNT) -> SharedBatches:
    many = ROWS * (count - 1) + 1
    ordinals = np.arange(many) + 100
    samples = SampleRows(0, ordinals, ordinals * 10, {}, {}, Hits())
    x = np.arange(many * width, dtype=np.float32).reshape(many, width)
    x.flags.writeable = False
    batches = Cut(None, ROWS, None).batches(Block(0, 0, 0, many), samples, {"x": x})
    gather = Gather(samples, lambda _, rows, like: np.full((rows, *like.shape[1:]), 77, like.dtype))
    return SharedBatches(runner(), batches, gather, is_whole=False)


def runner(**more: Any) -> Any:
    given: dict[str, Any] = {
        "limits": Limits((ROWS,), True),
        "runs_elsewhere": False,
        "can_stay": frozenset(),
        **more,
    }
    return SimpleNamespace(**given)


def claimed(work: SharedBatches) -> Iterator[int]:
    """Numbers of what is left, one by one."""
    while numbers := work.claim():
        yield from numbers


def answer(batch: Batch) -> tuple[Lease, list[Any]]:
    return Lease({"y": batch.inputs["x"] * 2}), []


def test_batches_are_made_when_they_are_asked_for() -> None:
    batches = shared().batches
    assert isinstance(batches, Batches)
    assert len(batches) == COUNT
    made = list(batches)
    assert [b.number for b in made] == list(range(COUNT))
    assert [(b.start, b.last, b.valid) for b in made[-2:]] == [(115, 117, 3), (118, 118, 1)]
    assert np.concatenate([b.inputs["x"] for b in made]).tobytes() == batches.inputs["x"].tobytes()
    assert np.concatenate([b.ids for b in made]).tolist() == [i * 10 for i in range(100, 119)]
    assert [b.number for b in batches[1:3]] == [1, 2]
    with pytest.raises(IndexError):
        batches[COUNT]


@pytest.mark.parametrize("is_lasting", [False, True])
def test_each_batch_is_claimed_once_from_either_end(is_lasting: bool) -> None:
    work = shared()
    doubled = work.batches.inputs["x"] * 2
    doubled.flags.writeable = False

    def lasting(batch: Batch) -> tuple[Lease, list[Any]]:
        if not is_lasting:
            return answer(batch)
        at = batch.number * ROWS
        return Lease({"y": doubled[at : at + ROWS]}, is_lasting=True), []

    seen = []
    for is_own in (True, True, False, True, False, False, True):
        number = work.claim()[0] if is_own else work.claim_last()
        assert number is not None
        seen.append(number)
        if is_own:
            assert not work.keep(number, *lasting(work.batches[number]))
        else:
            work.help(number, lasting)
    assert seen == [0, 1, 6, 2, 5, 4, 3]
    assert not work.claim()
    assert work.claim_last() is None
    side = work.side(ROWS, threading.Event())
    assert np.asarray(side.outputs["y"]).tobytes() == doubled.tobytes()
    assert work.helped_s > 0


def test_helpers_may_answer_before_the_first_batch() -> None:
    """Answers that lie in memory one after another are only left there if they come in order."""
    work = shared()
    doubled = work.batches.inputs["x"] * 2

    def lasting(batch: Batch) -> tuple[Lease, list[Any]]:
        at = batch.number * ROWS
        return Lease({"y": doubled[at : at + ROWS]}, is_lasting=True), []

    last = work.claim_last()
    assert last is not None
    work.help(last, lasting)
    for number in claimed(work):
        work.keep(number, *lasting(work.batches[number]))
    side = work.side(ROWS, threading.Event())
    assert np.asarray(side.outputs["y"]).tobytes() == doubled.tobytes()


def test_buffers_are_given_back_once_they_are_copied() -> None:
    work = shared()
    given_back = []
    for number in claimed(work):
        y = work.batches[number].inputs["x"] * 2

        def give_back(y: Array = y, number: int = number) -> None:
            y[...] = np.nan  # whoever has it next writes over it
            given_back.append(number)

        assert not work.keep(number, Lease({"y": y}, give_back=give_back), [])
    assert given_back == list(range(COUNT))
    side = work.side(ROWS, threading.Event())
    assert np.asarray(side.outputs["y"]).tobytes() == (work.batches.inputs["x"] * 2).tobytes()


def test_who_has_most_left_is_helped_until_it_is_withdrawn() -> None:
    sharing, few, many = Sharing(2, threading.Event()), shared(), shared(count=9)
    sharing.offer(few)
    sharing.offer(many)
    assert sharing.claim() == (many, 8)
    sharing.withdraw(many)
    sharing.withdraw(many)
    assert sharing.claim() == (few, COUNT - 1)
    sharing.withdraw(few)
    sharing.finish()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(sharing.claim()))
    waiting.start()
    sharing.finish()
    waiting.join(timeout=30)
    assert found == [None]


def test_a_batch_that_was_claimed_and_not_run_is_noticed() -> None:
    work = shared()
    for number in claimed(work):
        if number != 3:
            work.keep(number, *answer(work.batches[number]))
    with pytest.raises(RuntimeError, match="6 of 7 batches were run"):
        work.side(ROWS, threading.Event())


def test_a_batch_that_was_run_twice_makes_up_for_none() -> None:
    work = shared()
    for number in claimed(work):
        at = 2 if number == 3 else number
        work.keep(at, *answer(work.batches[at]))
    with pytest.raises(RuntimeError, match="6 of 7 batches were run"):
        work.side(ROWS, threading.Event())


def test_a_helper_is_waited_for_and_its_fault_is_told() -> None:
    work = shared()
    away = work.claim_last()
    assert away is not None
    for number in claimed(work):
        work.keep(number, *answer(work.batches[number]))

    def late(batch: Batch) -> tuple[Lease, list[Any]]:
        time.sleep(0.3)
        return answer(batch)

    helper = threading.Thread(target=work.help, args=(away, late))
    helper.start()
    side = work.side(ROWS, threading.Event())
    helper.join()
    assert np.asarray(side.outputs["y"])[-1, 0] == 2 * work.batches.inputs["x"][-1, 0]

    def broken(_: Batch) -> tuple[Lease, list[Any]]:
        raise MemoryError("no room")

    work = shared()
    away = work.claim_last()
    assert away is not None
    for number in claimed(work):
        work.keep(number, *answer(work.batches[number]))
    work.help(away, broken)
    with pytest.raises(MemoryError, match="no room"):
        work.side(ROWS, threading.Event())


def test_who_is_stopped_waits_for_nobody() -> None:
    work, stop = shared(), threading.Event()
    assert work.claim_last() is not None
    for number in claimed(work):
        work.keep(number, *answer(work.batches[number]))
    stop.set()
    with pytest.raises(RunnerError, match="stopped"):
        work.side(ROWS, stop)
    assert Sharing(1, stop).claim() is None


def test_failures_are_told_in_pack_order() -> None:
    work = shared()
    for number in (work.claim_last(), work.claim()[0], work.claim_last()):
        assert number is not None
        failure = SampleFailure("runner.error", f"batch {number}")
        work.help(number, lambda b, f=failure: (None, [(range(b.valid), f)]))  # type: ignore[misc]
    work._away = 0
    for number in claimed(work):
        work.keep(number, *answer(work.batches[number]))
    side = work.side(ROWS, threading.Event())
    assert [f.text for f in side.failures] == ["batch 0", "batch 5", "batch 6"]
    assert np.flatnonzero(~side.answered).tolist() == [0, 1, 2, 15, 16, 17, 18]


REFUSED = object()


class Filling:
    """A session that answers straight into the block's arrays."""

    def __init__(self) -> None:
        self.filled: list[int] = []
        self.before: Any = lambda _start: None
        self.width = 2

    def filler(self, inputs: Any, rows: int) -> Filler:
        def fill(room: Any, first: int, batches: int, is_stopped: Any) -> int:
            for at in range(batches):
                start = first + at * rows
                if is_stopped() or self.before(start) is REFUSED:
                    return at
                self.filled.append(start)
                room["y"][start : start + rows] = inputs["x"][start : start + rows] * 2
            return batches

        return Filler({"y": np.zeros((rows, self.width), np.float32)}, fill)


@pytest.mark.parametrize("asked_before", [0, 1, 3])
def test_batches_are_filled_but_for_the_tail(asked_before: int) -> None:
    work, session = shared(), Filling()
    asked: Any = session
    for number in range(asked_before):
        assert work.claim() == range(number, number + 1)
        work.keep(number, *answer(work.batches[number]))
    fill = work.filled_by(asked, threading.Event())
    assert fill is not None
    took = []
    while numbers := work.claim(8):
        took.append(len(numbers))
        for number in numbers[fill(numbers) :]:
            work.keep(number, *answer(work.batches[number]))
    assert took == [1] * (COUNT - asked_before)  # few are left
    assert session.filled == [3 * number for number in range(asked_before, COUNT - 1)]
    side = work.side(ROWS, threading.Event())
    assert np.asarray(side.outputs["y"]).tobytes() == (work.batches.inputs["x"] * 2).tobytes()


def test_many_are_claimed_at_once_while_many_are_left() -> None:
    work = shared(count=60)
    took = []
    while numbers := work.claim(8):
        took.append(len(numbers))
    assert took == [8, 8, 8, 8, 7, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1]


def test_as_many_as_wanted_are_claimed_where_nobody_helps() -> None:
    work = shared(count=20)
    took = []
    while numbers := work.claim(8, is_helped=False):
        took.append(numbers)
    assert took == [range(8), range(8, 16), range(16, 20)]


def test_helpers_are_expected_once_all_blocks_are_begun() -> None:
    sharing, alone = (Sharing(2, threading.Event(), threads) for threads in (2, 1))
    for _ in range(2):
        assert not sharing.may_help
        sharing.begin()
        alone.begin()
    assert sharing.may_help
    assert not alone.may_help


def test_so_many_are_claimed_as_take_some_time() -> None:
    pace = Pace()
    claimed = []
    for _ in range(9):
        claimed.append(pace.batches)
        pace.took(pace.batches, 0.001 * pace.batches)
    assert claimed == [1, 2, 4, 8, 16, 30, 30, 30, 30]
    pace.took(0, 5.0)
    assert pace.batches == 30
    pace.took(30, 60.0)
    assert pace.batches == 1
    for _ in range(9):
        pace.took(pace.batches, 0.0)
    assert pace.batches == 64


def test_no_output_is_told_where_nothing_was_answered() -> None:
    """As of batches that were to be filled, and failed each."""
    work, session = shared(), Filling()
    asked: Any = session

    session.before = lambda _start: REFUSED
    failure = SampleFailure("runner.error", "no")
    fill = work.filled_by(asked, threading.Event())
    assert fill is not None
    while numbers := work.claim():
        assert fill(numbers) == 0
        valid = work.batches.valid(numbers.start)
        work.keep(numbers.start, None, [(range(valid), failure)])
    side = work.side(ROWS, threading.Event())
    assert not side.outputs
    assert not side.answered.any()


def test_answers_that_would_stay_are_copied_beside_what_was_filled() -> None:
    """A first batch that is asked after the second one was filled."""
    work, session = shared(), Filling()
    asked: Any = session
    fill = work.filled_by(asked, threading.Event())
    assert fill is not None
    assert work.claim(7, is_helped=False) == range(7)
    assert fill(range(1, 6)) == 5
    doubled = work.batches.inputs["x"] * 2
    for number, rows in ((0, slice(0, ROWS)), (6, slice(6 * ROWS, None))):
        assert not work.keep(number, Lease({"y": doubled[rows]}, is_lasting=True), [])
    side = work.side(ROWS, threading.Event())
    assert np.asarray(side.outputs["y"]).tobytes() == doubled.tobytes()


def test_who_is_stopped_fills_no_more() -> None:
    work, session, stop = shared(), Filling(), threading.Event()
    asked: Any = session
    work.claim()
    work.keep(0, *answer(work.batches[0]))
    fill = work.filled_by(asked, stop)
    assert fill is not None
    session.before = lambda start: stop.set() if start == 2 * ROWS else None
    assert fill(range(1, 5)) == 2
    assert session.filled == [3, 6]


def test_what_can_not_be_filled_is_asked_again() -> None:
    """A filler that refuses, and one whose arrays another thread's answer took the place of."""
    work, session = shared(), Filling()
    asked: Any = session
    assert work.claim() == range(1)
    work.keep(0, *answer(work.batches[0]))
    fill = work.filled_by(asked, threading.Event())
    assert fill is not None

    session.before = lambda _start: REFUSED
    assert work.claim() == range(1, 2)
    assert fill(range(1, 2)) == 0
    work.keep(1, *answer(work.batches[1]))

    def loosen(_start: int) -> None:
        session.before = lambda _start: None
        wide: Array = np.ones((1, 5), np.float32)
        work.help(last, lambda _: (Lease({"y": wide}), []))

    last = work.claim_last()
    assert last == COUNT - 1
    session.before = loosen
    assert work.claim() == range(2, 3)
    assert fill(range(2, 3)) == 0
    work.keep(2, *answer(work.batches[2]))
    assert work.filled_by(asked, threading.Event()) is None
    for number in claimed(work):
        work.keep(number, *answer(work.batches[number]))
    tensor = work.side(ROWS, threading.Event()).outputs["y"]
    found = [np.asarray(row).tolist() for row in tensor.arrays]  # type: ignore[union-attr]
    assert found == [*(work.batches.inputs["x"][:-1] * 2).tolist(), [1.0] * 5]


def test_who_may_share() -> None:
    assert shares_batches(runner())
    assert not shares_batches(runner(limits=Limits((ROWS,), False)))
    assert not shares_batches(runner(limits=Limits(None, True)))
    assert not shares_batches(runner(runs_elsewhere=True))
    assert not shares_batches(runner(can_stay=frozenset({"y"})))
    blocks = [Block(0, at, 10 * at, 10 * at + 10) for at in range(2)]
    assert most_threads({"a": runner(), "b": runner(limits=Limits((5,), False))}, blocks) == 8
    assert most_threads({"b": runner(limits=Limits((5,), False))}, blocks) == 2


def run(
    folder: Path,
    runners: dict[str, Any],
    threads: int,
    *,
    keep_outputs: bool = False,
    **more: Any,
) -> Outcome:
    plan = {
        "golden": str(folder / "g.arrow"),
        "dims": {"batch": {"sizes": [8], "check_samples": 0}},
        "runners": runners,
        "stages": [
            {
                "name": "s",
                "reference": "ref",
                "candidate": "cand",
                "outputs": {"y": {"atol": 1e-4, "rtol": 0.0}},
            }
        ],
        **more,
    }
    options = Options(threads=threads, out=folder / "runs", keep_outputs=keep_outputs)
    return execute(load_plan(plan), options)


def write(folder: Path, samples: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((samples, 4)).astype(np.float32)
    x[:8] = np.minimum(x[:8], 1)  # the first batch is answered
    write_pack(folder / "g.arrow", np.arange(samples) * 2, {"x": x}, rows_per_batch=29)


@pytest.mark.parametrize("samples", [8, 50, 700])
def test_threads_change_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: int
) -> None:
    write(tmp_path, samples)
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((4, 3)).astype(np.float32)
    models.linear_softmax(tmp_path / "ref.onnx", weight)
    models.linear_softmax(tmp_path / "cand.onnx", weight * np.float32(1.01))
    named = {"outputs": {"y": "probabilities"}, "batch_size": 8, "kind": "onnxruntime"}
    runners = {n: {**named, "model": str(tmp_path / f"{n}.onnx")} for n in ("ref", "cand")}
    helped = []
    help_ = SharedBatches.help

    def noted(self: SharedBatches, number: int, ask: Any) -> None:
        helped.append(number)
        help_(self, number, ask)

    monkeypatch.setattr(SharedBatches, "help", noted)
    filled = []
    fill = ort_fill.BoundBatches.fill

    def counted(*given: Any) -> int:
        filled.append(fill(*given))
        return filled[-1]

    monkeypatch.setattr(ort_fill.BoundBatches, "fill", counted)
    one = run(tmp_path, runners, 1)
    assert not helped
    batches = 2 * (samples // 8)
    assert sum(filled) == (0 if samples == 8 else batches - 2)
    wanted = one.tally.to_json()
    for _ in range(6):
        assert run(tmp_path, runners, 4).tally.to_json() == wanted
    assert samples > 8 or not helped
    assert wanted["stages"]["s"]["failed"] > 0


@pytest.mark.parametrize("odd", [{7}, {0}, {0, 1, 5, 9, 19}])
def test_a_batch_of_another_shape_costs_no_other(tmp_path: Path, odd: set[int]) -> None:
    """Of the samples of these batches one is dropped by the model, whatever was answered before."""
    dims = (models.FLOAT, ["batch", 4])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], axes=[1], keepdims=0),
        helper.make_node("Less", ["most", "large"], ["is_kept"]),
        helper.make_node("Compress", ["x", "is_kept"], ["kept"], axis=0),
        helper.make_node("Identity", ["kept"], ["y"]),
    ]
    given = {"large": np.array(50, np.float32)}
    models.save_model(tmp_path / "ref.onnx", nodes, {"x": dims}, {"y": dims}, given)
    models.scale_model(tmp_path / "cand.onnx", 1.0)
    x = np.random.default_rng(4).standard_normal((160, 4)).astype(np.float32)
    x[[8 * batch + 3 for batch in odd], 2] = 99
    write_pack(tmp_path / "g.arrow", np.arange(160), {"x": x})
    runners = {n: {"model": str(tmp_path / f"{n}.onnx"), "batch_size": 8} for n in ("ref", "cand")}
    for threads in (1, 2, 3, 3):
        outcome = run(tmp_path, runners, threads)
        stage: Any = outcome.summary["stages"][0]
        assert stage["samples"]["errors"] == stage["samples"]["failed"] == 8 * len(odd)


MEETING = """
import threading

CALLS, MEET = [], None

def ref(d):
    CALLS.append(threading.current_thread().name)
    if MEET is not None and 1 < len(CALLS) <= 1 + MEET.parties:
        MEET.wait(timeout=60)
    if (d["x"][:, 0] > 1.5).any():
        raise ValueError("too large")
    return {"y": d["x"] * 1}

def cand(d):
    return {"y": d["x"] * 1}
"""


def test_all_threads_run_batches_of_one_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four batches that wait for each other can only end if four threads run them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "meeting.py").write_text(MEETING)
    write(tmp_path, 63)
    runners = {
        n: {"call": f"meeting:{n}", "batch_size": 8, "thread_safe": True} for n in ("ref", "cand")
    }
    wanted = run(tmp_path, runners, 1)
    meeting: Any = importlib.import_module("meeting")
    assert len(set(meeting.CALLS)) == 1
    meeting.CALLS.clear()
    meeting.MEET = threading.Barrier(4)
    found = run(tmp_path, runners, 4)
    assert len(set(meeting.CALLS)) == 4
    assert len(meeting.CALLS) == 8
    assert found.tally.to_json() == wanted.tally.to_json()
    assert found.summary["threads"] == {"used": 4, "reason": "option"}
    stage: Any = found.summary["stages"][0]
    assert 0 < stage["samples"]["errors"] < 63


def test_progress_counts_batches_of_blocks_that_are_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "PROGRESS_EVERY_S", 0.0)
    monkeypatch.setattr(drive, "WAKE_EVERY_S", 0.005)
    write(tmp_path, 60)

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "slow_side.py").write_text(
        "import time\n\ndef ref(d):\n    time.sleep(0.03)\n    return {'y': d['x'] * 1}\n"
        "\ndef cand(d):\n    return {'y': d['x'] * 1}\n"
    )
    seen: list[Progress] = []
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {n: {"call": f"slow_side:{n}", "batch_size": 8} for n in ("ref", "cand")},
        "stages": [{"reference": "ref", "candidate": "cand", "default": {"atol": 0, "rtol": 0}}],
    }
    options = Options(
        observer=lambda event: seen.append(event) if isinstance(event, Progress) else None,
    )
    assert execute(load_plan(plan), options).tally.samples == 60
    samples = [event.samples for event in seen]
    assert samples == sorted(samples)
    assert samples[-1] == seen[-1].total == 60
    assert len({n for n in samples if 0 < n < 60}) > 1  # though there is one block only


@pytest.mark.parametrize("threads", [1, 2])
def test_batches_that_are_filled_are_counted_and_shared_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    write(tmp_path, 700)
    models.scale_model(tmp_path / "ref.onnx", 2.0)
    models.scale_model(tmp_path / "cand.onnx", 2.0)
    runners = {
        n: {"model": str(tmp_path / f"{n}.onnx"), "batch_size": 8, "kind": "onnxruntime"}
        for n in ("ref", "cand")
    }
    shared_at_last: list[bool] = []
    claim = SharedBatches.claim

    def noted(self: SharedBatches, most: int = 1, *, is_helped: bool = True) -> range:
        shared_at_last.append(is_helped)
        return claim(self, most, is_helped=is_helped)

    monkeypatch.setattr(SharedBatches, "claim", noted)
    lanes: list[Lane] = []
    leave = Lane.__exit__

    def left(self: Lane, *exc: object) -> None:
        lanes.append(self)
        leave(self, *exc)

    monkeypatch.setattr(Lane, "__exit__", left)
    run(tmp_path, runners, threads)
    assert shared_at_last[-1] == (threads > 1)
    assert sum(lane.answered for lane in lanes) == 700


def test_where_a_file_has_its_samples_changes_no_answer(tmp_path: Path) -> None:
    """A few bytes more in the head of an Arrow file move all that follows."""
    x = np.random.default_rng(9).standard_normal((512, 5)).astype(np.float32)
    dims = (models.FLOAT, ["batch", 5])
    mean = helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)
    for name in ("ref", "cand"):
        models.save_model(
            tmp_path / f"{name}.onnx", [mean], {"x": dims}, {"y": (models.FLOAT, ["batch"])}
        )
    runners = {
        n: {"model": str(tmp_path / f"{n}.onnx"), "batch_size": 8, "kind": "onnxruntime"}
        for n in ("ref", "cand")
    }
    found = []
    for more in range(3):
        write_pack(tmp_path / "g.arrow", np.arange(512), {"x": x}, rows_per_batch=512)
        with pa.memory_map(str(tmp_path / "g.arrow")) as source:
            table = pa.ipc.open_file(source).read_all()
        noted = {**(table.schema.metadata or {}), b"note": b"." * 8 * more}
        table = table.replace_schema_metadata(noted)
        with pa.ipc.new_file(tmp_path / "moved.arrow", table.schema) as sink:
            sink.write_table(table)
        (tmp_path / "moved.arrow").replace(tmp_path / "g.arrow")
        outcome = run(tmp_path, runners, 1, keep_outputs=True)
        assert outcome.folder is not None
        kept = pa.ipc.open_file(outcome.folder / "outputs" / "ref.arrow").read_all()
        found.append(kept["out.y"].to_numpy().tobytes())
    assert found[0] == found[1] == found[2]
