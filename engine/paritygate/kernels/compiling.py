"""How long kernels have been compiled in this process: what a first run on a machine waits for.

And how a thread is kept from compiling more of them.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numba.core import event

_PACKAGE = __name__.rpartition(".")[0]


class Stopped(BaseException):
    """Raised in place of the next kernel; no `Exception`, of which Numba would make its own."""


_until = threading.local()


@contextmanager
def until(stop: threading.Event) -> Iterator[None]:
    """Have this thread compile no further kernel once it is stopped, but raise `Stopped`."""
    _until.stop = stop
    try:
        yield
    finally:
        _until.stop = None


def check() -> None:
    """Ask before a kernel is compiled.

    Raises:
        Stopped: this thread has been stopped.
    """
    stop = getattr(_until, "stop", None)
    if stop is not None and stop.is_set():
        raise Stopped("stopped before a kernel was compiled")


@dataclass
class _Clock(event.Listener):
    """Adds up the time in which a kernel is compiled, those that it calls included.

    Garbage isn't looked for meanwhile: a compiler makes so many objects that this takes a tenth of
    its time, and nearly all of them live until it is done.
    """

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._since = 0.0
        self._before = 0.0
        self._collects = False

    def on_start(self, event: Any) -> None:
        """A function is compiled from now on."""
        if _is_kernel(event):
            self.start()

    def on_end(self, event: Any) -> None:
        """It has been, or couldn't be."""
        if _is_kernel(event):
            self.stop()

    def start(self) -> None:
        with self._lock:
            if self._running == 0:
                self._since = time.perf_counter()
                self._collects = gc.isenabled()
                gc.disable()
            self._running += 1

    def stop(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0:
                self._before += time.perf_counter() - self._since
                if self._collects:
                    gc.enable()

    def read(self) -> tuple[float, bool]:
        with self._lock:
            now = time.perf_counter() - self._since if self._running else 0.0
            return self._before + now, self._running > 0


def _is_kernel(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith(_PACKAGE)


_clock = _Clock()


def listen() -> None:
    """Begin to measure; once."""
    if _clock not in event._registered["numba:compile"]:
        event.register("numba:compile", _clock)


@contextmanager
def compiling() -> Iterator[None]:
    """What a compiler that tells nobody is at work for, as what Numba's CPU compiler does."""
    _clock.start()
    try:
        yield
    finally:
        _clock.stop()


def compiled_for() -> tuple[float, bool]:
    """Seconds that kernels have been compiled for in this process, and whether one is now.

    Code that comes from the cache isn't compiled. Several threads that compile count once.
    """
    return _clock.read()
