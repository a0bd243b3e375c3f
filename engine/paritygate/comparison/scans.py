"""Which scan counts the clean stretches of a pair of dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from paritygate.comparison import scan
from paritygate.comparison.tiers import FullTier
from paritygate.core.tensors import Array
from paritygate.kernels._cache import config
from paritygate.tally.exact import ExactSum


class Work(scan.Work, Protocol):
    """What a scan adds to: the state of a comparison."""

    integer: bool
    limits: tuple[tuple[int, ...], ...]

    def measure_ulp(self, full: FullTier, ref: Array, cand: Array, start: int, stop: int) -> int:
        """Steps of the samples `[start, stop)`, whose values are given; how many have none."""


class Scanner(Protocol):
    """Counts clean stretches of one comparison; `tiles` are given to it at once."""

    tiles: int

    def not_clean(self, work: Work, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Count what is clean of the samples `[start, stop)`; first and last of the others."""

    def sum(self, row: int) -> ExactSum:
        """What was summed in a row of `kernels.scan`."""

    def at_limits(self) -> list[int]:
        """Elements at the smallest and largest number of the reference's dtype, and candidate's."""


def scan_of(work: Work, full: FullTier | None, *, in_order: bool) -> Scanner | None:
    """A scan of these samples, which must be in order; None where it can't be done.

    Kernels of a kind of dtype are imported where one of that kind is compared.
    """
    ordinals = work.ordinals
    if not work.width or not (in_order or bool(np.all(ordinals[1:] > ordinals[:-1]))):
        return None
    if not work.integer and scan.can_scan(work):
        return scan.Scan(work, full)
    if config.DISABLE_JIT:
        return None
    if work.integer:
        from paritygate.comparison.scan_integers import IntegerScan

        return IntegerScan(work, full)
    from paritygate.comparison.scan_narrow import NarrowScan, WidenedScan, is_bounded

    if not is_bounded(work):
        return None
    is_narrow = work.ref.dtype == work.cand.dtype
    return NarrowScan(work) if is_narrow and full is None else WidenedScan(work, full)
