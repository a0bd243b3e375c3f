"""Samples of a block by the shapes of both sides: each group is judged as plain arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from paritygate.comparison.rows import Ints, Mask
from paritygate.core.ragged import Ragged, Tensor, shape_of, stack_rows
from paritygate.gpu.tensor import DeviceTensor, fetch, on_host


class Group(Struct, frozen=True):
    """Samples of one shape on each side.

    Attributes:
        rows: their places in the block, ascending; None: all of its samples.
        ref: `(n, *shape)` of the reference.
        cand: `(n, *shape)` of the candidate, which may be another shape.
    """

    rows: Ints | None
    ref: Any
    cand: Any

    def on_host(self) -> Group:
        """The same, of copies of what lies on a GPU."""
        if isinstance(self.ref, DeviceTensor) or isinstance(self.cand, DeviceTensor):
            return Group(self.rows, on_host(self.ref), on_host(self.cand))
        return self

    def fetch(self, rows: Ints) -> None:
        """Bring some samples of both sides to the host."""
        fetch(self.ref, rows)
        fetch(self.cand, rows)

    @property
    def samples(self) -> int:
        """Samples in it."""
        return len(self.ref)

    def of(self, values: Any) -> Any:
        """What belongs to these samples of `(samples of the block,)` values."""
        return values if self.rows is None else values[self.rows]

    def mask(self, count: int) -> Mask:
        """`(count,)` which samples of the block these are."""
        chosen: Mask = np.full(count, self.rows is None, np.bool_)
        if self.rows is not None:
            chosen[self.rows] = True
        return chosen

    def all_rows(self) -> Ints:
        """Places of these samples in the block, ascending."""
        return np.arange(self.samples) if self.rows is None else self.rows


def groups_of(ref: Tensor, cand: Tensor, both: Mask | None) -> Iterator[Group]:
    """The samples that both sides answered, None: all, in groups by order of first appearance."""
    if not isinstance(ref, Ragged) and not isinstance(cand, Ragged):
        if both is None:
            yield Group(None, ref, cand)
        else:
            rows = np.flatnonzero(both)
            yield Group(rows, ref[rows], cand[rows])
        return
    found: dict[tuple[object, object], list[int]] = {}
    for row in range(len(ref)) if both is None else np.flatnonzero(both).tolist():
        found.setdefault((shape_of(ref, row), shape_of(cand, row)), []).append(row)
    for places in found.values():
        rows = np.array(places, np.int64)
        yield Group(rows, stack_rows(ref, rows), stack_rows(cand, rows))
