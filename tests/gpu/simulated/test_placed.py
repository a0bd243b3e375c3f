"""Runs that compare on a GPU, in Numba's simulator of one: what they judge, and what goes wrong."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.packs import write_pack

import paritygate
from paritygate.comparison import canary, on_device, place, placed
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.on_device import Comparison, DeviceComparer
from paritygate.comparison.place import LEAST_BYTES, Place
from paritygate.comparison.placed import PlacedComparer, is_out_of_memory
from paritygate.core.dtypes import numpy_dtype
from paritygate.core.errors import DeviceError, PlanError
from paritygate.core.policy import Tolerance
from paritygate.gpu import failing, scan, staging, tally
from paritygate.gpu.device import cuda
from paritygate.gpu.driver import Chip
from paritygate.gpu.staging import CHUNKS, Lane

CHIP = Chip("A", "9.0", 1 << 30, "", "13.0")
TOLERANCE = Tolerance(1e-3, 1e-3)
SAMPLES = 40


class RefusedError(Exception):
    """What a driver raises, with its code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"[{code}] refused")
        self.code = code


def sides(width: int = 5, dtype: Any = np.float32) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    ref = rng.normal(size=(SAMPLES, width))
    cand = ref * (1 + 1e-4 * rng.normal(size=ref.shape))
    cand[3] = ref[3]
    cand[7, 2], cand[9, 0], cand[SAMPLES - 1, 4] = 9.0, np.nan, -np.inf
    return ref.astype(dtype), cand.astype(dtype)


@pytest.fixture
def packs(tmp_path: Path) -> tuple[Path, Path]:
    ref, cand = sides()
    ids = np.arange(SAMPLES)
    for name, values in (("ref", ref), ("cand", cand)):
        outputs = {"y": values, "t": np.array(["a"] * SAMPLES)}
        write_pack(tmp_path / f"{name}.arrow", ids, {}, outputs, rows_per_batch=16)
    return tmp_path / "ref.arrow", tmp_path / "cand.arrow"


def compare(packs: tuple[Path, Path], on: Any, **options: Any) -> Any:
    given = {"atol": 1e-3, "rtol": 1e-3, "out": None, "threads": 1, "stats": "gate", **options}
    return paritygate.compare(*packs, compare_on=on, **given)


@pytest.mark.parametrize("stats", ["gate", "full"])
def test_a_run_on_a_gpu_judges_as_one_on_the_cpu(packs: tuple[Path, Path], stats: str) -> None:
    ours, theirs = (compare(packs, on, stats=stats) for on in ("cuda", "cpu"))
    assert (ours.verdict, ours.reasons) == (theirs.verdict, theirs.reasons)
    assert ours.summary["stages"] == theirs.summary["stages"]
    assert theirs.summary["comparison"] == {"on": "cpu"}
    found = ours.summary["comparison"]
    assert found["on"] == "cuda"
    assert found["device"]["name"] == "Numba's simulator"
    (samples,) = found["samples"].values()
    assert samples == {"y": {"cuda": SAMPLES, "cpu": 0}}
    assert found["memory"]["peak_bytes"] > 0
    assert [note for note in found["notes"] if "texts are compared on the CPU" in note]


def test_samples_that_one_side_lacks_are_left_out(packs: tuple[Path, Path], tmp_path: Path) -> None:
    ref, cand = sides()
    some = np.flatnonzero(np.arange(SAMPLES) % 3)
    write_pack(tmp_path / "ref.arrow", np.arange(SAMPLES), {}, {"y": ref})
    write_pack(tmp_path / "cand.arrow", some, {}, {"y": cand[some]})
    ours, theirs = (compare(packs, on) for on in ("cuda", "cpu"))
    assert ours.summary["stages"] == theirs.summary["stages"]
    (samples,) = ours.summary["comparison"]["samples"].values()
    assert sum(samples["y"].values()) == len(some)


def test_what_a_gpu_cant_compare_is_a_problem_of_the_plan(
    packs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> Any:
        raise ValueError("a device has no such tier")

    monkeypatch.setattr(placed, "DeviceComparer", refuse)
    with pytest.raises(PlanError) as raised:
        compare(packs, "cuda")
    told = (
        "stages.comparison.outputs.y: a device has no such tier (--compare-on cuda); use "
        '--compare-on cpu (compare_on = "cpu" in the plan), or auto'
    )
    assert [str(problem) for problem in raised.value.problems] == [told]


def placed_comparer(where: Place, dtype: str = "float32", width: int = 5) -> PlacedComparer:
    return PlacedComparer(where, "s", "y", TOLERANCE, dtype, dtype, (width,), "gate")


def check(comparer: ElementComparer, ref: Any, cand: Any) -> None:
    """It says what the CPU says, and so do the samples that are looked at."""
    dtype = ref.dtype.name
    host = ElementComparer(TOLERANCE, dtype, dtype, ref.shape[1:], "gate")
    expected = host.compare(ref, cand, np.arange(len(ref)), is_lazy=False)
    found = comparer.compare(ref, cand, np.arange(len(ref)), is_lazy=True, in_order=True)
    rows = np.arange(len(ref))
    comparer.look_at(found[1], rows, ref, cand)
    assert canary.difference(found, expected) == ""
    np.testing.assert_array_equal(found[1].worst.of(rows).index, expected[1].worst.index)


def test_pieces_count_what_the_whole_counts() -> None:
    ref, cand = sides()
    where = Place(CHIP, piece_bytes=60)  # three samples
    check(placed_comparer(where), ref, cand)
    assert where.samples == {("s", "y"): {"cuda": SAMPLES, "cpu": 0}}
    assert where.notes == []


@pytest.mark.parametrize("dtype", ["int4", "bfloat16", ">f4", "bool", "int64", "float16"])
def test_pieces_of_any_dtype_are_sent_as_the_device_takes_them(dtype: str) -> None:
    kind = {">f4": np.dtype(">f4")}.get(dtype, numpy_dtype(dtype.replace(">f4", "float32")))
    rng = np.random.default_rng(1)
    ref = rng.integers(0, 2, (9, 3)).astype(kind)
    cand = ref.copy()
    cand[4, 1], cand[8, 2] = 1 - int(ref[4, 1]), 1 - int(ref[8, 2])
    name = dtype.replace(">f4", "float32")
    given = Tolerance(0.0, 0.0), name, name, (3,), "gate"
    where = Place(CHIP, piece_bytes=2 * 3 * kind.itemsize)
    found = PlacedComparer(where, "s", "y", *given).compare(ref, cand, np.arange(9), is_lazy=True)
    expected = ElementComparer(*given).compare(ref, cand, np.arange(9), is_lazy=False)
    assert found[0].failing_samples == 2
    assert canary.difference(found, expected) == ""


def test_a_piece_that_isnt_what_was_sent_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    ref, cand = sides()
    cand = ref.copy()
    where = Place(CHIP, piece_bytes=60)
    comparer = placed_comparer(where)
    check(comparer, ref, cand)
    real, calls = Lane._copy, []

    def copy(self: Any, *given: Any) -> None:
        calls.append(given)
        if len(calls) not in (11, 12):  # a piece, of which all is good, as is what was there
            real(self, *given)

    monkeypatch.setattr(Lane, "_copy", copy)
    with pytest.raises(DeviceError) as raised:
        comparer.compare(ref, cand, np.arange(SAMPLES), is_lazy=True)
    assert "the GPU (A) failed: what it judged isn't what was sent to it; nothing" in str(
        raised.value
    )
    where.close()
    assert where.peak_pinned_bytes == CHUNKS << 16


def test_the_known_batch_is_sent_too(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = Lane._copy, []

    def copy(self: Any, *given: Any) -> None:
        calls.append(given)
        if len(calls) != 5:  # of the third piece, for which the first buffer is used again
            real(self, *given)

    monkeypatch.setattr(Lane, "_copy", copy)
    with pytest.raises(DeviceError, match=r"of a batch that is known what it judged isn't what"):
        placed_comparer(Place(CHIP))


def test_a_run_gives_all_memory_back(
    packs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    real = Place.close

    def close(self: Any) -> None:
        held.append(self._pinned)
        real(self)
        held.extend((self._held, self._pinned))

    monkeypatch.setattr(Place, "close", close)
    memory = compare(packs, "cuda").summary["comparison"]["memory"]
    assert held == [CHUNKS << 16, 0, 0]
    assert memory["peak_pinned_bytes"] == CHUNKS << 16
    assert memory["peak_bytes"] > 2 << 16


def refuse_above(monkeypatch: pytest.MonkeyPatch, most: int, error: BaseException) -> list[int]:
    """Let the device take no batch of more bytes; the sizes that it was given."""
    real, given = on_device.on_device, []

    def take(array: Any) -> Any:
        given.append(array.nbytes)
        if array.nbytes > most:
            raise error
        return real(array)

    monkeypatch.setattr(on_device, "on_device", take)
    return given


def test_too_little_memory_makes_pieces_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "LEAST_BYTES", 8)
    ref, cand = sides()
    where = Place(CHIP, piece_bytes=640)
    comparer = placed_comparer(where)
    given = refuse_above(monkeypatch, 100, RefusedError(2))
    check(comparer, ref, cand)
    assert where.describe()["memory"]["piece_bytes"] == 80
    assert given[:3] == [640, 320, 160]
    assert set(given[3:]) == {80}
    assert len(where.notes) == 3
    assert where.notes[-1] == (
        "stage 's', output 'y': the GPU had no room for pieces of 160 bytes a side; from then on "
        "they were of at most 80"
    )
    assert where.samples == {("s", "y"): {"cuda": SAMPLES, "cpu": 0}}


def test_an_output_without_room_costs_no_other_one_its_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(place, "LEAST_BYTES", 8)
    where = Place(CHIP)
    ours = placed_comparer(where)
    with monkeypatch.context() as patch:
        refuse_above(patch, 500, RefusedError(2))
        check(ours, *sides())
    assert where.smaller == {("s", "y"): 400}
    (note,) = where.notes
    assert note == (
        "stage 's', output 'y': the GPU had no room for pieces of 800 bytes a side; from then on "
        "they were of at most 400"
    )
    assert where.bytes_at_once(("s", "other"), is_sent=False) == place.PIECE_BYTES


def test_two_threads_without_room_make_pieces_smaller_once() -> None:
    where = Place(CHIP, piece_bytes=8 * LEAST_BYTES)
    for _ in range(2):
        where.shrink("s", "y", 8 * LEAST_BYTES)
    assert where.smaller == {("s", "y"): 4 * LEAST_BYTES}
    assert len(where.notes) == 1
    where.shrink("s", "y", LEAST_BYTES + 1)  # of a small block
    assert (where.smaller, where.is_given_up) == ({("s", "y"): LEAST_BYTES}, False)
    where.shrink("s", "y", LEAST_BYTES)
    assert where.is_given_up


class SmallDevice:
    """A device that has room for so many bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
        self.most, self.used = most, 0
        for name in ("to_device", "device_array"):
            monkeypatch.setattr(cuda, name, partial(self._made, getattr(cuda, name)))

    def _made(self, make: Any, *args: Any, **given: Any) -> Any:
        made = make(*args, **given)
        if self.used + made.nbytes > self.most:
            raise RefusedError(2)
        self.used += made.nbytes
        weakref.finalize(made._ary, self._gone, made.nbytes)
        return made

    def _gone(self, size: int) -> None:
        self.used -= size


def test_what_is_idle_goes_before_pieces_get_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "_ROOM", SAMPLES)
    monkeypatch.setattr(staging, "_LEAST", 64)
    where, device = Place(CHIP), SmallDevice(monkeypatch, 1 << 30)
    ref, cand = sides()
    outputs = [
        PlacedComparer(where, "s", name, TOLERANCE, "float32", "float32", (5,), "gate")
        for name in ("a", "b", "c")
    ]
    check(outputs[0], ref, cand)
    device.most = int(1.2 * device.used)
    for output in outputs * 2:
        check(output, ref, cand)
    assert (where.notes, where.smaller) == ([], {})
    assert [counts["cpu"] for counts in where.samples.values()] == [0] * 3
    assert where._held == where.drop_idle() > 0
    assert where._held == 0


def test_no_memory_at_all_is_the_cpus_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    ref, cand = sides()
    where = Place(CHIP, piece_bytes=4 * LEAST_BYTES)
    comparer = placed_comparer(where)
    given = refuse_above(monkeypatch, 0, MemoryError())
    check(comparer, ref, cand)
    assert where.is_given_up
    assert where.notes[-1] == (
        "the GPU had no room for pieces of 800 bytes a side; what followed was compared on the CPU"
    )
    assert given == [800]
    tried = len(given)
    check(comparer, ref, cand)
    assert len(given) == tried
    assert where.samples == {("s", "y"): {"cuda": 0, "cpu": 2 * SAMPLES}}


def test_a_sample_without_room_costs_no_other_output_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = Place(CHIP, piece_bytes=64)
    wide, thin = placed_comparer(where, width=50), placed_comparer(where)
    given = refuse_above(monkeypatch, 100, RefusedError(2))
    ref, cand = sides(50)
    check(wide, ref, cand)
    check(wide, ref, cand)
    assert given == [200]
    check(thin, *sides())
    assert where.samples == {("s", "y"): {"cuda": SAMPLES, "cpu": 2 * SAMPLES}}
    assert where.piece_bytes == 64
    (note,) = where.notes
    assert note == (
        "stage 's', output 'y': the GPU had no room for a sample of 200 bytes a side; what "
        "followed was compared on the CPU"
    )


def test_what_arrives_as_zeros_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    comparer, real = placed_comparer(Place(CHIP)), on_device.on_device
    monkeypatch.setattr(on_device, "on_device", lambda array: real(np.zeros_like(array)))
    with pytest.raises(DeviceError, match=r"it says that a value is 0\.0, and was sent"):
        comparer.compare(*sides(), np.arange(SAMPLES), is_lazy=True)


def test_memory_that_fails_between_pieces_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ref, cand = sides()
    where = Place(CHIP, piece_bytes=2 * LEAST_BYTES)
    comparer = placed_comparer(where)
    where.piece_bytes, real, calls = 200, Comparison.add, []
    monkeypatch.setattr(place, "LEAST_BYTES", 8)

    def add(self: Any, *args: Any) -> None:
        calls.append(len(args[0]))
        if len(calls) == 3:
            raise RefusedError(2)
        real(self, *args)

    monkeypatch.setattr(Comparison, "add", add)
    check(comparer, ref, cand)
    assert calls[:3] == [10, 10, 10]
    assert set(calls[3:]) == {5}


def test_a_first_batch_without_room_is_compared_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse_above(monkeypatch, 0, RefusedError(2))
    where = Place(CHIP)
    check(placed_comparer(where), *sides())
    assert where.notes == [
        "the GPU had no room for a first small batch; what followed was compared on the CPU"
    ]
    assert where.samples == {("s", "y"): {"cuda": 0, "cpu": SAMPLES}}


def test_what_is_idle_goes_before_a_first_batch_has_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where, real = Place(CHIP), DeviceComparer.begin
    check(placed_comparer(where), *sides())

    def begin(self: Any) -> Any:
        if where._held:
            raise RefusedError(2)
        return real(self)

    monkeypatch.setattr(DeviceComparer, "begin", begin)
    check(placed_comparer(where), *sides())
    assert where.notes == []


@pytest.mark.parametrize("code", [700, 999, 1])
def test_a_gpu_that_fails_is_no_verdict(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    comparer = placed_comparer(Place(CHIP))
    refuse_above(monkeypatch, 0, RefusedError(code))
    with pytest.raises(DeviceError, match="^") as raised:
        comparer.compare(*sides(), np.arange(SAMPLES), is_lazy=True)
    assert str(raised.value) == (
        f"stage 's', output 'y': the GPU (A) failed: [{code}] refused; nothing that it counted is "
        "used: run again, or with --compare-on cpu"
    )
    with pytest.raises(DeviceError, match="refused"):
        placed_comparer(Place(CHIP))


def test_a_lost_gpu_ends_a_run_without_a_verdict(
    packs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Comparison.finish, []

    def finish(self: Any) -> Any:
        calls.append(self)
        if len(calls) > 1:  # the first one is the batch that is known
            raise RefusedError(999)
        return real(self)

    monkeypatch.setattr(Comparison, "finish", finish)
    with pytest.raises(DeviceError, match="stage 'comparison', output 'y': the GPU .* failed"):
        compare(packs, "cuda")


Change = Callable[[Any, Any], tuple[Any, Any]]


@pytest.mark.parametrize(
    "change",
    [
        lambda tally, detail: (replace(tally, failing_elements=0), detail),
        lambda tally, detail: (replace(tally, samples=SAMPLES - 1), detail),
        lambda tally, detail: (replace(tally, classes=(0,) * 16), detail),
        lambda tally, detail: (tally, replace(detail, rows=detail.rows[::-1])),
        lambda tally, detail: (tally, replace(detail, rows=detail.rows + SAMPLES)),
        lambda tally, detail: (tally, replace(detail, counts=detail.counts * 2)),
        lambda tally, detail: (tally, replace(detail, samples=SAMPLES + 1)),
        lambda tally, detail: (
            replace(tally, failing_samples=0, rule_samples=(0,) * 5),
            replace(detail, bits=np.zeros_like(detail.bits)),
        ),
    ],
)
def test_counts_that_dont_add_up_are_no_verdict(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparer = placed_comparer(Place(CHIP))
    real = Comparison.finish
    monkeypatch.setattr(Comparison, "finish", lambda self: change(*real(self)))
    with pytest.raises(DeviceError, match="nothing that it counted is used"):
        comparer.compare(*sides(), np.arange(SAMPLES), is_lazy=True)
    with pytest.raises(DeviceError, match="the GPU counts wrong"):
        placed_comparer(Place(CHIP))


def test_kernels_that_never_ran_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def __getitem__(self, shape: Any) -> Any:
            return lambda *args: None

    comparer = placed_comparer(Place(CHIP))
    for module, kernel in ((scan, "scan"), (failing, "keep_failing")):
        with monkeypatch.context() as patch:
            patch.setattr(module, kernel, Silent())
            with pytest.raises(DeviceError, match="failed: it"):
                comparer.compare(*sides(), np.arange(SAMPLES), is_lazy=True)


def test_samples_without_elements_are_the_cpus() -> None:
    where = Place(CHIP)
    none = np.empty((4, 0), np.float32)
    found, _ = placed_comparer(where, width=0).compare(none, none, np.arange(4), is_lazy=True)
    assert (found.samples, found.empty_samples) == (4, 4)
    assert where.samples == {("s", "y"): {"cuda": 0, "cpu": 4}}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 3, 5000])
@pytest.mark.parametrize("nonfinite", ["fail", "match"])
def test_the_known_batch_has_failing_elements(dtype: str, width: int, nonfinite: Any) -> None:
    tolerance = Tolerance(1e300, 0.9, nonfinite=nonfinite)
    taken = min(width, 4096)
    ref, cand = canary.known_sides(3, taken, (dtype, dtype))
    host = ElementComparer(tolerance, dtype, dtype, (taken,), "gate")
    found, _ = host.compare(ref, cand, np.arange(3))
    assert found.failing_elements > 0


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (RefusedError(2), True),
        (RefusedError(700), False),
        (MemoryError(), True),
        (ValueError("2"), False),
        (Exception("CUDA_ERROR_OUT_OF_MEMORY: unable to allocate enough memory"), True),
        (Exception("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal address"), False),
    ],
)
def test_which_errors_are_of_memory(error: BaseException, is_memory: bool) -> None:
    assert is_out_of_memory(error) == is_memory
