"""The verbs of the command line, and what holds for all of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from paritygate.core.errors import Interrupted, ParityError
from paritygate_frontends.cli import ending
from paritygate_frontends.cli.ending import UsageError, is_json, output

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


VERBS = {  # each is the function of its name in the module of its name
    "run": "Run a plan; or two models over golden samples.",
    "compare": "Compare two packs of recorded outputs.",
    "check": "Check a plan, its samples and models; run nothing.",
    "inspect": "Look into a model: what would hold a run?",
    "record": "Keep what one runner of a plan answers.",
    "explain": "Explain a run, or why one sample failed.",
    "replay": "Run failing samples again; same result?",
    "demo": "Judge two small real models and explain it.",
    "doctor": "Look at this machine: is it fit for a run?",
    "pack": "Make packs of samples; look into them.",
}
_JUDGING = ("run", "compare", "record", "replay")
_HELP = {"help_option_names": ["-h", "--help"]}


class _Commands(MutableMapping[str, Any]):
    """The verbs by name; one is imported and laid out when it is asked for."""

    def __init__(self) -> None:
        self._laid_out: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._laid_out:
            self._laid_out[name] = _lay_out(name, VERBS[name])
        return self._laid_out[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._laid_out[name] = command

    def __delitem__(self, name: str) -> None:
        del self._laid_out[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def _lay_out(name: str, short: str) -> Any:
    verb = getattr(importlib.import_module(f"paritygate_frontends.cli.{name}"), name)
    if isinstance(verb, typer.Typer):  # verbs of its own
        return get_command(verb)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_HELP)
    epilog = EXIT_CODES if name in _JUDGING else None
    alone.command(name, short_help=short, epilog=epilog)(verb)
    return get_command(alone)


class _Verbs(TyperGroup):
    """The verbs as a group, in which a command line that can't be read is unjudged too."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Commands()})

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
    context_settings=_HELP,
)


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
