"""`paritygate explain`: why a run ended as it did, or why one of its samples failed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish, output, print_json
from paritygate_frontends.cli.options import Json

UNEXPLAINED = ("absent", "unknown")


def explain(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="A run folder; default: the latest.", show_default=False
        ),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="A sample's id; default: none.", show_default=False),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the latest run is looked for.")
    ] = Path("runs"),
    json: Json = False,
) -> None:
    """Say why a run ended as it did, with its worst samples; or why one sample failed.

    A single argument that is no file is an id of the latest run. Ends with 0 if there was
    something to say of it, with 2 if not.
    """

    def work() -> int:
        from paritygate import api
        from paritygate_frontends.report.explanation import render_explanation
        from paritygate_frontends.report.screen import show

        folder, sample_id = _choose(run, sample, out)
        found = api.explain(folder, sample_id)
        if json:
            print_json(found)
        else:
            with output():
                show(render_explanation(found))
        return 2 if found.get("status") in UNEXPLAINED else 0

    finish(work, as_json=json)


def _choose(run: str | None, sample: str | None, out: Path) -> tuple[Path, str | None]:
    """The run folder and the id that the arguments name."""
    from paritygate.api import find_latest

    if run is None:
        return find_latest(out), None
    is_path = "/" in run or Path(run).exists()
    if sample is None and not is_path:
        return find_latest(out), run
    return Path(run), sample
