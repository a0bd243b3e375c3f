"""Which GPUs are there, as the driver's own library says: nothing is imported to find out."""

from __future__ import annotations

import ctypes
import importlib.metadata
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

LIBRARY = "libcuda.so.1"
PACKAGES = ("numba-cuda", "cupy-cuda13x", "cupy-cuda12x", "cupy")
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")
_MAJOR, _MINOR = 75, 76  # attributes of a device: its compute capability
_NAME_BYTES = 256


class Chip(Struct, frozen=True):
    """A GPU.

    Attributes:
        name: as its maker calls it.
        compute_capability: major and minor, as "9.0".
        memory_bytes: of the device.
        driver: version of the driver's kernel module; empty where it isn't known.
        cuda: newest version of CUDA that the driver knows, as "13.0".
    """

    name: str
    compute_capability: str
    memory_bytes: int
    driver: str
    cuda: str

    def __str__(self) -> str:
        driver = f"driver {self.driver}, " if self.driver else ""
        return (
            f"{self.name}, compute capability {self.compute_capability}, {driver}"
            f"CUDA {self.cuda}, {self.memory_bytes / 2**30:.1f} GiB"
        )


class NoCudaError(Exception):
    """There is no GPU that can be used; the text says why."""


def find_chips(
    load: Callable[[str], Any] = ctypes.CDLL, module: Path = _KERNEL_MODULE
) -> list[Chip]:
    """The GPUs that this process may use, at least one.

    Args:
        load: loads the driver's library.
        module: file in which the driver's kernel module says its version.

    Raises:
        NoCudaError: there is none.
    """
    try:
        library = load(LIBRARY)
    except OSError:
        raise NoCudaError(f"no NVIDIA driver is installed ({LIBRARY} can't be loaded)") from None
    _check(library, "cuInit", ctypes.c_uint(0))
    version = _number(library, "cuDriverGetVersion")
    cuda = f"{version // 1000}.{version % 1000 // 10}"
    driver = _module_version(module)
    count = _number(library, "cuDeviceGetCount")
    if not count:
        raise NoCudaError("the NVIDIA driver knows no device")
    return [_chip(library, k, driver, cuda) for k in range(count)]


def gpu_packages() -> dict[str, str]:
    """Installed packages that work on a GPU: name -> version."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _chip(library: Any, number: int, driver: str, cuda: str) -> Chip:
    device = ctypes.c_int(_number(library, "cuDeviceGet", ctypes.c_int(number)))
    name = ctypes.create_string_buffer(_NAME_BYTES)
    _check(library, "cuDeviceGetName", name, ctypes.c_int(_NAME_BYTES), device)
    size = ctypes.c_size_t()
    _check(library, "cuDeviceTotalMem_v2", ctypes.byref(size), device)
    major, minor = (
        _number(library, "cuDeviceGetAttribute", ctypes.c_int(which), device)
        for which in (_MAJOR, _MINOR)
    )
    text = name.value.decode(errors="replace")
    return Chip(text, f"{major}.{minor}", size.value, driver, cuda)


def _number(library: Any, function: str, *arguments: Any) -> int:
    """What a function writes to its first argument."""
    found = ctypes.c_int()
    _check(library, function, ctypes.byref(found), *arguments)
    return found.value


def _check(library: Any, function: str, *arguments: Any) -> None:
    code = int(getattr(library, function)(*arguments))
    if code:
        raise NoCudaError(f"the NVIDIA driver says {_meaning(library, code)} ({function})")


def _meaning(library: Any, code: int) -> str:
    text = ctypes.c_char_p()
    if library.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text)) or not text.value:
        return f"error {code}"
    return f"error {code}, {text.value.decode(errors='replace')!r}"


def _module_version(path: Path) -> str:
    try:
        first = path.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    except OSError:
        return ""
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", first)
    return found.group() if found else ""
