"""Arrays of the host on their way to a device: in order, whole, and given back, or noticed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import cuda
from tests.kernels.test_checksum import naive_sum

from paritygate.comparison.sending import sent
from paritygate.core.errors import DeviceError
from paritygate.gpu import checksum, staging
from paritygate.gpu.proof import Checksums, stamp_of
from paritygate.gpu.staging import BUFFERS, CHUNK_BYTES, CHUNKS, Lane, Lanes

HOST, KERNELS, COPIES = range(3)


class Held:
    """What a lane says that it holds, and what it notes."""

    def __init__(self) -> None:
        self.device = self.pinned = 0
        self.notes: list[str] = []

    def ask(self, device: int, pinned: int) -> None:
        self.device += device
        self.pinned += pinned

    def lane(self) -> Lane:
        return Lane(self.ask, self.notes.append)

    def lanes(self) -> Lanes:
        return Lanes(self.ask, self.notes.append)


def a_piece(seed: int, rows: int = 3) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(rows, 5)).astype(np.float32), rng.integers(0, 9, (rows, 7), np.uint8)]


def send(lane: Lane, piece: list[Any]) -> list[Any]:
    """What a kernel would find of a piece."""
    arrays, told = lane.send(piece)
    found = [array.copy_to_host() for array in arrays]
    lane.judged(told)
    return found


def test_pieces_arrive_as_they_were() -> None:
    held = Held()
    lane = held.lane()
    for seed, rows in enumerate([3, 1, 5000, 2, 2, 4999]):
        piece = a_piece(seed, rows)
        for ours, theirs in zip(piece, send(lane, piece), strict=True):
            np.testing.assert_array_equal(theirs, ours)
            assert theirs.dtype == ours.dtype
    lane.check()
    assert (held.device, held.pinned) == (BUFFERS << 18, CHUNKS << 18)
    lane.close()
    assert (held.device, held.pinned, held.notes) == (0, 0, [])


def test_sums_on_the_device_are_those_of_all_words() -> None:
    sums, words = Checksums(2), np.random.default_rng(1).integers(0, 2**64, 37, np.uint64)
    lying = cuda.to_device(words)
    for serial in range(3):
        sums.add(1, lying, stamp_of(serial), naive_sum(words.tobytes(), 0))
        assert sums.agree()
    sums.add(0, lying[:0], stamp_of(3), 0)
    assert sums.agree()
    sums.add(0, lying, stamp_of(4), naive_sum(words.tobytes(), 0) + 1)
    assert not sums.agree()
    assert len({stamp_of(serial) for serial in range(1000)}) == 1000
    assert all(stamp_of(serial) % 2 and 0 < stamp_of(serial) < 2**63 for serial in range(1000))


def test_pieces_that_change_places_are_noticed() -> None:
    words = np.random.default_rng(1).integers(0, 2**64, (2, 9), np.uint64)
    totals = [naive_sum(row.tobytes(), 0) for row in words]
    lane = Held().lane()
    stamps = [lane.send(a_piece(seed))[1].stamp for seed in range(2)]
    for order in ((0, 1), (1, 0)):
        sums = Checksums(1)
        for k, at in enumerate(order):
            sums.add(0, cuda.to_device(words[at]), stamps[k], totals[k])
        assert sums.agree() == (order == (0, 1))


def test_an_array_of_many_chunks_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CHUNK_BYTES", 1 << 9)
    held = Held()
    lane = held.lane()
    for seed in range(5):
        piece = a_piece(seed, 500 + seed)
        for ours, theirs in zip(piece, send(lane, piece), strict=True):
            np.testing.assert_array_equal(theirs, ours)
    lane.check()
    assert (held.device, held.pinned) == (BUFFERS << 16, CHUNKS << 9)
    assert CHUNK_BYTES % staging._ALIGNED == 0


def test_arrays_that_just_fit_and_just_dont() -> None:
    held = Held()
    lane = held.lane()
    for size, room in ((1 << 16, 1 << 16), ((1 << 16) + 1, 1 << 17), (1 << 17, 1 << 17)):
        array = np.arange(size, dtype=np.uint32).astype(np.uint8)
        np.testing.assert_array_equal(send(lane, [array])[0], array)
        assert held.device == BUFFERS * room
    lane.check()


Fault = Callable[[pytest.MonkeyPatch], None]


def swapped(patch: pytest.MonkeyPatch) -> None:
    """Two buffers of the device have each other's pieces."""
    real = Lane._carry

    def carry(self: Any, array: Any, device: Any, start: int) -> int:
        one, two = (buffer.device for buffer in self._buffers)
        other = two if np.shares_memory(device._ary, one._ary) else one
        return real(self, array, other[start : start + device.size], start)

    patch.setattr(Lane, "_carry", carry)


def left_out(patch: pytest.MonkeyPatch) -> None:
    real, calls = Lane._copy, []

    def copy(self: Any, chunk: Any, source: Any, into: Any) -> None:
        calls.append(into.size)
        if len(calls) != 7:
            real(self, chunk, source, into)

    patch.setattr(Lane, "_copy", copy)


def cut_short(patch: pytest.MonkeyPatch) -> None:
    real = Lane._copy

    def copy(self: Any, chunk: Any, source: Any, into: Any) -> None:
        real(self, chunk, source[:-248], into[:-248])

    patch.setattr(Lane, "_copy", copy)


def late(patch: pytest.MonkeyPatch) -> None:
    """Copies that are made later than the kernels are launched."""
    real, waiting = Lane._copy, []

    def copy(self: Any, *given: Any) -> None:
        waiting.append(given)
        if len(waiting) > 1:
            real(self, *waiting.pop(0))

    patch.setattr(Lane, "_copy", copy)


def filled_too_early(patch: pytest.MonkeyPatch) -> None:
    """The next chunk is written over one that is being copied."""
    real = Lane._copy

    def copy(self: Any, chunk: Any, source: Any, into: Any) -> None:
        source[8:16] += 1
        real(self, chunk, source, into)

    patch.setattr(Lane, "_copy", copy)


def copied_too_early(patch: pytest.MonkeyPatch) -> None:
    """The next piece is copied over one that is being judged."""
    real = Lane.judged

    def judged(self: Any, told: Any) -> None:
        told.buffer.device[8:16].copy_to_device(np.full(8, 3, np.uint8))
        real(self, told)

    patch.setattr(Lane, "judged", judged)


def come_late(patch: pytest.MonkeyPatch) -> None:
    """A piece comes when it has been judged, and what was there before was."""
    real, judged, waiting = Lane._copy, Lane.judged, []

    def copy(self: Any, *given: Any) -> None:
        if waiting:
            real(self, *waiting.pop())
        waiting.append(given)

    def copy_and_judge(self: Any, told: Any) -> None:
        real(self, *waiting.pop())
        judged(self, told)

    patch.setattr(Lane, "_copy", copy)
    patch.setattr(Lane, "judged", copy_and_judge)


def unsummed(patch: pytest.MonkeyPatch) -> None:
    """The kernel that adds up never runs."""

    class Silent:
        def __getitem__(self, shape: Any) -> Any:
            return lambda *args: None

    patch.setattr(checksum, "add_words", Silent())


FAULTS = [
    swapped, left_out, cut_short, late, come_late, filled_too_early, copied_too_early, unsummed,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_what_isnt_what_was_sent_is_no_result(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = Held().lane()
    fault(monkeypatch)
    for seed in range(4):
        send(lane, a_piece(seed))
    with pytest.raises(DeviceError, match="what it judged isn't what was sent to it"):
        lane.check()


def test_zeros_that_are_never_copied_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    lane, zeros = Held().lane(), [np.zeros((3, 5)), np.zeros((3, 5))]
    unsummed(monkeypatch)
    send(lane, zeros)
    with pytest.raises(DeviceError):
        lane.check()


class Order:
    """What happens before what: of the host, of kernels and of copies, by clocks that events pass.

    Two accesses of a buffer, one of which writes, race unless one is known to come first.
    """

    def __init__(self, forgotten: tuple[str, str] | None = None) -> None:
        self.clocks = [np.zeros(3, int) for _ in range(3)]
        self.accesses: dict[int, list[tuple[int, int, bool]]] = {}
        self.forgotten, self.events, self.races = forgotten, 0, 0

    def learn(self, who: int, clock: Any) -> None:
        np.maximum(self.clocks[who], clock, out=self.clocks[who])

    def do(self, who: int, **buffers: Any) -> None:
        self.learn(who, self.clocks[HOST])  # what the host orders is done later
        self.clocks[who][who] += 1
        for is_write, buffer in ((name == "writes", at) for name, at in buffers.items()):
            seen = self.accesses.setdefault(buffer, [])
            self.races += sum(
                (is_write or wrote) and self.clocks[who][other] < time
                for other, time, wrote in seen
            )
            seen.append((who, int(self.clocks[who][who]), is_write))

    def event(self) -> Any:
        role = "copied" if self.events % (CHUNKS + BUFFERS) < CHUNKS else "judged"
        self.events += 1
        at = np.zeros(3, int)

        def record(stream: Any = 0) -> None:
            if self.forgotten != (role, "record"):
                who = COPIES if stream else KERNELS
                self.learn(who, self.clocks[HOST])
                at[:] = self.clocks[who]

        def wait(stream: Any = 0) -> None:
            if self.forgotten != (role, "wait"):
                self.learn(COPIES if stream else KERNELS, at)

        def synchronize() -> None:
            if self.forgotten != (role, "synchronize"):
                self.learn(HOST, at)

        return SimpleNamespace(record=record, wait=wait, synchronize=synchronize)


@pytest.fixture
def order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Order:
    """A lane's streams and buffers, watched; an event may be forgotten."""
    monkeypatch.setattr(staging, "CHUNK_BYTES", 256)  # an array each, or less
    watched = Order(getattr(request, "param", None))
    numbers: dict[int, tuple[int, Any]] = {}

    def number(array: Any) -> int:
        while array.base is not None:
            array = array.base
        return numbers.setdefault(id(array), (len(numbers), array))[0]

    class OnDevice:
        def __init__(self, array: Any) -> None:
            self.array, self.size = array, array.size

        def __getitem__(self, rows: slice) -> OnDevice:
            return OnDevice(self.array[rows])

        def view(self, dtype: Any) -> OnDevice:
            return OnDevice(self.array.view(dtype))

        def reshape(self, shape: Any) -> OnDevice:
            return OnDevice(self.array.reshape(shape))

        def copy_to_device(self, source: Any, stream: Any = 0) -> None:
            watched.do(
                COPIES if stream else KERNELS, reads=number(source), writes=number(self.array)
            )

    class Sums:
        def __init__(self, rows: int) -> None:
            pass

        def add(self, row: int, words: Any, *given: Any) -> None:
            watched.do(KERNELS, reads=number(words.array))

    stand_in = SimpleNamespace(
        stream=lambda: SimpleNamespace(
            synchronize=lambda: watched.learn(HOST, watched.clocks[COPIES])
        ),
        synchronize=lambda: watched.learn(HOST, np.max(watched.clocks, axis=0)),
        event=watched.event,
        device_array=lambda size, dtype: OnDevice(np.empty(size, dtype)),
        pinned_array=np.empty,
    )
    real = staging.copy_summed

    def fill(source: Any, into: Any, words: Any, first: int) -> int:
        watched.do(HOST, writes=number(into))
        return real(source, into, words, first)

    monkeypatch.setattr(staging, "cuda", stand_in)
    monkeypatch.setattr(staging, "Checksums", Sums)
    monkeypatch.setattr(staging, "copy_summed", fill)
    return watched


def send_all(lane: Lane, pieces: int = 6) -> None:
    for seed in range(pieces):
        lane.judged(lane.send(a_piece(seed))[1])


def test_no_buffer_is_written_while_it_is_read(order: Order) -> None:
    send_all(Held().lane())
    assert order.races == 0
    assert len(order.accesses) == BUFFERS + CHUNKS


def test_pieces_that_grow_wait_for_those_on_their_way(order: Order) -> None:
    lane = Held().lane()
    for rows in (3, 3000, 3, 30_000, 3):
        lane.judged(lane.send(a_piece(0, rows))[1])
    assert order.races == 0


@pytest.mark.parametrize(
    "order",
    [
        ("copied", "synchronize"),
        ("copied", "record"),
        ("copied", "wait"),
        ("judged", "record"),
        ("judged", "wait"),
    ],
    indirect=True,
    ids="-".join,
)
def test_every_event_is_needed(order: Order) -> None:
    send_all(Held().lane())
    assert order.races > 0


def test_without_pinned_memory_pieces_are_copied_as_kernels_are_launched(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(staging.cuda, "pinned_array", refuse)
    send_all(Held().lane())
    assert order.clocks[COPIES][COPIES] == 0
    assert order.clocks[KERNELS][KERNELS] > 0


def test_a_piece_is_judged_before_the_next_is_asked_for() -> None:
    told: list[Any] = []

    class Told:
        def send(self, arrays: Any) -> Any:
            told.append(["send", *(array.dtype.name for array in arrays)])
            return arrays, len(told)

        def judged(self, sent: int) -> None:
            told.append(["judged", sent])

    halves, singles = np.ones((3, 2), np.float16), np.ones((3, 2), np.float32)
    there = cuda.to_device(halves)
    parts: list[tuple[Any, ...]] = [
        (slice(k, k + 1), halves[k : k + 1], singles[k : k + 1]) for k in range(2)
    ]
    parts += [(slice(2, 3), there[2:], singles[2:]), (slice(0, 1), there[:1], there[:1])]
    labels = np.arange(3)
    parts += [(slice(1, 2), there[1:2], singles[1:2], labels[1:2])]
    dtypes = np.dtype(np.float16), np.dtype(np.float32), labels.dtype
    lane: Any = Told()
    for rows, _, _, *_ in sent(lane, parts, dtypes):
        told.append(rows.start)
    assert told == [
        *(["send", "uint16", "float32"], 0, ["judged", 1]),
        *(["send", "uint16", "float32"], 1, ["judged", 4]),
        *(["send", "float32"], 2, ["judged", 7]),
        0,
        *(["send", "float32", "int64"], 1, ["judged", 11]),
    ]


def test_pinned_memory_that_is_refused_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    held, given = Held(), []
    real = cuda.pinned_array

    def refuse_the_second(*args: Any) -> Any:
        given.append(args)
        if len(given) == 2:
            raise OSError("no more")
        return real(*args)

    monkeypatch.setattr(cuda, "pinned_array", refuse_the_second)
    lane = held.lane()
    for seed in range(3):
        for ours, theirs in zip(a_piece(seed), send(lane, a_piece(seed)), strict=True):
            np.testing.assert_array_equal(theirs, ours)
    lane.check()
    assert (held.device, held.pinned) == (BUFFERS << 16, 0)
    (note,) = held.notes
    assert note == (
        "there was no pinned memory of 3 x 65,536 bytes (no more); outputs were copied to the GPU "
        "without it, one piece after the other"
    )


def test_without_room_for_the_second_buffer_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    held, given = Held(), []
    real = cuda.device_array

    def refuse_the_second(*args: Any) -> Any:
        given.append(args)
        if len(given) == 2:
            raise MemoryError
        return real(*args)

    lane = held.lane()
    monkeypatch.setattr(cuda, "device_array", refuse_the_second)
    with pytest.raises(MemoryError):
        lane.send(a_piece(0))
    assert (held.device, held.pinned) == (0, 0)
    send(lane, a_piece(1))
    lane.check()
    assert held.device == BUFFERS << 16


def test_threads_have_lanes_of_their_own_which_are_used_again() -> None:
    held = Held()
    lanes = held.lanes()
    with lanes.lane() as one, lanes.lane() as two:
        assert one is not two
        both = {one, two}
    used = []

    def take() -> None:
        with lanes.lane() as lane:
            used.append(lane)
            send(lane, a_piece(1))

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    take()
    assert set(used) <= both
    assert held.device > 0
    with lanes.lane() as one, lanes.lane() as two:
        assert one is not two
    lanes.close()
    assert (held.device, held.pinned) == (0, 0)


def test_a_lane_that_an_error_left_isnt_used_again() -> None:
    held = Held()
    lanes = held.lanes()
    lost = []

    def die() -> None:
        with lanes.lane() as lane:
            lost.append(lane)
            lane.send(a_piece(0))  # and never judged
            raise KeyError

    with pytest.raises(KeyError):
        die()
    assert (held.device, held.pinned) == (0, 0)
    with lanes.lane() as other:
        assert other is not lost[0]
        send(other, a_piece(1))
        other.check()


def test_a_device_that_is_lost_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*args: Any) -> Any:
        raise RuntimeError("a device was lost")

    held = Held()
    lanes = held.lanes()

    def die() -> None:
        with lanes.lane() as lane:
            send(lane, a_piece(0))
            monkeypatch.setattr(lane._stream, "synchronize", lost)
            monkeypatch.setattr(cuda, "synchronize", lost)
            raise KeyError

    with pytest.raises(KeyError):
        die()
    assert (held.device, held.pinned) == (0, 0)


def test_a_lane_in_use_while_all_are_closed_gives_back_what_it_has() -> None:
    held = Held()
    lanes = held.lanes()
    with lanes.lane() as lane:
        lanes.close()
        send(lane, a_piece(1))
        lane.check()
        assert held.device > 0
    assert (held.device, held.pinned) == (0, 0)


def test_a_lane_of_a_thread_without_a_context_gives_back_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise RuntimeError("there is no context")

    held = Held()
    lanes = held.lanes()
    with lanes.lane() as lane:
        send(lane, a_piece(1))
    assert held.device > 0
    monkeypatch.setattr(cuda, "current_context", refuse)
    with pytest.raises(RuntimeError, match="there is no context"), lanes.lane():
        pass
    assert (held.device, held.pinned) == (0, 0)


def test_what_was_freed_goes_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    context = SimpleNamespace(deallocations=SimpleNamespace(clear=lambda: done.append("cleared")))
    monkeypatch.setattr(staging, "SIMULATED", False)
    monkeypatch.setattr(staging, "cuda", SimpleNamespace(current_context=lambda: context))
    staging.give_back_freed()
    assert done == ["cleared"]
    monkeypatch.setattr(staging, "cuda", SimpleNamespace())  # as of a device that is lost
    staging.give_back_freed()
