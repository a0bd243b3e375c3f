"""Settings for all tests: no deadlines (kernels compile), the same examples on every CI run.

A shell starts jobs in the background with SIGINT ignored, and `nohup` any with SIGHUP, which child
processes would inherit; the tests of interrupts need them as they are in the foreground.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
