"""`paritygate doctor`: is this machine fit for a run?"""

from __future__ import annotations

from paritygate_frontends.cli.ending import finish, output


def doctor() -> None:
    """Look at this machine: what a run needs, and what it would use."""

    def work() -> int:
        from paritygate import api
        from paritygate_frontends.report.checks import render_checks
        from paritygate_frontends.report.screen import show

        lines = api.doctor()
        with output():
            show(render_checks(lines))
        return 2 if any(status == "fail" for status, _, _ in lines) else 0

    finish(work)
