"""The verbs of the command line, and what holds for all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from paritygate.core.errors import Interrupted, ParityError
from paritygate_frontends.cli import ending
from paritygate_frontends.cli.check import check
from paritygate_frontends.cli.compare import compare
from paritygate_frontends.cli.demo import demo
from paritygate_frontends.cli.doctor import doctor
from paritygate_frontends.cli.ending import UsageError, is_json, output
from paritygate_frontends.cli.explain import explain
from paritygate_frontends.cli.inspect import inspect
from paritygate_frontends.cli.pack import pack
from paritygate_frontends.cli.record import record
from paritygate_frontends.cli.replay import replay
from paritygate_frontends.cli.run import run

EXIT_CODES = (
    "Exit codes: 0 release, 1 hold, 2 could not judge, 3 incomplete (clean, but the plan asks for "
    "more), 130 interrupted (143 by SIGTERM, 129 by SIGHUP)."
)
_BAD_USAGE: Any = typer.BadParameter.__bases__[0]  # click's, or the copy of it that typer brings


@contextmanager
def _explained_interrupt() -> Iterator[None]:
    """Outside of a verb's work too: by itself typer ends without a word."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted; no verdict") from None


class _Verbs(TyperGroup):
    """The verbs as a group, in which a command line that can't be read is unjudged too."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Read what stands before the verb."""
        with _explained_interrupt():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Do the verb."""
        with _explained_interrupt():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, *more: Any, **settings: Any) -> NoReturn:
        """Do what the arguments say and end with its exit code."""
        given = list(sys.argv[1:] if args is None else args)
        settings["standalone_mode"] = False
        try:
            with output():  # of help
                code = super().main(given, *more, **settings)
        except SystemExit:  # the reader of help has gone away
            code = 0
        except _BAD_USAGE as e:
            with suppress(OSError):
                e.show()
            code = ending.explain(UsageError(e.format_message()), is_json(given), is_said=True)
        except ParityError as e:
            code = ending.explain(e, is_json(given))
        sys.exit(code)


app = typer.Typer(
    name="paritygate",
    cls=_Verbs,
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
    (inspect, "Look into a model: what would hold a run?"),
    (record, "Keep what one runner of a plan answers."),
    (explain, "Explain a run, or why one sample failed."),
    (replay, "Run failing samples again; same result?"),
    (demo, "Judge two small real models and explain it."),
    (doctor, "Look at this machine: is it fit for a run?"),
):
    epilog = EXIT_CODES if verb in (run, compare, record, replay) else None
    app.command(short_help=short, epilog=epilog)(verb)
app.add_typer(pack, name="pack", short_help="Make packs of samples; look into them.")


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
