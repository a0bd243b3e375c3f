"""Which files a pack consists of: paths and globs, in the order that fixes the sample order."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paritygate.core.errors import GoldenError


@dataclass(frozen=True)
class PackFile:
    """One file of a pack: its rows and its size in bytes."""

    path: Path
    rows: int
    bytes: int


def find_files(patterns: Sequence[str | Path], folder: Path) -> list[Path]:
    """Files that the patterns name: patterns as given, the matches of each sorted by path.

    Args:
        patterns: paths or globs (`**` too), relative to `folder` or absolute.
        folder: where relative patterns start.

    Raises:
        GoldenError: `golden.missing_file`, `golden.no_match`, `golden.is_folder`, or
            `golden.duplicate_file` where a file is named twice.
    """
    if not patterns:
        raise GoldenError("golden: no file is named; give a path or a glob", "golden.no_match")
    found = [path for pattern in patterns for path in _match(str(pattern), folder)]
    seen: dict[Path, Path] = {}
    for path in found:
        first = seen.setdefault(path.resolve(), path)
        if first is not path:
            raise GoldenError(
                f"golden: {path} is the same file as {first}, so that its samples would count "
                "twice; name it once",
                "golden.duplicate_file",
            )
    return found


def _match(pattern: str, folder: Path) -> list[Path]:
    literal = folder / pattern
    if literal.is_dir():
        raise GoldenError(
            f"golden: {literal} is a folder; name the files in it, such as "
            f"'{pattern.rstrip('/')}/*.arrow'",
            "golden.is_folder",
        )
    if literal.exists():
        return [literal]
    if not glob.has_magic(pattern):
        raise GoldenError(
            f"golden: {literal} doesn't exist; relative paths start at {folder}",
            "golden.missing_file",
        )
    start, relative = folder, pattern
    if Path(pattern).is_absolute():
        start, relative = Path(literal.anchor), str(literal.relative_to(literal.anchor))
    hidden = Path(pattern).name.startswith(".")
    matches = [
        path
        for path in start.glob(relative)
        if path.is_file() and (hidden or not path.name.startswith("."))
    ]
    if not matches:
        where = "" if Path(pattern).is_absolute() else f"; relative patterns start at {folder}"
        raise GoldenError(f"golden: no file matches {pattern!r}{where}", "golden.no_match")
    return sorted(matches, key=lambda path: path.as_posix())
