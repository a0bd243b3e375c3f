"""Which kernels a comparison needs, as far as it is known before: two processes compile them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.looks import worst_floats
from paritygate.comparison.scan import stretch_of
from paritygate.core.dtypes import dtype_name
from paritygate.core.tensors import Array
from paritygate.kernels import measures, rank, scan, scan_failing, scan_full, steps
from paritygate.kernels.grids import PIECE
from paritygate.kernels.second import Second
from paritygate.tally.output import MIN_RANKED_WIDTH

Kernel = Callable[..., Any]

_WIDEST = 1 << 16
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
    of_cpu = [c for c in comparers if isinstance(c, ElementComparer) and not c.takes_device]
    known = [comparer for comparer in of_cpu if 0 < comparer.width <= _WIDEST]
    first = [kernel for comparer in known for kernel in _needed(comparer)]
    by_dtypes = {comparer.dtypes: comparer for comparer in known}.values()
    calls = [partial(call, each) for call in (look_for_worst, judge_each) for each in by_dtypes]
    return Second(first, calls, _ONCE_SOMETHING_FAILS, cores)


def look_for_worst(comparer: ElementComparer) -> None:
    """Have compiled what finds the worst elements of failing samples."""
    if not comparer.integer:
        worst_floats(np.zeros(1, np.int64), *_one_sample(comparer), comparer.rule)


def judge_each(comparer: ElementComparer) -> None:
    """Have compiled what judges samples one by one, as where a runner is held against itself."""
    ref, cand = map(dtype_name, comparer.dtypes)
    own = ElementComparer(comparer.tolerance, ref, cand, comparer.sample_shape, "gate")
    own.compare(*_one_sample(comparer), np.zeros(1, np.int64))


def _one_sample(comparer: ElementComparer) -> tuple[Array, Array]:
    ref, cand = (np.ones((1, *comparer.sample_shape), dtype) for dtype in comparer.dtypes)
    return ref, cand


def _needed(comparer: ElementComparer) -> list[Kernel]:
    """Kernels that clean samples need beside those that call them; what takes longest is last."""
    if comparer.integer:
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
