"""How every verb ends: its exit code, and one clear text where it could not do its work."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer

from paritygate.core.errors import Interrupted, ParityError
from paritygate.core.verdict import Verdict

DEBUG = "PARITYGATE_DEBUG"


def finish(work: Callable[[], int], as_json: bool = False) -> NoReturn:
    """Do a verb's work and end the command with the exit code that it returns.

    Args:
        work: what the verb does.
        as_json: where there is no verdict, print a summary that says so on standard output.
    """
    try:
        code = work()
    except ParityError as e:
        code = _explain(e, as_json)
    except KeyboardInterrupt:
        code = _explain(Interrupted("interrupted; no verdict"), as_json)
    except MemoryError:
        code = _explain(
            _UnfinishedError("out of memory; use a smaller batch_size or fewer threads"), as_json
        )
    except Exception as e:
        code = explain_fault(e, as_json)
    raise typer.Exit(code)


class _UnfinishedError(ParityError):
    """What ended a command without being anybody's plan or pack."""


@contextmanager
def output() -> Iterator[None]:
    """Print to standard output; a reader that has gone away changes no verdict.

    Raises:
        ParityError: standard output can't be written (a full disk).
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as e:
        _silence_stdout()
        if e.errno != errno.EPIPE:
            raise _UnfinishedError(f"standard output can't be written: {e.strerror}") from None


def _silence_stdout() -> None:
    """Let what is still buffered, and the interpreter's last flush, go nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def print_json(summary: Mapping[str, Any]) -> None:
    """Print a summary, the same bytes as `summary.json`, and nothing else."""
    from paritygate.runfolder import encode_summary

    with output():
        typer.echo(encode_summary(summary), nl=False)


def _explain(error: ParityError, as_json: bool) -> int:
    if isinstance(error, Interrupted):
        typer.echo(str(error), err=True)
    else:
        typer.echo(f"{_verdict(error).value.upper()}  {error.code}", err=True)
        typer.echo(_clean(str(error)), err=True)
    if as_json:
        _print_unjudged(error)
    return error.exit_code


def explain_fault(fault: Exception, as_json: bool = False) -> int:
    """Say in one line that paritygate itself failed; the exit code of such a command."""
    told = f"{type(fault).__name__}: {fault}".splitlines()[0]
    text = (
        f"paritygate failed, which is its own fault and says nothing about the models ({told}); "
        f"please report it with the output of the same command under {DEBUG}=1"
    )
    typer.echo(_clean(text), err=True)
    if os.environ.get(DEBUG) == "1":
        import traceback

        typer.echo("".join(traceback.format_exception(fault)), err=True, nl=False)
    if as_json:
        _print_unjudged(_UnfinishedError(text))
    return Verdict.UNJUDGED.exit_code


def _print_unjudged(error: ParityError) -> None:
    from paritygate.api import unjudged_summary

    print_json({**unjudged_summary(error), "verdict": _verdict(error).value})


def _verdict(error: ParityError) -> Verdict:
    return Verdict.HOLD if error.exit_code == Verdict.HOLD.exit_code else Verdict.UNJUDGED


def _clean(text: str) -> str:
    from paritygate_frontends.report.figures import clean

    return clean(text)
