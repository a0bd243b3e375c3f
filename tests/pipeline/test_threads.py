"""How many threads run: asked for, of the plan, by cores, or measured; no result depends on it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.pipeline.test_span import CALLABLES, SAMPLES, make_pack, plan_dict

from paritygate.api.plans import load_plan
from paritygate.core.errors import PlanError
from paritygate.pipeline import threads as threads_module
from paritygate.pipeline.execute import Options, Outcome, execute
from paritygate.pipeline.threads import Slots, Threads, Tuner, choose_threads

BLOCK = 10


class Machine:
    """Runs blocks at a known rate for each number of threads, by a clock of its own."""

    def __init__(self, rates: dict[int, float], samples: int, **options: Any) -> None:
        self.now = 0.0
        self.slots = Slots(max(rates))
        self.threads = Threads(max(rates), "cores", **{"may_measure": True, **options})
        self.tuner = Tuner(self.threads, self.slots, samples, lambda: self.now)
        for _ in range(samples // BLOCK):
            self.now += BLOCK / rates[self.slots._limit]
            self.tuner.note(BLOCK)


@pytest.mark.parametrize(
    ("rates", "used", "tried"),
    [
        ({4: 100, 2: 150, 1: 120}, 2, [4, 2, 1]),
        ({4: 100, 2: 150, 1: 200}, 1, [4, 2, 1]),
        ({4: 100, 2: 90, 1: 900}, 4, [4, 2]),
        ({4: 100, 2: 108, 1: 900}, 4, [4, 2]),
        ({2: 100, 1: 115}, 1, [2, 1]),
        ({6: 10, 3: 20, 1: 10}, 3, [6, 3, 1]),
    ],
)
def test_fewer_threads_are_taken_where_they_are_faster(
    rates: dict[int, float], used: int, tried: list[int]
) -> None:
    machine = Machine(rates, 5_000)
    assert machine.threads.used == machine.slots._limit == used
    assert machine.threads.reason == "measured"
    assert list(machine.threads.rates) == tried
    assert all(abs(rate - rates[n]) < 0.1 * rates[n] for n, rate in machine.threads.rates.items())


@pytest.mark.parametrize(
    "machine",
    [
        Machine({4: 100, 2: 900, 1: 900}, 450),
        Machine({4: 100, 2: 900, 1: 900}, 5_000, may_measure=False),
        Machine({1: 100}, 5_000),
    ],
)
def test_a_run_that_is_short_or_has_no_choice_measures_nothing(machine: Machine) -> None:
    most = machine.threads.most
    found = machine.threads.describe()
    assert found == {"used": most, "reason": "cores"}
    assert machine.slots._limit == most


def test_no_more_than_the_limit_work_at_once() -> None:
    slots, stop, busy, seen = Slots(3), threading.Event(), [0], [0]
    guard = threading.Lock()

    def work() -> None:
        for _ in range(20):
            slots.take(stop)
            with guard:
                busy[0] += 1
                seen[0] = max(seen[0], busy[0])
            time.sleep(1e-4)
            with guard:
                busy[0] -= 1
            slots.give()

    for limit in (1, 2):
        slots.allow(limit)
        seen[0] = 0
        workers = [threading.Thread(target=work) for _ in range(5)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert seen[0] == limit
    slots.allow(0)
    stop.set()
    slots.take(stop)


def run(folder: Path, asked: int | None = None, **plan: Any) -> Outcome:
    loaded = load_plan(plan_dict(**plan), folder=folder)
    cuts = (16,) * 43 + (SAMPLES - 43 * 16,)
    return execute(loaded, Options(threads=asked, cuts=cuts, callables=CALLABLES))


def test_option_before_plan_before_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "usable_cores", lambda: 3)
    make_pack(tmp_path)
    found = [run(tmp_path, 2, threads=5), run(tmp_path, threads=5), run(tmp_path)]
    told = [outcome.summary["threads"] for outcome in found]
    assert told == [
        {"used": 2, "reason": "option"},
        {"used": 5, "reason": "plan"},
        {"used": 3, "reason": "cores"},
    ]
    tallies = [outcome.tally.to_json()["stages"] for outcome in found]
    assert tallies[0] == tallies[1] == tallies[2]


def test_measuring_changes_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_pack(tmp_path)
    expected = run(tmp_path, 1)
    monkeypatch.setattr(threads_module, "usable_cores", lambda: 4)
    monkeypatch.setattr(threads_module, "MEASURED_S", 0.0)
    monkeypatch.setattr(threads_module, "WORTH_S", 0.0)
    found = run(tmp_path)
    told = found.summary["threads"]
    assert told["reason"] == "measured"
    assert [one["threads"] for one in told["measured"]][:2] == [4, 2]
    assert told["used"] in [one["threads"] for one in told["measured"]]
    assert found.tally.to_json()["stages"] == expected.tally.to_json()["stages"]


def test_threads_that_a_runner_starts_take_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "usable_cores", lambda: 8)
    options = [SimpleNamespace(intra_op_num_threads=n) for n in (1, 3)]
    plan = SimpleNamespace(
        table=SimpleNamespace(threads=None),
        runners={str(at): SimpleNamespace(options=given) for at, given in enumerate(options)},
    )
    prepared: Any = SimpleNamespace(plan=plan, runners=dict.fromkeys(plan.runners))
    assert choose_threads(prepared).most == 2
    options[0].intra_op_num_threads = 0
    assert choose_threads(prepared).most == 1


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_a_plan_asks_for_at_least_one(tmp_path: Path, threads: object) -> None:
    with pytest.raises(PlanError, match="threads"):
        load_plan(plan_dict(threads=threads), folder=tmp_path)


@pytest.mark.parametrize(
    ("told", "is_busy"),
    [
        ("some avg10=33.01 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00", True),
        ("some avg10=32.99 avg60=99.00 avg300=99.00 total=1\nfull avg10=99.00", False),
        ("some", False),
        ("some avg10=no", False),
        (None, False),
    ],
)
def test_no_core_is_to_spare_while_others_wait_for_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str | None, is_busy: bool
) -> None:
    path = tmp_path / "cpu"
    if told is not None:
        path.write_text(told)
    monkeypatch.setattr(threads_module, "PRESSURE", (tmp_path / "none", path))
    monkeypatch.setattr(threads_module, "usable_cores", lambda: 5)
    assert threads_module.spare_cores() == (1 if is_busy else 5)
