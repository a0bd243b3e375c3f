"""What `bench/gpu.py` measures, the most important first: the machine may be lent for minutes."""

from __future__ import annotations

from typing import Any

from bench import gpu_decisions, gpu_model
from bench.gpu_elements import FAILING, HELD, Batched, OnDevice
from bench.gpu_kernels import Kernels
from bench.gpu_recorded import RecordedOnDevice, Ways
from bench.gpu_start import Start, Tried

WIDTHS = (1, 10, 1000)
DTYPES = (*HELD, "float16", "bfloat16", "int8")
BAD = [failing for failing in FAILING if failing != "clean"]

CASES: tuple[Any, ...] = (
    Ways(),
    *(OnDevice("float32", width, has_others=True) for width in WIDTHS),
    *(OnDevice("float64", width, has_others=width == WIDTHS[-1]) for width in WIDTHS),
    *(Kernels(dtype, width) for dtype in HELD for width in WIDTHS),
    *gpu_model.cases(),
    RecordedOnDevice(),
    *gpu_decisions.cases(),
    Start(),
    Tried(),
    Batched(),
    *(OnDevice("float32", width, failing) for failing in BAD for width in WIDTHS),
    *(
        OnDevice(dtype, width, has_others=width == WIDTHS[-1])
        for dtype in DTYPES[2:]
        for width in WIDTHS
    ),
    *(
        OnDevice(dtype, width, failing)
        for dtype in DTYPES[1:]
        for failing in BAD
        for width in WIDTHS
    ),
)
