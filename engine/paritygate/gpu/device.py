"""What kernels are made with: one source, for a device and for Numba's simulator of one.

`rule` compiles a rule of `kernels` again, with a product that no compiler joins with a sum: NVVM
fuses what it can, and only products of this kind stay as they are. No kernel has `fastmath`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

import numba.cuda
import numpy as np

from paritygate.gpu.kept import Kept
from paritygate.kernels import scalar

F = TypeVar("F", bound=Callable[..., Any])

cuda: Any = numba.cuda  # its attributes are made at run time
SIMULATED = bool(cuda.config.ENABLE_CUDASIM)
cuda.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # what folds is launched in one block, on purpose
THREADS = 4 if SIMULATED else 256  # a block, a power of two
TILE = THREADS * (2 if SIMULATED else 16)  # elements that a block judges between two barriers

# widen(value): a float32 as a float64. `float` keeps a float32 as it is on the device, and in the
# simulator NumPy's float64 warns of what overflows.
widen: Any = float if SIMULATED else np.float64

# unsigned(k): a number that isn't negative as one that can't be: no kernel asks whether it counts
# from the end of an array.
unsigned: Any = int if SIMULATED else np.uint64


def _apart(left: int, right: int) -> int:
    return abs(int(left) - int(right))


def _ordered(value: int) -> int:
    return int(value) - (1 << 63)


def kernel(function: F) -> F:
    """Compile a kernel, when it is first launched and isn't kept on disk.

    What runs is assembled from the PTX that tests read: where Numba may, it would optimize anew
    when linking, which takes as long again.
    """
    if SIMULATED:
        return cast(F, cuda.jit(function))
    made = cuda.jit(function, lto=False)
    Kept(made)
    return cast(F, made)


def device(function: F) -> F:
    """Compile a function that kernels call."""
    return cast(F, cuda.jit(device=True)(function))


def _functions() -> dict[str, Any]:
    """What rules call by a name of their own: here as no compiler joins it with a sum."""
    if SIMULATED:
        return {"product": operator.mul, "rint": np.rint}
    from numba.cuda import libdevice  # the simulator has none

    own: Any = libdevice
    return {"product": own.dmul_rn, "rint": own.rint}


_FUNCTIONS = _functions()

# product(left, right): rounded by itself, whatever is added to it.
product: Any = _FUNCTIONS["product"]

# rint(value): the nearest whole number, of two the even one.
rint: Any = _FUNCTIONS["rint"]


def rule(compiled: F, **called: Any) -> F:
    """A rule of `kernels`, for kernels here; `called` are the rules that it calls."""
    plain: Any = getattr(compiled, "py_func", compiled)
    names = {**plain.__globals__, **_FUNCTIONS, **called}
    own = FunctionType(plain.__code__, names, plain.__name__)
    own.__module__, own.__qualname__ = plain.__module__, plain.__qualname__
    return cast(F, own if SIMULATED else device(own))


@device
def _wait_for_warp() -> None:
    cuda.syncwarp()


@device
def _wait_for_block() -> None:
    cuda.syncthreads()


# sync_team(): threads of a block's team, of at most a warp, wait for each other. The simulator has
# no warps, so that all threads of a block come here as often.
sync_team: Any = _wait_for_block if SIMULATED else _wait_for_warp


@device
def bits_of(value: float) -> int:
    """The bits of a float64."""
    return int(np.float64(value).view(np.int64))


@device
def float_of(bits: int) -> float:
    """The float64 that has these bits."""
    value: float = widen(np.int64(bits).view(np.float64))
    return value


# distance(left, right): of two int64, as one without a sign.
distance: Any = _apart if SIMULATED else rule(scalar.integer_error)


@device
def _order_of(value: int) -> int:
    return int(np.int64(np.uint64(value) ^ np.uint64(0x8000000000000000)))


# order_of(value): of a 64-bit integer without a sign, an int64 whose order is that of the values.
order_of: Any = _ordered if SIMULATED else _order_of
