"""Keep standard output for the report: whatever else prints there meanwhile goes to standard error.

A model's own code may print, through `print`, a stream that it kept, or the file descriptor, as
native libraries do.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO

from msgspec import Struct

_OUT, _ERR = 1, 2


class _Kept(Struct):
    """The stream, and the descriptor that it wrote to; None where there is none of its own."""

    stream: TextIO
    descriptor: int | None


_kept: list[_Kept] = []


@contextmanager
def set_aside() -> Iterator[None]:
    """While this lasts only `lent_back` reaches standard output; for one thread at a time."""
    if sys.stdout is None or sys.stderr is None:
        yield
        return
    _flush(sys.stdout)
    kept = _Kept(sys.stdout, _duplicate())
    _kept.append(kept)
    try:
        _point_at(_ERR, kept)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _kept.remove(kept)
        _flush(kept.stream)
        atexit.unregister(_stay_aside)
        atexit.register(_stay_aside)  # what runs at exit was registered before, so it runs after
        if kept.descriptor is not None:
            _point_at(kept.descriptor, kept)
            os.close(kept.descriptor)


@contextmanager
def lent_back() -> Iterator[None]:
    """Standard output as the command was given it."""
    if not _kept:
        yield
        return
    kept = _kept[-1]
    _flush(kept.stream)
    if kept.descriptor is not None:
        _point_at(kept.descriptor, kept)
    try:
        with redirect_stdout(kept.stream):
            yield
    finally:
        _flush(kept.stream)
        _point_at(_ERR, kept)


def silence(stream: TextIO) -> None:
    """Let what a stream still holds back, and all that follows, go nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        for kept in _kept:
            if kept.stream is stream and kept.descriptor is not None:
                os.dup2(nowhere, kept.descriptor)
        os.close(nowhere)
    _flush(stream)


def _stay_aside() -> None:
    """Print to standard error from now on: the report is written."""
    _flush(sys.stdout)
    with suppress(OSError):
        os.dup2(_ERR, _OUT)


def _duplicate() -> int | None:
    try:
        return os.dup(_OUT)
    except OSError:
        return None


def _point_at(descriptor: int, kept: _Kept) -> None:
    if kept.descriptor is not None:
        with suppress(OSError):
            os.dup2(descriptor, _OUT)


def _flush(stream: TextIO) -> None:
    """Write out what the stream and the C library hold back."""
    with suppress(OSError, ValueError):
        stream.flush()
    with suppress(OSError, TypeError, AttributeError):  # no such library to be had
        ctypes.CDLL(None).fflush(None)
