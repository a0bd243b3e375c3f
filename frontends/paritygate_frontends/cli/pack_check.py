"""`paritygate pack check`: what is in a pack, and what it shares with another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import UsageError, finish, output, print_json
from paritygate_frontends.cli.options import Json


def check(
    pack: Annotated[list[str], typer.Argument(metavar="PACK", help="Files or folders.")],
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="OTHER", help="A pack that should share no sample. Repeatable."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="PLAN", help="Takes columns, contract and calibration from a plan."),
    ] = None,
    id_column: Annotated[str, typer.Option("--id", metavar="COLUMN", help="Ids.")] = "sample_id",
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Labels; default: label, if there.")
    ] = None,
    slices: Annotated[
        list[str] | None,
        typer.Option("--slice", metavar="COLUMN", help="Count its values. Repeatable."),
    ] = None,
    draft: Annotated[
        bool, typer.Option("--draft", help="Print a contract of what occurs, for a plan, instead.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option(metavar="ONNX", help="Names the dims of a draft that vary.")
    ] = None,
    json: Json = False,
) -> None:
    """Read all of a pack: ids, tensors, labels, equal samples, content digest.

    Ends with 0, with 1 where a run on it would hold, with 2 where none could begin.
    """

    def work() -> int:
        from paritygate import api
        from paritygate_frontends.report.checks import render_checks
        from paritygate_frontends.report.screen import show

        given = {"--plan": plan, "--against": against, "--label": label, "--slice": slices}
        asked = [name for name, value in {**given, "--json": json}.items() if value]
        if draft and asked:
            raise UsageError(f"--draft prints a contract and checks nothing: leave out {asked[0]}")
        if model is not None and not draft:
            raise UsageError("--model names the dims of a draft: give --draft too, or leave it out")
        if draft:
            text = api.draft_contract(pack, model=model, id=id_column)
            with output():
                typer.echo(text, nl=False)
            return 0
        report = api.check_pack(
            pack, against=against, plan=plan, id=id_column, label=label, slices=slices or ()
        )
        if json:
            print_json(report.summary)
        else:
            with output():
                show(render_checks([(status, "", text) for status, text in report.lines]))
        return report.exit_code

    finish(work, as_json=json)
