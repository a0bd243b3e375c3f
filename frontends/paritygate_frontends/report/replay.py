"""The report of a replay: how each sample came out, then what any run reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from paritygate_frontends.report.figures import clean, counted
from paritygate_frontends.report.verdict import indented, render_report

MAX_SAMPLES = 20
_WORDS = {
    "bitwise": "reproduced bit for bit",
    "same_rules": "reproduced by their rules",
    "not_reproduced": "not reproduced",
}


def render_replay(
    summary: Mapping[str, Any], folder: Path | None = None
) -> Iterator[RenderableType]:
    """Lay out a replay's summary."""
    found = summary["replay"]
    how = "in their own batches" if found["with_batch"] else "without their neighbours"
    samples = found["samples"]
    count = len({sample["id"] for sample in samples})
    of = f"{counted(count, 'sample')} of {clean(found['of'])}"
    if len(samples) > count:
        of += f", {counted(len(samples), 'failure')} in several stages"
    yield Text.assemble(("Replay", "bold"), f"  {of}, {how}")
    for told in found["changed"]:
        yield indented(Text(f"changed since: {clean(told)}", style="bold yellow"))
    for note in found["notes"]:
        yield indented(Text(f"changed since: {clean(note)}", style="yellow"))
    counts = [f"{n:,} {_WORDS[name]}" for name, n in found["outcomes"].items() if n]
    yield indented(Text(", ".join(counts)))
    for sample in samples[:MAX_SAMPLES]:
        line = f"{clean(sample['id'])}  {clean(sample['stage'])}: {clean(sample['says'])}"
        yield indented(Text(line), 4)
    if len(samples) > MAX_SAMPLES:
        yield indented(Text(f"and {len(samples) - MAX_SAMPLES:,} more (summary.json)"), 4)
    yield Text()
    yield from render_report(summary, folder)
