"""Memory that the gate and its workers share: how much there is of it, and where it is wanting."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack

from paritygate.api.plans import load_plan
from paritygate.core.tensors import Batch, ColumnSpec
from paritygate.pipeline.execute import Options, Outcome, execute
from paritygate.runners.base import PrepareContext, Runner
from paritygate.runners.failures import PartialError
from paritygate.runners.isolate.memory import SharedMemory, room_for, write_tensors
from paritygate.runners.isolate.replies import Refusal, read_reply
from paritygate.runners.layout import Layout
from paritygate.runners.registry import parse_runner, prepare

TOO_MUCH = 1 << 47  # no process has so many addresses
SIZE = 8
CODE = """
import resource
import numpy as np

NONE = (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_AS)[1])

def mean(d):
    return {'y': d['x'].mean(1, keepdims=True)}

def wide(d):
    return {'y': np.repeat(d['x'], 100_000, 1)}

def wanting(d):
    # This and the copy that the runner makes of it find room, but not what is shared besides.
    global held
    held = None
    if not (d['x'] == 999).any():
        return {'y': d['x']}
    held = np.zeros((len(d['x']), (300 << 20) // 4 // len(d['x'])), np.float32)
    return {'y': held}

def same(d):
    return {'y': d['x']}

def texts(d):
    resource.setrlimit(resource.RLIMIT_AS, NONE)
    if not (d['x'] == 999).any():
        return short(d)
    y = np.array([str(i) * (1 << 23) for i in range(len(d['x']))], object)
    pages = int(open('/proc/self/statm').read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (1 << 20), NONE[1]))
    return {'y': y}

def short(d):
    return {'y': np.array(['x'] * len(d['x']), object)}
"""


def run(folder: Path, ref: str, cand: str, isolate: object) -> Outcome:
    (folder / "side.py").write_text(CODE)
    x = np.arange(40, dtype=np.float32).reshape(40, 1)
    x[0] = 999
    write_pack(folder / "g.arrow", np.arange(40), {"x": x})
    plan: dict[str, Any] = {
        "golden": "g.arrow",
        "outputs": {"y": {"shape": ["batch", "n"]}} if ref == "same" else {},
        "dims": {"n": {"min": 1, "max": 1 << 30}} if ref == "same" else {},
        "runners": {
            "a": {"call": f"side:{ref}", "batch_size": SIZE},
            "b": {"call": f"side:{cand}", "batch_size": SIZE, "isolate": isolate},
        },
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
    }
    return execute(load_plan(plan, folder=folder), Options())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ref", "cand", "isolate", "told"),
    [
        ("same", "wanting", {"memory_limit": "1 GiB"}, "bytes can't be shared"),
        ("short", "texts", "process", "no memory_limit is set"),
    ],
)
def test_answers_that_find_no_room_on_their_way_cost_their_sample(
    tmp_path: Path, ref: str, cand: str, isolate: object, told: str
) -> None:
    outcome = run(tmp_path, ref, cand, isolate)
    (reason,) = outcome.judgement.reasons
    assert (reason.code, reason.count, reason.ids) == ("runner.disagreement", 1, (0,))
    assert told in reason.message
    assert "out of memory" in reason.message
    assert outcome.summary["stages"][0]["samples"]["compared"] == 39
    assert outcome.summary["runners"]["b"]["isolation"]["restarts"] == 0


@pytest.fixture
def isolated(tmp_path: Path) -> Iterator[Callable[[str], Runner]]:
    made: list[Runner] = []

    def make(call: str) -> Runner:
        (tmp_path / "side.py").write_text(CODE)
        table = {"call": f"side:{call}", "isolate": "process", "batch_size": SIZE}
        spec, problems = parse_runner("r", table, tmp_path)
        assert spec is not None, problems
        column = ColumnSpec("x", "float32", (None,))
        layout = Layout(dims={"y": ("n",)})
        context = PrepareContext(tmp_path, None, {"x": column}, layout=layout)
        made.append(prepare(spec, context))
        return made[-1]

    yield make
    for runner in made:
        runner.close()


def batch_of(number: int, width: int) -> Batch:
    x = np.full((SIZE, width), number, np.float32)
    x.flags.writeable = False
    return Batch(0, number, SIZE * number, SIZE, SIZE, np.arange(SIZE), {"x": x})


@contextmanager
def addresses(more: int) -> Iterator[None]:
    """Let this process have only so many bytes more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["mean", "wide"])
def test_where_the_gate_has_too_little_the_samples_fail_and_the_session_goes_on(
    isolated: Callable[[str], Runner], call: str
) -> None:
    session = isolated(call).session()
    session.run(batch_of(1, 1)).release()
    batch = batch_of(2, 8 << 20 if call == "mean" else 80)
    with addresses(48 << 20), pytest.raises(PartialError) as caught:
        session.run(batch)
    caught.value.lease.release()
    assert sorted(caught.value.failures) == list(range(SIZE))
    for failure in caught.value.failures.values():
        assert failure.rule == "runner.disagreement"
        assert "the gate's own process that has too little memory" in failure.text
    with session.run(batch_of(3, 2)) as lease:
        assert float(np.asarray(lease.outputs["y"])[0, 0]) == 3
    session.close()


def shared_bytes() -> dict[int, int]:
    """Size of each piece of shared memory that this process has open."""
    found = {}
    for fd in Path("/proc/self/fd").iterdir():
        try:
            if str(fd.readlink()).startswith("/memfd:paritygate"):
                stat = fd.stat()
                found[stat.st_ino] = stat.st_size
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("call", ["mean", "wide"])
def test_shared_memory_stays_near_the_largest_batch(
    isolated: Callable[[str], Runner], call: str
) -> None:
    """However the widths of its inputs alternate."""
    before, largest, peak = set(shared_bytes()), 0, 0
    with isolated(call) as runner:
        session = runner.session()
        unit = 1_000 if call == "mean" else 1
        for number in range(60):
            width = (number + 1) * unit if number % 2 else unit
            batch = batch_of(number, width)
            with session.run(batch) as lease:
                answered = sum(np.asarray(y).nbytes for y in lease.outputs.values())
            largest = max(largest, batch.inputs["x"].nbytes + answered)
            peak = max(size for piece, size in shared_bytes().items() if piece not in before)
            assert peak <= largest + (1 << 17)
        session.close()
    assert peak > largest - (1 << 12)


def test_memory_that_the_other_process_made_larger_is_not_made_smaller() -> None:
    ours = SharedMemory.create(1 << 12)
    theirs = SharedMemory(os.dup(ours.fd))
    theirs.reserve(1 << 20)
    last = theirs.array("uint8", (1,), (1 << 20) - 1)
    ours.reserve(1 << 16)
    assert (ours.capacity, os.fstat(ours.fd).st_size) == (1 << 16, 1 << 20)
    last[0] = 7
    ours.see(1 << 20)
    assert int(ours.array("uint8", (1,), (1 << 20) - 1)[0]) == 7
    with pytest.raises(PermissionError):
        os.ftruncate(theirs.fd, 1 << 12)


def test_a_want_of_memory_is_told_as_one_and_leaves_it_usable() -> None:
    memory = SharedMemory.create(1 << 12)
    memory.array("uint8", (1,), 5)[0] = 9
    with pytest.raises(MemoryError, match="can't be shared"):
        memory.reserve(TOO_MUCH)
    assert memory.capacity == 1 << 12
    assert int(memory.array("uint8", (1,), 5)[0]) == 9


def test_an_answer_that_the_gate_has_no_room_for_is_no_crash() -> None:
    memory = SharedMemory.create(1 << 12)
    told, _ = write_tensors(memory, {"y": np.ones((2, 4), np.float32)}, 64)
    os.ftruncate(memory.fd, TOO_MUCH)
    refusal = read_reply((7, "ok", TOO_MUCH, told, None, {}), 7, memory, 64, 2)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "own memory"


def test_room_is_enough_wherever_tensors_begin() -> None:
    tensors = {name: np.ones((3, 5), np.int8) for name in "abcd"}
    for start in (0, 1, 63, 64, 65):
        memory = SharedMemory.create(1 << 12)
        _, stop = write_tensors(memory, tensors, start)
        assert stop - start <= room_for(tensors.values()) <= 5 * (15 + 64)
