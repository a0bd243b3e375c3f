"""Kernels of decisions, and the types of their arguments where scores are of a dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import typeof, types

from paritygate.gpu import argmax, bands, convert, decide, topk

PRODUCTS = ("decide_bands", "decide_argmax", "decide_topk", "round_off")  # those that have some

_INTS, _ALL_INTS, _INT = types.int64[::1], types.int64[:, ::1], types.int64
_DOUBLES, _ALL_DOUBLES = types.float64[::1], types.float64[:, ::1]
_CODES, _PLACES = types.int32[:, ::1], types.int32[:, :, ::1]
_BATCH = typeof(decide.Batch(1, 1, -1, 0, 0, 0, 0, 1.0, 0.5))
_FOUND = types.NamedTuple(
    (_INTS, _INTS, _INTS, _DOUBLES, _INTS, _INTS, _DOUBLES, _CODES), decide.Found
)
_FORM = typeof(convert.Format(10, -14, 65504.0, 1.0))
_GIVEN = (_INTS, _INTS, _BATCH, _FOUND)  # a `kinds.Launch`


def kernels() -> dict[str, tuple[Any, Callable[[Any], tuple[Any, ...]]]]:
    """As of `ptx.kernels`."""
    ints = (_INT,) * 5
    return {
        "decide_bands": (
            bands.decide_bands,
            lambda x: (
                x, x, x, _ALL_DOUBLES, types.uint8[::1], _INT, *_GIVEN, _INTS, _ALL_INTS,
            ),
        ),
        "decide_argmax": (
            argmax.decide_argmax,
            lambda x: (x, x, x, x, *ints[:3], _INTS, _INT, *_GIVEN),
        ),
        "decide_topk": (
            topk.decide_topk,
            lambda x: (x, x, x, x, *ints, _INTS, _INT, *_GIVEN, _PLACES),
        ),
        "fold_least": (
            decide.fold_least,
            lambda x: (_FOUND, _INT, _BATCH, _INTS, _DOUBLES, _INTS),
        ),
        "look_up": (convert.look_up, lambda x: (types.uint16[::1], types.float32[::1], x)),
        "round_off": (convert.round_off, lambda x: (x, _FORM, types.float32[::1])),
        "cast": (convert.cast, lambda x: (types.int64[::1], x)),
    }  # fmt: skip
