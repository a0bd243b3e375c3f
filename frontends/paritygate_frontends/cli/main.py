"""The command `paritygate`: the outermost frame, in which every end has its exit code."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext

LOADS_MODELS = ("run", "compare", "check", "inspect", "record", "replay", "demo")
PACKS_WITH_MODELS = ("boundary", "check")  # a plan's functions run in these, too
INTERRUPTED = 130
_CACHE = "paritygate.kernels._cache"
_SUPERVISE = "paritygate_frontends.cli.supervise"


def main() -> None:
    """Run the command line and end with its exit code."""
    atexit.register(_end_at_once)  # the first to be registered is the last to be called
    try:
        code = _start()
        _flush()
    except KeyboardInterrupt as e:  # before anything began, or in the middle of last words
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = _explain(e)
    if code == INTERRUPTED and threading.active_count() > 1:
        with getattr(sys.modules.get(_CACHE), "WRITING", nullcontext()):  # no file is left half
            os._exit(code)  # what those threads run isn't waited for
    sys.exit(code)


def _start() -> int:
    """Run the command line; a verb that loads models does it in a child process."""
    _open_streams()
    args = sys.argv[1:]
    verb, after = _verbs(args)
    loads_models = verb in LOADS_MODELS or (verb == "pack" and after in PACKS_WITH_MODELS)
    if loads_models and hasattr(os, "fork") and hasattr(os, "waitid"):
        from paritygate_frontends.cli.supervise import supervise

        return supervise(_run, args)
    return _run()


def _end_at_once() -> None:
    """End a comparison's child where all is said and all handlers since were called.

    Nothing of a user was loaded into it. To take modules apart one by one, of which nobody sees
    anything, took a thirtieth of the whole command.
    """
    supervise = sys.modules.get(_SUPERVISE)
    code = supervise.told_code() if supervise is not None else None
    if code is not None and _verbs(sys.argv[1:])[0] == "compare":
        _flush()
        os._exit(code)


def _verbs(args: Sequence[str]) -> tuple[str, str]:
    """The first two words that are no options."""
    first, second, *_ = [*(arg for arg in args if not arg.startswith("-")), "", ""]
    return first, second


def _open_streams() -> None:
    """Make every standard stream one that can be used.

    A closed one leads nowhere, and its number isn't given to a file that is opened later. A
    character that a stream can't show is escaped there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _run() -> int:
    """Do what the arguments say; the exit code, with everything written."""
    code = 2
    try:
        from paritygate_frontends.cli.app import app

        app(prog_name="paritygate")
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 2
    except BaseException as e:  # an end without a verdict, whatever it is called
        code = _explain(e)
    _flush()
    return code


def _explain(failure: BaseException) -> int:
    from paritygate_frontends.cli.ending import explain, is_json

    return explain(failure, is_json(sys.argv[1:]))


def _flush() -> None:
    """Write what is buffered; what can't be written is let go of, and says nothing at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            from paritygate_frontends.cli.stdout import silence

            silence(stream)


if __name__ == "__main__":  # python -m of this module too, lest it end with 0 and judge nothing
    main()
