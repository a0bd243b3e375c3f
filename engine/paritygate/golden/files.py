"""Which files a pack consists of: paths, folders and globs, in the order of the samples."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from paritygate.core.errors import GoldenError
from paritygate.golden.formats import SUFFIXES, is_pack_file
from paritygate.golden.source import cannot_open


class PackFile(Struct, frozen=True):
    """One file of a pack: its rows and its size in bytes."""

    path: Path
    rows: int
    bytes: int


def find_files(patterns: Sequence[str | Path], folder: Path) -> list[Path]:
    """Files that the patterns name: patterns as given, what each stands for sorted by path.

    Args:
        patterns: files, folders or globs (`**` too), relative to `folder` or absolute. A folder
            stands for all pack files in it and in its folders, but hidden ones.
        folder: where relative patterns start.

    Raises:
        GoldenError: `golden.missing_file`, `golden.no_match`, or `golden.duplicate_file` where a
            file is named twice.
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
    try:
        if literal.is_dir():
            return _in_folder(literal)
        if literal.exists():
            return [_regular(literal)]
        return _match_glob(pattern, folder, literal)
    except OSError as error:  # a name that is too long
        raise cannot_open(literal, error) from None
    except ValueError as error:
        raise GoldenError(f"golden: {pattern!r} is no glob ({error})", "golden.no_match") from None


def _regular(path: Path) -> Path:
    if path.is_file():
        return path
    raise GoldenError(f"golden: {path} isn't a regular file; a pack is read more than once")


def _match_glob(pattern: str, folder: Path, literal: Path) -> list[Path]:
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
    return sorted(matches, key=Path.as_posix)


def _in_folder(folder: Path) -> list[Path]:
    """Pack files in a folder and all that it holds; links are followed, each folder once."""
    files, seen = [], set[Path]()
    for at, folders, names in os.walk(folder, onerror=_cannot_list, followlinks=True):
        here = Path(at)
        if here.resolve() in seen:
            folders.clear()
            continue
        seen.add(here.resolve())
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [here / name for name in names if not name.startswith(".")]
        there = [path for path in paths if path.is_file() or not path.exists()]  # broken links
        files += [path for path in there if is_pack_file(path)]
    if not files:
        raise GoldenError(
            f"golden: the folder {folder} has no pack file in it; pack files end in "
            f"{', '.join(SUFFIXES)}, or begin as such files do",
            "golden.no_match",
        )
    return sorted(files, key=Path.as_posix)


def _cannot_list(error: OSError) -> None:
    raise cannot_open(Path(error.filename), error)
