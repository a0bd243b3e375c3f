"""The report of a recording: what is in the file, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from paritygate_frontends.report.figures import clean, counted, seconds
from paritygate_frontends.report.verdict import badge, indented, render_reasons


def render_recording(
    summary: Mapping[str, Any], path: Path | None = None
) -> Iterator[RenderableType]:
    """Lay out a recording's summary.

    Args:
        summary: of `record`.
        path: the file, if there is one.
    """
    found = summary["recording"]
    samples = found["samples"]
    (runner,) = summary["runners"]
    of = f" of {samples['asked']:,}" if samples["recorded"] < samples["asked"] else ""
    yield Text.assemble(
        badge(summary["verdict"]),
        f"  {clean(runner)}: {samples['recorded']:,}{of} golden samples recorded",
    )
    yield from render_reasons(summary["reasons"])
    for output in found["outputs"].values():
        yield indented(Text(clean(output)))
    if path is not None:
        took = seconds(summary["timing"]["wall_s"])
        yield indented(Text(f"{clean(path)}: {counted(found['bytes'], 'byte')}, in {took}"))
        yield indented(Text(f"sha256 {found['sha256']}", style="dim"))
