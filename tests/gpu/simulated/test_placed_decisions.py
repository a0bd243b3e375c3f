"""Decisions made on a GPU by a run, in Numba's simulator: what goes wrong is no verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numba import cuda

from paritygate.comparison import placed_decisions
from paritygate.comparison.decide.device_counts import Flipped
from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.decisions_on_device import Deciding, DeviceDecisions
from paritygate.comparison.place import Place
from paritygate.comparison.placed_decisions import PlacedDecisions
from paritygate.core.bands import parse_bands
from paritygate.core.errors import DeviceError
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.gpu import kinds
from paritygate.gpu.decided import DecisionsTally
from paritygate.gpu.driver import Chip
from paritygate.gpu.tensor import DeviceTensor

TOLERANCE = Tolerance(1e-3, 1e-3)
SAMPLES = 30
RULES = {
    "bands": DecisionRule("d", "y", bands=parse_bands("low < 0.1 <= high")),
    "argmax": DecisionRule("d", "y", argmax=True),
    "topk": DecisionRule("d", "y", topk=2),
}


def place() -> Place:
    return Place(Chip("A", "9.0", 1 << 30, "", "13.0"))


def decider(kind: str, where: Place) -> PlacedDecisions:
    shape = (1,) if kind == "bands" else (4,)
    dtypes = "float32", "float32"
    return PlacedDecisions(where, "s", RULES[kind], TOLERANCE, dtypes, shape, "gate")


def sides(kind: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(8)
    ref = rng.normal(size=(SAMPLES, 1 if kind == "bands" else 4)).astype(np.float32)
    cand = ref + rng.normal(size=ref.shape).astype(np.float32) / 2
    cand[4, 0] = np.nan
    return ref, cand


def there(array: Any, *cuts: int) -> DeviceTensor:
    return DeviceTensor([cuda.to_device(part.copy()) for part in np.split(array, cuts)])


ROWS = np.arange(100, 100 + SAMPLES)


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("has_labels", [False, True])
def test_tensors_of_parts_are_decided_as_whole_arrays(kind: str, has_labels: bool) -> None:
    ref, cand = sides(kind)
    truth = np.arange(SAMPLES) % 2 if has_labels else None
    where = place()
    found = decider(kind, where).compare_lazily(there(ref, 7, 20), there(cand, 11), ROWS, truth)
    shape = ref.shape[1:]
    host = DecisionComparer(RULES[kind], TOLERANCE, "float32", "float32", shape, "gate")
    tally, detail = host.compare(ref, cand, ROWS, truth)
    assert found is not None
    assert tally.flips > 3
    assert found[0].to_json() == tally.to_json()
    np.testing.assert_array_equal(found[1].flipped_rows, detail.flipped_rows)
    rows = np.array([0, 4, 21])
    ours, theirs = found[1].told(rows), detail.told(rows)
    assert (ours.ref, ours.cand) == (theirs.ref, theirs.cand)
    assert where.decided == {("s", "d"): {"cuda": SAMPLES, "cpu": 0}}
    assert where.peak_bytes > 0


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_blocks_that_are_decided_at_once_share_no_scores(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = RULES["argmax"], TOLERANCE, (dtype, dtype), (4,), "gate"
    made = PlacedDecisions(place(), "s", *given)
    ref = (np.random.default_rng(1).normal(size=(5, 4)) * 50).astype(dtype)
    rows, real, found = np.arange(5), DecisionsTally.add, []

    def decide(ours: Any, theirs: Any) -> None:
        both = made.compare_lazily(there(ours), there(theirs), rows, None)
        assert both is not None
        found.append(both[0].flips)

    def add(self: Any, *args: Any) -> None:
        if not found:  # another block is decided between the scores of this one and its decisions
            found.append(-1)
            decide(ref, ref)
        real(self, *args)

    monkeypatch.setattr(DecisionsTally, "add", add)
    decide(ref, ref[:, ::-1].copy())
    assert found == [-1, 0, 5]


def test_what_lies_on_the_host_is_decided_by_others() -> None:
    ref, cand = sides("argmax")
    where = place()
    made = decider("argmax", where)
    assert made.compare_lazily(there(ref), cand, ROWS, None) is None
    where.give_up("is full")
    assert made.compare_lazily(there(ref), there(cand), ROWS, None) is None
    assert where.decided == {}


@pytest.mark.parametrize("step", ["__init__", "add", "finish"])
def test_too_little_memory_is_told_and_decided_by_others(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place()
    made = decider("argmax", where)

    def refuse(*args: object) -> Any:
        raise MemoryError

    monkeypatch.setattr(Deciding, step, refuse)
    both = [there(side) for side in sides("argmax")]
    assert made.compare_lazily(*both, ROWS, None) is None
    assert where.notes == ["the GPU had no room for decisions of a block, made on the CPU"]


def test_what_is_idle_goes_before_decisions_are_made_by_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = place()
    idle, made = decider("argmax", where), decider("argmax", where)
    both = [there(side) for side in sides("argmax")]
    assert idle.compare_lazily(*both, ROWS, None) is not None
    real = Deciding.add

    def add(self: Any, *args: Any) -> None:
        if where._held:
            raise MemoryError
        real(self, *args)

    monkeypatch.setattr(Deciding, "add", add)
    assert made.compare_lazily(*both, ROWS, None) is not None
    assert where._held > 0
    assert decider("argmax", where).compare_lazily(*both, ROWS, None) is not None
    assert where.notes == []


@pytest.mark.parametrize(
    "change",
    [
        lambda tally: replace(tally, matrix={}),
        lambda tally: replace(tally, samples=SAMPLES - 1),
        lambda tally: replace(tally, flips=0),
        lambda tally: replace(tally, matrix={k: 2 * n for k, n in tally.matrix.items()}),
    ],
)
def test_decisions_that_dont_add_up_are_no_verdict(
    change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = decider("argmax", place())
    real = Deciding.finish

    def finish(self: Any) -> Any:
        tally, flipped = real(self)
        return change(tally), flipped

    monkeypatch.setattr(Deciding, "finish", finish)
    both = [there(side) for side in sides("argmax")]
    with pytest.raises(DeviceError, match=r"stage 's', decision 'd': the GPU \(A\) failed: it"):
        made.compare_lazily(*both, ROWS, None)
    with pytest.raises(DeviceError, match="of a batch that is known otherwise than the CPU"):
        decider("argmax", place())


def test_flips_that_nobody_lists_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = decider("bands", place())
    real = Deciding.finish

    def finish(self: Any) -> Any:
        tally, flipped = real(self)
        return replace(tally, flips=0), Flipped(flipped.rows[:0], flipped.margins[:0])

    monkeypatch.setattr(Deciding, "finish", finish)
    with pytest.raises(DeviceError, match="decisions that differ, and 0 that flipped"):
        made.compare_lazily(*(there(side) for side in sides("bands")), ROWS, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tally: replace(tally, margins=tally.flip_margins), "margins of 30"),
        (
            lambda tally: replace(tally, edges=(replace(tally.edges[0], on=9),)),
            "scores beside an edge of 30",
        ),
    ],
)
def test_scores_that_are_not_counted_are_noticed(
    change: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = RULES["bands"], TOLERANCE, ("float32", "float32"), (1,)
    made = PlacedDecisions(place(), "s", *given, "full")
    real = Deciding.finish

    def finish(self: Any) -> Any:
        tally, flipped = real(self)
        return change(tally), flipped

    monkeypatch.setattr(Deciding, "finish", finish)
    with pytest.raises(DeviceError, match=message):
        made.compare_lazily(*(there(side) for side in sides("bands")), ROWS, None)


def test_samples_that_are_listed_twice_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = decider("bands", place())
    real = Deciding.finish

    def finish(self: Any) -> Any:
        tally, flipped = real(self)
        return tally, Flipped(flipped.rows[[0, *range(flipped.rows.size - 1)]], flipped.margins)

    monkeypatch.setattr(Deciding, "finish", finish)
    with pytest.raises(DeviceError, match="aren't samples, or are listed twice"):
        made.compare_lazily(*(there(side) for side in sides("bands")), ROWS, None)


@pytest.mark.parametrize("kind", ["topk", "argmax", "positions"])
@pytest.mark.parametrize("name", ["rows", "pairs", "margins"])
def test_lists_that_come_back_as_zeros_are_noticed(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = DecisionRule("d", "y", argmax=True, axis=1) if kind == "positions" else RULES[kind]
    shape = (4, 3) if kind == "positions" else (4,)
    made = PlacedDecisions(place(), "s", rule, TOLERANCE, ("float32", "float32"), shape, "gate")
    ref = np.random.default_rng(8).normal(size=(SAMPLES, *shape)).astype(np.float32)
    cand = ref.copy()
    cand[5:12] = -cand[5:12]
    ref[7] = np.nan
    real = DecisionsTally.read

    def read(self: Any) -> Any:
        counted = real(self)
        return counted._replace(**{name: np.zeros_like(getattr(counted, name))})

    monkeypatch.setattr(DecisionsTally, "read", read)
    with pytest.raises(DeviceError, match="it lists .*; nothing that it counted is used"):
        made.compare_lazily(there(ref), there(cand), ROWS, None)


def test_places_of_topk_count_as_memory_that_is_held() -> None:
    given = RULES["topk"], TOLERANCE, "float32", "float32", (4,), "gate"
    deciding = DeviceDecisions(*given).begin()
    ref, cand = sides("topk")
    deciding.add(ref, cand, range(SAMPLES))
    kind = deciding._kind
    assert isinstance(kind, kinds.Topk)
    assert deciding.bytes_held >= deciding._counter.bytes_held + kind._best.nbytes > 0


def test_edges_that_arrive_as_zeros_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made, real = decider("bands", place()), kinds.Bands.bind

    def bind(self: Any, slab: Any) -> None:
        real(self, slab)
        self._edges.copy_to_device(np.zeros(self._edges.shape))

    monkeypatch.setattr(kinds.Bands, "bind", bind)
    with pytest.raises(DeviceError, match="it decided by other edges than it was given; nothing"):
        made.compare_lazily(*(there(side) for side in sides("bands")), ROWS, None)


def test_the_known_batch_of_large_samples_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, real = [], placed_decisions.known_sides

    def known_sides(samples: int, width: int, dtypes: tuple[str, str]) -> Any:
        sizes.append((samples, width))
        return real(samples, width, dtypes)

    monkeypatch.setattr(placed_decisions, "known_sides", known_sides)
    monkeypatch.setattr(placed_decisions, "_KNOWN_ELEMENTS", 60)
    rule = DecisionRule("d", "y", argmax=True, axis=1)
    given = TOLERANCE, ("float32", "float32")
    PlacedDecisions(place(), "s", rule, *given, (3, 9000, 7000), "gate")
    rule = DecisionRule("d", "y", argmax=True)
    PlacedDecisions(place(), "s", rule, *given, (90, 1, 30), "gate")
    assert sizes == [(5, 12), (3, 60)]


@pytest.mark.parametrize(
    ("given", "shape", "known"),
    [
        ({"argmax": True, "axis": 1}, (21, 512, 512), (21, 8, 8)),
        ({"argmax": True, "axis": -1}, (1024, 50257), (8, 50257)),
        ({"topk": 2, "axis": -2}, (7, 100, 1), (7, 100, 1)),
        ({"topk": 2, "axis": 2}, (9, 100, 9), (8, 100, 8)),
        ({"bands": parse_bands("a < 0 <= b"), "elementwise": True}, (900, 3), (8, 3)),
        ({"bands": parse_bands("a < 0 <= b")}, (), ()),
    ],
)
def test_a_known_sample_has_all_classes_and_few_positions(
    given: Any, shape: tuple[int, ...], known: tuple[int, ...]
) -> None:
    assert placed_decisions.known_shape(shape, DecisionRule("d", "y", **given), 8) == known


def test_only_samples_that_are_asked_for_are_copied() -> None:
    ref, cand = (there(side, 7, 20) for side in sides("argmax"))
    found = decider("argmax", place()).compare_lazily(ref, cand, ROWS, None)
    assert found is not None
    told = found[1].told(np.array([3, 8, 29]))
    assert (len(told.ref), ref._host, cand._host) == (3, None, None)


@pytest.mark.parametrize("step", ["__init__", "finish"])
def test_a_gpu_that_fails_is_no_verdict(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = decider("bands", place())

    def fail(*args: object) -> Any:
        raise RuntimeError("[700] lost")

    monkeypatch.setattr(Deciding, step, fail)
    with pytest.raises(DeviceError, match=r"\[700\] lost; nothing that it counted is used"):
        made.compare_lazily(*(there(side) for side in sides("bands")), ROWS, None)
    with pytest.raises(DeviceError, match=r"\[700\] lost"):
        decider("bands", place())
