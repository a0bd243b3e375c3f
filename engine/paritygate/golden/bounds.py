"""What is read of files that somebody else made: regular files, whole, and no more than is sane."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import numpy.typing as npt

from paritygate.core.errors import GoldenError

_UNPACKED = 1 << 28
_RATIO = 1_000
_LAST, _HALVES = 0x10FFFF, (0xD800, 0xDFFF)


class SpreadError(GoldenError):
    """Views that are far larger end to end; whoever knows the file names it."""


def read_whole(path: Path, most: int) -> bytes:
    """All bytes of a regular file: a pipe may never end, and a device has no end.

    Raises:
        GoldenError: it can't be opened, is no regular file, or has more bytes than `most`.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise _cannot_open(path, error) from error
    if len(data) > most:
        told = f"{path}: has more than {most} bytes, the most that is read of such a file"
        raise GoldenError(told, "golden.format")
    return data


def check_regular(path: Path) -> None:
    """Refuse what is there and isn't a regular file.

    Raises:
        GoldenError: naming it.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise _cannot_open(path, error) from error
    if not stat.S_ISREG(mode):
        raise GoldenError(f"{path}: isn't a regular file; name one", "golden.unreadable")


def check_unpacked(path: Path, what: str, unpacked: int, size: int) -> None:
    """Refuse what unpacks to far more than the whole file it is a part of, before there is more.

    Args:
        path: the file.
        what: the part that was unpacked.
        unpacked: its bytes.
        size: bytes of the file.

    Raises:
        GoldenError: `golden.unreadable`.
    """
    if unpacked > max(_UNPACKED, _RATIO * size):
        raise GoldenError(
            f"{path}: {what} unpacks to {unpacked >> 20} MiB or more, from a file of {size} bytes; "
            "if that is meant, write it as an Arrow IPC file without compression"
        )


def as_texts(where: str, values: npt.NDArray[np.str_]) -> npt.NDArray[np.object_]:
    """NumPy's own texts as str, each checked: whatever lies in a file may be said to be texts.

    Raises:
        GoldenError: characters that Unicode doesn't have.
    """
    wide = np.ascontiguousarray(values.reshape(-1)).astype(values.dtype.newbyteorder("="))
    codes = wide.view(np.uint32)
    if ((codes > _LAST) | ((codes >= _HALVES[0]) & (codes <= _HALVES[1]))).any():
        raise GoldenError(f"{where}: holds a text that is no Unicode", "golden.value")
    return values.astype(object)


def _cannot_open(path: Path, error: Exception) -> GoldenError:
    told = getattr(error, "strerror", None) or error
    return GoldenError(f"{path}: can't be opened ({told}); check the path and that you may read it")
