"""Numba's simulator of a GPU is chosen when Numba is imported: these run in a process of their own.

Its threads are Python's, which take turns here (`turns.py`), or are switched so often that none
waits long for the others. Two that ask it for the same shared array at once may get one each, so
that this is done otherwise.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

IS_SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
collect_ignore_glob = [] if IS_SIMULATED else ["test_*.py"]


def shared_array(self: Any, shape: Any, dtype: Any) -> Any:
    caller = sys._getframe(1)
    place = caller.f_code.co_filename, caller.f_lineno
    return self._allocations.setdefault(place, np.empty(shape, dtype))


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    shared = importlib.import_module("numba.cuda.simulator.kernelapi").FakeCUDAShared
    monkeypatch.setattr(shared, "array", shared_array)
    turns = importlib.import_module("tests.gpu.simulated.turns")
    monkeypatch.setattr(turns.kernel.BlockManager, "run", turns.run_block)
    monkeypatch.setattr(turns.kernel, "swapped_cuda_module", turns.swapped_cuda_module)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
