"""Values of other dtypes as what kernels of decisions take: by a table, or one by one."""

from __future__ import annotations

from typing import Any

from paritygate.gpu.device import cuda, kernel


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
