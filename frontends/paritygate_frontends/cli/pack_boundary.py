"""`paritygate pack boundary`: samples on both sides of every edge of a plan's decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish, output
from paritygate_frontends.cli.options import Overrides


def boundary(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan (TOML).")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PACK", help="The pack (Arrow).")],
    budget: Annotated[
        int, typer.Option(min=1, metavar="N", help="Samples to ask the reference for an edge.")
    ] = 4_096,
    per_side: Annotated[
        int, typer.Option(min=1, metavar="N", help="Samples to keep on each side of an edge.")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of what is tried at random.")] = 0,
    with_golden: Annotated[
        bool, typer.Option("--with-golden", help="Write the golden samples too, before the others.")
    ] = False,
    set_: Overrides = None,
) -> None:
    """Write samples at the edges of decisions, the ends of ranges and dims, and beyond.

    Samples near an edge are searched between golden samples; what can't be reached is said.
    """

    def work() -> int:
        from paritygate import api
        from paritygate_frontends.report.checks import render_lines
        from paritygate_frontends.report.screen import show

        loaded = api.load_plan(plan, overrides=set_ or ())
        found = api.make_boundary(
            loaded, out, budget=budget, per_side=per_side, seed=seed, with_golden=with_golden
        )
        with output():
            show(render_lines([(status, "", text) for status, text in found.lines]))
            typer.echo(f"{found.built.path}: content digest {found.built.digest}")
        return 0

    finish(work)
