"""Which GPUs are there: a library that stands in for the driver's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paritygate.gpu.driver import Chip, NoCudaError, find_chips


class Driver:
    """The functions of a driver's library that are called, by its own rules for arguments."""

    def __init__(self, count: int = 2, fails: str = "", code: int = 100) -> None:
        self._count, self._fails, self._code = count, fails, code

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("cu") and name == object.__getattribute__(self, "_fails"):
            return lambda *arguments: self._code
        return found

    def cuInit(self, flags: Any) -> int:
        return int(flags.value)

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 13_020
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = self._count
        return 0

    def cuDeviceGet(self, device: Any, ordinal: Any) -> int:
        device._obj.value = 40 + ordinal.value
        return 0

    def cuDeviceGetName(self, name: Any, size: Any, device: Any) -> int:
        name.value = f"chip {device.value}".encode()
        return 0

    def cuDeviceTotalMem_v2(self, size: Any, device: Any) -> int:
        size._obj.value = 5 << 33
        return 0

    def cuDeviceGetAttribute(self, value: Any, which: Any, device: Any) -> int:
        value._obj.value = {75: 9, 76: device.value - 40}[which.value]
        return 0

    def cuGetErrorString(self, code: Any, text: Any) -> int:
        if code.value == 100:
            text._obj.value = b"no CUDA-capable device is detected"
        return 0 if code.value == 100 else 1


def test_chips_with_their_driver(tmp_path: Path) -> None:
    module = tmp_path / "version"
    module.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
        "GCC version:  gcc version 12.2.0\n"
    )
    found = find_chips(lambda name: Driver(), module)
    assert found == [Chip(f"chip {40 + k}", f"9.{k}", 5 << 33, "580.65.06", "13.2") for k in (0, 1)]
    assert str(found[0]) == (
        "chip 40, compute capability 9.0, driver 580.65.06, CUDA 13.2, 40.0 GiB"
    )


def test_a_driver_of_unknown_version(tmp_path: Path) -> None:
    (found,) = find_chips(lambda name: Driver(count=1), tmp_path / "none")
    assert str(found) == "chip 40, compute capability 9.0, CUDA 13.2, 40.0 GiB"


def no_library(name: str) -> Any:
    raise OSError(name)


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (no_library, "no NVIDIA driver is installed (libcuda.so.1 can't be loaded)"),
        (
            lambda name: Driver(fails="cuInit"),
            "the NVIDIA driver says error 100, 'no CUDA-capable device is detected' (cuInit)",
        ),
        (
            lambda name: Driver(fails="cuDeviceTotalMem_v2", code=999),
            "the NVIDIA driver says error 999 (cuDeviceTotalMem_v2)",
        ),
        (lambda name: Driver(count=0), "the NVIDIA driver knows no device"),
    ],
)
def test_no_gpu_and_why(load: Any, text: str) -> None:
    with pytest.raises(NoCudaError) as raised:
        find_chips(load)
    assert str(raised.value) == text
