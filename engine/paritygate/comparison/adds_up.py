"""Whether what a GPU counted can be: all that came back is held against what else did.

A copy that brings zeros, a kernel that never ran or a part that never came leaves counts, lists and
extremes that contradict each other, or what was sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.comparison.details import NOT_LOOKED, SampleDetail
from paritygate.comparison.elements import ElementComparer, Ints
from paritygate.kernels import scalar
from paritygate.kernels.elements import Rule
from paritygate.tally.exact import ExactSum
from paritygate.tally.extremes import Extreme
from paritygate.tally.output import OutputTally

Flags = npt.NDArray[np.bool_]
Found = tuple[OutputTally, SampleDetail]

_LARGEST_FLOAT = 2.0**1023


def what_is_wrong(comparer: ElementComparer, found: Found, ordinals: Ints | range) -> str:
    """Why what was counted of the samples of these ordinals can't be right; empty where it may."""
    tally, detail = found
    samples = len(ordinals)
    elements = samples * comparer.width
    if (tally.samples, detail.samples, tally.elements) != (samples, samples, elements):
        return (
            f"it counted {tally.samples:,} samples and {tally.elements:,} elements of the "
            f"{samples:,} and {elements:,} that were sent"
        )
    return (
        _of_counts(tally)
        or _of_listed(comparer, tally, detail)
        or _of_classes(comparer.rule, tally, detail)
        or _of_rules(comparer.rule, detail)
        or _of_worst(comparer, tally, detail)
        or _of_extremes(comparer, found, ordinals)
        or _of_sums(tally)
    )


def what_was_not_sent(
    comparer: ElementComparer, found: Found, sides: tuple[Any, Any], ordinals: Ints | range
) -> str:
    """Which values of extremes and worst elements aren't those of the host; empty where all are.

    Args:
        comparer: of the output.
        found: in which nothing is wrong.
        sides: the reference and the candidate, `(samples, *sample_shape)`; what isn't an array of
            the host in the declared dtype isn't looked at.
        ordinals: of the samples.
    """
    tally, detail = found
    width = comparer.width
    own, other = (
        side.reshape(-1, width) if _is_of_host(side, dtype) else None
        for side, dtype in zip(sides, comparer.dtypes, strict=True)
    )
    for at, _ in _located(tally, width):
        for side, value in ((own, at.ref), (other, at.cand)):
            if side is None or at.index < 0:
                continue
            sent = side[_row_of(ordinals, at.ordinal), at.index]
            if (int(sent) if tally.integer else float(sent)) != value:
                return f"it says that a value is {value!r}, and was sent {sent!s}"
    if own is None or other is None or (tally.integer and own.dtype.itemsize == 8):
        return ""
    worst = detail.worst.of(detail.rows)
    at_worst = (detail.rows, worst.index)
    with np.errstate(all="ignore"):
        ref, cand = (side[at_worst].astype(np.float64) for side in (own, other))
        error = np.abs(cand - ref)
    is_finite = np.isfinite(ref) & np.isfinite(cand)
    if np.all(np.where(is_finite, error, math.inf) == worst.error):
        return ""
    return "the worst elements of samples that it lists have other errors"


def _is_of_host(side: Any, dtype: np.dtype[Any]) -> bool:
    is_array = isinstance(side, np.ndarray) and side.flags.c_contiguous
    return is_array and side.dtype.newbyteorder("=") == dtype


def what_is_not_listed(rule: Rule, tally: OutputTally, over: int) -> str:
    """Why failing elements of listed samples can't be all; empty where they may.

    Args:
        rule: what is tolerated.
        tally: of the samples, with the elements of those that are listed.
        over: finite pairs that aren't good, counted by themselves.
    """
    broken = 0 if rule.match else tally.agreeing_nonfinite
    failing = over + tally.disagreeing_nonfinite + broken
    if tally.failing_elements == failing:
        return ""
    return (
        f"it found {failing:,} failing elements, and lists samples with {tally.failing_elements:,}"
    )


def what_is_listed_wrong(listed: SampleDetail, rows: Ints, found: SampleDetail) -> str:
    """Of which of some samples something else was listed than is found; empty where of none.

    Args:
        listed: what was listed of all samples.
        rows: `(n,)` which, ascending.
        found: what was found of these, numbered from 0; worst elements where they were looked for.
    """
    is_same = np.ones(len(rows), np.bool_)
    counts, bits = np.zeros((2, len(rows)), np.int64)
    is_listed = np.isin(rows, listed.rows)
    at = np.searchsorted(listed.rows, rows[is_listed])
    counts[is_listed], bits[is_listed] = listed.counts[at], listed.bits[at]
    worst, own = listed.worst.of(rows), found.worst.of(np.arange(len(rows)))
    is_known = is_listed & (own.index != NOT_LOOKED)
    for name in ("index", "excess", "error"):
        is_same &= ~is_known | (getattr(worst, name) == getattr(own, name))
    is_same &= (counts == found.failing_elements) & (bits == found.rules)
    if is_same.all():
        return ""
    first = int(is_same.argmin())
    return (
        f"it lists {int(counts[first]):,} failing elements of sample {int(rows[first]):,} of a "
        f"block, and its values, as they came back, have {int(found.failing_elements[first]):,}, "
        "or others"
    )


def is_ascending(rows: Ints, below: int) -> bool:
    """Whether these are numbers from 0 to below a limit, each once, in order."""
    return bool(np.all(np.diff(np.concatenate([[-1], rows, [below]])) > 0))


def _of_counts(tally: OutputTally) -> str:
    bins = tally.histogram
    if tally.tier == "full" and bins.zeros + int(bins.counts.sum()) != tally.finite_pairs:
        return "its histogram doesn't hold all errors"
    counts = (*tally.classes, *tally.at_limits, tally.ref_beyond_cand_range, tally.ulp_undefined)
    if not all(0 <= n <= tally.elements for n in counts):
        return f"it counted up to {max(counts):,} elements of {tally.elements:,}"
    undefined = tally.sqnr_undefined, tally.cosine_undefined
    if not all(0 <= n <= tally.samples for n in undefined):
        return f"it counted up to {max(undefined):,} samples without a rank of {tally.samples:,}"
    return ""


def _of_listed(comparer: ElementComparer, tally: OutputTally, detail: SampleDetail) -> str:
    rows, counts = detail.rows, detail.counts
    total = int(counts.sum(dtype=np.int64))
    if not is_ascending(rows, tally.samples) or total != tally.failing_elements:
        return "the failing samples that it lists aren't those that it counted"
    if not np.all((counts >= 1) & (counts <= comparer.width)):
        return (
            f"of samples of {comparer.width:,} elements it lists {int(counts.min()):,} to "
            f"{int(counts.max()):,} that fail"
        )
    if int(np.count_nonzero(detail.bits)) != tally.failing_samples:
        return "the samples that break a rule aren't those that it counted"
    return ""


def _of_classes(rule: Rule, tally: OutputTally, detail: SampleDetail) -> str:
    """Rules of non-finite values and of the cap: samples break them where elements do."""
    _, cap, candidate, alike, mismatch = rule.bits
    broken = {
        candidate: sum(tally.classes[1:4]),
        alike: 0 if rule.match else tally.agreeing_nonfinite,
        mismatch: sum(tally.classes[4:]) - tally.agreeing_nonfinite,
    }
    excess = _value(tally.max_excess)
    has_over = int(excess > 1 or _value(tally.max_abs_error) > rule.cap)
    if tally.failing_elements < sum(broken.values()) + has_over:
        return (
            f"it found an error of {float(excess):.3g} times what is allowed and "
            f"{sum(broken.values()):,} values that aren't finite, and lists "
            f"{tally.failing_elements:,} failing elements"
        )
    for bit, elements in broken.items():
        samples = int(np.count_nonzero(detail.bits & bit))
        if not min(1, elements) <= samples <= elements:
            return (
                f"it found {elements:,} values of a kind that aren't finite, and lists "
                f"{samples:,} samples for them"
            )
    has_capped = bool(np.any(detail.bits & cap))
    if has_capped != (_value(tally.max_abs_error) > rule.cap):
        return (
            f"it found an error of {float(_value(tally.max_abs_error)):.3g}, and lists "
            f"{'some' if has_capped else 'no'} samples above the cap of {rule.cap:.3g}"
        )
    return ""


def _of_rules(rule: Rule, detail: SampleDetail) -> str:
    """Rules of listed samples: where only errors fail, more than are tolerated break the rule."""
    exceeded, cap, *nonfinite = rule.bits
    if np.any(detail.bits & ~np.uint8(sum(rule.bits))):
        return "it lists samples with rules that there aren't"
    is_over, is_capped = (detail.bits & exceeded) != 0, (detail.bits & cap) != 0
    is_broken = (detail.bits & sum(nonfinite)) != 0
    most = detail.counts.astype(np.int64) - is_broken  # elements that may be outliers
    may_be = most > rule.outliers
    must_be = may_be & ~is_broken & ~is_capped
    wrong = np.flatnonzero((is_over & ~may_be) | (must_be & ~is_over))
    if wrong.size:
        first = wrong[0]
        return (
            f"it lists {int(detail.counts[first]):,} failing elements of a sample, of which "
            f"{rule.outliers:,} are tolerated, and says that it breaks rules "
            f"{int(detail.bits[first]):#x}"
        )
    return ""


def _of_worst(comparer: ElementComparer, tally: OutputTally, detail: SampleDetail) -> str:
    """Worst elements of listed samples: infinite where values aren't finite, else no extremes."""
    worst = detail.worst.of(detail.rows)
    _, cap, *nonfinite = comparer.rule.bits
    is_broken = (detail.bits & sum(nonfinite)) != 0
    is_capped = (detail.bits & cap) != 0
    is_known = (worst.index >= 0) & (worst.index < comparer.width)
    is_infinite = (worst.excess == math.inf) & (worst.error == math.inf)
    top, error = float(_value(tally.max_excess)), float(_value(tally.max_abs_error))
    is_bounded = (worst.excess <= top) & (worst.error <= error) & (worst.error > 0.0)
    is_over = is_capped | (worst.excess > 1.0)
    if np.all(is_known & np.where(is_broken, is_infinite, is_bounded & is_over)):
        return ""
    return "the worst elements that it lists aren't within its largest errors, or don't fail"


def _of_extremes(comparer: ElementComparer, found: Found, ordinals: Ints | range) -> str:
    tally, detail = found
    error, top = tally.max_abs_error, tally.max_excess
    has_none = tally.finite_pairs == 0
    if (error is None, top is None) != (has_none, has_none):
        return f"it has no largest error of {tally.finite_pairs:,}, or one of none"
    for at, width in _located(tally, comparer.width):
        if _row_of(ordinals, at.ordinal) < 0 or not min(0, width) <= at.index < max(0, width):
            return f"it names an element that wasn't sent: {at.index:,} of row {at.ordinal:,}"
    if error is None or top is None:
        return ""
    distance, other = abs(error.cand - error.ref), abs(top.cand - top.ref)
    ratio = _excess(comparer.rule, top, is_integer=tally.integer)
    if error.keys != (distance,) or top.keys != (ratio, other) or other > distance:
        return "its largest errors aren't those of the values that it says have them"
    cap = comparer.rule.bits[1]
    if top.value > 1 and not _is_listed(detail, _row_of(ordinals, top.ordinal), top, comparer.rule):
        return "the sample that has its largest excess isn't listed with it"
    if error.value > comparer.rule.cap:
        at_error = np.flatnonzero(detail.rows == _row_of(ordinals, error.ordinal))
        if not at_error.size or not detail.bits[at_error[0]] & cap:
            return "the sample that has its largest error isn't listed as above the cap"
    return ""


def _of_sums(tally: OutputTally) -> str:
    """Sums of errors lie between the largest of them and as many as there are of that."""
    largest = float(_value(tally.max_abs_error))
    total, net = tally.abs_errors, tally.errors
    if (total.overflowed > 0) != (largest == math.inf) or net.overflowed != total.overflowed:
        return f"it left out {total.overflowed:,} infinite errors, and the largest is {largest:.3g}"
    if total.overflowed:
        return ""
    most = ExactSum.from_floats([largest]).units
    if not most <= total.units <= most * tally.finite_pairs or abs(net.units) > total.units:
        return "its sums of errors can't be of errors up to the largest that it found"
    return ""


def _located(tally: OutputTally, width: int) -> Iterator[tuple[Extreme, int]]:
    """Extremes with what their index is below; those of a whole sample have index -1."""
    of_elements = (
        tally.max_abs_error, tally.max_excess, tally.max_ulp, tally.max_ulp_above_atol,
    )  # fmt: skip
    yield from ((at, width) for at in of_elements if at is not None)
    yield from ((at, -1) for at in (tally.worst_sqnr, tally.worst_cosine) if at is not None)


def _row_of(ordinals: Ints | range, ordinal: int) -> int:
    """The sample of an ordinal, -1 where none has it."""
    if isinstance(ordinals, range):
        return ordinals.index(ordinal) if ordinal in ordinals else -1
    at = np.flatnonzero(ordinals == ordinal)
    return int(at[0]) if at.size else -1


def _is_listed(detail: SampleDetail, row: int, top: Extreme, rule: Rule) -> bool:
    """Whether a sample is listed with the largest excess, or for values that aren't finite."""
    at = np.flatnonzero(detail.rows == row)
    if not at.size:
        return False
    if detail.bits[at[0]] & sum(rule.bits[2:]):
        return True
    worst = detail.worst.of(detail.rows)
    found = (int(worst.index[at[0]]), float(worst.excess[at[0]]), float(worst.error[at[0]]))
    return found == (top.index, float(top.keys[0]), float(top.keys[1]))


def _excess(rule: Rule, at: Extreme, *, is_integer: bool) -> float:
    plain: Any = scalar
    bound = plain.allowed.py_func(float(at.ref), rule.atol, rule.rtol)
    error = abs(at.cand - at.ref)
    ratio = float(plain.excess.py_func(float(error), bound))
    if is_integer and ratio <= 1.0 and bound < _LARGEST_FLOAT and error > math.floor(bound):
        return math.nextafter(1.0, math.inf)  # both were rounded to the same float64
    return ratio


def _value(at: Extreme | None) -> int | float:
    return 0 if at is None else at.value
