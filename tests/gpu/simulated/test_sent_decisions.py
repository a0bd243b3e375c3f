"""Decisions of arrays of the host, made of the pieces that are sent for their elements."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import cuda
from tests.gpu.deciding import cases, check_sent, placed
from tests.gpu.simulator import threads_in_turns

from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.decisions_on_device import Deciding
from paritygate.comparison.place import Place
from paritygate.comparison.placed import PlacedComparer
from paritygate.comparison.placed_decisions import PlacedDecisions
from paritygate.comparison.sent_decisions import SentDecisions
from paritygate.core.bands import parse_bands
from paritygate.core.errors import DeviceError
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.gpu.decided import DecisionsTally
from paritygate.gpu.driver import Chip
from paritygate.gpu.staging import Lane
from paritygate.gpu.tensor import DeviceTensor

CHIP = Chip("A", "9.0", 1 << 30, "", "13.0")
KINDS = ("bands", "argmax", "topk")
FLOATS = ("float32", "float64")
OTHERS = (
    *(("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float64")),
    *(("float32", "float16"), ("float8_e5m2", "float8_e5m2")),
    *(("int4", "int4"), ("uint4", "uint4"), ("bool", "bool"), ("int8", "int8")),
    *(("int32", "int32"), ("int64", "int64"), ("uint64", "uint64")),
)
QUICK = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15
)


def untried(patch: pytest.MonkeyPatch) -> None:
    """Nothing is tried out, which other tests look at."""
    for kind in (PlacedComparer, PlacedDecisions):
        patch.setattr(kind, "_try_out", lambda *args: None)


def ordinals_of(samples: int, seed: int) -> Any:
    steps = (
        np.ones(samples, np.int64)
        if seed % 2
        else np.random.default_rng(seed).integers(1, 4, samples)
    )
    return 7 + np.cumsum(steps)


def check(case: dict[str, Any], step: int, seed: int) -> None:
    """In pieces of so many samples, or nearly so many."""
    ref = case["ref"]
    width = int(np.prod(ref.shape[1:]))
    if not width:
        return  # of which nothing is sent
    item = max(ref.itemsize, case["cand"].itemsize)
    where = Place(CHIP, piece_bytes=step * (width * item + 4 * case["labelled"]) + seed % 4)
    check_sent(placed(where, case), case, ordinals_of(len(ref), seed))
    assert where.notes == []
    where.close()
    assert (where._held, where._pinned) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
@QUICK
@given(st.data(), st.sampled_from(FLOATS), st.sampled_from([1, 2, 4, 20]), st.integers(0, 2**32))
def test_pieces_that_are_sent_decide_what_the_cpu_decides(
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    data: st.DataObject,
    dtype: str,
    step: int,
    seed: int,
) -> None:
    untried(monkeypatch)
    check(data.draw(cases(kind, (dtype, dtype))), step, seed)


@settings(QUICK, max_examples=40)
@given(st.data(), st.sampled_from(KINDS), st.sampled_from(OTHERS), st.integers(0, 2**32))
def test_other_dtypes_that_are_sent_decide_what_the_cpu_decides(
    monkeypatch: pytest.MonkeyPatch,
    data: st.DataObject,
    kind: str,
    dtypes: tuple[str, str],
    seed: int,
) -> None:
    untried(monkeypatch)
    check(data.draw(cases(kind, dtypes)), 5, seed)


SAMPLES, WIDTH, STEP = 22, 4, 5
RULES = {
    "bands": DecisionRule("bands", "y", bands=parse_bands("low < 0.1 <= high"), elementwise=True),
    "argmax": DecisionRule("argmax", "y", argmax=True),
    "topk": DecisionRule("topk", "y", topk=2, order="ranked"),
}
TOLERANCE = Tolerance(1e-3, 1e-3)
ROWS = np.arange(100, 100 + SAMPLES)
TRUTH = ROWS % WIDTH
FLOAT32 = "float32", "float32"
NO_ROOM = "the GPU had no room for decisions of a block, made on the CPU"


def sides(seed: int = 8) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    ref = rng.normal(size=(SAMPLES, WIDTH)).astype(np.float32)
    cand = ref.copy()
    cand[::5] = cand[::5, ::-1]
    cand[4, 0] = np.nan
    return ref, cand


class Block:
    """An output whose decisions are made along, of both sides on the host."""

    def __init__(self, where: Place, *kinds: str) -> None:
        self.where, self.kinds = where, kinds or tuple(RULES)
        given = TOLERANCE, *FLOAT32, (WIDTH,), "gate"
        self.elements = PlacedComparer(where, "s", "y", *given)
        self.decisions = {
            kind: PlacedDecisions(where, "s", RULES[kind], TOLERANCE, FLOAT32, (WIDTH,), "gate")
            for kind in self.kinds
        }

    def truth(self, kind: str) -> Any:
        return TRUTH if kind != "bands" else None

    def judge(self, ref: Any, cand: Any) -> dict[str, SentDecisions]:
        """Compare and decide."""
        found = {
            kind: made.along(ref, cand, ROWS, self.truth(kind))
            for kind, made in self.decisions.items()
        }
        sent = {kind: one for kind, one in found.items() if one is not None}
        ordinals = np.arange(SAMPLES)
        self.elements.compare(
            ref, cand, ordinals, is_lazy=True, in_order=True, along=[*sent.values()]
        )
        return sent

    def check(self, ref: Any, cand: Any, there: Any = None) -> None:
        """What is decided of both sides, which may lie somewhere, is what the CPU decides."""
        self.compare(self.judge(*(there or (ref, cand))), ref, cand)

    def compare(self, sent: dict[str, SentDecisions], ref: Any, cand: Any) -> None:
        """What was decided is what the CPU decides."""
        assert [*sent] == [*self.kinds]
        for kind, one in sent.items():
            host = DecisionComparer(RULES[kind], TOLERANCE, *FLOAT32, (WIDTH,), "gate")
            tally, detail = host.compare(ref, cand, ROWS, self.truth(kind))
            found = one.found()
            assert found is not None
            assert tally.flips > 3
            assert found[0] == tally
            rows = detail.flipped_rows
            np.testing.assert_array_equal(found[1].flipped_rows, rows)
            assert found[1].told(rows).cand == detail.told(rows).cand


def a_place() -> Place:
    return Place(CHIP, piece_bytes=STEP * (4 * WIDTH + 8))  # with two labels a sample


def test_decisions_that_are_made_along_are_those_of_the_cpu() -> None:
    where = a_place()
    block = Block(where)
    for seed in range(2):
        block.check(*sides(seed))
    assert where.decided == {("s", kind): {"cuda": 2 * SAMPLES, "cpu": 0} for kind in RULES}
    assert where.samples == {("s", "y"): {"cuda": 2 * SAMPLES, "cpu": 0}}
    assert where._held > 0
    where.close()
    assert (where._held, where._pinned, where.notes) == (0, 0, [])


@pytest.mark.parametrize("side", [0, 1])
def test_a_side_that_lies_there_is_decided_with_one_that_is_sent(side: int) -> None:
    both = sides()
    there: list[Any] = [*both]
    parts = np.split(both[side], [7, 9])
    there[side] = DeviceTensor([cuda.to_device(part.copy()) for part in parts])
    Block(a_place()).check(*both, there)
    assert there[side]._host is None


def test_nothing_is_sent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    block, sizes = Block(a_place()), []
    block.check(*sides(1))
    real = Lane.send

    def send(self: Any, arrays: Any) -> Any:
        sizes.append([array.nbytes for array in arrays])
        return real(self, arrays)

    monkeypatch.setattr(Lane, "send", send)
    monkeypatch.setattr(cuda, "to_device", None)  # which isn't held against what was sent
    block.check(*sides())
    pieces = [STEP] * 4 + [2]
    assert sizes == [[16 * rows, 16 * rows, 8 * rows, 8 * rows] for rows in pieces]


def test_threads_decide_their_own_blocks() -> None:
    block = Block(a_place())
    with threads_in_turns(PlacedComparer, "compare"), ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda seed: block.judge(*sides(seed)), range(6))
        for seed, sent in enumerate(found):
            block.compare(sent, *sides(seed))
    assert block.where.decided["s", "topk"] == {"cuda": 6 * SAMPLES, "cpu": 0}


def test_what_lies_there_on_both_sides_is_decided_where_it_lies() -> None:
    ref, cand = (DeviceTensor([cuda.to_device(side)]) for side in sides())
    made = Block(a_place(), "argmax").decisions["argmax"]
    assert made.along(ref, cand, ROWS, None) is None
    assert made.along(*sides(), ROWS[:0], None) is None


@pytest.mark.parametrize("name", ["ref", "cand", "truth"])
def test_a_piece_that_isnt_what_was_sent_is_no_verdict(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = Block(a_place(), "argmax")
    ref, _ = sides()
    block.judge(ref, ref)
    real, calls = Lane._copy, []
    lost = 3 * 3 + ("ref", "cand", "truth").index(name)  # of the fourth piece

    def copy(self: Any, *given: Any) -> None:
        calls.append(given)
        if len(calls) != lost + 1:  # what was there before is just as good
            real(self, *given)

    monkeypatch.setattr(Lane, "_copy", copy)
    with pytest.raises(DeviceError, match="what it judged isn't what was sent to it; nothing"):
        block.judge(ref, ref)


def test_what_changes_before_it_is_decided_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    block, real, calls = Block(a_place(), "argmax"), Deciding.add, []

    def add(self: Any, ref: Any, cand: Any, *more: Any) -> None:
        calls.append(ref)
        if len(calls) == 3:
            cand[1] = ref[0]  # behind the elements
        real(self, ref, cand, *more)

    monkeypatch.setattr(Deciding, "add", add)
    with pytest.raises(DeviceError, match="what it judged isn't what was sent to it; nothing"):
        block.judge(*sides())


def noted(real: Any, order: list[str]) -> Any:
    def method(*given: Any) -> Any:
        order.append(real.__name__)
        return real(*given)

    return method


def test_what_is_decided_is_proved_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    block, order = Block(a_place(), "argmax", "topk"), []
    for owner, name in ((Lane, "send"), (DecisionsTally, "add"), (Lane, "judged"), (Lane, "check")):
        monkeypatch.setattr(owner, name, noted(getattr(owner, name), order))
    block.judge(*sides())
    assert order == ["send", "add", "add", "judged"] * 5 + ["check"]


def lose(owner: Any, name: str, patch: pytest.MonkeyPatch, at: int) -> None:
    """One call of a method does nothing."""
    real, calls = getattr(owner, name), []

    def method(self: Any, *given: Any) -> Any:
        calls.append(given)
        return None if len(calls) == at else real(self, *given)

    patch.setattr(owner, name, method)


TOLD = r"^stage 's', decision '{}': the GPU \(A\) failed: {}; nothing that it counted is used: run"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [1, 2, 4])
@pytest.mark.parametrize(
    ("owner", "name", "message"),
    [
        (SentDecisions, "add", f"it decided [0-9]+ of {SAMPLES} samples, and .*"),
        (Deciding, "add", f"it decided [0-9]+ of {SAMPLES} samples, and .*"),
        (DecisionsTally, "add", f"it decided {SAMPLES} of {SAMPLES} samples, and counted .*"),
    ],
)
def test_a_piece_that_isnt_decided_is_noticed(
    owner: Any, name: str, message: str, at: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = Block(a_place(), kind)
    lose(owner, name, monkeypatch, at)
    sent = block.judge(*sides())
    with pytest.raises(DeviceError, match=TOLD.format(kind, message)):
        sent[kind].found()
    assert block.where.decided == {}


@pytest.mark.parametrize("is_all", [False, True])
def test_labels_that_get_lost_are_noticed(is_all: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    block, real, calls = Block(a_place(), "topk"), SentDecisions.add, []

    def add(self: Any, rows: slice, ref: Any, cand: Any, truth: Any) -> None:
        calls.append(truth)
        real(self, rows, ref, cand, None if is_all or len(calls) == 2 else truth)

    monkeypatch.setattr(SentDecisions, "add", add)
    sent = block.judge(*sides())
    what = "it counted no labels.*" if is_all else f"it counted 16 labels of {SAMPLES}.*"
    with pytest.raises(DeviceError, match=TOLD.format("topk", what)):
        sent["topk"].found()


def test_what_is_listed_as_flipped_and_isnt_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    block, real = Block(a_place(), "argmax"), DecisionsTally.read

    def read(self: Any) -> Any:
        counted = real(self)
        return counted._replace(pairs=np.zeros_like(counted.pairs))

    monkeypatch.setattr(DecisionsTally, "read", read)
    with pytest.raises(
        DeviceError, match=TOLD.format("argmax", "it lists decisions as flipped .*")
    ):
        block.judge(*sides())


def test_what_isnt_read_is_decided_by_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    block = Block(a_place())
    lose(SentDecisions, "finish", monkeypatch, 2)
    found = [one.found() for one in block.judge(*sides()).values()]
    assert [one is None for one in found] == [False, True, False]


class OutOfMemory:
    """A method that finds no room in some of its calls."""

    def __init__(self, owner: Any, name: str, refuses: Callable[[int], bool]) -> None:
        self.calls, self._refuses = 0, refuses
        self.owner, self.name, self._real = owner, name, getattr(owner, name)

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        def method(own: Any, *given: Any) -> Any:
            self.calls += 1
            if self._refuses(self.calls):
                raise MemoryError
            return self._real(own, *given)

        patch.setattr(self.owner, self.name, method)


@pytest.mark.parametrize(
    ("name", "at"), [("__init__", 1), ("add", 1), ("add", 2), ("add", 4), ("finish", 1)]
)
def test_decisions_without_room_are_left_to_the_cpu(
    name: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = a_place()
    block = Block(where, "argmax")
    OutOfMemory(Deciding, name, lambda call: call == at).patch(monkeypatch)
    (sent,) = block.judge(*sides()).values()
    assert sent.found() is None
    assert where.notes == [NO_ROOM]
    assert where.samples == {("s", "y"): {"cuda": SAMPLES, "cpu": 0}}
    assert where.smaller == {}
    block.check(*sides(1))
    assert where.decided == {("s", "argmax"): {"cuda": SAMPLES, "cpu": 0}}
    where.close()
    assert (where._held, where._pinned) == (0, 0)


def test_a_decision_without_room_costs_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    block = Block(a_place())
    OutOfMemory(Deciding, "add", lambda call: call == 5).patch(monkeypatch)  # of the second piece
    found = [one.found() for one in block.judge(*sides()).values()]
    assert [one is None for one in found] == [False, True, False]


@pytest.mark.parametrize("name", ["__init__", "add", "finish"])
def test_what_is_idle_goes_before_decisions_are_left_to_the_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = a_place()
    idle, block = Block(where, "topk"), Block(where, "argmax", "topk")
    idle.check(*sides())
    OutOfMemory(Deciding, name, lambda call: call == 2).patch(monkeypatch)
    block.check(*sides())
    assert where.notes == []
    assert where.samples["s", "y"] == {"cuda": 2 * SAMPLES, "cpu": 0}
    assert where.decided["s", "topk"] == {"cuda": 2 * SAMPLES, "cpu": 0}


def test_what_was_read_before_all_began_anew_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    block = Block(a_place(), "argmax", "topk")
    monkeypatch.setattr(Place, "drop_idle", lambda self: 1)
    OutOfMemory(Deciding, "finish", lambda call: call == 2).patch(monkeypatch)
    # Twice the first decision of the first piece, after both decisions of five pieces.
    OutOfMemory(Deciding, "add", lambda call: call in (11, 12)).patch(monkeypatch)
    found = [one.found() for one in block.judge(*sides()).values()]
    assert [one is None for one in found] == [True, False]
    assert block.where.notes == [NO_ROOM]


def test_room_that_is_never_enough_is_asked_for_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    where = a_place()
    block = Block(where, "argmax")
    monkeypatch.setattr(Place, "drop_idle", lambda self: 1)
    refused = OutOfMemory(Deciding, "add", lambda call: True)
    refused.patch(monkeypatch)
    (sent,) = block.judge(*sides()).values()
    assert (sent.found(), refused.calls, where.notes) == (None, 2, [NO_ROOM])


def test_elements_without_room_leave_all_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    where = a_place()
    block = Block(where, "argmax")
    OutOfMemory(Lane, "send", lambda call: True).patch(monkeypatch)
    (sent,) = block.judge(*sides()).values()
    assert sent.found() is None
    assert where.samples == {("s", "y"): {"cuda": 0, "cpu": SAMPLES}}
    assert block.decisions["argmax"].along(*sides(), ROWS, None) is None


def test_smaller_pieces_decide_all_samples_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    where = a_place()
    block = Block(where)
    monkeypatch.setattr("paritygate.comparison.place.LEAST_BYTES", 8)
    OutOfMemory(Lane, "send", lambda call: call == 3).patch(monkeypatch)
    block.check(*sides())
    (note,) = where.notes
    assert (
        "had no room for pieces of 120 bytes a side; from then on they were of at most 60" in note
    )


@pytest.mark.parametrize("name", ["__init__", "add", "finish"])
def test_a_gpu_that_fails_is_no_verdict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = a_place()
    block = Block(where, "argmax")

    def fail(*args: object) -> Any:
        raise RuntimeError("[700] lost")

    monkeypatch.setattr(Deciding, name, fail)
    with pytest.raises(DeviceError, match=TOLD.format("argmax", r"\[700\] lost")):
        block.judge(*sides())
    where.close()
    assert (where._held, where._pinned) == (0, 0)
