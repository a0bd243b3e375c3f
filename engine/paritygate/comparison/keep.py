"""The failing samples that are kept whole: a bounded set with one total order.

Two orders are kept side by side, the worst by excess and the flips by margin; a shard is their
union. What is kept depends on the samples only, never on the order in which they are offered.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from paritygate.core.tensors import Array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class KeptRow(Struct, frozen=True):
    """One failing sample with the values of both sides.

    Attributes:
        ordinal: row over all golden files.
        values: scalar columns of the shard.
        tensors: `ref.<name>` and `cand.<name>`, one sample each, copied.
    """

    ordinal: int
    values: Mapping[str, object]
    tensors: Mapping[str, Array] = field(default_factory=dict)


def rank(primary: Floats, secondary: Floats, ordinals: Ints) -> Ints:
    """Order of rows: primary descending, secondary descending, ordinal ascending."""
    return np.lexsort((ordinals, -secondary, -primary)).astype(np.int64)


class KeepBest:
    """At most `limit` rows, the first ones by `rank`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._primary: Floats = np.empty(0)
        self._secondary: Floats = np.empty(0)
        self._ordinals: Ints = np.empty(0, np.int64)
        self._rows: list[KeptRow] = []

    @property
    def threshold(self) -> float:
        """A row with a smaller primary key can't enter; -inf while there is room."""
        full = len(self._rows) >= self.limit > 0
        return float(self._primary[-1]) if full else -np.inf

    def offer(
        self, primary: Floats, secondary: Floats, ordinals: Ints, rows: Mapping[int, KeptRow]
    ) -> None:
        """Offer rows by their keys; `rows` holds those that may enter, by ordinal."""
        if not len(ordinals) or not self.limit:
            return
        all_primary = np.concatenate([self._primary, primary])
        all_secondary = np.concatenate([self._secondary, secondary])
        all_ordinals = np.concatenate([self._ordinals, ordinals])
        order = rank(all_primary, all_secondary, all_ordinals)[: self.limit]
        ours = {row.ordinal: row for row in self._rows}
        self._rows = [ours[o] if o in ours else rows[o] for o in all_ordinals[order].tolist()]
        self._primary, self._secondary = all_primary[order], all_secondary[order]
        self._ordinals = all_ordinals[order]

    def rows(self) -> list[KeptRow]:
        """What is kept, best first."""
        return list(self._rows)
