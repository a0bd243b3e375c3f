"""Runtimes in a report: in what the sides of a stage differ, and what they warned of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from paritygate_frontends.report.figures import clean, counted

MAX_DIFFERENCES = 6
MAX_WARNINGS = 3
MAX_TEXT = 120


def render_differences(stage: Mapping[str, Any]) -> Iterator[str]:
    """A line on what the two sides of a stage differ in besides their model."""
    found = stage.get("differences") or []
    parts = [
        f"{clean(one['what'])} {_short(one['reference'])} -> {_short(one['candidate'])}"
        for one in found[:MAX_DIFFERENCES]
    ]
    if len(found) > MAX_DIFFERENCES:
        parts.append(f"{len(found) - MAX_DIFFERENCES} more (summary.json)")
    if parts:
        yield f"the sides differ in: {'; '.join(parts)}"


def render_placement(runners: Mapping[str, Mapping[str, Any]]) -> Iterator[RenderableType]:
    """Where nodes ran, for runners that had a choice, and the warnings of all."""
    lines = [*_placements(runners)]
    lines += [line for name, facts in runners.items() for line in _warnings(name, facts)]
    if not lines:
        return
    yield Text()
    yield Text("Runtimes", style="bold")
    for line in lines:
        yield Padding(Text(line), (0, 0, 0, 2), expand=False)


def render_comparison(comparison: Mapping[str, Any]) -> Iterator[RenderableType]:
    """On which GPU was compared, what, and what is faster; nothing where the CPU was asked for."""
    chip = comparison.get("device")
    speeds = [*_measured(comparison.get("measured", ()))]
    if chip is None:
        if speeds:
            yield Text()
            yield Text("Compared on the CPU, as measured", style="bold")
        for line in (*speeds, *(map(clean, comparison.get("notes", ())) if speeds else ())):
            yield Padding(Text(line), (0, 0, 0, 2), expand=False)
        return
    driver = f"driver {clean(chip['driver'])}, " if chip["driver"] else ""
    yield Text()
    yield Text("Compared on a GPU", style="bold")
    memory = comparison["memory"]
    pinned = memory["peak_pinned_bytes"]
    of_host = f", and {_size(pinned)} of pinned memory" if pinned else ""
    told = (
        f"{clean(chip['name'])}, compute capability {clean(chip['compute_capability'])}, {driver}"
        f"CUDA {clean(chip['cuda'])}, {_size(chip['memory_bytes'])}; at most "
        f"{_size(memory['peak_bytes'])} were held for comparisons{of_host}"
    )
    lines = [told, *_compared(comparison["samples"]), *_decided(comparison["decisions"])]
    lines += [*speeds, *map(clean, comparison["notes"])]
    for line in lines:
        yield Padding(Text(line), (0, 0, 0, 2), expand=False)


def _compared(stages: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Iterator[str]:
    for stage, outputs in stages.items():
        for output, counts in outputs.items():
            text = f"{clean(stage)}, {clean(output)}: {counted(counts['cuda'], 'sample')}"
            yield text + (f", and {counts['cpu']:,} on the CPU" if counts["cpu"] else "")


def _decided(stages: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Iterator[str]:
    for stage, decisions in stages.items():
        for decision, counts in decisions.items():
            text = (
                f"{clean(stage)}, decision {clean(decision)}: {counted(counts['cuda'], 'sample')}"
            )
            yield text + (f", and {counts['cpu']:,} on the CPU" if counts["cpu"] else "")


def _measured(outputs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in outputs:
        sent, cuda = one["sent_bytes_per_s"], one["cuda_bytes_per_s"]
        there = "" if sent is None else f"{_rate(sent)} reach the GPU"
        if cuda is not None:
            there = f"{_rate(cuda)} are sent to the GPU and compared there"
        told = f"{_rate(one['cpu_bytes_per_s'])} by {counted(one['threads'], 'thread')} on the CPU"
        where = f"{clean(one['stage'])}, {clean(one['output'])}"
        yield f"{where}: {told}" + (f"; {there}" if there else "")


def _rate(speed: int) -> str:
    return f"{speed / 1e9:.1f} GB/s"


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.1f} MiB"


def _placements(runners: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, facts in runners.items():
        placed = facts.get("placement") or {}
        if "fallback" not in placed:  # of the CPU alone there is nothing to tell
            continue
        for what in ("assigned", "executed"):
            found = placed.get(what)
            if found is not None:
                told = ", ".join(f"{p['nodes']} on {clean(k)}" for k, p in found.items())
                yield f"{clean(name)}: nodes {what}: {told or 'none'}"


def _warnings(name: str, facts: Mapping[str, Any]) -> Iterator[str]:
    found = facts.get("warnings") or []
    for warned in found[:MAX_WARNINGS]:
        times = f" ({warned['count']}x)" if warned["count"] > 1 else ""
        yield f"{clean(name)}: {clean(warned['level'])}: {_short(warned['text'])}{times}"
    if len(found) > MAX_WARNINGS:
        more = counted(len(found) - MAX_WARNINGS, "more message")
        yield f"{clean(name)}: {more} of its runtime (summary.json)"


def _short(text: object) -> str:
    told = clean(text)
    return told if len(told) <= MAX_TEXT else f"{told[: MAX_TEXT - 3]}..."
