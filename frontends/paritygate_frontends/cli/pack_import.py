"""`paritygate pack import`: a pack from what other tools keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish, output


def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE",
            help="Folders with ONNX's test_data_set_N; or Polygraphy's JSON of inputs, outputs.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PACK", help="The pack (Arrow).")],
    model: Annotated[
        Path | None,
        typer.Option(metavar="ONNX", help="Names of inputs and outputs; default: the files'."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="One sample a call; else one a row of the first axis.")
    ] = False,
    runner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose outputs, of a JSON of several.")
    ] = None,
) -> None:
    """Write a pack of test data, and say the tolerances that lie beside it."""

    def work() -> int:
        from paritygate import api

        found = api.import_pack(out, list(sources), model=model, whole=whole, runner=runner)
        with output():
            built = found.built
            typer.echo(f"{built.path}: {built.samples} samples, content digest {built.digest}")
            if found.tolerances:
                rules = {"atol": 0.0, "rtol": 0.0, **found.tolerances}
                told = ", ".join(f"{key} = {value!r}" for key, value in rules.items())
                typer.echo(f"config.txt, as a key of a stage: default = {{ {told} }}")
        return 0

    finish(work)
