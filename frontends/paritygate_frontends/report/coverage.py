"""What the golden samples exercised: edges, classes, batch sizes, dims, ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from paritygate_frontends.report.figures import clean, counted, number

Figures = Mapping[str, Any]
MAX_EDGES = 8
MAX_CLASSES = 5


def render_coverage(found: Figures) -> Iterator[RenderableType]:
    """Lay out `coverage` of a summary; nothing where there is nothing to tell."""
    lines = [*_decisions(found.get("decisions") or {}), *_dims(found.get("dims") or {})]
    lines += [*_inputs(found.get("inputs") or {})]
    if not lines:
        return
    lines += [*_batch_sizes(found.get("batch_sizes") or {})]
    yield Text()
    yield Text("Coverage", style="bold")
    for line in lines:
        yield Padding(Text(line), (0, 0, 0, 2), expand=False)


def _decisions(stages: Mapping[str, Mapping[str, Figures]]) -> Iterator[str]:
    for stage, decisions in stages.items():
        for name, found in decisions.items():
            where = f"{clean(stage)}, {clean(name)}"
            if "edges" in found:
                for edge in found["edges"][:MAX_EDGES]:
                    yield f"{where}: {_edge(edge)}"
                if len(found["edges"]) > MAX_EDGES:
                    left = len(found["edges"]) - MAX_EDGES
                    yield f"{where}: and {counted(left, 'more edge')} (summary.json)"
            else:
                yield f"{where}: {_classes(found)}"


def _edge(edge: Figures) -> str:
    sides = []
    for word in ("below", "above"):
        side = edge[word]
        near = "" if side["nearest"] is None else f", the nearest {number(side['nearest'])} away"
        sides.append(f"{side['samples']:,} {clean(side['decision'])}{near}")
    ties = counted(edge["ties"], "tie") if edge["ties"] else "no tie"
    return f"edge {number(edge['edge'], 9)}: {sides[0]}; {sides[1]}; {ties}"


def _classes(found: Figures) -> str:
    parts = []
    if "classes" in found:
        seen = found["classes"] - found["never"]
        parts.append(f"{seen:,} of {found['classes']:,} classes decided by the reference")
        rare = [f"{clean(n)} {k:,}x" for n, k in list(found["rarest"].items())[:MAX_CLASSES]]
        parts.append(f"rarest {', '.join(rare)}")
    if "values" in found:
        parts.append(counted(found["values"], "different value"))
    if "ties" in found:
        parts.append(counted(found["ties"], "tie") if found["ties"] else "no tie")
    return "; ".join(parts)


def _dims(dims: Mapping[str, Figures]) -> Iterator[str]:
    for name, found in dims.items():
        (low, high), (least, most) = found["seen"], found["approved"]
        yield f"dim {clean(name)}: {low:,} to {high:,} of the approved {least:,} to {most:,}"


def _inputs(inputs: Mapping[str, Figures]) -> Iterator[str]:
    for name, found in inputs.items():
        parts = []
        if "ends" in found:
            parts.append(
                f"minimum of its range reached in {found['minima_reached']:,}, maximum in "
                f"{found['maxima_reached']:,} of {counted(found['ends'], 'channel')}"
                if found["ends"] > 1
                else f"minimum of its range {_reached(found['minima_reached'])}, maximum "
                f"{_reached(found['maxima_reached'])}"
            )
        parts.append(f"all zero in {counted(found['zeros'], 'sample')}")
        yield f"input {clean(name)}: {'; '.join(parts)}"


def _reached(count: int) -> str:
    return "reached" if count else "not reached"


def _batch_sizes(runners: Mapping[str, Figures]) -> Iterator[str]:
    for name, found in runners.items():
        ran = ", ".join(f"{size} ({_times(n)})" for size, n in found["ran"].items())
        again = ", ".join(map(str, found["checked"]))
        yield f"{clean(name)}: batches of {ran}" + (f"; run again at {again}" if again else "")


def _times(batches: Mapping[str, int]) -> str:
    padded = f", {batches['padded']:,} padded" if batches["padded"] else ""
    return f"{batches['whole'] + batches['padded']:,}x{padded}"
