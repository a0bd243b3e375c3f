"""Batches that are sent while the one before them is answered, and sides that are asked at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack

from paritygate.api.plans import load_plan
from paritygate.core.errors import RunnerError
from paritygate.core.tensors import Batch, ColumnSpec
from paritygate.pipeline.execute import Options, execute
from paritygate.runners.base import PrepareContext, RunnerSession
from paritygate.runners.failures import PartialError
from paritygate.runners.isolate.runner import IsolatedRunner
from paritygate.runners.registry import parse_runner, prepare

SIZE = 8
# What a batch does is told by its first element: it is written down when the worker begins it.
CODE = """
import os, pathlib, signal, time

HERE = pathlib.Path(__file__).parent
CRASH, RAISE, HANG, WAIT, WANT = 1000, 2000, 3000, 4000, 5000

def f(d):
    x = d['x']
    first = int(x.reshape(-1)[0])
    with (HERE / 'begun').open('a') as file:
        file.write(f'{first}\\n')
    if (x == CRASH).any():
        os.kill(os.getpid(), signal.SIGKILL)
    if (x == RAISE).any():
        raise ValueError('no')
    if (x == WANT).any():
        raise MemoryError
    if (x == HANG).any():
        time.sleep(600)
    if (x == WAIT).any():
        end = time.monotonic() + 20
        while not (HERE / 'go').exists() and time.monotonic() < end:
            time.sleep(0.002)
    return {'y': x * 2}

def texts(d):
    return {'y': d['t'] + 'x' * 2000}
"""


class Made:
    """An isolated runner of the function, and batches for it."""

    def __init__(self, folder: Path, call: str, isolate: Any, column: ColumnSpec) -> None:
        (folder / "side.py").write_text(CODE)
        table = {"call": f"side:{call}", "isolate": isolate, "batch_size": SIZE}
        spec, problems = parse_runner("r", table, folder)
        assert spec is not None, problems
        context = PrepareContext(folder, None, {column.name: column})
        runner = prepare(spec, context)
        assert isinstance(runner, IsolatedRunner)
        self.runner, self.folder = runner, folder
        self._made = 0

    def batch(self, first: float, row: int = 0) -> Batch:
        """A batch of different samples, one of which is `first` all over."""
        x = (np.arange(SIZE) + 10 * self._made + 100).astype(np.float32)
        x[row] = first
        return self.of({"x": x[:, None]})

    def of(self, inputs: dict[str, Any]) -> Batch:
        for array in inputs.values():
            array.flags.writeable = False
        start, self._made = self._made * SIZE, self._made + 1
        ids = np.arange(start, start + SIZE)
        return Batch(0, self._made, start, SIZE, SIZE, ids, inputs)

    def begun(self) -> list[int]:
        """First elements of the batches that the worker has begun, in their order."""
        path = self.folder / "begun"
        return [int(line) for line in path.read_text().splitlines()]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Made]]:
    made: list[Made] = []

    def one(call: str = "f", isolate: Any = "process", column: ColumnSpec | None = None) -> Made:
        made.append(Made(tmp_path, call, isolate, column or ColumnSpec("x", "float32", (1,))))
        return made[-1]

    yield one
    for each in made:
        each.runner.close()


def answer(session: RunnerSession, batch: Batch, following: Batch | None = None) -> Any:
    with session.run(batch, following) as lease:
        return np.array(lease.outputs["y"])


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_the_following_batch_is_begun_before_it_is_asked_for(make: Callable[..., Made]) -> None:
    made = make()
    session = made.runner.session()
    first, second, third = (made.batch(n) for n in (1, 2, 3))
    np.testing.assert_array_equal(answer(session, first, second), first.inputs["x"] * 2)
    wait_for(lambda: made.begun() == [1, 2])
    np.testing.assert_array_equal(answer(session, second, third), second.inputs["x"] * 2)
    np.testing.assert_array_equal(answer(session, third), third.inputs["x"] * 2)
    assert made.begun() == [1, 2, 3]
    session.close()


def test_without_a_following_batch_nothing_is_begun(make: Callable[..., Made]) -> None:
    made = make()
    session = made.runner.session()
    made.batch(0)
    answer(session, made.batch(1))
    time.sleep(0.1)
    assert made.begun() == [1]
    session.close()


def test_another_batch_than_the_announced_one_is_refused(make: Callable[..., Made]) -> None:
    made = make()
    session = made.runner.session()
    first, second, third = (made.batch(n) for n in (1, 2, 3))
    answer(session, first, second)
    with pytest.raises(ValueError, match="announced"):
        session.run(third)
    np.testing.assert_array_equal(answer(session, second), second.inputs["x"] * 2)
    session.close()


def test_answers_of_one_batch_last_while_the_next_is_answered(make: Callable[..., Made]) -> None:
    made = make()
    session = made.runner.session()
    batches = [made.batch(n) for n in range(1, 7)]
    leases = [
        session.run(batch, following)
        for batch, following in zip(batches, [*batches[1:], None], strict=True)
    ]
    for batch, lease in zip(batches, leases, strict=True):
        np.testing.assert_array_equal(lease.outputs["y"], batch.inputs["x"] * 2)
        lease.release()
    session.close()


@pytest.mark.slow
def test_a_crash_before_the_following_batch_costs_its_own_sample(
    make: Callable[..., Made],
) -> None:
    made = make()
    session = made.runner.session()
    bad, good = made.batch(1000, row=5), made.batch(2)
    with pytest.raises(PartialError) as raised:
        session.run(bad, good)
    assert list(raised.value.failures) == [5]
    assert raised.value.failures[5].rule == "runner.crashed"
    np.testing.assert_array_equal(answer(session, good), good.inputs["x"] * 2)
    assert list(made.runner.failures) == [int(bad.ids[5])]
    assert made.runner.final_findings() == ()
    session.close()


@pytest.mark.slow
@pytest.mark.parametrize("ends", [1000, 3000])
def test_a_batch_that_ends_the_worker_when_sent_ahead_is_searched(
    make: Callable[..., Made], ends: int
) -> None:
    made = make(isolate={"batch_timeout_s": 1.0})
    session = made.runner.session()
    good, bad, last = made.batch(1), made.batch(ends, row=3), made.batch(3)
    np.testing.assert_array_equal(answer(session, good, bad), good.inputs["x"] * 2)
    with pytest.raises(PartialError) as raised:
        session.run(bad, last)
    assert list(raised.value.failures) == [3]
    np.testing.assert_array_equal(answer(session, last), last.inputs["x"] * 2)
    assert list(made.runner.failures) == [int(bad.ids[3])]
    assert made.runner.final_findings() == ()
    session.close()


def test_what_is_raised_leaves_the_following_batch_as_it_is(make: Callable[..., Made]) -> None:
    made = make()
    session = made.runner.session()
    bad, good = made.batch(2000), made.batch(2)
    with pytest.raises(RunnerError, match="no"):
        session.run(bad, good)
    np.testing.assert_array_equal(answer(session, good), good.inputs["x"] * 2)
    assert made.begun() == [2000, 2]
    session.close()


def test_want_of_memory_keeps_the_following_answer(make: Callable[..., Made]) -> None:
    made = make()
    session = made.runner.session()
    bad, good = made.batch(5000, row=2), made.batch(2)
    with pytest.raises(PartialError) as raised:
        session.run(bad, good)
    assert list(raised.value.failures) == [2]
    np.testing.assert_array_equal(answer(session, good), good.inputs["x"] * 2)
    assert made.begun().count(2) == 1
    session.close()


def test_who_wants_to_be_alone_waits_for_what_was_sent_ahead_and_no_longer(
    make: Callable[..., Made],
) -> None:
    made = make()
    session, entered = made.runner.session(), threading.Event()
    first, waiting, last = made.batch(1), made.batch(4000), made.batch(3)
    answer(session, first, waiting)

    def be_alone() -> None:
        with made.runner.turns.alone():
            entered.set()

    thread = threading.Thread(target=be_alone)
    thread.start()
    assert not entered.wait(0.3)
    (made.folder / "go").touch()
    np.testing.assert_array_equal(answer(session, waiting, last), waiting.inputs["x"] * 2)
    assert entered.wait(20)
    thread.join()
    assert made.begun() == [1, 4000]
    np.testing.assert_array_equal(answer(session, last), last.inputs["x"] * 2)
    session.close()


@pytest.mark.slow
def test_a_session_that_is_closed_in_between_keeps_nobody_waiting(
    make: Callable[..., Made],
) -> None:
    made = make()
    mine, other = made.runner.session(), made.runner.session()
    answer(mine, made.batch(1), made.batch(2))
    mine.close()
    with pytest.raises(PartialError) as raised:
        other.run(made.batch(1000, row=4))
    assert list(raised.value.failures) == [4]
    other.close()


def test_long_messages_wait_for_each_other(make: Callable[..., Made]) -> None:
    """Both ends writing more than a socket holds would wait for the other to read."""
    made = make(
        "texts",
        {"batch_timeout_s": 20.0},
        ColumnSpec("t", "string", (1_000,)),
    )
    session = made.runner.session()
    texts = np.array([[f"{n}" * 500 for n in range(1_000)]] * SIZE, object)
    batches = [made.of({"t": texts.copy()}) for _ in range(3)]
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        found = answer(session, batch, following)
        assert found.shape == (SIZE, 1_000)
        assert found[0, 7] == "7" * 500 + "x" * 2000
    session.close()
    isolation = made.runner.facts["isolation"]
    assert isinstance(isolation, dict)
    assert isolation["restarts"] == 0


MEETING = """
import pathlib, time

HERE = pathlib.Path(__file__).parent

def meet(me, other, d):
    (HERE / me).touch()
    end = time.monotonic() + 20
    while not (HERE / other).exists():
        if time.monotonic() > end:
            raise TimeoutError('the other side was not asked meanwhile')
        time.sleep(0.002)
    return {'y': d['x'] * 2}

def one(d):
    return meet('one', 'two', d)

def two(d):
    return meet('two', 'one', d)
"""


@pytest.mark.parametrize("isolated", [("ref", "cand"), ("cand",), ("ref",)])
def test_sides_in_processes_of_their_own_are_asked_at_once(
    tmp_path: Path, isolated: tuple[str, ...]
) -> None:
    (tmp_path / "side.py").write_text(MEETING)
    write_pack(tmp_path / "g.arrow", np.arange(20), {"x": np.ones((20, 2), np.float32)})
    runners: dict[str, Any] = {"ref": {"call": "side:one"}, "cand": {"call": "side:two"}}
    for name in isolated:
        runners[name]["isolate"] = "process"
    stage = {
        "reference": "ref",
        "candidate": "cand",
        "default": {"atol": 0.0, "rtol": 0.0},
    }
    plan = {"golden": "g.arrow", "runners": runners, "stages": [stage]}
    outcome = execute(load_plan(plan, folder=tmp_path), Options(threads=1))
    assert outcome.judgement.verdict == "release", outcome.judgement.reasons
