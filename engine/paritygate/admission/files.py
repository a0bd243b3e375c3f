"""One file, opened once, proved to be what it should be, and copied with its digest.

Memory is bounded by one piece. Where the file system can share the blocks of two files, a copy
costs none; otherwise the bytes that are written are the bytes that are hashed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from paritygate.admission.errors import AdmissionError, staging_error
from paritygate.admission.place import VARIABLE, staging_root
from paritygate.core.digest import Watched, watch

_PIECE = 1 << 20
_ZEROS = bytes(_PIECE)
_FICLONE = 0x40049409
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Source(Struct, frozen=True):
    """A regular file that is open for reading.

    Attributes:
        path: how it was named.
        opened: its descriptor.
        watched: what it was when it was opened.
    """

    path: Path
    opened: int
    watched: Watched

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.watched.stamp["size"]


class Copy(Struct, frozen=True):
    """What a copy holds: bytes, SHA-256 (hex), and whether it shares its blocks."""

    bytes: int
    sha256: str
    is_clone: bool


@contextmanager
def open_file(path: Path) -> Iterator[Source]:
    """Open a file that a plan names; a link is followed, anything but a regular file refused.

    Raises:
        AdmissionError: it can't be read, or isn't a regular file (`admission.invalid_model`).
    """
    try:
        _refuse_special(path, path.stat())
        opened = os.open(path, _READ)
    except (OSError, ValueError) as e:
        raise unreadable(path, e) from None
    try:
        _refuse_special(path, os.fstat(opened))
        yield Source(path, opened, watch(path, opened))
    finally:
        os.close(opened)


def open_beneath(folder: Path, parts: Sequence[str]) -> int:
    """Open a file below a folder, following no link on the way; it never waits for a writer.

    Args:
        folder: has no link in it, as `os.path.realpath` gives it.
        parts: names of folders, then of the file.

    Returns:
        A descriptor, of whatever kind of file it is.

    Raises:
        OSError: it isn't there or can't be read, or a part of the way is a link.
    """
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            deeper = os.open(part, flags, dir_fd=here)
            os.close(here)
            here = deeper
        return _open_regular(parts[-1], here)
    finally:
        os.close(here)


def _open_regular(name: str, folder: int) -> int:
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise OSError(errno.EINVAL, "isn't a regular file", name)
    opened = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "isn't a regular file", name)
    return opened


def copy_file(source: Source, target: Path, pending: int | None = None) -> Copy:
    """Copy an open file to a new one and digest what is in the copy.

    Args:
        source: the file.
        target: the new file; its folder is there.
        pending: bytes that are still to be copied, this file's among them; None: this file's.

    Raises:
        AdmissionError: no room for what is pending, before or while it is written
            (`admission.staging`); the file changed meanwhile (`admission.changed`).
    """
    needed = source.bytes if pending is None else pending
    try:
        written = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
        try:
            is_clone = _clone(source.opened, written)
            if not is_clone:
                _check_room(source, target.parent, needed)
            copied = _digest(written) if is_clone else _stream(source, written)
        finally:
            os.close(written)
    except OSError as e:
        if e.errno in _FULL:
            raise _no_room(source, needed, None) from None
        raise staging_error(
            f"{source.path}: can't be copied to {target.parent} before it is loaded "
            f"({e.strerror or e}); name another folder in {VARIABLE}"
        ) from None
    if copied[0] != source.bytes or watch(source.path, source.opened) != source.watched:
        raise AdmissionError(
            f"{source.path}: changed while it was copied, so that what would run is neither its "
            "old nor its new content; run again once nobody writes it",
            "admission.changed",
            is_machine_fault=True,
        )
    return Copy(*copied, is_clone)


def unreadable(path: Path, error: Exception) -> AdmissionError:
    """The sentence for a file that can't be read."""
    reason = getattr(error, "strerror", None) or error
    return AdmissionError(f"{path}: can't be read: {reason}")


def _refuse_special(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise AdmissionError(f"{path}: isn't a regular file; name a file that holds the model")


def _clone(source: int, target: int) -> bool:
    """Share the source's blocks, where the file system can."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _digest(opened: int) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    os.lseek(opened, 0, os.SEEK_SET)
    while piece := os.read(opened, _PIECE):
        digest.update(piece)
        size += len(piece)
    return size, digest.hexdigest()


def _stream(source: Source, target: int) -> tuple[int, str]:
    """Copy by pieces; one of zeros only becomes a hole. Stops where the file should end."""
    digest, size = hashlib.sha256(), 0
    while size <= source.bytes and (piece := os.read(source.opened, _PIECE)):
        digest.update(piece)
        size += len(piece)
        if piece == _ZEROS:
            os.lseek(target, len(piece), os.SEEK_CUR)
        else:
            _write(target, piece)
    os.ftruncate(target, size)
    return size, digest.hexdigest()


def _write(target: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(target, left) :]


def _check_room(source: Source, folder: Path, needed: int) -> None:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < needed:
        raise _no_room(source, needed, free)


def _no_room(source: Source, needed: int, free: int | None) -> AdmissionError:
    have = "there is less" if free is None else f"{_amount(free)} are free"
    return staging_error(
        f"{source.path}: is copied before it is loaded, which needs {_amount(needed)} in "
        f"{staging_root()}, where {have}; free some, or name another folder in {VARIABLE} (one on "
        "the model's own file system needs no room where that can share blocks: XFS, Btrfs)"
    )


def _amount(size: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
