"""Lists of things looked at: what `check` and `doctor` print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from paritygate_frontends.report.figures import clean, counted

COLOURS = {"ok": "green", "fail": "bold red", "note": "dim"}


def render_checks(lines: Sequence[tuple[str, str, str]]) -> Iterator[RenderableType]:
    """Lay out `(status, name, text)`, then say how many failed."""
    yield from render_lines(lines)
    failed = sum(status == "fail" for status, _, _ in lines)
    if failed:
        yield Text(f"{counted(failed, 'problem')} to mend", style="bold red")
    else:
        yield Text("nothing to mend", style="bold green")


def render_lines(lines: Sequence[tuple[str, str, str]]) -> Iterator[RenderableType]:
    """Lay out `(status, name, text)`."""
    table = Table.grid(padding=(0, 2, 0, 0))
    named = any(name for _, name, _ in lines)
    for status, name, text in lines:
        mark = Text(status, style=COLOURS.get(status, ""))
        table.add_row(mark, *([clean(name)] if named else []), Text(_on_one_line(text)))
    yield table


def _on_one_line(text: str) -> str:
    """An indented list within a sentence as a part of it."""
    return clean(text.replace(":\n  ", ": ").replace("\n  ", "; "))
