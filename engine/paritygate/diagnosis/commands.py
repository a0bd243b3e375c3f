"""Command lines to copy, quoted for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path


def replay_command(folder: Path, ids: Sequence[int | str], *, with_batch: bool = False) -> str:
    """The command that runs samples again."""
    return _command("replay", folder, ids, ["--with-batch"] if with_batch else [])


def explain_command(folder: Path, sample_id: int | str) -> str:
    """The command that explains a sample."""
    return _command("explain", folder, [sample_id], [])


def _command(verb: str, folder: Path, ids: Sequence[int | str], options: Sequence[str]) -> str:
    told = [str(i) for i in ids]
    ends = ["--"] if any(i.startswith("-") for i in [str(folder), *told]) else []
    return " ".join(
        ["paritygate", verb, *options, *ends, _quoted(str(folder)), *map(_quoted, told)]
    )


def _quoted(text: str) -> str:
    """A word for a shell; control characters as escapes that bash, zsh and ksh read."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(_escaped(char) for char in text)
    return f"$'{escaped}'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() else "".join(f"\\x{b:02x}" for b in char.encode())
