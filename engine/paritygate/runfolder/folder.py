"""The run folder: written as `*.partial`, renamed as its last act."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from paritygate.core.errors import UnreadableRunError
from paritygate.core.events import Made
from paritygate.golden.write import folder_error

PARTIAL = ".partial"
_TRIES = 10


class RunFolder:
    """One run's folder below a parent; nothing has its final name before `finish`.

    Attributes:
        made: what there is to tell of it.
    """

    def __init__(self, parent: Path, name: str) -> None:
        """Choose a free name `<name>-<UTC time>` and make `<that>.partial`.

        Raises:
            FolderError: the parent can't be written.
        """
        stem = f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        try:
            self.path, self.partial, parents = _claim_below(parent, stem)
        except OSError as e:
            raise folder_error(parent / stem, e) from None
        self.made = Made(self.partial, tuple(parents))

    @property
    def failures(self) -> Path:
        """Folder for failure shards, made at first use."""
        folder = self.partial / "failures"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def outputs(self) -> Path:
        """Folder for what runners answered, made at first use.

        Raises:
            FolderError: it can't be made.
        """
        folder = self.partial / "outputs"
        try:
            folder.mkdir(exist_ok=True)
        except OSError as e:
            raise folder_error(folder, e) from None
        return folder

    def write(self, name: str, content: bytes) -> None:
        """Write one file.

        Raises:
            FolderError: the disk is full or the folder can't be written.
        """
        try:
            (self.partial / name).write_bytes(content)
        except OSError as e:
            raise folder_error(self.partial / name, e) from None

    def finish(self) -> Path:
        """Give the folder its final name.

        Raises:
            FolderError: it can't be renamed.
        """
        try:
            while True:
                try:
                    return self.partial.rename(self.path)
                except OSError:
                    if not self.path.exists():
                        raise
                    self.path = _next(self.path)
        except OSError as e:
            raise folder_error(self.path, e) from None

    def drop(self) -> None:
        """Remove what has been written, and the parent where it lacked before."""
        shutil.rmtree(self.partial, ignore_errors=True)
        remove_empty(self.made.parents)


def make_folders(folder: Path, tries: int = 9) -> list[Path]:
    """Make a folder and those above it that lack; which were made, innermost first.

    Args:
        folder: to make.
        tries: how often it is tried, where other processes make and remove the same folders.

    Raises:
        OSError: it can't be made; nothing is left of those above it.
    """
    try:
        folder.mkdir()
    except FileExistsError:
        if folder.is_dir():
            return []
        if os.path.lexists(folder) or tries <= 1:
            raise
        return make_folders(folder, tries - 1)  # it was there, and isn't any more
    except FileNotFoundError:
        if folder.parent == folder or tries <= 1:  # there are places where none can be made
            raise
        above = make_folders(folder.parent)
        try:
            return [*make_folders(folder, tries - 1), *above]
        except OSError:
            remove_empty(above)
            raise
    return [folder]


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders, innermost first, as far as nothing is in them."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def latest_run(parent: Path) -> Path:
    """The newest finished run below a folder.

    Raises:
        UnreadableRunError: there is none.
    """
    runs = [p.parent for p in parent.glob("*/summary.json") if not p.parent.name.endswith(PARTIAL)]
    if not runs:
        raise UnreadableRunError(
            f"{parent}: holds no finished run; name a run folder or run a plan first"
        )
    return max(runs, key=lambda p: (p.stat().st_mtime_ns, p.name))


def _claim_below(parent: Path, stem: str) -> tuple[Path, Path, list[Path]]:
    """`_claim` in a parent that is made; another run may remove it again before this one is in."""
    for left in reversed(range(_TRIES)):
        made = make_folders(parent)
        try:
            return *_claim(parent, stem), made
        except OSError as e:
            remove_empty(made)
            if not left or not isinstance(e, FileNotFoundError):
                raise
    raise AssertionError("unreachable")


def _claim(parent: Path, stem: str) -> tuple[Path, Path]:
    path = parent / stem
    while True:
        partial = path.with_name(path.name + PARTIAL)
        if not path.exists():
            try:
                partial.mkdir()
            except FileExistsError:
                pass
            else:
                return path, partial
        path = _next(path)


def _next(path: Path) -> Path:
    """`run-20260101T000000Z` -> `...-2` -> `...-3`."""
    head, dash, tail = path.name.rpartition("-")
    if dash and tail.isdigit():
        return path.with_name(f"{head}-{int(tail) + 1}")
    return path.with_name(f"{path.name}-2")
