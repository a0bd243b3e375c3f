"""How an error compares with what is usual between two runs of one model.

The bounds are experience with converted models, relative to the output's own magnitude: in float32
1e-6 to 1e-5 is rounding, 1e-4 the sum of many fused kernels, 1e-3 suspicious, 1e-2 and more a bug;
half precision easily reaches 1e-2, int8 more. They explain; no verdict is made of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# Coarsest first: what bounds the agreement of two sides is the coarser one's precision.
_COARSEST_FIRST = ("int8", "float8", "bfloat16", "float16", "float32", "float64")
# Relative error up to which it is rounding, usual, and suspicious; from the last one on a bug.
_BOUNDS: Mapping[str, tuple[float, float, float]] = {
    "float64": (1e-14, 1e-11, 1e-8),
    "float32": (1e-5, 1e-3, 1e-2),
    "float16": (1e-3, 2e-2, 1e-1),
    "bfloat16": (1e-2, 5e-2, 2e-1),
    "float8": (5e-2, 2e-1, 5e-1),
    "int8": (1e-2, 1e-1, 3e-1),
}
_LEVELS = ("rounding", "usual", "suspicious", "bug")
_SAYS = {
    "rounding": "as small as rounding in {precision}",
    "usual": "usual in {precision} where many kernels are fused or reordered",
    "suspicious": "larger than kernels in {precision} explain: suspicious",
    "bug": "far beyond what {precision} explains: look for a mistake, not for rounding",
}


def precision_of(facts: Mapping[str, Any], dtype: str) -> str:
    """The precision in which one side calculates.

    Args:
        facts: what the summary knows of its runner.
        dtype: dtype name of its output, for a runner whose inside is unknown.
    """
    told = facts.get("precision")
    arithmetic = told.get("arithmetic") if isinstance(told, Mapping) else None
    if arithmetic in _BOUNDS:
        return str(arithmetic)
    for name in _COARSEST_FIRST:
        if dtype.startswith(name):
            return name
    return "float32"


def assess(error: float, scale: float, precisions: tuple[str, str]) -> dict[str, Any]:
    """Say how an absolute error compares with what is usual.

    Args:
        error: `|cand - ref|` of one element; NaN or infinite where a side isn't finite.
        scale: the output's own magnitude.
        precisions: of the reference and of the candidate.

    Returns:
        `precision`, `scale`, `relative`, `level` ("rounding", "usual", "suspicious", "bug", or
        "undefined") and `says`, a part of a sentence.
    """
    precision = next((p for p in _COARSEST_FIRST if p in precisions), "float32")
    found: dict[str, Any] = {"precision": precision, "scale": scale}
    if not math.isfinite(error) or not math.isfinite(scale) or scale <= 0:
        why = "an element isn't finite" if not math.isfinite(error) else "the output has no size"
        return {**found, "relative": None, "level": "undefined", "says": why}
    relative = error / scale
    bounds = _BOUNDS[precision]
    level = _LEVELS[
        0
        if relative <= bounds[0]
        else 1
        if relative < bounds[1]
        else 2
        if relative < bounds[2]
        else 3
    ]
    says = _SAYS[level].format(precision=precision)
    return {**found, "relative": relative, "level": level, "says": says}
