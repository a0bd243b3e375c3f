"""The private place of a process: a folder of its own that goes when the process does.

Its owner holds a lock on the folder itself (`flock`), which the system lets go of however the
owner ends. A folder that nobody has locked belonged to a process that was killed; the next one
that needs a place removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

from msgspec import Struct

from paritygate.admission.errors import AdmissionError, staging_error

VARIABLE = "PARITYGATE_STAGING"
_PREFIX = "paritygate-staging-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Place(Struct, frozen=True):
    """A locked folder that only this user can look into.

    Attributes:
        folder: the folder.
        lock: descriptor that holds the lock.
    """

    folder: Path
    lock: int

    def remove(self) -> None:
        """Remove the folder with all that is in it, and let go of the lock."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.abandon()

    def abandon(self) -> None:
        """Close the descriptor; in a forked process the owner's lock stays."""
        with contextlib.suppress(OSError):
            os.close(self.lock)


def staging_root() -> Path:
    """The folder that private places are made in: `PARITYGATE_STAGING`, or the temporary folder.

    Raises:
        AdmissionError: there is none (`admission.staging`).
    """
    named = os.environ.get(VARIABLE, "")
    if named:
        root = Path(named).absolute()
        if not root.is_dir():
            raise staging_error(
                f"{VARIABLE} names {root}, which isn't a folder; make it, or name another"
            )
        return root
    try:
        return Path(tempfile.gettempdir()).absolute()
    except OSError as e:
        raise staging_error(
            f"models can't be copied before they are loaded: {e.strerror or e}; name a folder "
            f"that can be written in {VARIABLE}"
        ) from None


def make_place() -> Place:
    """Make a private place, after removing those whose owners are gone.

    Raises:
        AdmissionError: the folder that they are made in can't be written (`admission.staging`).
    """
    root = staging_root()
    sweep(root)
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
            lock = os.open(folder, _FOLDER)
        except FileNotFoundError as e:
            if root.is_dir():  # a sweep took the folder before it was locked
                continue
            raise _unwritable(root, e) from None
        except OSError as e:
            raise _unwritable(root, e) from None
        with contextlib.suppress(OSError):  # a file system without locks: nobody sweeps there
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_still(folder, lock):
            return Place(folder, lock)
        os.close(lock)


def sweep(root: Path | None = None) -> None:
    """Remove the private places of processes that are gone; those of live ones stay.

    Args:
        root: where they were made; None: where they would be made now.
    """
    with contextlib.suppress(OSError, AdmissionError):
        with os.scandir(root or staging_root()) as entries:
            found = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
        for folder in found:
            _remove_stale(folder)


def _remove_stale(folder: Path) -> None:
    with contextlib.suppress(OSError):
        opened = os.open(folder, _FOLDER)
        try:
            if os.fstat(opened).st_uid != os.geteuid():
                return
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(folder, opened):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(opened)


def _is_still(folder: Path, opened: int) -> bool:
    """Whether an open folder is still the one at its path."""
    try:
        there = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(there.st_mode) and os.path.samestat(there, os.fstat(opened))


def _unwritable(root: Path, error: OSError) -> AdmissionError:
    return staging_error(
        f"{root}: models are copied there before they are loaded, but it can't be written "
        f"({error.strerror or error}); name another folder in {VARIABLE}"
    )
