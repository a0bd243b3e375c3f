"""Settings for all tests: no deadlines (kernels compile), the same examples on every CI run.

A shell starts jobs in the background with SIGINT ignored, and `nohup` any with SIGHUP, which child
processes would inherit; the tests of interrupts need them as they are in the foreground.

While tests are collected nothing becomes garbage to speak of, and what is there then stays there.
So it isn't searched again and again, which took a tenth of the time of a process.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
