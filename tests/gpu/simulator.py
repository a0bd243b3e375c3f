"""Numba's simulator of a GPU, as it is to be had for what runs many kernels.

Its threads are Python's, which take turns here (`simulated/turns.py`), or are switched so often
that none waits long for the others. Two that ask it for the same shared array at once may get one
each, so that this is done otherwise.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np


@contextmanager
def quick_simulator() -> Iterator[None]:
    """Within it kernels run sooner, and threads of a block share one array."""
    shared = importlib.import_module("numba.cuda.simulator.kernelapi").FakeCUDAShared
    turns = importlib.import_module("tests.gpu.simulated.turns")
    with ExitStack() as held:
        for owner, name, value in (
            (shared, "array", _shared_array),
            (turns.kernel.BlockManager, "run", turns.run_block),
            (turns.kernel, "swapped_cuda_module", turns.swapped_cuda_module),
        ):
            held.enter_context(mock.patch.object(owner, name, value))
        held.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-5)
        yield


def _shared_array(self: Any, shape: Any, dtype: Any) -> Any:
    caller = sys._getframe(1)
    place = caller.f_code.co_filename, caller.f_lineno
    return self._allocations.setdefault(place, np.empty(shape, dtype))
