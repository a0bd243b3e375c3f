"""Every Numba option in one place.

`jit` compiles a loop, `scalar` a rule for one element that is inlined into loops. Neither has
`fastmath`: the flag would let a decision compile to a fused multiply-add. Neither counts references
to arrays: kernels make none, and counting costs more than judging where a sample is one element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from paritygate.kernels import compiling
from paritygate.kernels._cache import KernelCache

F = TypeVar("F", bound=Callable[..., Any])

# Wrappers that nothing calls are not made: they take a tenth of the time to compile. Those for
# Python are: without one, a call from there ends the process.
_ALWAYS: dict[str, Any] = {
    "error_model": "numpy",
    "boundscheck": False,
    "_nrt": False,
    "no_cfunc_wrapper": True,
}

# What `scalar` compiles with, for `overload`.
INLINED: Any = {**_ALWAYS, "forceinline": True, "no_cpython_wrapper": True}

compiling.listen()


def jit(function: F) -> F:
    """Compile a loop: serial, without the GIL, cached on disk, division by zero as in IEEE 754."""
    compiled: Any = _compile(function, nogil=True)
    if KernelCache.covers(function) and not isinstance(compiled, type(function)):
        compiled._cache = KernelCache(function)
    return cast(F, compiled)


def scalar(function: F) -> F:
    """Compile a rule for one element; it is always inlined into the loop that calls it."""
    return _compile(function, forceinline=True)


def _compile(function: F, **options: Any) -> F:
    make: Any = numba.njit
    return cast(F, make(**_ALWAYS, **options)(function))
