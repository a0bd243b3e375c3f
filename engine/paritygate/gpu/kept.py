"""Machine code of a GPU on disk: one file for each kernel, signature and chip, whole or not there.

Numba's own cache of it doesn't ask whether a function in another file has changed, which compiler
there is, or who else writes. Here, as for the CPU, a file's name is a digest of all that its code
was made from, and its content says so again; what isn't as it was written is compiled anew.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numba.cuda

from paritygate.kernels import _cache
from paritygate.kernels.compiling import compiling

cuda: Any = numba.cuda  # its attributes are made at run time
_SOURCES = Path(__file__).parent
_DISTRIBUTIONS = (
    "numba", "numba-cuda", "llvmlite", "numpy", "cuda-bindings", "cuda-core", "cuda-pathfinder",
    "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvcc", "nvidia-cuda-nvrtc",
)  # fmt: skip
_COMPILERS = ("nvvm", "nvJitLink")


class Kept:
    """What Numba asks for the code of one kernel, and gives it to; nothing here ever raises.

    Args:
        kernel: of Numba, which it changes.
    """

    cache_path: str | None = None

    def __init__(self, kernel: Any) -> None:
        self._options = kernel.targetoptions
        self._name = _name_of(kernel.py_func)
        self._compile: Callable[[Any], Any] = kernel.compile
        self._lock = threading.Lock()
        self._meanwhile = ExitStack()
        kernel._cache, kernel.compile = self, self.compile

    def compile(self, sig: Any) -> Any:
        """Compile the kernel for a signature, or load it; time is told where it is compiled."""
        with self._lock, self._meanwhile:
            return self._compile(sig)

    def load_overload(self, sig: Any, _target_context: Any) -> Any:
        """The kernel compiled for a signature and the current device; None: there is none."""
        with suppress(Exception):  # whatever is in the file, it is compiled anew then
            key = self._key(sig)
            content = None if key is None else _cache.read_kept(kept_folder, self._file(key))
            if content is not None:
                found, states = pickle.loads(content)
                if found == key:
                    return _numba("dispatcher")._Kernel._rebuild(**pickle.loads(states))
        self._meanwhile.enter_context(compiling())
        return None

    def save_overload(self, sig: Any, compiled: Any) -> None:
        """Keep the kernel compiled for a signature; without a place to write it isn't kept."""
        key = self._key(sig)
        if key is None or compiled.launch_config_sensitive:
            return
        with suppress(Exception):  # what can't be written down is compiled by every process
            content = pickle.dumps((key, _numba("serialize").dumps(compiled._reduce_states())))
            _cache.write_kept(kept_folder, self._file(key), content)

    def _key(self, sig: Any) -> str | None:
        """All that the machine code is made from; None: nobody knows."""
        options = {**self._options}
        if self._name is None or options.pop("link", ()) or options.pop("extensions", ()):
            return None
        with suppress(Exception):  # whatever it is that can't be asked for
            made_for = tuple(map(str, sig)), sorted(options.items(), key=str), chip(), made_by()
            return repr((self._name, made_for))
        return None

    def _file(self, key: str) -> str:
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _name_of(function: Callable[..., Any]) -> str | None:
    """Name of a kernel and of the functions in its closure; None: it is made of something else."""
    if Path(function.__code__.co_filename).parent != _SOURCES:
        return None
    parts = [f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"]
    for cell in function.__closure__ or ():
        inner = getattr(cell.cell_contents, "py_func", None)
        name = None if inner is None else _name_of(inner)
        if name is None:
            return None
        parts.append(name)
    return "-".join(parts).replace("<locals>.", "")


def _numba(module: str) -> Any:
    """A module of numba-cuda, of which the simulator has other ones."""
    return import_module(f"numba.cuda.{module}")


def chip() -> tuple[Any, ...]:
    """What code is made for: compute capability of the current device, version of its driver."""
    device = cuda.get_current_device()
    return tuple(device.compute_capability), _numba("cudadrv.driver").driver.get_version()


@cache
def made_by() -> tuple[Any, ...]:
    """Versions of all that compiles, and which files the compilers are."""
    versions = []
    for name in _DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            versions.append((name, metadata.version(name)))
    files = []
    for path in (*map(_library, _COMPILERS), _numba("cudadrv.libs").get_libdevice()):
        if path is not None:
            found = Path(path).stat()
            files.append((str(path), found.st_size, found.st_mtime_ns))
    return sys.implementation.cache_tag, tuple(versions), tuple(files)


def _library(name: str) -> str | None:
    """Path of a compiler's library; None: there is none, so that the driver does its work."""
    finding = import_module("cuda.pathfinder")
    try:
        return str(finding.load_nvidia_dynamic_lib(name).abs_path)
    except finding.DynamicLibNotFoundError:
        return None


@cache
def kept_folder() -> Path:
    """Folder of machine code compiled from exactly the present sources.

    Raises:
        RuntimeError: this user has no home.
    """
    return _cache.cache_root() / f"gpu-{_cache.source_digest(_SOURCES, _cache.SOURCES)}"
