"""The run folder: written as `*.partial`, renamed as its last act."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from paritygate.core.errors import UnreadableRunError
from paritygate.golden.write import folder_error

PARTIAL = ".partial"


class RunFolder:
    """One run's folder below a parent; nothing has its final name before `finish`."""

    def __init__(self, parent: Path, name: str) -> None:
        """Choose a free name `<name>-<UTC time>` and make `<that>.partial`.

        Raises:
            FolderError: the parent can't be written.
        """
        stem = f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self.path, self.partial = _claim(parent, stem)
        except OSError as e:
            raise folder_error(parent / stem, e) from None

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
        """Remove what has been written."""
        shutil.rmtree(self.partial, ignore_errors=True)


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
