"""Machine code on disk: one file for each kernel and signature, whole or not there.

Numba's own cache keeps an index beside the code. Two processes that add to an index at once may
leave a signature that points to the code of another one. Here a file's name is a digest of all that
its code was made from, and its content says so again, so that writers can't mix anything up: the
last one wins, with the same code. A file that was cut or changed is made anew.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import config as numba_config
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from paritygate.kernels import compiling, second
from paritygate.kernels.linked import make_cells, needs_of

config: Any = numba_config  # its attributes are made at run time
SOURCES = Path(__file__).parent
_DIGEST_BYTES = 32
_NOWHERE = (OSError, RuntimeError)  # no folder, or none that may be read or written
WRITING = threading.Lock()  # held while a file is made, which whoever ends the process awaits


class KernelCache:
    """What Numba asks for the code of one function, and gives it to.

    Nothing here raises, but in place of code that is to be compiled on a thread that was stopped.
    """

    def __init__(self, function: Callable[..., Any], *, is_inner: bool = False) -> None:
        """The code of a function; `is_inner`: of the version that only kernels can call."""
        name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._name = f"{name}.inner" if is_inner else name

    @staticmethod
    def covers(function: Callable[..., Any]) -> bool:
        """Whether the folder's name stands for everything that a function is made of."""
        is_ours = Path(function.__code__.co_filename).parent == SOURCES
        return is_ours and function.__closure__ is None

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(cache_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function compiled for a signature; None: there is none.

        Raises:
            Stopped: there is none, and this thread is to compile no more.
        """
        found = self._load(sig, target_context)
        if found is None:
            compiling.check()
            with suppress(*_NOWHERE):
                second.missing(cache_folder())
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        key = self._key(sig, target_context.codegen())
        content = read_kept(cache_folder, self._file(key))
        if content is None:
            return None
        found, needs, payload = pickle.loads(content)
        if found != key:
            return None
        make_cells(needs)
        return CompileResult._rebuild(target_context, *payload)

    def save_overload(self, sig: Any, compiled: Any) -> None:
        """Keep a function compiled for a signature; without a place to write it isn't kept."""
        if compiled.lifted or compiled.library.has_dynamic_globals:
            return
        key = self._key(sig, compiled.codegen)
        content = dumps((key, needs_of(compiled.library), compiled._reduce()))
        write_kept(cache_folder, self._file(key), content)

    def flush(self) -> None:
        """Forget the function, of all signatures."""
        for path in cache_folder().glob(f"{self._name}-*"):
            path.unlink(missing_ok=True)

    def _key(self, sig: Any, codegen: Any) -> str:
        made_by = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag)
        return repr((self._name, str(sig), codegen.magic_tuple(), made_by))

    def _file(self, key: str) -> str:
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def read_kept(folder: Callable[[], Path], file: str) -> bytes | None:
    """What `write_kept` wrote to a file; None: it isn't there, or not as it was written."""
    try:
        data = (folder() / file).read_bytes()
    except _NOWHERE:
        return None
    digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None


def write_kept(folder: Callable[[], Path], file: str, content: bytes) -> None:
    """Write a file with its digest, if it can be written."""
    with suppress(*_NOWHERE):
        _write_whole(folder() / file, hashlib.sha256(content).digest() + content)


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file that others see whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with WRITING:
        try:
            partial.write_bytes(data)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


@cache
def cache_folder() -> Path:
    """Folder of machine code compiled from exactly the present kernel sources.

    A file's name doesn't stand for the rules that are inlined into a kernel from other modules: a
    folder named by the digest of all kernel sources does. `NUMBA_CACHE_DIR` is respected. The
    folder may lack, or be for reading only: then what isn't in it is compiled by every process.

    Raises:
        RuntimeError: this user has no home.
    """
    return cache_root() / source_digest(SOURCES)


def source_digest(*folders: Path) -> str:
    """First 16 hex digits of the SHA-256 over names and contents of all sources in some folders."""
    digest = hashlib.sha256()
    for path in (path for folder in folders for path in sorted(folder.glob("*.py"))):
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def cache_root() -> Path:
    """Folder of all folders of machine code.

    Raises:
        RuntimeError: this user has no home.
    """
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR) / "paritygate"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "paritygate" / "kernels"
