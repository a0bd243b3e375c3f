"""The command `paritygate`: the outermost frame, in which every end has its exit code."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; a character that a stream can't show is escaped there."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        from paritygate_frontends.cli.app import app

        app(prog_name="paritygate")
    except (Exception, KeyboardInterrupt) as e:
        from paritygate_frontends.cli.ending import explain

        sys.exit(explain(e))
