"""What a device has counted, as a tally."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.comparison.work import samples_by_rule
from paritygate.gpu.full import Measured
from paritygate.gpu.tally import Counted
from paritygate.tally.exact import ExactSum
from paritygate.tally.extremes import Extreme, Number
from paritygate.tally.histogram import Histogram
from paritygate.tally.output import OutputTally

Ints = npt.NDArray[np.int64]


def tally_of(counted: Counted, *, is_integer: bool, is_ranked: bool) -> OutputTally:
    """The tally of what was counted.

    Args:
        counted: as it was read.
        is_integer: whether errors and values are whole numbers.
        is_ranked: whether samples were ranked.
    """
    e, abs_e = (ExactSum.from_chunks(row, counted.lost) for row in counted.chunks[:2])
    number = int if is_integer else float
    error, excess, excess_error = counted.best
    return OutputTally(
        tier="gate" if counted.measured is None else "full",
        integer=is_integer,
        samples=counted.samples,
        failing_samples=int(np.count_nonzero(counted.rules)),
        rule_samples=samples_by_rule(counted.rules),
        classes=tuple(counted.classes.tolist()),
        failing_elements=int(counted.elements.sum()),
        max_abs_error=_extreme(counted.places[0], counted.values[0], number, number(error)),
        max_excess=_extreme(
            counted.places[1], counted.values[1], number, excess, number(excess_error)
        ),
        abs_errors=abs_e,
        errors=e,
        **_full_tier(counted, is_integer=is_integer, is_ranked=is_ranked),
    )


def _full_tier(counted: Counted, *, is_integer: bool, is_ranked: bool) -> dict[str, Any]:
    found = counted.measured
    if found is None:
        return {}
    ee, rr, re = (
        ExactSum.from_chunks(row, lost)
        for row, lost in zip(counted.chunks[2:], found.lost.tolist(), strict=True)
    )
    data: dict[str, Any] = {
        "squared_errors": ee,
        "histogram": Histogram.from_counts(found.bins),
    }
    if is_integer:
        return data
    steps = found.steps.tolist()
    return data | {
        "squared_refs": rr,
        "ref_errors": re,
        "max_ulp": _extreme(found.places[0], found.values[0], float, steps[0]),
        "max_ulp_above_atol": _extreme(found.places[1], found.values[1], float, steps[1]),
        "ulp_undefined": found.ulp_undefined,
        "ranked_samples": counted.samples if is_ranked else 0,
        "worst_sqnr": _worst_sample(found, 0),
        "worst_cosine": _worst_sample(found, 1),
        "sqnr_undefined": int(found.unranked[0]),
        "cosine_undefined": int(found.unranked[1]),
    }


def _extreme(
    place: Ints, values: npt.NDArray[Any], number: type[int | float], *keys: Number
) -> Extreme | None:
    ordinal, index = place.tolist()
    if ordinal < 0:
        return None
    ref, cand = map(number, values.tolist())
    return Extreme(keys, ordinal, index, ref, cand)


def _worst_sample(found: Measured, row: int) -> Extreme | None:
    ordinal = int(found.ordinals[row])
    if ordinal < 0:
        return None
    figure, signal, noise = found.ranks[row].tolist()
    return Extreme((figure,), ordinal, -1, signal, noise)
