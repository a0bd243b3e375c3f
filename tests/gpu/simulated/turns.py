"""Threads of a simulated block that take turns: each runs to its next barrier, then the next one.

The simulator lets them run at once, asks each over and over whether it waits, and puts its own
`cuda` into a module anew for each call of a function. In turns nothing is asked, it is put there
once a launch, and what lacks a barrier reads what isn't there yet. What one thread looks at and
then changes is in danger at once only: one launch of some is left to the simulator.
"""

from __future__ import annotations

import itertools
import threading
from types import TracebackType
from typing import Any, ClassVar

import numpy as np
from numba import cuda
from numba.cuda.simulator import kernel

AT_ONCE = 16  # one launch of so many

_launches = itertools.count(1)
_run, _swapped = kernel.BlockManager.run, kernel.swapped_cuda_module


def run_block(self: Any, grid_point: Any, *args: Any) -> None:
    """Instead of `BlockManager.run`."""
    run = _run_in_turns if _is_in_turns(kernel._get_kernel_context()) else _run
    run(self, grid_point, *args)


def swapped_cuda_module(function: Any, module: Any) -> Any:
    """Instead of the simulator's own, of a launch and of calls within it."""
    return (_Swapped if module and _is_in_turns(module) else _swapped)(function, module)


def _is_in_turns(module: Any) -> bool:
    """Said once of each launch, which has a module of its own."""
    if not hasattr(module, "is_in_turns"):
        module.is_in_turns = next(_launches) % AT_ONCE > 0
    return bool(module.is_in_turns)


class _Turn(kernel.BlockThread):  # type: ignore[misc]
    """A thread of a block, which runs when it is let."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.go, self.back = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.back.acquire()
        self.is_done = False

    def run(self) -> None:
        self.go.acquire()
        super().run()
        self.is_done = True
        self.back.release()

    def syncthreads(self) -> None:
        self.back.release()
        self.go.acquire()
        if self.abort:
            raise RuntimeError("another thread of the block has failed")

    def take(self) -> None:
        self.go.release()
        self.back.acquire()


def _run_in_turns(self: Any, grid_point: Any, *args: Any) -> None:
    """The first thread goes first, and after a barrier the last."""
    points = np.ndindex(*self._block_dim)
    threads = [
        _Turn(lambda: self._f(*args), self, grid_point, point, self._debug) for point in points
    ]
    for thread in threads:
        thread.start()
    live = threads
    while live:
        for thread in live:
            thread.take()
            if thread.exception:
                _end(threads)
                raise thread.exception[0].with_traceback(thread.exception[1])
        live = [thread for thread in reversed(live) if not thread.is_done]


def _end(threads: list[_Turn]) -> None:
    for thread in threads:
        thread.abort = True
        while not thread.is_done:
            thread.take()


class _Swapped:
    """What may stay as it is until the launch ends, since one thread runs at a time."""

    changed: ClassVar[dict[int, dict[str, Any]]] = {}

    def __init__(self, function: Any, module: Any) -> None:
        self._names, self._module = function.__globals__, module

    def __enter__(self) -> None:
        if id(self._names) not in self.changed:
            self.changed[id(self._names)] = self._names
            for name in [name for name, value in self._names.items() if value is cuda]:
                self._names[name] = self._module

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if isinstance(threading.current_thread(), _Turn):
            return
        for names in self.changed.values():
            for name in [name for name, value in names.items() if value is self._module]:
                names[name] = cuda
        self.changed.clear()
