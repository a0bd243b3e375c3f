"""`paritygate record`: what one runner of a plan answers, as a pack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from paritygate_frontends.cli.ending import finish
from paritygate_frontends.cli.options import Json, Overrides, Threads

if TYPE_CHECKING:
    from paritygate.core.events import Observer


class _Told(Struct, frozen=True):
    summary: Mapping[str, Any]
    folder: Path | None
    exit_code: int


def record(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan (TOML).")],
    runner: Annotated[str, typer.Argument(metavar="RUNNER", help="One of its runners.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write; default: RUNNER.arrow."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Record the first N samples; at best incomplete."),
    ] = None,
    set_: Overrides = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Run one runner of a plan over the golden samples and keep what it answers, as a pack.

    It is a hold where the recording lacks samples, or the runner isn't what the plan asks for.
    Where samples are rejected, a run of the plan may put others together in a batch; for a model
    whose answers depend on that, use `run --keep-outputs`.
    """

    def work() -> int:
        from paritygate import api
        from paritygate_frontends.cli.judged import judge_and_tell
        from paritygate_frontends.report.recording import render_recording

        loaded = api.load_plan(plan, overrides=set_ or ())

        def make(observer: Observer) -> _Told:
            made = api.record(
                loaded, runner, out=out, limit=limit, threads=threads, observer=observer
            )
            return _Told(made.summary, made.path, made.exit_code)

        return judge_and_tell(runner, make, json, render_recording).exit_code

    finish(work, as_json=json)
