"""What `doctor` says of GPUs: which are there, what works on them, whether they count right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from paritygate.core.errors import DeviceError
from paritygate.core.policy import Tolerance
from paritygate.gpu.driver import Chip, NoCudaError, find_chips, gpu_packages

_NAME = "comparison on a GPU"
_COMPILER = "numba-cuda"


def describe_gpus() -> Iterator[tuple[Literal["ok", "fail", "note"], str, str]]:
    """Status, name and sentence of each thing looked at."""
    chips: list[Chip] = []
    try:
        chips = find_chips()
    except NoCudaError as e:
        yield "note", "GPU", f"none: {e}"
    for number, chip in enumerate(chips):
        yield "ok", f"GPU {number}", str(chip)
    packages = gpu_packages()
    told = ", ".join(f"{name} {version}" for name, version in packages.items())
    yield "note", "GPU packages", told or "none installed"
    if chips and _COMPILER not in packages:
        yield "note", _NAME, f"{_COMPILER} isn't installed; 'paritygate[gpu]' has it"
    elif chips:
        problem = _problem()
        yield ("fail", _NAME, problem) if problem else ("ok", _NAME, "counts what the CPU counts")


def _problem() -> str:
    """What is wrong with comparisons on the first GPU; empty where nothing is."""
    try:
        from paritygate.comparison.canary import check_device
        from paritygate.comparison.on_device import DeviceComparer

        comparer = DeviceComparer(Tolerance(1e-3, 1e-3), "float32", "float32", (8,), "full")
        check_device(comparer, ("float32", "float32"), is_simulated=False)
    except DeviceError as e:
        return str(e)
    except Exception as e:  # whatever a driver or a compiler raises
        return f"can't be done here: {' '.join(str(e).split()) or type(e).__name__}"
    return ""
