"""`paritygate demo`: two real models judged from start to end, with what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish


def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where the demo's files go; default: paritygate-demo here."
        ),
    ] = None,
) -> None:
    """Judge two small real models: their conversion is released, their int8 version is held.

    Exits with 0 if that is how it came out.
    """

    def work() -> int:
        from paritygate_frontends.cli.demonstration import demonstrate

        return demonstrate(out)

    finish(work)
