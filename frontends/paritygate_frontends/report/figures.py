"""Figures as text: short, never rounded towards the better side, safe for a terminal."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

from paritygate.core.text import clean, clean_lines

__all__ = ["ABSENT", "bound", "clean", "clean_lines", "counted", "number", "seconds", "share"]

ABSENT = "-"


def number(value: object, digits: int = 3) -> str:
    """Write a figure of a summary with some significant digits; whole numbers in full.

    Non-finite figures are strings in a summary ("nan", "inf", "-inf") and stay as they are.
    """
    if value is None:
        return ABSENT
    if isinstance(value, bool | str):
        return clean(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}g}" if isinstance(value, float) else clean(value)


def share(part: int, whole: int) -> str:
    """Write `part / whole` as a percentage rounded down, so that only all of it is 100 %."""
    if whole <= 0:
        return ABSENT
    hundredths = part * 10_000 // whole
    text = f"{hundredths // 100}.{hundredths % 100:02d}"
    return f"{text.removesuffix('.00')} %"


def bound(fraction: object) -> str:
    """Write an upper bound as a percentage of three significant digits, rounded up."""
    if not isinstance(fraction, int | float) or not math.isfinite(fraction):
        return number(fraction)
    percent = Context(prec=3, rounding=ROUND_CEILING).multiply(Decimal(fraction), 100)
    return f"{float(percent):.3g} %"


def seconds(value: object) -> str:
    """Write a duration in the unit that reads best."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return number(value)
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 99.95:
        return f"{value:.1f} s"
    minutes, left = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {left:02d} s"


def counted(count: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
