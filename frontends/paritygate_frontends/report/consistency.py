"""Runners by themselves: other batch sizes, and what the pack recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from paritygate_frontends.report.figures import clean, counted, number

Figures = Mapping[str, Any]


def render_consistency(found: Figures) -> Iterator[RenderableType]:
    """Lay out what was measured; nothing where nothing was."""
    lines = [*_sizes(found.get("runners") or {}), *_recorded(found.get("recorded") or {})]
    if not lines:
        return
    samples = counted(found.get("samples", 0), "sample")
    yield Text()
    yield Text.assemble(("Runners by themselves", "bold"), f" over {samples} of the pack")
    for line in lines:
        yield Padding(Text(line), (0, 0, 0, 2), expand=False)


def _sizes(runners: Mapping[str, Figures]) -> Iterator[str]:
    for name, check in runners.items():
        for size, outputs in check.get("at", {}).items():
            where = f"{clean(name)} at batch size {size} against {check['size']}"
            if "error" in outputs:
                yield f"{where}: raised"
                continue
            for output, figures in outputs.items():
                yield f"{where}: {clean(output)} {_effect(figures)}"


def _recorded(stages: Mapping[str, Mapping[str, Figures]]) -> Iterator[str]:
    for stage, outputs in stages.items():
        for output, figures in outputs.items():
            where = f"reference of {clean(stage)} against recorded outputs"
            yield f"{where}: {clean(output)} {_effect(figures)}"


def _effect(figures: Figures) -> str:
    if figures.get("layouts"):
        return "has another dtype or shape"
    worst = figures.get("max_abs_error")
    verdict = "within what is allowed" if figures["good"] else "more than is allowed"
    if not isinstance(worst, Mapping) or not worst.get("value"):
        return "is the same" if figures["good"] else f"differs by {verdict}"
    return f"differs by up to {number(worst['value'])} (id {clean(worst.get('id'))}), {verdict}"
