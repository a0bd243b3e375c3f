"""Numba's simulator of a GPU, as it is to be had for what runs many kernels.

Its threads are Python's, which take turns here (`simulated/turns.py`), or are switched so often
that none waits long for the others. Two that ask it for the same shared array at once may get one
each, so that this is done otherwise.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
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


@contextmanager
def threads_in_turns(owner: Any, name: str) -> Iterator[None]:
    """Within it threads that call a method take turns with the pieces that they send.

    The simulator can't launch a kernel while another thread does anything.
    """
    lane = importlib.import_module("paritygate.gpu.staging").Lane
    call, send, turn, own = getattr(owner, name), lane.send, threading.Lock(), threading.local()

    def in_turn(self: Any, *args: Any, **given: Any) -> Any:
        with turn:
            own.has_turn = True
            try:
                return call(self, *args, **given)
            finally:
                own.has_turn = False

    def send_later(self: Any, arrays: Any) -> Any:
        if getattr(own, "has_turn", False):
            turn.release()
            time.sleep(1e-3)
            turn.acquire()
        return send(self, arrays)

    with mock.patch.object(owner, name, in_turn), mock.patch.object(lane, "send", send_later):
        yield


def _shared_array(self: Any, shape: Any, dtype: Any) -> Any:
    caller = sys._getframe(1)
    place = caller.f_code.co_filename, caller.f_lineno
    return self._allocations.setdefault(place, np.empty(shape, dtype))
