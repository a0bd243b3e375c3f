"""`paritygate check`: everything but inference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish, output
from paritygate_frontends.cli.options import Overrides


def check(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan (TOML).")],
    set_: Overrides = None,
) -> None:
    """Check a plan, its golden samples and its models, without running them."""

    def work() -> int:
        from paritygate import api
        from paritygate_frontends.report.checks import render_checks
        from paritygate_frontends.report.screen import show

        report = api.check(plan, overrides=set_ or ())
        with output():
            show(render_checks([(status, "", text) for status, text in report.lines]))
        return report.exit_code

    finish(work)
