"""A small comparison whose result is known: what a GPU counts of it is what the CPU counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from paritygate.comparison.details import SampleDetail
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.on_device import DeviceComparer
from paritygate.comparison.sending import sent
from paritygate.core.dtypes import is_float, numpy_dtype
from paritygate.core.errors import DeviceError
from paritygate.gpu.staging import BUFFERS, Lane
from paritygate.gpu.tensor import pieces
from paritygate.tally.output import OutputTally

_WIDEST = 1 << 12  # elements of a sample of it
_ELEMENTS = 1 << 14
_SIMULATED_ELEMENTS = 24
_PIECES = BUFFERS + 1
_SEED = 20_261


def check_device(comparer: DeviceComparer, dtypes: tuple[str, str], *, is_simulated: bool) -> None:
    """Compare a batch with known failing elements on the device.

    Raises:
        DeviceError: something else was counted than on the CPU.
    """
    width = min(comparer.width, _WIDEST)
    elements = _SIMULATED_ELEMENTS if is_simulated else _ELEMENTS
    samples = max(3, elements // width)
    ref, cand = known_sides(samples, width, dtypes)
    given = comparer.tolerance, *dtypes, (width,), comparer.stats
    ordinals = np.arange(samples)
    expected = ElementComparer(*given).compare(ref, cand, ordinals, is_lazy=False)
    try:
        found, problem = _sent(DeviceComparer(*given), ref, cand)
        differs = difference(found, expected)
        problem = problem or (differs and f"it {differs}")
    except DeviceError as e:  # what it counted contradicts itself
        problem = str(e)
    if problem:
        raise DeviceError(
            f"the GPU counts wrong: of a batch that is known {problem}; its driver or what "
            "compiles for it is broken: use --compare-on cpu"
        )


def _sent(
    comparer: DeviceComparer, ref: Any, cand: Any
) -> tuple[tuple[OutputTally, SampleDetail], str]:
    """What is counted of arrays that are sent, in more pieces than there are buffers; a fault."""
    lane = Lane(lambda device, pinned: None, lambda note: None)
    try:
        comparison = comparer.begin()
        parts = pieces(ref, cand, len(ref) // _PIECES)
        for rows, ours, theirs in sent(lane, parts, comparer.dtypes):
            comparison.add(ours, theirs, range(rows.start, rows.stop))
        found = comparison.finish()
        problem = lane.problem()
    finally:
        lane.close()
    return found, problem


def difference(
    found: tuple[OutputTally, SampleDetail], expected: tuple[OutputTally, SampleDetail]
) -> str:
    """In what two results of the same samples differ; empty where they don't."""
    ours, theirs = (result[0].to_json() for result in (found, expected))
    if ours != theirs:
        names = [name for name in theirs if ours.get(name) != theirs[name]]
        return f"says other {', '.join(names)}"
    for name in ("samples", "rows", "bits", "counts"):
        if not np.array_equal(getattr(found[1], name), getattr(expected[1], name)):
            return f"says other failing samples ({name})"
    rows = expected[1].rows
    for name in ("index", "excess", "error"):
        left, right = (getattr(result[1].worst.of(rows), name) for result in (found, expected))
        if not np.array_equal(left, right, equal_nan=True):
            return f"says other worst elements ({name})"
    return ""


def known_sides(samples: int, width: int, dtypes: tuple[str, str]) -> tuple[Any, Any]:
    """Both sides of a batch of at least 3 samples, `(samples, width)`, with failing elements."""
    left, right = map(numpy_dtype, dtypes)
    rng = np.random.default_rng(_SEED)
    if not is_float(dtypes[0]):
        whole = rng.integers(0, 2, (samples, width))
        other = whole.copy()
        other[1, 0] = 1 - other[1, 0]
        return whole.astype(left), other.astype(right)
    values = rng.normal(size=(samples, width))
    changed = values * (1 + 1e-3 * rng.normal(size=values.shape))
    changed[0, width // 2], values[0, 0], changed[0, 0] = 64.0, 1e-40, 2e-40
    changed[1, -1] = np.nan
    values[2, 0] = changed[2, 0] = np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(left), changed.astype(right)
