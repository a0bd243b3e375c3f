"""`paritygate replay`: a run's failing samples, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish
from paritygate_frontends.cli.options import Json, Out, Threads


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID", help="Samples; default: all that were kept.", show_default=False
        ),
    ] = None,
    with_batch: Annotated[
        bool,
        typer.Option("--with-batch", help="In the batches that they were in, beside the others."),
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Run models though their files have changed.")
    ] = False,
    threads: Threads = None,
    out: Out = Path("runs"),
    json: Json = False,
) -> None:
    """Run a run's failing samples again and say whether they come out as they did.

    It is a hold where a rule fires again, else incomplete: a replay releases nothing.
    """

    def work() -> int:
        from paritygate import api
        from paritygate_frontends.cli.judged import judge_and_tell
        from paritygate_frontends.report.replay import render_replay

        return judge_and_tell(
            "replay",
            lambda observer: api.replay(
                run,
                ids or (),
                with_batch=with_batch,
                changed=changed,
                out=out,
                threads=threads,
                observer=observer,
            ),
            json,
            render_replay,
        ).exit_code

    finish(work, as_json=json)
