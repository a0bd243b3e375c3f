"""How every verb ends: its exit code, and one clear text where it could not do its work."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer

from paritygate.core.errors import Interrupted, ParityError
from paritygate.core.verdict import Verdict
from paritygate_frontends.cli import stdout
from paritygate_frontends.cli.supervise import leave_the_rest, tell_said, was_interrupted

DEBUG = "PARITYGATE_DEBUG"


class _UnfinishedError(ParityError):
    """What ended a command without being anybody's plan or pack."""


class OutputError(ParityError):
    """Standard output can't be written (a full disk)."""

    code = "output.unwritable"


class UsageError(ParityError):
    """A command line that can't be read."""

    code = "usage.invalid"


class CrashedError(ParityError):
    """The process that ran models ended without having told its exit code."""

    code = "runner.crashed"


def is_json(args: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, even one that can't be read."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options


def finish(work: Callable[[], int], as_json: bool = False) -> NoReturn:
    """Do a verb's work and end the command with the exit code that it returns.

    Args:
        work: what the verb does.
        as_json: where there is no verdict, print a summary that says so on standard output.
    """
    with stdout.set_aside():
        try:
            code = work()
        except BaseException as e:  # not even SystemExit(0) is a verdict
            code = explain(e, as_json)
    raise typer.Exit(code)


@contextmanager
def output() -> Iterator[None]:
    """Print to standard output; a reader that has gone away changes no verdict.

    Raises:
        OutputError: standard output can't be written (a full disk).
    """
    with stdout.lent_back():
        try:
            yield
            sys.stdout.flush()
        except OSError as e:
            stdout.silence(sys.stdout)
            if e.errno != errno.EPIPE:
                raise OutputError(
                    f"standard output can't be written: {e.strerror}; send it elsewhere"
                ) from None


def print_json(summary: Mapping[str, Any]) -> None:
    """Print a summary, the same bytes as `summary.json`, and nothing else."""
    from paritygate.runfolder import encode_summary

    with output():
        typer.echo(encode_summary(summary), nl=False)


def explain(failure: BaseException, as_json: bool = False, *, is_said: bool = False) -> int:
    """Say on standard error why there is no verdict.

    Args:
        failure: what ended the command.
        as_json: also print a summary that says so on standard output.
        is_said: standard error has it already.

    Returns:
        The command's exit code.
    """
    error = _as_error(failure)
    head = (
        "" if isinstance(error, Interrupted) else f"{_verdict(error).value.upper()}  {error.code}\n"
    )
    if not is_said:
        _say(head + str(error))
        tell_said()
    if error is not failure and os.environ.get(DEBUG) == "1":
        import traceback

        _say("".join(traceback.format_exception(failure)).rstrip())
    if as_json:
        _print_unjudged(error)
    return error.exit_code


def _print_unjudged(error: ParityError) -> None:
    try:
        from paritygate.api import unjudged_summary

        print_json({**unjudged_summary(error), "verdict": _verdict(error).value})
    except ParityError as e:
        _say(str(e))
    except Exception:
        if not isinstance(error, Interrupted):
            raise
        leave_the_rest()  # an import that was broken off halfway can't be done again


def _as_error(failure: BaseException) -> ParityError:
    if isinstance(failure, ParityError):
        return failure
    if isinstance(failure, KeyboardInterrupt) or was_interrupted():  # what it hit may say otherwise
        return Interrupted("interrupted; no verdict")
    if isinstance(failure, MemoryError):
        return _UnfinishedError("out of memory; use a smaller batch_size or fewer threads")
    told = " ".join(f"{type(failure).__name__}: {failure}".split())
    return _UnfinishedError(
        f"paritygate itself failed, which says nothing about the models ({told}); please report it "
        f"with what the same command prints under {DEBUG}=1"
    )


def _verdict(error: ParityError) -> Verdict:
    return Verdict.HOLD if error.exit_code == Verdict.HOLD.exit_code else Verdict.UNJUDGED


def _say(text: str) -> None:
    """Write to standard error; where even that can't be written, the exit code has to do."""
    from paritygate_frontends.report.figures import clean_lines

    with suppress(OSError):
        typer.echo(clean_lines(text), err=True)
