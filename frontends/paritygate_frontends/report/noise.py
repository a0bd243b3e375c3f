"""References against themselves: the noise floor of each output, and errors as multiples of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from paritygate_frontends.report.figures import clean, counted, number

Figures = Mapping[str, Any]


def render_noise(
    noise: Mapping[str, Figures], stages: Sequence[Figures]
) -> Iterator[RenderableType]:
    """Lay out the noise; nothing where none was measured.

    Args:
        noise: `noise` of a summary.
        stages: its stages.
    """
    for name, found in noise.items():
        if not found["samples"]:
            continue
        yield Text()
        samples = counted(found["samples"], "sample")
        yield Text.assemble(("Noise", "bold"), f" of {clean(name)}, over {samples} of the pack")
        for line in _lines(name, found, stages):
            yield Padding(Text(line), (0, 0, 0, 2), expand=False)


def _lines(name: str, found: Figures, stages: Sequence[Figures]) -> Iterator[str]:
    for stage in stages:
        if stage["reference"] != name:
            continue
        for output, figures in stage["outputs"].items():
            if "noise" in figures:
                yield f"{clean(stage['name'])}, {clean(output)}: {_floor(figures['noise'])}"
        for varied, told in found["stages"].get(stage["name"], {}).items():
            for decision, made in told["decisions"].items():
                if made["flips"]:
                    flips = counted(made["flips"], "flip")
                    yield f"{clean(stage['name'])}, {clean(decision)}: {flips} ({clean(varied)})"


def _floor(noise: Figures) -> str:
    if not noise["floor"]:
        return "floor 0, it repeats itself bit for bit"
    text = f"floor {number(noise['floor'])} ({clean(noise['cause'])})"
    if "times" not in noise:
        return text
    return f"{text}; the largest error of the stage is {number(noise['times'])} times that"
