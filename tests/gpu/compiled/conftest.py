"""Without numba-cuda nothing here can run; `make gpu` makes an environment that has it."""

from __future__ import annotations

import importlib.util
import os

IS_SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
HAS_COMPILER = importlib.util.find_spec("numba_cuda") is not None
collect_ignore_glob = [] if HAS_COMPILER and not IS_SIMULATED else ["test_*.py"]
