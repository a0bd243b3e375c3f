"""Which kernels a comparison needs, as far as it is known before: two processes compile them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.scan import stretch_of
from paritygate.kernels import measures, rank, scan, scan_failing, scan_full, steps
from paritygate.kernels.grids import PIECE
from paritygate.kernels.second import Second
from paritygate.tally.output import MIN_RANKED_WIDTH

Kernel = Callable[..., Any]

_SCANNED = (np.dtype(np.float32), np.dtype(np.float64))
_ONCE_SOMETHING_FAILS: tuple[Kernel, ...] = (
    scan_failing.keep_suspects,
    scan.sum_again,
    measures.add_rows_again,
    measures.add_any_products,
    measures.add_samples,
)


def second_process(comparers: Iterable[object], cores: int) -> Second:
    """The process that compiles kernels beside this one.

    Args:
        comparers: of a run, of any kind.
        cores: that this process may use.
    """
    first = [kernel for comparer in comparers for kernel in _needed(comparer)]
    return Second(first, _ONCE_SOMETHING_FAILS, cores)


def _needed(comparer: object) -> list[Kernel]:
    """Kernels that clean samples need beside those that call them; what takes longest is last."""
    if not isinstance(comparer, ElementComparer) or comparer.integer or comparer.width == 0:
        return []
    ref, cand = comparer.dtypes
    is_full, is_alike = comparer.stats == "full", ref == cand
    if is_alike and not is_full and ref not in _SCANNED:
        return []
    is_one_pass = is_full and is_alike and stretch_of(comparer.width) * comparer.width <= PIECE
    is_ranked = comparer.width >= MIN_RANKED_WIDTH
    found: list[Kernel] = [scan.look]
    if is_full:
        found += [steps.keep_steps] if is_alike else []
        found += [rank.rank_samples, measures.add_samples] if is_ranked else []
        found.append(measures.collect_bins)
        if not is_one_pass:
            found.append(measures.measure_wide if is_ranked else measures.measure_narrow)
    found.append(scan_full.scan_full if is_one_pass else scan.scan_floats)
    return found
