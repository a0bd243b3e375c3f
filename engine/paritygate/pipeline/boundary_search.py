"""Inputs on the two sides of a decision's edge that are as close to each other as can be.

A segment between two samples that are decided otherwise is cut into parts, again and again, until
no number of the dtype is left between its ends; then the coordinates in which they differ are
gone through, and the last one by steps of its dtype. What lies around is tried at random, seeded,
for ties and for what is nearer still.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from paritygate.core.tensors import Array
from paritygate.pipeline.boundary_eval import Decider, Reference, Sample, Seen

Limits = Mapping[str, tuple[Array, Array]]
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_ROUNDS = 8
_TRIED = 128


class Found(Struct):
    """What was met of one edge.

    Attributes:
        kept: how many of each kind.
        sides: decided like the first sample, or not -> (distance, sample), the nearest first.
        ties: samples exactly on the edge.
        asked: samples that were tried.
        is_adjacent: the two sides were brought as close as one step of one element.
    """

    kept: int
    sides: dict[bool, list[tuple[float, Sample]]] = field(
        default_factory=lambda: {True: [], False: []}
    )
    ties: list[Sample] = field(default_factory=list)
    asked: int = 0
    is_adjacent: bool = False
    _known: set[bytes] = field(default_factory=set)

    @property
    def has_distances(self) -> bool:
        """Whether how far a sample is from the edge is known; of free values it isn't."""
        return bool(self.ties) or any(d < math.inf for side in self.sides.values() for d, _ in side)

    def note(self, samples: Sequence[Sample], seen: Sequence[Seen], first: Hashable) -> None:
        """Keep what is near."""
        for sample, one in zip(samples, seen, strict=True):
            if one.key is None:
                continue
            key = _bytes(sample)
            if key in self._known:
                continue
            if one.margin == 0.0:
                if len(self.ties) < self.kept:
                    self.ties.append(sample)
                    self._known.add(key)
                continue
            side = self.sides[one.key == first]
            distance = one.margin if one.margin == one.margin else math.inf
            if len(side) < self.kept or distance < side[-1][0]:
                side.append((distance, sample))
                side.sort(key=lambda item: item[0])
                self._known.add(key)
                del side[self.kept :]


class Search(Struct):
    """A search for one edge.

    Attributes:
        reference: what is asked.
        decider: what is decided of its answers.
        limits: input -> smallest and largest value that each element may have.
        budget: samples that may be asked.
        rng: seeded.
    """

    reference: Reference
    decider: Decider
    limits: Limits
    budget: int
    rng: np.random.Generator

    def run(self, first: Sample, other: Sample, key: Hashable, kept: int) -> Found:
        """Search between two samples, of which the first alone is decided by `key`."""
        found = Found(kept)
        ask = self._asker(found, key)
        ask([first, other])
        ends = self._between(ask, first, other)
        ends = self._by_coordinates(ask, *ends)
        ends = self._by_steps(ask, found, *ends)
        if found.has_distances:
            self._around(ask, found, ends)
        else:
            found.sides = {True: [(math.inf, ends[0])], False: [(math.inf, ends[1])]}
        return found

    def _asker(self, found: Found, key: Hashable) -> Callable[[list[Sample]], list[bool | None]]:
        def ask(samples: list[Sample]) -> list[bool | None]:
            left = self.budget - found.asked
            some = samples[: max(0, left)]
            if not some:
                return [None] * len(samples)
            found.asked += len(some)
            seen = self.decider.decide(self.reference.answer(some))
            found.note(some, seen, key)
            told: list[bool | None] = [None if s.key is None else s.key == key for s in seen]
            return told + [None] * (len(samples) - len(some))

        return ask

    def _between(self, ask: Any, first: Sample, other: Sample) -> tuple[Sample, Sample]:
        low, high = 0.0, 1.0
        ends = first, other
        for _ in range(64):
            points = self.reference.at_once
            ts = [low + (high - low) * k / (points + 1) for k in range(1, points + 1)]
            ts = [t for t in ts if low < t < high]
            tried = [_blend(first, other, t) for t in ts]
            known = {_bytes(ends[0]), _bytes(ends[1])}
            if all(_bytes(sample) in known for sample in tried):
                break
            at = _first_change(ask(tried))
            if at is None:
                break
            before, after = at
            ends = (
                ends[0] if before < 0 else tried[before],
                ends[1] if after == len(tried) else tried[after],
            )
            low, high = (
                low if before < 0 else ts[before],
                high if after == len(tried) else ts[after],
            )
        return ends

    def _by_coordinates(self, ask: Any, low: Sample, high: Sample) -> tuple[Sample, Sample]:
        """Two samples between them that differ in one element."""
        places = _differing(low, high)

        def mixed(count: int) -> Sample:
            made = {name: np.array(array) for name, array in low.items()}
            for name, at in places[:count]:
                made[name].reshape(-1)[at] = high[name].reshape(-1)[at]
            return made

        start, stop = 0, len(places)
        while stop - start > 1:
            counts = _spread(start, stop, self.reference.at_once)
            at = _first_change(ask([mixed(count) for count in counts]))
            if at is None:
                break
            before, after = at
            start, stop = (
                start if before < 0 else counts[before],
                stop if after == len(counts) else counts[after],
            )
        return mixed(start), mixed(stop)

    def _by_steps(self, ask: Any, found: Found, low: Sample, high: Sample) -> tuple[Sample, Sample]:
        """Two samples between them whose elements are next to each other."""
        places = _differing(low, high)
        if len(places) != 1:
            return low, high
        (name, at), ends = places[0], [0, 0]
        if low[name].dtype.kind == "O":
            return low, high
        values = low[name].reshape(-1)[at], high[name].reshape(-1)[at]
        ends = [int(ordinals(np.asarray([v], low[name].dtype))[0]) for v in values]
        while abs(ends[1] - ends[0]) > 1:
            sign = 1 if ends[1] > ends[0] else -1
            some = [
                ends[0] + sign * n
                for n in _spread(0, abs(ends[1] - ends[0]), self.reference.at_once)
            ]
            at_change = _first_change(ask([_with(low, name, at, o) for o in some]))
            if at_change is None:
                break
            before, after = at_change
            ends = [
                ends[0] if before < 0 else some[before],
                ends[1] if after == len(some) else some[after],
            ]
        found.is_adjacent = abs(ends[1] - ends[0]) <= 1
        return _with(low, name, at, ends[0]), _with(low, name, at, ends[1])

    def _around(self, ask: Any, found: Found, ends: tuple[Sample, Sample]) -> None:
        """Samples some steps of some elements away, for ties and for what is nearer."""
        floats = [
            (name, at)
            for name, array in ends[0].items()
            if array.dtype.kind not in "OUTbiu" and name in self.limits
            for at in range(array.size)
        ]
        if not floats:
            return
        for turn in range(_ROUNDS):
            if found.asked >= self.budget or _is_full(found):
                return
            nearest = [side[0][1] for side in found.sides.values() if side]
            centres = [*ends, *found.ties[:1], *nearest]
            tried = [
                self._moved(centres[int(self.rng.integers(len(centres)))], floats, turn)
                for _ in range(_TRIED)
            ]
            ask(tried)

    def _moved(self, centre: Sample, floats: Sequence[tuple[str, int]], turn: int) -> Sample:
        made = {name: np.array(array) for name, array in centre.items()}
        count = int(self.rng.integers(1, 1 + min(8, len(floats))))
        for pick in self.rng.integers(len(floats), size=count):
            name, at = floats[int(pick)]
            steps = int(self.rng.integers(1, 2 + 2**turn)) * (1 if self.rng.random() < 0.5 else -1)
            flat = made[name].reshape(-1)
            low, high = (bound.reshape(-1)[at] for bound in self.limits[name])
            least, most = (int(ordinals(np.asarray([b], flat.dtype))[0]) for b in (low, high))
            moved = min(max(int(ordinals(flat[at : at + 1])[0]) + steps, least), most)
            flat[at] = from_ordinal(moved, flat.dtype)
        return made


def ordinals(values: npt.NDArray[Any]) -> list[int]:
    """Places of numbers in the order of their dtype, neighbours one apart; both zeros are 0."""
    if values.dtype == np.bool_ or values.dtype.kind in "iu" or values.dtype.name.endswith("int4"):
        return [int(v) for v in values.tolist()]
    size = 8 * values.dtype.itemsize
    bits = values.view(_UNSIGNED[values.dtype.itemsize]).tolist()
    sign = 1 << (size - 1)
    return [-(b - sign) if b & sign else b for b in bits]


def from_ordinal(ordinal: int, dtype: np.dtype[Any]) -> Any:
    """The number at a place."""
    if dtype == np.bool_ or dtype.kind in "iu" or dtype.name.endswith("int4"):
        return np.array(ordinal).astype(dtype)[()]
    size = 8 * dtype.itemsize
    bits = ordinal if ordinal >= 0 else -ordinal | (1 << (size - 1))
    return np.array([bits], _UNSIGNED[dtype.itemsize]).view(dtype)[0]


def _with(sample: Sample, name: str, at: int, ordinal: int) -> Sample:
    made = {other: np.array(array) for other, array in sample.items()}
    made[name].reshape(-1)[at] = from_ordinal(ordinal, made[name].dtype)
    return made


def _is_full(found: Found) -> bool:
    return len(found.ties) >= found.kept and all(
        len(side) >= found.kept for side in found.sides.values()
    )


def _spread(start: int, stop: int, most: int) -> list[int]:
    """Whole numbers strictly between, at most so many, evenly."""
    inner = stop - start - 1
    count = min(most, inner)
    return sorted({start + 1 + (inner * k) // count for k in range(count)}) if count > 0 else []


def _first_change(told: Sequence[bool | None]) -> tuple[int, int] | None:
    """Neighbours among what was told, the ends included, where the decision changes.

    Index -1 is the first end, `len(told)` the other; None: nothing was told.
    """
    known = [(at, side) for at, side in enumerate(told) if side is not None]
    if not known:
        return None
    before = -1
    for at, side in known:
        if not side:
            return before, at
        before = at
    return before, len(told)


def _blend(first: Sample, other: Sample, t: float) -> Sample:
    """A point of the segment, in the dtypes of its ends; what can't be mixed changes halfway."""
    made = {}
    for name, low in first.items():
        high = other[name]
        if low.dtype.kind in "OUT" or low.dtype == np.bool_:
            made[name] = np.array(low if t < 0.5 else high)
            continue
        ends = low.astype(np.float64), high.astype(np.float64)
        wide = ends[0] * (1 - t) + ends[1] * t
        if low.dtype.kind in "iu" or low.dtype.name.endswith("int4"):
            wide = np.rint(wide)
        wide = np.clip(wide, np.minimum(*ends), np.maximum(*ends))
        made[name] = np.where(low == high, low, wide.astype(low.dtype))
    return made


def _differing(low: Sample, high: Sample) -> list[tuple[str, int]]:
    return [
        (name, int(at))
        for name, array in low.items()
        for at in np.flatnonzero(
            np.asarray(array.reshape(-1) != high[name].reshape(-1), np.bool_)
        ).tolist()
    ]


def _bytes(sample: Sample) -> bytes:
    parts = (
        repr(array.tolist()).encode() if array.dtype.kind in "OUT" else array.tobytes()
        for array in sample.values()
    )
    return b"\0".join(parts)
