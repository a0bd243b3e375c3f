"""`paritygate pack synth`: inputs made of nothing but a model's graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish, output

_DIM = re.compile(r"([^=]+)=([0-9]{1,9})(?:\.\.([0-9]{1,9}))?")


def synth(
    model: Annotated[Path, typer.Argument(metavar="ONNX", help="A model; its graph is read.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PACK", help="The pack (Arrow).")],
    dim: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LOW..HIGH", help="Bounds of a dim that is open. Repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of scaled inputs.")] = 0,
) -> None:
    """Write zeros, ones, scaled and length-varied inputs, marked as no acceptance evidence.

    A run that compares no other samples holds (evidence.synthetic).
    """

    def work() -> int:
        from paritygate import api

        found = api.make_synthetic(model, out, dims=_bounds(dim or ()), seed=seed)
        with output():
            built = found.built
            typer.echo(f"{built.path}: {built.samples} samples, content digest {built.digest}")
            typer.echo("synthetic: no acceptance evidence, so that they can't release alone")
            for note in found.notes:
                typer.echo(f"note: {note}")
        return 0

    finish(work)


def _bounds(dims: Sequence[str]) -> dict[str, tuple[int, int]]:
    """`NAME=LOW..HIGH`, or `NAME=SIZE`."""
    from paritygate.core.errors import PlanError, Problem

    bounds = {}
    for text in dims:
        found = _DIM.fullmatch(text)
        if found is None:
            problem = Problem("--dim", f"{text!r}: write NAME=LOW..HIGH, such as seq=1..512")
            raise PlanError([problem], "pack synth")
        name, low, high = found.groups()
        bounds[name] = int(low), int(high or low)
    return bounds
