"""The verbs of the command line, and what holds for all of them."""

from __future__ import annotations

from typing import Annotated

import typer

from paritygate_frontends.cli.check import check
from paritygate_frontends.cli.compare import compare
from paritygate_frontends.cli.demo import demo
from paritygate_frontends.cli.doctor import doctor
from paritygate_frontends.cli.run import run

EXIT_CODES = (
    "Exit codes: 0 release, 1 hold, 2 could not judge, 3 incomplete (clean, but the plan asks for "
    "more), 130 interrupted."
)

app = typer.Typer(
    name="paritygate",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb, short in (
    (run, "Run a plan; or two models over golden samples."),
    (compare, "Compare two packs of recorded outputs."),
    (check, "Check a plan, its samples and models; run nothing."),
    (demo, "Judge two small real models and explain it."),
    (doctor, "Look at this machine: is it fit for a run?"),
):
    epilog = EXIT_CODES if verb in (run, compare) else None
    app.command(short_help=short, epilog=epilog)(verb)


def _show_version(wanted: bool) -> None:
    if wanted:
        from paritygate import __version__

        typer.echo(f"paritygate {__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def _start(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Compare a candidate model with its reference, sample by sample: release or hold."""
