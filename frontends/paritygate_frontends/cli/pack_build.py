"""`paritygate pack build`: a pack from tables or arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish, output

Spec = "NAME[:DTYPE]=COLUMN[,...]"
Names = "NAME=A[,B,...]"


def build(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE", help="Arrow, Parquet, CSV, .npz, folders of .npy; same columns."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PACK", help="The pack (Arrow).")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar=Spec, help="An input; default: columns in.*. Repeatable."),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--output", metavar=Spec, help="An output; default: columns out.*. Repeatable."
        ),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Ids; default: sample_id.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Labels; default: label, if there.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A further column, as of slices. Repeatable."),
    ] = None,
    make_ids: Annotated[
        bool, typer.Option("--make-ids", help="Number the samples from 0 instead.")
    ] = False,
    axes: Annotated[
        list[str] | None,
        typer.Option(metavar=Names, help="Names of the axes of one sample. Repeatable."),
    ] = None,
    channels: Annotated[
        list[str] | None,
        typer.Option(metavar=Names, help="Channels; default: of NAME=A,B the columns. Repeatable."),
    ] = None,
    units: Annotated[
        list[str] | None,
        typer.Option(metavar=Names, help="A unit a channel, or one for all. Repeatable."),
    ] = None,
) -> None:
    """Write a pack, read it as a whole and say its content digest.

    `--input features:float32=age,bmi` puts two columns side by side, in float32.
    """

    def work() -> int:
        from paritygate import api
        from paritygate.api.meanings import parse_named

        built = api.build_from(
            out,
            list(sources),
            inputs=inputs or (),
            outputs=outputs or (),
            id=id_column,
            label=label,
            keep=keep or (),
            make_ids=make_ids,
            axes=parse_named("axes", axes or ()),
            channels=parse_named("channels", channels or ()),
            units=parse_named("units", units or ()),
        )
        with output():
            typer.echo(f"{built.path}: {built.samples} samples, content digest {built.digest}")
        return 0

    finish(work)
