"""Which tolerances and which pairs of dtypes mean something; all others are refused."""

from __future__ import annotations

import math

from paritygate.core.dtypes import DTYPES, STRING, kind_of
from paritygate.core.policy import Tolerance


def check_tolerance(tolerance: Tolerance) -> None:
    """Refuse a tolerance out of its range.

    Raises:
        ValueError: which field, what was found, what is allowed.
    """
    atol, rtol, cap = tolerance.atol, tolerance.rtol, tolerance.max_abs
    if not 0 <= atol < math.inf:
        raise ValueError(f"atol: found {atol}, allowed is a finite number >= 0")
    if not 0 <= rtol < 1:
        raise ValueError(f"rtol: found {rtol}, allowed is 0 <= rtol < 1")
    if cap is not None and not 0 <= cap < math.inf:
        raise ValueError(f"max_abs: found {cap}, allowed is a finite number >= 0")
    if not 0 <= tolerance.max_outlier_fraction < 1:
        found = tolerance.max_outlier_fraction
        raise ValueError(f"max_outlier_fraction: found {found}, allowed is 0 <= fraction < 1")
    if tolerance.nonfinite not in ("fail", "match"):
        raise ValueError(
            f"nonfinite: found {tolerance.nonfinite!r}, allowed are 'fail' and 'match'"
        )


def check_exact(tolerance: Tolerance, dtype: str) -> None:
    """Refuse a tolerance for what is equal or not: it would do nothing, or let everything pass.

    Raises:
        ValueError: a tolerance for bools or strings; says what to change.
    """
    if dtype not in ("bool", STRING):
        return
    if tolerance.atol or tolerance.rtol:
        raise ValueError(
            f"{dtype}s are judged exactly: found atol {tolerance.atol:g} and rtol "
            f"{tolerance.rtol:g}, leave them out or set both to 0"
        )
    if dtype == STRING and (tolerance.max_abs is not None or tolerance.max_outlier_fraction):
        raise ValueError(
            "strings are judged exactly and have no error to limit: leave out max_abs and "
            "max_outlier_fraction"
        )


def check_dtypes(ref: str, cand: str) -> None:
    """Refuse a pair of dtypes that share no scale.

    Raises:
        ValueError: both dtypes, and what to change.
    """
    pair = f"reference {ref} against candidate {cand}"
    for dtype in (ref, cand):
        if dtype not in DTYPES:
            raise ValueError(f"{pair}: {dtype} can't be compared; allowed are {', '.join(DTYPES)}")
    kinds = [kind_of(dtype) for dtype in (ref, cand)]
    if kinds[0] == kinds[1]:
        return
    if set(kinds) == {"signed", "unsigned"}:
        raise ValueError(f"{pair}: signed and unsigned integers aren't compared; cast one side")
    raise ValueError(
        f"{pair}: floats, integers, bools and strings aren't compared with one another"
    )
