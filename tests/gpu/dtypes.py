"""Values of any two dtypes that may meet, alike in most places."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from paritygate.core.dtypes import FLOATS, INTEGERS, is_float, limits_of, numpy_dtype, widened
from paritygate.core.policy import Tolerance

FEW_BYTES = tuple(name for name in INTEGERS if numpy_dtype(name).itemsize <= 4)
SIGNED = tuple(name for name in FEW_BYTES if not name.startswith("u"))
UNSIGNED = tuple(name for name in FEW_BYTES if name.startswith("u"))
LONG = (("int64", "int64"), ("uint64", "uint64"), ("int64", "int8"), ("uint4", "uint64"))

FLOAT_PAIRS = st.one_of(
    st.sampled_from(FLOATS).map(lambda name: (name, name)),
    st.tuples(st.sampled_from(FLOATS), st.sampled_from(FLOATS)),
)
SMALL_PAIRS = st.one_of(
    st.tuples(st.sampled_from(SIGNED), st.sampled_from(SIGNED)),
    st.tuples(st.sampled_from(UNSIGNED), st.sampled_from(UNSIGNED)),
)
LONG_PAIRS = st.sampled_from(LONG)


def a_pair(
    rng: np.random.Generator,
    names: tuple[str, str],
    size: tuple[int, int],
    nonfinite: Any = "fail",
) -> tuple[Any, Any, Tolerance]:
    """Both sides, and a tolerance that some of their elements break."""
    if is_float(names[0]):
        ref = floats(rng, names[0], size)
        cand = alike(rng, ref, names[1]).astype(numpy_dtype(names[1]))
        atol, rtol = float(2.0 ** rng.integers(-12, 4)), float(rng.choice([0, 2.0**-7]))
        return ref, cand, Tolerance(atol, rtol, nonfinite=nonfinite)
    is_long = names in LONG
    ref, cand = (long(rng, name, size) if is_long else whole(rng, name, size) for name in names)
    is_near = not is_long or names[0] == names[1]
    if is_near and rng.random() < 0.9:
        cand = np.where(rng.random(size) < rng.choice([0.0, 0.1]), cand, near(rng, ref, names[1]))
    tolerance = Tolerance(
        float(rng.choice([0, 1, 1.5, 3, 2.0**53, 2.0**63])),
        float(rng.choice([0, 0.1, 0.9, 2.0**-60])),
        max_abs=rng.choice([None, 2.5, 1e5, 2.0**62]),
        max_outlier_fraction=float(rng.choice([0.0, 0.3])),
    )
    return ref, cand.astype(numpy_dtype(names[1])), tolerance


def near(rng: np.random.Generator, ref: Any, name: str) -> Any:
    """Integers of a dtype that are near those of the reference, where it has such ones."""
    if name in ("int64", "uint64"):
        return ref + rng.integers(0, 4, ref.shape).astype(ref.dtype)
    moved = np.clip(widened(ref).astype(np.int64) + rng.integers(-2, 3), *limits_of(name))
    return moved.astype(widened(np.empty(0, numpy_dtype(name))).dtype)


def floats(rng: np.random.Generator, name: str, size: tuple[int, int]) -> Any:
    """Numbers of a dtype of any size, some of them at its ends, or not finite."""
    dtype = numpy_dtype(name)
    with np.errstate(all="ignore"):
        values = (rng.normal(size=size) * 2.0 ** rng.integers(-12, 12)).astype(dtype)
        wild = rng.integers(0, 256, (*size, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]
        return np.where(rng.random(size) < rng.choice([0.0, 0.1]), wild, values).astype(dtype)


def alike(rng: np.random.Generator, ref: Any, name: str) -> Any:
    """Numbers of a dtype that are like those of the reference, in most places."""
    with np.errstate(all="ignore"):
        noise = 1 + rng.normal(size=ref.shape) * 2.0 ** -rng.integers(3, 20)
        cand = (ref.astype(np.float64) * noise).astype(numpy_dtype(name))
    return np.where(rng.random(ref.shape) < 0.02, floats(rng, name, ref.shape), cand)


def whole(rng: np.random.Generator, name: str, size: tuple[int, int]) -> Any:
    low, high = limits_of(name)
    spread = int(rng.choice([1, 3, high]))
    values = rng.integers(max(low, -spread), min(high, spread) + 1, size)
    values = np.where(rng.random(size) < 0.05, rng.choice([low, high], size), values)
    return values.astype(widened(np.empty(0, numpy_dtype(name))).dtype).astype(numpy_dtype(name))


def long(rng: np.random.Generator, name: str, size: tuple[int, int]) -> Any:
    if name not in ("int64", "uint64"):
        return whole(rng, name, size)
    low, high = limits_of(name)
    bits = rng.integers(0, 1 << 63, size, dtype=np.uint64) >> rng.integers(0, 63, size).astype("u8")
    values = bits.astype(name)
    for value in (low, high, high - 1, 2**53 + 1):
        values[rng.integers(size[0]), rng.integers(size[1])] = value
    return values
