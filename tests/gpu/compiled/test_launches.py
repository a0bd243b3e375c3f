"""Kernels are launched in as few blocks as their work has, and nobody is warned of it."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from numba.cuda import dispatcher
from numba.cuda.core.errors import NumbaPerformanceWarning

from paritygate.gpu.device import THREADS, kernel


def nothing(out: Any) -> None:
    out[0] = 0


def test_one_block_is_no_warning() -> None:
    made: Any = kernel(nothing)
    made[1, THREADS]
    with (
        mock.patch.object(dispatcher.config, "CUDA_LOW_OCCUPANCY_WARNINGS", 1),
        pytest.warns(NumbaPerformanceWarning),
    ):
        made[2, THREADS]
