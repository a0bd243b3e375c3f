"""This gate, and the limit that memory sets, both on every core."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, reduce
from typing import Any, Literal

import numpy as np
from bench.peers.given import Answer, Pair

from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance
from paritygate.tally.output import OutputTally

BLOCK_BYTES = 16 << 20
LEAST_BYTES = 1 << 20  # below it a block isn't worth a thread


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores())


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _cuts(pair: Pair, threads: int) -> list[slice]:
    """Blocks of at most 16 MiB a side, as many for each thread."""
    size = pair.ref.nbytes
    count = threads * -(-size // (threads * BLOCK_BYTES))
    rows = max(1, -(-len(pair.ref) // min(count, -(-size // LEAST_BYTES))))
    return [slice(at, at + rows) for at in range(0, len(pair.ref), rows)]


def on_all_cores(work: Callable[[slice], Any], pair: Pair) -> list[Any]:
    """What a function makes of each block, in order."""
    cuts = _cuts(pair, _cores())
    return [work(cuts[0])] if len(cuts) == 1 else list(_pool().map(work, cuts))


def _on_one_core(work: Callable[[slice], Any], pair: Pair) -> list[Any]:
    return [work(cut) for cut in _cuts(pair, 1)]


def compare(
    pair: Pair, tier: Literal["gate", "full"], *, one_core: bool = False
) -> Callable[[], OutputTally]:
    """Compare as a run does."""
    dtype = pair.ref.dtype.name
    tolerance = Tolerance(atol=pair.atol, rtol=pair.rtol)
    comparer = ElementComparer(tolerance, dtype, dtype, pair.ref.shape[1:], tier)
    ordinals = np.arange(len(pair.ref))

    def block(cut: slice) -> OutputTally:
        tally, _ = comparer.compare(
            pair.ref[cut], pair.cand[cut], ordinals[cut], is_lazy=True, in_order=True
        )
        return tally

    spread = _on_one_core if one_core else on_all_cores
    return lambda: reduce(OutputTally.merge, spread(block, pair))


def read(tally: OutputTally) -> Answer:
    """What a tally says."""
    worst = tally.max_abs_error
    return Answer(
        passes=tally.failing_elements == 0,
        failing=tally.failing_elements,
        max_error=None if worst is None else float(worst.value),
        total=float(tally.figures()["mean_abs_error"]) * tally.elements,
    )


def read_both(pair: Pair) -> Callable[[], object]:
    """Read both arrays, in words of four bytes."""
    sides = [side.reshape(-1).view(np.int32) for side in _in_words(pair)]
    step = (4 << 20) // 4  # what reads fastest
    cuts = [slice(at, at + step) for at in range(0, sides[0].size, step)]

    def block(cut: slice) -> None:
        for side in sides:
            side[cut].max()

    if len(cuts) == 1:
        return lambda: block(cuts[0])
    return lambda: list(_pool().map(block, cuts))


def _in_words(pair: Pair) -> list[Any]:
    whole = pair.ref.nbytes // 4 * 4
    return [side.reshape(-1).view(np.uint8)[:whole] for side in (pair.ref, pair.cand)]
