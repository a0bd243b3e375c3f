"""Every Numba option in one place.

`jit` compiles a loop, `scalar` a rule for one element that is inlined into loops. Neither has
`fastmath`: the flag would let a decision compile to a fused multiply-add. Neither counts references
to arrays: kernels make none, and counting costs more than judging where a sample is one element.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as numba_config

config: Any = numba_config  # its attributes are made at run time
F = TypeVar("F", bound=Callable[..., Any])

_ALWAYS: dict[str, Any] = {"error_model": "numpy", "boundscheck": False, "_nrt": False}
_lock = threading.Lock()


def jit(function: F) -> F:
    """Compile a loop: serial, without the GIL, cached on disk, division by zero as in IEEE 754."""
    return _compile(function, cache=True, nogil=True)


def scalar(function: F) -> F:
    """Compile a rule for one element; it is always inlined into the loop that calls it."""
    return _compile(function, cache=False, forceinline=True)


def _compile(function: F, **options: Any) -> F:
    # Numba reads the folder while it decorates and the setting is shared by the whole process, so
    # it is ours for that moment only.
    with _lock:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(cache_folder())
        try:
            compiled = numba.njit(**_ALWAYS, **options)(function)
        finally:
            config.CACHE_DIR = before
    return cast(F, compiled)


@cache
def cache_folder() -> Path:
    """Folder of machine code compiled from exactly the present kernel sources.

    Numba checks only the file that a cached function itself lies in: after an edit of an inlined
    rule it would go on using the old code of its callers. A folder named by the digest of all
    kernel sources rules that out. `NUMBA_CACHE_DIR` is respected; where nothing can be written the
    folder is a private temporary one, which goes when the process ends.
    """
    try:
        folder = _cache_root() / source_digest()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: this user has no home
        return _temporary_folder()


def source_digest() -> str:
    """First 16 hex digits of the SHA-256 over names and contents of all kernel sources."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _cache_root() -> Path:
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR) / "paritygate"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "paritygate" / "kernels"


def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="paritygate-kernels-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a forked child
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
