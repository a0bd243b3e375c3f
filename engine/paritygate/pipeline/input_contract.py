"""The contract of one input, checked per sample: bounds, and finite numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.core.dtypes import INTEGERS, is_float, is_string, limits_of, widened, worked_in
from paritygate.core.tensors import Array
from paritygate.core.violation import Violation
from paritygate.kernels.contract import count_violations, first_bad_tile

Counts = npt.NDArray[np.int64]
Bound = int | float

_TILE = 8_192  # elements of which bounds are laid out side by side
_LEAST_TILE = 1_024
_RUN = 8_192
_MOST_TILES, _LARGE_TILE = 64, 1 << 16


@dataclass(frozen=True)
class InputContract:
    """What a sample's input must satisfy.

    Attributes:
        name: input.
        dtype: of its elements.
        pairs: bounds as the plan writes them, of every channel or one that holds for all; none
            where there are none.
        low, high: `(channels,)` the same in the dtype that is worked in, as kernels take them;
            without bounds the smallest and the largest finite number.
        axis: of a sample, on which the channels are; None: there are none.
        channels, units: names, as far as the plan says them.
    """

    name: str
    dtype: str
    pairs: tuple[tuple[Bound, Bound], ...]
    low: Array
    high: Array
    axis: int | None
    channels: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    _tiles: dict[tuple[str, int, int], tuple[Any, Any]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def asks_nothing(self) -> bool:
        """Whether any value of the dtype is allowed."""
        return not is_float(self.dtype) and not self.pairs

    def check(self, array: Array) -> Broken | None:
        """Which samples of `(n, *shape)` break the contract; None: none does."""
        if self.asks_nothing or not array.size:
            return None
        values = np.ascontiguousarray(_worked(array)).reshape(-1)
        inner = self._inner(array.shape[1:])
        bad = self._first_bad(values, inner)
        if bad < 0:
            return None
        width = values.size // len(array)
        start = bad // width
        first: Counts = np.full(len(array), -1, np.int64)
        count: Counts = np.zeros(len(array), np.int64)
        values, found = values[start * width :], (first[start:], count[start:])
        count_violations(values, width, inner, self.low, self.high, *found)
        rows = np.flatnonzero(count)
        return Broken(rows, first[rows], count[rows])

    def violations(self, array: Array) -> npt.NDArray[np.bool_]:
        """`(n,)` whether a sample of `(n, *shape)` breaks the contract."""
        found = self.check(array)
        bad: npt.NDArray[np.bool_] = np.zeros(len(array), np.bool_)
        if found is not None:
            bad[found.rows] = True
        return bad

    def describe(self, sample: Array, index: int, count: int) -> Violation:
        """The first element of one sample that breaks the contract."""
        found = sample.reshape(-1)[index]
        value = float(found) if is_float(self.dtype) else int(found)
        channels = 1 if self.axis is None else sample.shape[self.axis]
        channel = index // self._inner(sample.shape) % channels
        low, high = self.pairs[channel % len(self.pairs)] if self.pairs else (-math.inf, math.inf)
        of_all = self.units[0] if len(self.units) == 1 else None
        return Violation(
            code="contract.range" if math.isfinite(value) else "contract.missing",
            input=self.name,
            index=index,
            value=value,
            low=low,
            high=high,
            failing_elements=count,
            channel=self.channels[channel] if self.channels else None,
            unit=self.units[channel] if len(self.units) > 1 else of_all,
            place=tuple(int(i) for i in np.unravel_index(index, sample.shape)),
            text=str(found),
        )

    def _inner(self, shape: tuple[int, ...]) -> int:
        """Elements behind the channel axis."""
        return math.prod(shape[self.axis + 1 :]) if self.axis is not None else 1

    def _first_bad(self, values: Array, inner: int) -> int:
        """Index of an element at or before the first bad one, not far from it; -1: all are good."""
        if len(self.low) == 1:
            return first_bad_tile(values, *self._tile(1, values.size))
        period = len(self.low) * inner
        if period <= _TILE or inner < _RUN:
            return first_bad_tile(values, *self._tile(inner, values.size))
        for at in range(0, values.size, inner):
            channel = at // inner % len(self.low)
            bad = first_bad_tile(values[at : at + inner], *self._tile_of(channel))
            if bad >= 0:
                return at + bad
        return -1

    def _tile(self, inner: int, total: int) -> tuple[Any, Any]:
        """Bounds of every element of whole samples, or of as many elements where all are alike."""
        times = max(1, min(_LEAST_TILE, total) // (len(self.low) * inner))
        return self._laid_out(("all", inner, times), lambda b: np.tile(np.repeat(b, inner), times))

    def _tile_of(self, channel: int) -> tuple[Any, Any]:
        return self._laid_out(("one", channel, 1), lambda b: np.full(_LEAST_TILE, b[channel]))

    def _laid_out(self, key: tuple[str, int, int], lay: Callable[[Any], Any]) -> tuple[Any, Any]:
        tile = self._tiles.get(key)
        if tile is None:
            tile = lay(self.low), lay(self.high)
            # There may be as many as there are lengths of samples.
            if len(self._tiles) >= _MOST_TILES or len(tile[0]) > _LARGE_TILE:
                self._tiles.clear()
            self._tiles[key] = tile
        return tile


class Broken(Struct, frozen=True):
    """Samples that break a contract: `(k,)` rows, first bad element, number of bad ones."""

    rows: Counts
    first: Counts
    count: Counts

    def each(self) -> Iterator[tuple[int, int, int]]:
        """Row, first and count of each."""
        return zip(self.rows.tolist(), self.first.tolist(), self.count.tolist(), strict=True)


def bounds_of(
    pairs: Sequence[tuple[Bound, Bound]], dtype: str
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """`(channels,)` bounds as the dtype can hold them: the same finite numbers lie between them.

    Without pairs, the smallest and the largest finite number. Of a range in which the dtype has no
    number the lower bound is above the upper one.
    """
    within = [_within(*pair, dtype) for pair in pairs or [(-math.inf, math.inf)]]
    low, high = (np.array(bounds, _worked_dtype(dtype)) for bounds in zip(*within, strict=True))
    return low, high


def _worked(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.view(np.uint8) if array.dtype == np.bool_ else widened(array)


def _worked_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype(np.uint8) if dtype == "bool" or is_string(dtype) else worked_in(dtype)


def _within(low: float, high: float, dtype: str) -> tuple[Any, Any]:
    if is_float(dtype):
        kind = _worked_dtype(dtype).type
        return _at_least(low, kind), _at_most(high, kind)
    least, most = limits_of(dtype) if dtype in INTEGERS else (0, 1)
    first = least if low == -math.inf else max(math.ceil(low), least)
    last = most if high == math.inf else min(math.floor(high), most)
    return (first, last) if first <= last else (most, least)


def _at_least(bound: float, kind: Any) -> Any:
    """The smallest finite number of a float dtype that isn't below; inf where there is none."""
    with np.errstate(over="ignore"):
        nearest = kind(_as_float(bound))
    if nearest == -np.inf or float(nearest) < bound:
        return np.nextafter(nearest, kind(np.inf))
    return nearest


def _at_most(bound: float, kind: Any) -> Any:
    """The largest finite number of a float dtype that isn't above; -inf where there is none."""
    return -_at_least(-bound, kind)


def _as_float(bound: float) -> float:
    """The nearest float64, or an infinity of an integer beyond all of them."""
    try:
        return float(bound)
    except OverflowError:
        return math.inf if bound > 0 else -math.inf
