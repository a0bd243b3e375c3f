"""`paritygate pack prove` and `pack verify`: that a sample belongs to a pack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish, output, print_json

IdColumn = Annotated[str, typer.Option("--id", metavar="COLUMN", help="Ids.")]


def prove(
    pack: Annotated[str, typer.Argument(metavar="PACK", help="File or folder.")],
    sample: Annotated[str, typer.Argument(metavar="ID", help="The sample.")],
    id_column: IdColumn = "sample_id",
) -> None:
    """Print the proof that a sample belongs to a pack, as JSON."""

    def work() -> int:
        from paritygate import api

        print_json(api.prove_sample(pack, sample, id=id_column))
        return 0

    finish(work, as_json=True)


def verify(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="What pack prove printed.")],
    pack: Annotated[str, typer.Argument(metavar="PACK", help="Any pack that holds the sample.")],
    digest: Annotated[
        str, typer.Option(metavar="DIGEST", help="Content digest that it should belong to.")
    ],
    id_column: IdColumn = "sample_id",
) -> None:
    """Say whether a sample belongs to the pack of a content digest: ends with 0, or with 1."""

    def work() -> int:
        import json

        from paritygate import api

        belongs = api.verify_proof(proof, pack, digest, id=id_column)
        told = json.loads(proof.read_bytes())
        with output():
            if belongs:
                place = f"as row {told['row']} of {told['samples']}"
                typer.echo(f"sample {told['id']!r} belongs to the pack, {place}")
            else:
                typer.echo(f"sample {told['id']!r} isn't proved to belong to the pack of {digest}")
        return 0 if belongs else 1

    finish(work)
