"""`paritygate pack export`: samples of a pack for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish, output


def export(
    pack: Annotated[str, typer.Argument(metavar="PACK", help="File or folder; a shard too.")],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="PATH", help="A folder for test data, or a .npz file."),
    ],
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Samples.", show_default=False)
    ] = None,
    rows: Annotated[
        list[int] | None,
        typer.Option("--row", metavar="N", help="Samples by row, from 0. Repeatable."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="ONNX", help="Says the order of inputs and outputs.")
    ] = None,
    prefix: Annotated[
        str,
        typer.Option("--outputs", metavar="PREFIX", help="Of outputs; of a shard ref. or cand."),
    ] = "out.",
    id_column: Annotated[str, typer.Option("--id", metavar="COLUMN", help="Ids.")] = "sample_id",
) -> None:
    """Write samples as ONNX's test_data_set_N folders, one each, or as one .npz file.

    With a shard a failing sample can be filed as a bug elsewhere.
    """

    def work() -> int:
        from paritygate import api

        made = api.export_pack(
            pack,
            out,
            ids=ids or (),
            rows=rows or (),
            model=model,
            outputs_prefix=prefix,
            id=id_column,
        )
        with output():
            for path in made:
                typer.echo(str(path))
        return 0

    finish(work)
