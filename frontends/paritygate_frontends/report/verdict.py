"""The report of a run: the verdict and why first, then each stage, then what was not judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from paritygate_frontends.report.consistency import render_consistency
from paritygate_frontends.report.coverage import render_coverage
from paritygate_frontends.report.figures import clean, counted, seconds
from paritygate_frontends.report.noise import render_noise
from paritygate_frontends.report.probes import render_probes
from paritygate_frontends.report.runtime import render_comparison, render_placement
from paritygate_frontends.report.stage import render_stage

STYLES = {
    "release": "bold white on green",
    "recorded": "bold white on green",
    "hold": "bold white on red",
    "incomplete": "bold black on yellow",
    "unjudged": "bold white on magenta",
}
MAX_IDS = 10


def render_report(
    summary: Mapping[str, Any], folder: Path | None = None
) -> Iterator[RenderableType]:
    """Lay out a run's summary.

    Args:
        summary: as in `summary.json`.
        folder: the run folder, if it left one.
    """
    yield _headline(summary)
    yield from render_reasons(summary.get("reasons", []))
    for stage in summary.get("stages", []):
        yield Text()
        yield from render_stage(stage)
    yield from render_placement(summary.get("runners") or {})
    yield from render_comparison(summary.get("comparison") or {})
    yield from render_consistency(summary.get("consistency") or {})
    yield from render_noise(summary.get("noise") or {}, summary.get("stages", []))
    yield from render_coverage(summary.get("coverage") or {})
    yield from render_probes(summary.get("probes") or {})
    not_judged = summary.get("not_judged", [])
    if not_judged:
        yield Text()
        yield Text("Not judged", style="bold")
        for line in not_judged:
            yield indented(Text(f"- {clean(line)}", style="dim"))
    yield from _where(summary, folder)


def render_reasons(reasons: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """Lay out reasons, numbered where there are several."""
    for number, reason in enumerate(reasons, 1):
        yield from _reason(reason, number if len(reasons) > 1 else None)


def badge(verdict: str) -> Text:
    """The verdict as a word in its colour."""
    return Text(verdict.upper(), style=STYLES.get(verdict, "bold"))


def indented(part: RenderableType, columns: int = 2) -> Padding:
    """Move a part to the right."""
    return Padding(part, (0, 0, 0, columns), expand=False)


def _headline(summary: Mapping[str, Any]) -> Text:
    line = Text.assemble(badge(str(summary.get("verdict", "unjudged"))))
    name = summary.get("plan", {}).get("name")
    if name:
        line.append(f"  {clean(name)}", style="bold")
    parts = []
    samples = summary.get("golden", {}).get("samples")
    if samples is not None:
        parts.append(counted(samples, "golden sample"))
    stages = summary.get("stages", [])
    if stages:
        parts.append(", ".join(f"{clean(s['name'])} {clean(s['verdict'])}" for s in stages))
    if parts:
        line.append(f"{':' if name else ' '} {'; '.join(parts)}")
    return line


def _reason(reason: Mapping[str, Any], number: int | None) -> Iterator[RenderableType]:
    head = Text(f"{number}. " if number is not None else "")
    head.append(clean(reason["code"]), style="bold")
    places = [
        f"{kind} {clean(reason[kind])}"
        for kind in ("stage", "output", "decision")
        if reason.get(kind) is not None
    ]
    if places:
        head.append(f"  {', '.join(places)}", style="dim")
    yield indented(head)
    yield indented(Text(clean(reason["message"])), 5)
    ids = reason.get("ids") or []
    if ids:
        count = reason.get("count") or len(ids)
        more = f" and {count - MAX_IDS:,} more" if len(ids) > MAX_IDS else ""
        more = more or (f", first of {count:,}" if count > len(ids) else "")
        shown = ", ".join(clean(i) for i in ids[:MAX_IDS])
        yield indented(Text(f"ids: {shown}{more}"), 5)
    if reason.get("next"):
        yield indented(Text(f"next: {clean(reason['next'])}", style="italic"), 5)


def _where(summary: Mapping[str, Any], folder: Path | None) -> Iterator[RenderableType]:
    yield Text()
    if folder is not None:
        yield Text.assemble(("Run folder  ", "bold"), clean(folder))
        yield indented(Text("summary.json: every figure, the plan, digests, environment"))
        for stage in summary.get("stages", []):
            failures = stage.get("failures")
            if failures:
                yield from (indented(Text(line)) for line in _failures(failures))
        yield from (indented(Text(line)) for line in _rejected(summary.get("rejected") or {}))
        for name, kept in (summary.get("outputs") or {}).items():
            if kept["path"] is not None:
                count = counted(kept["samples"]["recorded"], "sample")
                text = f"{clean(kept['path'])}: what {clean(name)} answered to {count}"
                yield indented(Text(text))
    timing = summary.get("timing")
    if timing:
        parts = [
            f"{label} {seconds(timing[key])}"
            for key, label in (
                ("startup_s", "start"),
                ("read_s", "read"),
                ("reference_s", "reference"),
                ("candidate_s", "candidate"),
                ("compare_s", "compare"),
                ("consistency_s", "batch sizes"),
                ("noise_s", "noise"),
                ("probes_s", "probes"),
            )
            if timing.get(key) is not None
        ]
        if timing.get("compiling_s"):
            parts.append(f"compiling kernels {seconds(timing['compiling_s'])}")
        yield Text(
            f"{seconds(timing.get('wall_s'))} ({', '.join(parts)}; summed over "
            f"{_threads(summary.get('threads') or {})})",
            style="dim",
        )


def _threads(threads: Mapping[str, Any]) -> str:
    used, rates = threads.get("used"), threads.get("measured") or []
    if not used:
        return "threads"
    told = counted(used, "thread")
    others = [str(one["threads"]) for one in rates if one["threads"] != used]
    return f"{told}, measured beside {', '.join(others)}" if others else told


def _failures(failures: Mapping[str, Any]) -> Iterator[str]:
    kept = counted(failures.get("kept", 0), "failing sample")
    cut = ", the worst of them" if failures.get("truncated") else ""
    for shard in failures.get("shards", []):
        yield f"{clean(shard)}: {kept} with inputs and both sides' outputs{cut}"
    if failures.get("ids"):
        failed = failures.get("failed", 0)
        yield f"{clean(failures['ids'])}: ids and rules of all {failed:,} of them"


def _rejected(rejected: Mapping[str, Any]) -> Iterator[str]:
    for shard in rejected.get("shards", []):
        kept = counted(rejected.get("kept", 0), "rejected sample")
        cut = ", the first of them" if rejected.get("truncated") else ""
        yield f"{clean(shard)}: {kept} with inputs{cut}"
    if rejected.get("ids"):
        count = sum(rejected.get(key, 0) for key in ("count", "as_expected", "not_rejected"))
        yield f"{clean(rejected['ids'])}: why each of all {count:,} was not run"
