"""Where a run takes place: versions, processor, thread settings, builds of onnxruntime."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

Folders = tuple[tuple[str, int], ...]

PACKAGES = ("paritygate", "numpy", "numba", "pyarrow", "onnx")
_OWNED = "onnxruntime/__init__.py"
_ROWS = tuple(  # that list it
    b"\n" + row
    for row in (
        b"onnxruntime/__init__.py,",
        b'"onnxruntime/__init__.py",',
        b"./onnxruntime/__init__.py,",
    )
)
_CPU_FLAGS = ("avx", "avx2", "fma", "avx512", "avx_vnni", "amx", "asimd", "sve", "i8mm", "bf16")
_VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
)


def describe_environment() -> dict[str, object]:
    """Versions, processor and settings that can change numbers, of JSON types."""
    builds = onnxruntime_distributions()
    versions = package_versions()
    versions["onnxruntime"] = ", ".join(dict.fromkeys(builds.values())) or None
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
        "onnxruntime_distributions": builds,
        "cpu": describe_cpu(),
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name in _VARIABLES or name.startswith("ORT_")
        },
    }


def package_versions() -> dict[str, str | None]:
    """Versions of the packages that can change numbers; None where one isn't installed."""
    return dict(_versions_in(_package_folders()))


@lru_cache(1)
def _versions_in(_folders: Folders) -> Mapping[str, str | None]:
    return {name: _version(name) for name in PACKAGES}


def _package_folders() -> Folders:
    """Where packages are looked for, with the time at which one was last put there or removed."""
    found = []
    for folder in sys.path:
        try:
            found.append((folder, Path(folder or ".").stat().st_mtime_ns))
        except OSError:
            found.append((folder, 0))
    return tuple(found)


def describe_cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, object]:
    """Model, instruction sets that matter to kernels, and cores that this process may use.

    Args:
        cpuinfo: file in the format of Linux' `/proc/cpuinfo`.
    """
    model, flags = platform.processor() or platform.machine(), set[str]()
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "model name":
            model = value
        elif key in ("flags", "Features"):
            flags = set(value.split())
            break
    return {
        "model": model,
        "architecture": platform.machine(),
        "flags": sorted(f for f in flags if f.startswith(_CPU_FLAGS)),
        "cores": os.cpu_count(),
        "usable_cores": _usable_cores(),
    }


def onnxruntime_distributions() -> dict[str, str]:
    """Installed distributions that own the `onnxruntime` folder: name -> version."""
    return dict(_distributions_in(_package_folders()))


@lru_cache(1)
def _distributions_in(folders: Folders) -> Mapping[str, str]:
    """Of distributions in folders, or, where none there is an owner, of all that Python knows.

    Of several of one name the first counts, whose module is imported.
    """
    owners = [one for folder, _ in folders for one in _owners_in(folder or ".")]
    if not owners:
        owners = [_told(one) for one in importlib.metadata.distributions() if _is_owner(one)]
    found: dict[str, str] = {}
    for name, version in owners:
        found.setdefault(name, version)
    return dict(sorted(found.items()))


def _owners_in(folder: str) -> Iterator[tuple[str, str]]:
    """Names and versions of those in a folder.

    The lists of what they own are looked at as they lie there: to decode the megabytes of all of
    them, as the library does, takes many times as long, and every command does this once.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
    except OSError:  # an archive, or nothing
        names = []
        yield from _slowly(folder)
    for name in names:
        path = f"{folder}/{name}"
        if name.endswith((".dist-info", ".egg-info")):
            listed = _list_of(path)
            one = importlib.metadata.Distribution.at(path)
            is_listed = listed is not None and any(row in listed for row in _ROWS)
            if is_listed or (listed is None and _is_owner(one)):
                yield _told(one, name)
        elif name.endswith(".egg"):
            yield from _slowly(path)


def _slowly(path: str) -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        for one in importlib.metadata.distributions(path=[path]):
            if _is_owner(one):
                yield _told(one, path)


def _told(one: importlib.metadata.Distribution, where: str = "") -> tuple[str, str]:
    """Name and version; of one whose metadata lack or can't be read, what its place says."""
    try:
        return one.metadata["Name"] or where or "unknown", one.version or "unknown"
    except (OSError, ValueError, TypeError, KeyError):
        return where or "unknown", "unknown"


def _list_of(path: str) -> bytes | None:
    """The list of what a distribution owns; None: an older format, or it can't be read."""
    try:
        with Path(path, "RECORD").open("rb", buffering=0) as file:
            return b"\n" + file.readall()
    except OSError:
        return None


def _is_owner(distribution: importlib.metadata.Distribution) -> bool:
    return _OWNED in {file.as_posix() for file in distribution.files or []}


def onnxruntime_problem(distributions: Mapping[str, str]) -> str | None:
    """What is wrong with the installed builds of onnxruntime, and what to do; None if nothing."""
    if len(distributions) == 1:
        return None
    if not distributions:
        return (
            "onnxruntime isn't installed, so ONNX models can't be run; install 'paritygate[cpu]' "
            "or 'paritygate[gpu]', one of them"
        )
    names = " and ".join(f"{name} {version}" for name, version in distributions.items())
    return (
        f"{names} are installed together, but they own the same folder and overwrite each other; "
        f"uninstall all of them ({', '.join(distributions)}), then install one"
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _usable_cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()
