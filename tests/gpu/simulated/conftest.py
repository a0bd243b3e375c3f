"""Numba's simulator of a GPU is chosen when Numba is imported: these run in their own process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.gpu.simulator import quick_simulator

IS_SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
collect_ignore_glob = [] if IS_SIMULATED else ["test_*.py"]


@pytest.fixture(autouse=True)
def simulator() -> Iterator[None]:
    with quick_simulator():
        yield
