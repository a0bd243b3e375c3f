"""Values of other dtypes as what kernels of decisions take: by a table, or one by one."""

from __future__ import annotations

from typing import Any, NamedTuple

from paritygate.gpu.device import bits_of, cuda, device, float_of, kernel, product, rint, widen


class Format(NamedTuple):
    """Which numbers a float dtype of at most two bytes holds.

    Attributes:
        mantissa: bits after the leading one.
        min_exponent: power of two of the smallest normal number.
        largest: largest finite number.
        past: what a larger one becomes, with its sign.
    """

    mantissa: int
    min_exponent: int
    largest: float
    past: float


@kernel
def look_up(codes: Any, table: Any, out: Any) -> None:
    """Widen values by their bits.

    Args:
        codes: `(n,)` uint8 or uint16.
        table: float32 of all bits.
        out: `(n,)` float32, set.
    """
    for k in range(cuda.grid(1), codes.size, cuda.gridsize(1)):
        out[k] = table[codes[k]]


@kernel
def cast(values: Any, out: Any) -> None:
    """Write values in another dtype, rounded to the nearest, half to even.

    Args:
        values: `(n,)`.
        out: `(n,)` float32 or float64, set.
    """
    for k in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        out[k] = values[k]


@device
def nearest(value: float, form: Any) -> float:
    """A float64 rounded to a format once, half to even."""
    exponent = max(((bits_of(value) >> 52) & 0x7FF) - 1023, form.min_exponent)
    grid = float_of((1023 + exponent - form.mantissa) << 52)
    scale = float_of((1023 + form.mantissa - exponent) << 52)
    steps = widen(rint(product(abs(value), scale)))
    size = product(steps, grid)
    if size > form.largest:
        size = form.past
    return product(size, -1.0 if value < 0.0 else 1.0)


@kernel
def round_off(values: Any, form: Any, out: Any) -> None:
    """Round values to a format.

    Args:
        values: `(n,)` float32 or float64.
        form: a `Format`.
        out: `(n,)` float32, set.
    """
    for k in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        out[k] = nearest(widen(values[k]), form)
