"""Where reports are printed: a terminal, with colour and wrapped lines, or a plain stream."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable

from rich.console import Console, RenderableType

PLAIN_WIDTH = 100_000


def show(parts: Iterable[RenderableType]) -> None:
    """Print to standard output.

    On a terminal lines wrap at its width, in colour unless `NO_COLOR` is set. Elsewhere a sentence
    is one line, without colour, escape codes and trailing blanks, so that `grep` and `diff` work.
    """
    if sys.stdout.isatty():
        Console(file=sys.stdout, markup=False, emoji=False, highlight=False).print(*parts, sep="\n")
    else:
        sys.stdout.write(plain(parts))
    sys.stdout.flush()


def plain(parts: Iterable[RenderableType]) -> str:
    """Lay parts out as plain text."""
    paper = io.StringIO()
    console = Console(
        file=paper,
        width=PLAIN_WIDTH,
        color_system=None,
        force_terminal=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in paper.getvalue().splitlines())
