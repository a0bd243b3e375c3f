"""Where a run compares: which GPU, how much of its memory, and what was compared there."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct, field

from paritygate.core.errors import DeviceError
from paritygate.core.tensors import CompareOn
from paritygate.gpu.driver import Chip, NoCudaError, find_chips

if TYPE_CHECKING:
    from paritygate.gpu.staging import Lane, Lanes

On = Literal["cpu", "cuda"]

PIECE_BYTES = 64 << 20  # of one side, compared at once
SENT_BYTES = 8 << 20  # of one side, copied to the device at once; more pieces overlap better
LEAST_BYTES = 1 << 16  # where less doesn't fit, nothing does
_SIMULATED = Chip("Numba's simulator", "none", 0, "", "none")
MEND = 'use --compare-on cpu (compare_on = "cpu" in the plan), or auto'


class Place(Struct):
    """A GPU that a run compares on; several threads share it.

    Attributes:
        chip: the GPU.
        piece_bytes: of one side, compared at once.
        smaller: (stage, output) -> the same of an output for which memory was too small.
        is_given_up: its memory was too small even for the smallest pieces.
        peak_bytes: the most memory that comparisons held on it at once.
        peak_pinned_bytes: the most pinned memory of the host that was held at once.
        notes: what was done otherwise than asked.
        samples: (stage, output) -> samples compared on each.
        decided: (stage, decision) -> samples decided on each.
        wanted: (stage, output) that are compared there; None: all of them, as was asked.
    """

    chip: Chip
    piece_bytes: int = PIECE_BYTES
    smaller: dict[tuple[str, str], int] = field(default_factory=dict)
    is_given_up: bool = False
    peak_bytes: int = 0
    peak_pinned_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    samples: dict[tuple[str, str], dict[On, int]] = field(default_factory=dict)
    decided: dict[tuple[str, str], dict[On, int]] = field(default_factory=dict)
    wanted: frozenset[tuple[str, str]] | None = None
    _held: int = 0
    _pinned: int = 0
    _lanes: Lanes | None = None
    _outer: Place | None = None
    _closing: list[Callable[[], int]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, stage: str, output: str, on: On, samples: int) -> None:
        """Samples of an output were compared there."""
        with self._lock:
            counts = self.samples.setdefault((stage, output), {"cuda": 0, "cpu": 0})
            counts[on] += samples

    def count_decided(self, stage: str, decision: str, on: On, samples: int) -> None:
        """Samples were decided there."""
        with self._lock:
            counts = self.decided.setdefault((stage, decision), {"cuda": 0, "cpu": 0})
            counts[on] += samples

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """A comparison that holds so many bytes of the device."""
        self.hold(size, 0)
        try:
            yield
        finally:
            self.hold(-size, 0)

    def hold(self, size: int, pinned: int) -> None:
        """Bytes of the device and of pinned memory are taken, or given back."""
        if self._outer is not None:
            self._outer.hold(size, pinned)
        with self._lock:
            self._held += size
            self._pinned += pinned
            self.peak_bytes = max(self.peak_bytes, self._held)
            self.peak_pinned_bytes = max(self.peak_pinned_bytes, self._pinned)

    @contextmanager
    def for_trials(self) -> Iterator[Place]:
        """The same GPU and what sends arrays there; of what else is done only its memory is told.

        That memory is given back at the end.
        """
        from paritygate.gpu.staging import give_back_freed

        tried = Place(self.chip, self.piece_bytes, _lanes=self._shared_lanes(), _outer=self)
        try:
            yield tried
        finally:
            for give_back in tried._closing:
                give_back()
            give_back_freed()

    @contextmanager
    def lane(self) -> Iterator[Lane]:
        """What sends arrays of the host to the device; of one thread, and kept for others."""
        with self._shared_lanes().lane() as lane:
            yield lane

    def _shared_lanes(self) -> Lanes:
        with self._lock:
            if self._lanes is None:
                from paritygate.gpu.staging import Lanes

                self._lanes = Lanes(self.hold, self.note)
            return self._lanes

    def at_close(self, give_back: Callable[[], int]) -> None:
        """What keeps memory there gives back what is idle when the run ends, and says how much."""
        with self._lock:
            self._closing.append(give_back)

    def drop_idle(self) -> int:
        """Give back what is kept there and nobody uses just now; bytes of the device."""
        with self._lock:
            kept, lanes = list(self._closing), self._lanes
        dropped = sum(give_back() for give_back in kept)
        return dropped if lanes is None else dropped + lanes.drop()

    def close(self) -> None:
        """Give back what was kept to send arrays and to count with."""
        for give_back in self._closing:
            give_back()
        if self._lanes is not None:
            self._lanes.close()

    def bytes_at_once(self, output: tuple[str, str] | None = None, *, is_sent: bool) -> int:
        """Of one side, compared at once; less where it is sent from the host.

        Args:
            output: stage and name; None: one for which memory wasn't too small.
            is_sent: from the host.
        """
        most = self.piece_bytes if output is None else self.smaller.get(output, self.piece_bytes)
        return min(most, SENT_BYTES) if is_sent else most

    def wants(self, stage: str, output: str) -> bool:
        """Whether an output is to be compared there."""
        return self.wanted is None or (stage, output) in self.wanted

    def note(self, text: str) -> None:
        """Something was done otherwise than asked; told once."""
        with self._lock:
            if text not in self.notes:
                self.notes.append(text)

    def give_up(self, why: str) -> None:
        """Compare on the CPU from now on."""
        with self._lock:
            if not self.is_given_up:
                self.is_given_up = True
                self.notes.append(f"the GPU {why}; what followed was compared on the CPU")

    def shrink(self, stage: str, output: str, tried: int) -> None:
        """The device's memory was too small for pieces of `tried` bytes a side of an output."""
        with self._lock:
            if tried > self.smaller.get((stage, output), tried):
                return  # another thread saw to it
            is_least = tried <= LEAST_BYTES
            if not is_least:
                half = self.smaller[stage, output] = max(LEAST_BYTES, tried // 2)
                self.notes.append(
                    f"stage {stage!r}, output {output!r}: the GPU had no room for pieces of "
                    f"{tried:,} bytes a side; from then on they were of at most {half:,}"
                )
        if is_least:
            self.give_up(f"had no room for pieces of {tried:,} bytes a side")

    def describe(self) -> dict[str, Any]:
        """What a summary says of it."""
        stages: dict[str, dict[str, Any]] = {}
        for (stage, output), counts in sorted(self.samples.items()):
            stages.setdefault(stage, {})[output] = dict(counts)
        decisions: dict[str, dict[str, Any]] = {}
        for (stage, decision), counts in sorted(self.decided.items()):
            decisions.setdefault(stage, {})[decision] = dict(counts)
        return {
            "device": {
                "name": self.chip.name,
                "compute_capability": self.chip.compute_capability,
                "driver": self.chip.driver,
                "cuda": self.chip.cuda,
                "memory_bytes": self.chip.memory_bytes,
            },
            "memory": {
                "piece_bytes": min([self.piece_bytes, *self.smaller.values()]),
                "peak_bytes": self.peak_bytes,
                "peak_pinned_bytes": self.peak_pinned_bytes,
            },
            "samples": stages,
            "decisions": decisions,
            "notes": list(self.notes),
        }


def describe_place(
    place: Place | None, notes: Sequence[str] = (), measured: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """What a summary says of where was compared; None: on the CPU, which notes may explain.

    Args:
        place: the GPU.
        notes: why the CPU compared.
        measured: how fast outputs of the host are compared on each; where is told as it was.
    """
    told = [{**one, "on": _compared_on(place, one["stage"], one["output"])} for one in measured]
    speeds = {"measured": told} if told else {}
    if place is None:
        return {"on": "cpu", **({"notes": list(notes)} if notes else {}), **speeds}
    return {"on": "cuda", **place.describe(), **speeds}


def _compared_on(place: Place | None, stage: str, output: str) -> On:
    counts = None if place is None else place.samples.get((stage, output))
    return "cuda" if counts and counts["cuda"] else "cpu"


def open_place(asked: CompareOn) -> Place | None:
    """The GPU that is asked for; None: the CPU compares.

    Raises:
        DeviceError: "cuda" was asked for, and nothing can be compared on a GPU here.
        ValueError: something else was asked for than there is.
    """
    if asked not in get_args(CompareOn):
        raise ValueError(
            f"compare_on: found {asked!r}, allowed are 'cpu', 'cuda' and 'auto'; None is as the "
            "plan says"
        )
    if asked != "cuda":
        return None
    try:
        return find_place()
    except DeviceError as e:
        raise DeviceError(f"--compare-on cuda: {e}; {MEND}") from None


def find_place() -> Place:
    """The first GPU.

    Raises:
        DeviceError: nothing can be compared on a GPU here.
    """
    if is_simulated():
        return Place(_SIMULATED)
    try:
        chips = find_chips()
    except NoCudaError as e:
        raise DeviceError(f"there is no GPU to compare on: {e}") from None
    if importlib.util.find_spec("numba_cuda") is None:
        raise DeviceError(
            "numba-cuda, which compiles for a GPU, isn't installed; install 'paritygate[gpu]'"
        )
    return Place(chips[0])


def is_simulated() -> bool:
    """Whether Numba was told to simulate a GPU."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
