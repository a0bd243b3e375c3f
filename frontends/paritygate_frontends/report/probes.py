"""Probes: what the contract and each runner did with what can't be a row of a pack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from paritygate_frontends.report.figures import clean, counted


def render_probes(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Lay out the probes, a line each; nothing where none was asked for."""
    results: Sequence[Mapping[str, Any]] = found.get("results") or ()
    if not results:
        return
    yield Text()
    yield Text.assemble(("Probes", "bold"), f"  {counted(len(results), 'probe')}")
    for result in results:
        parts = [f"contract {clean(result['contract']['outcome'])}"]
        parts += [
            f"{clean(name)} {clean(tried['outcome'])}"
            for name, tried in (result.get("runners") or {}).items()
        ]
        line = f"{clean(result['probe'])}, {clean(result['what'])}: {', '.join(parts)}"
        yield Padding(Text(line), (0, 0, 0, 2), expand=False)
