"""Arrays of the host that are sent to a device, where there is one: the CPU's result, or none."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import cuda
from tests.gpu.deciding import check_sent, placed
from tests.gpu.dtypes import a_pair

from paritygate.comparison import canary
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.place import Place, find_place
from paritygate.comparison.placed import PlacedComparer
from paritygate.comparison.speeds import Trial
from paritygate.core.bands import parse_bands
from paritygate.core.errors import DeviceError
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.gpu import staging
from paritygate.gpu.staging import Buffer, Chunk, Lane

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device"),
]
NAMES = ("float32", "float32"), ("float64", "float64"), ("bfloat16", "bfloat16"), ("int4", "int4")
RULES: dict[str, dict[str, Any]] = {
    "bands": {"bands": parse_bands("a < 0 <= b <= 1 < c"), "elementwise": True},
    "argmax": {"argmax": True},
    "topk": {"topk": 3, "order": "ranked"},
}
ELEMENTS = 3_000_000
PIECE_BYTES = 1 << 20


@contextmanager
def a_place(piece_bytes: int = PIECE_BYTES) -> Iterator[Place]:
    """The GPU, whose memory is given back."""
    place = Place(find_place().chip, piece_bytes)
    yield place
    place.close()
    assert (place._held, place._pinned) == (0, 0)


def check(place: Place, names: tuple[str, str], width: int, seed: int, blocks: int = 1) -> None:
    """Blocks that are sent one after the other count what the CPU counts."""
    shape = ELEMENTS // width, width
    *_, tolerance = a_pair(np.random.default_rng(seed), names, shape)
    given: tuple[Any, ...] = tolerance, *names, (width,), "gate"
    comparer = PlacedComparer(place, "s", "y", *given)
    for block in range(blocks):
        ref, cand, _ = a_pair(np.random.default_rng((seed, block)), names, shape)
        ordinals = np.arange(len(ref))
        expected = ElementComparer(*given).compare(ref, cand, ordinals, is_lazy=False)
        found = comparer.compare(ref, cand, ordinals, is_lazy=True, in_order=True)
        assert canary.difference(found, expected) == ""
    assert place.samples["s", "y"]["cpu"] == 0


@pytest.mark.parametrize("names", NAMES, ids=lambda names: names[0])
@pytest.mark.parametrize("width", [1, 1000])
def test_pieces_that_are_sent_count_what_the_cpu_counts(names: Any, width: int) -> None:
    with a_place() as place:
        check(place, names, width, seed=width, blocks=3)
        assert place.peak_pinned_bytes > 0


def a_case(names: tuple[str, str], kind: str, width: int, seed: int) -> dict[str, Any]:
    """Samples of which some flip, with labels where a sample has one decision."""
    shape = ELEMENTS // width, width
    ref, cand, tolerance = a_pair(np.random.default_rng(seed), names, shape)
    cand[::97] = cand[::97, ::-1]
    rule = DecisionRule("d", "s", **RULES[kind])
    case = {"rule": rule, "tolerance": tolerance, "stats": "full", "labelled": kind != "bands"}
    return {**case, "ref": ref, "cand": cand}


@pytest.mark.parametrize("names", NAMES, ids=lambda names: names[0])
@pytest.mark.parametrize("width", [7, 1000])
@pytest.mark.parametrize("kind", RULES)
def test_pieces_that_are_sent_decide_what_the_cpu_decides(
    names: Any, width: int, kind: str
) -> None:
    with a_place() as place:
        case = a_case(names, kind, width, seed=width)
        both = placed(place, case)
        steps = np.random.default_rng(width).integers(1, 3, len(case["ref"]))
        for ordinals in (np.arange(len(case["ref"])), np.cumsum(steps)):
            check_sent(both, case, ordinals)
        assert place.decided["s", "d"] == {"cuda": 2 * len(case["ref"]), "cpu": 0}


def test_threads_that_send_at_once_decide_what_the_cpu_decides() -> None:
    with a_place() as place, ThreadPoolExecutor(4) as pool:
        cases = [a_case(NAMES[0], "topk", 100, seed) for seed in range(4)]
        cases = [{**case, "tolerance": cases[0]["tolerance"]} for case in cases]
        both = placed(place, cases[0])
        ordinals = np.arange(len(cases[0]["ref"]))
        work = [pool.submit(check_sent, both, case, ordinals) for case in cases * 3]
        for one in work:
            one.result()


def test_threads_that_send_at_once_count_what_the_cpu_counts() -> None:
    with a_place() as place, ThreadPoolExecutor(4) as pool:
        work = [pool.submit(check, place, NAMES[seed % 2], 10, seed, blocks=3) for seed in range(4)]
        for one in work:
            one.result()


def test_without_pinned_memory_the_same_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> Any:
        raise OSError("refused")

    monkeypatch.setattr(staging.cuda, "pinned_array", refuse)
    with a_place() as place:
        check(place, NAMES[0], 10, seed=1, blocks=3)
        assert place.peak_pinned_bytes == 0
        assert len(place.notes) == 1


@pytest.mark.parametrize(
    ("event", "method"),
    [
        ("copied", "synchronize"),
        ("copied", "record"),
        ("copied", "wait"),
        ("judged", "record"),
        ("judged", "wait"),
    ],
)
def test_a_forgotten_event_never_makes_a_wrong_result(
    event: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(real: Any, name: str) -> Any:
        methods = {
            each: (lambda *args: None) if (name, each) == (event, method) else getattr(real, each)
            for each in ("record", "wait", "synchronize")
        }
        return SimpleNamespace(**methods)

    def make_room(self: Any, size: int) -> None:
        real(self, size)
        if isinstance(self._buffers[0].judged, SimpleNamespace):
            return
        self._chunks = [Chunk(c.host, forgetful(c.copied, "copied")) for c in self._chunks]
        self._buffers = [Buffer(b.device, forgetful(b.judged, "judged")) for b in self._buffers]

    real = Lane._make_room
    with a_place() as place:
        given = Tolerance(1e-3, 1e-3), "float32", "float32", (10,), "gate"
        PlacedComparer(place, "s", "y", *given)  # a batch that is known, with all events
        monkeypatch.setattr(Lane, "_make_room", make_room)
        for seed in range(5):
            try:
                check(place, NAMES[0], 10, seed)
            except DeviceError as e:
                assert "isn't what was sent to it" in str(e) or "failed" in str(e)


def test_a_trial_says_how_fast_all_three_are() -> None:
    trial = Trial(Tolerance(1e-3, 1e-3), ("float32", "float32"), (1000,), "full", 2)
    with a_place() as place, place.for_trials() as tried:
        assert (trial.on_gpu(tried) or 0) > 0
        assert trial.sent(tried) > 0
        assert trial.on_cpu() > 0
