"""Rows about dtypes: half precision and below, half bytes, texts, answers that are no arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto
from tests.conformance.case import RELEASE, Case, Expected, hold
from tests.conformance.live import Make, Models
from tests.conformance.recordings import Pair
from tests.runners.test_ort_dtypes import cast_model, maps_model, optional_model, sequence_model

F16, F32 = np.float16, np.float32
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
NAN, INF = np.nan, np.inf
EXCEEDED = hold("tolerance.exceeded")
USUAL = {"atol": 1e-3, "rtol": 1e-3}


def of(dtype: Any, values: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float64).astype(dtype)


def texts(*values: str) -> Any:
    return np.array(values, object)


X = np.linspace(-2, 2, 48, dtype=F32).reshape(12, 4)
WIDE = np.full((1, 4096), 300, F32)
OFF = WIDE.copy()
OFF[0, 7] = 100

OVERFLOWS = [
    Case(
        "overflow",
        "float16 whose squares overflow float16: one of 4096 elements far off",
        Pair(WIDE.astype(F16), OFF.astype(F16), **USUAL),
        EXCEEDED,
        ("100", "300"),
    ),
    Case(
        "overflow",
        "a difference that float16 can't hold: 65504 against -65504",
        Pair(of(F16, [65504]), of(F16, [-65504]), 0.0, 0.999),
        EXCEEDED,
        ("131008",),
    ),
    Case(
        "overflow",
        "the lowest float32 of a mask is infinite in bfloat16",
        Pair(
            np.full(1, np.finfo(F32).min),
            of(BF16, [-INF]),
            0.0,
            0.9,
            more={"candidate_dtype": "bfloat16"},
        ),
        hold("nonfinite.candidate"),
    ),
    Case(
        "overflow",
        "500 is NaN in float8_e4m3fn, which has no infinities",
        Pair(
            np.array([500], F32),
            of(E4M3, [500]),
            1e9,
            0.9,
            more={"candidate_dtype": "float8_e4m3fn"},
        ),
        hold("nonfinite.candidate"),
    ),
]

NANS = [
    Case(
        "nan",
        f"NaN against 1 in {np.dtype(dtype).name}, at any tolerance",
        Pair(of(dtype, [NAN]), of(dtype, [1]), 1e9, 0.9),
        hold("nonfinite.mismatch"),
    )
    for dtype in (F16, BF16, E4M3, E5M2)
] + [
    Case(
        "inf",
        "an infinite float8_e5m2 reference lets nothing pass",
        Pair(of(E5M2, [INF]), of(E5M2, [57344]), 0.0, 0.9),
        hold("nonfinite.mismatch"),
    ),
]

LAYOUT = [
    Case(
        "layout",
        "float16 against bfloat16 with the same values",
        Pair(of(F16, [1, 2]), of(BF16, [1, 2]), 1.0, 0.0),
        hold("dtype.mismatch"),
    ),
    Case(
        "layout",
        "float8 of the same bits in another variant: 1 in float8_e4m3fn is 0.5 in float8_e4m3fnuz",
        Pair(
            of(E4M3, [1.0]),
            of(E4M3, [1.0]).view(ml_dtypes.float8_e4m3fnuz),
            more={"candidate_dtype": "float8_e4m3fnuz"},
        ),
        EXCEEDED,
        ("0.5",),
    ),
    Case(
        "layout",
        "float8 against its bits as uint8",
        Pair(of(E4M3, [1.0]), of(E4M3, [1.0]).view(np.uint8)),
        hold("dtype.mismatch"),
    ),
    Case(
        "layout",
        "float32 against float16, which the plan declares, within half precision",
        Pair(
            X.reshape(-1),
            X.reshape(-1).astype(F16),
            0.0,
            2.0**-11,
            more={"candidate_dtype": "float16"},
        ),
        RELEASE,
    ),
    Case(
        "layout",
        "float32 against bfloat16, which the plan declares, but within float16's precision",
        Pair(
            np.array([0.1], F32),
            of(BF16, [0.1]),
            0.0,
            2.0**-11,
            more={"candidate_dtype": "bfloat16"},
        ),
        EXCEEDED,
    ),
    Case(
        "layout",
        "the text 1 against the number 1",
        Pair(texts("1"), np.array([1])),
        hold("dtype.mismatch"),
    ),
]

OTHERS = [
    Case(
        "wrap",
        "int4 7 against -8: 15 apart, not 1",
        Pair(of(ml_dtypes.int4, [7]), of(ml_dtypes.int4, [-8]), 1.0, 0.0),
        EXCEEDED,
        ("15",),
    ),
    Case(
        "wrap",
        "uint4 0 against 15",
        Pair(of(ml_dtypes.uint4, [0]), of(ml_dtypes.uint4, [15]), 1.0, 0.0),
        EXCEEDED,
    ),
    Case(
        "ties",
        "a bfloat16 score on the edge 0.2 as bfloat16 has it",
        Pair(
            of(BF16, [0.2, 0.2]),
            of(BF16, [0.2, 0.19921875]),
            1e-2,
            1e-2,
            bands="accept < 0.2 <= review",
        ),
        hold("decision.flip"),
        ids=(101,),
    ),
    Case(
        "flips",
        "float16 logits a step apart change places",
        Pair(of(F16, [[1.0, 0.999]]), of(F16, [[0.999, 1.0]]), 1e-2, 1e-2, argmax=True),
        hold("decision.flip"),
    ),
    Case("ids", "equal texts", Pair(texts("cat", "dog"), texts("cat", "dog")), RELEASE),
    Case(
        "ids",
        "texts that differ in case",
        Pair(texts("cat", "dog"), texts("cat", "Dog")),
        EXCEEDED,
        ("'dog'", "'Dog'"),
        ids=(101,),
    ),
    Case(
        "ids",
        "texts that only look alike: an accent of its own",
        Pair(texts("caf\u00e9"), texts("cafe\u0301")),
        EXCEEDED,
    ),
    Case(
        "ids",
        "texts that are the same number",
        Pair(texts("1.0"), texts("1.00")),
        EXCEEDED,
    ),
]


def _live(name: str, ref: Make, cand: Make, expected: Expected, *says: str, **rule: Any) -> Case:
    kind = "outputs" if "map" in name or "sequence" in name or "optional" in name else "layout"
    given = Models(ref, cand, X, {"atol": 0.0, "rtol": 0.0, **rule})
    return Case(kind, name, given, expected, says)


def _maps(folder: Path, *keys: Any) -> Path:
    return maps_model(folder / "m.onnx", list(keys))


def _cast(folder: Path, to: int) -> Path:
    return cast_model(folder / "m.onnx", TensorProto.FLOAT, to)


LIVE = [
    _live(
        "maps of other classes with the same numbers",
        lambda f: _maps(f, "a", "b", "c", "d"),
        lambda f: _maps(f, "a", "b", "c", "e"),
        hold("output.classes"),
        "'d'",
        "'e'",
    ),
    _live(
        "maps of the same classes, named in another order",
        lambda f: _maps(f, "a", "b", "c", "d"),
        lambda f: _maps(f, "d", "c", "b", "a"),
        EXCEEDED,
    ),
    _live(
        "an optional output that has no value",
        lambda f: optional_model(f / "m.onnx", has_value=True),
        lambda f: optional_model(f / "m.onnx", has_value=False),
        hold("runner.error", "evidence.empty"),
        "has no value",
    ),
    _live(
        "a sequence with an item a sample",
        lambda f: sequence_model(f / "m.onnx", 1),
        lambda f: sequence_model(f / "m.onnx", 0),
        hold("runner.error", "evidence.empty"),
        "its first axis must be the batch",
    ),
    _live(
        "bfloat16 against float16 from two models",
        lambda f: _cast(f, TensorProto.BFLOAT16),
        lambda f: _cast(f, TensorProto.FLOAT16),
        hold("dtype.mismatch"),
        "bfloat16[batch, 4]",
    ),
    _live(
        "float8e4m3fn, which ONNX Runtime hands out as uint8, against uint8",
        lambda f: _cast(f, TensorProto.FLOAT8E4M3FN),
        lambda f: _cast(f, TensorProto.UINT8),
        hold("dtype.mismatch"),
        "float8_e4m3fn[batch, 4]",
    ),
]

ROWS = [*OVERFLOWS, *NANS, *LAYOUT, *OTHERS, *LIVE]
