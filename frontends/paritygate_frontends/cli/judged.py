"""What verbs that judge share: run under a progress bar, then tell the outcome."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import RenderableType

from paritygate.core.events import Event, Finished, Made, Observer, Prepared
from paritygate_frontends.cli.ending import output, print_json
from paritygate_frontends.cli.supervise import (
    is_supervised,
    raise_if_interrupted,
    tell_made,
    tell_partial,
    tell_recorded,
)
from paritygate_frontends.report.progress import watch
from paritygate_frontends.report.screen import show
from paritygate_frontends.report.verdict import render_report


class Told(Protocol):
    """What came out: a summary, and the folder or file that was left."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """What is printed as JSON."""

    @property
    def folder(self) -> Path | None:
        """What was left."""


_T = TypeVar("_T", bound=Told)
Render = Callable[[Mapping[str, Any], Path | None], Iterator[RenderableType]]


def judge_and_tell(
    name: str,
    judge: Callable[[Observer], _T],
    as_json: bool = False,
    render: Render = render_report,
) -> _T:
    """Judge, then print the report, or the summary as JSON.

    Args:
        name: what is judged, for the progress bar.
        judge: runs it, given an observer.
        as_json: print the summary and nothing else on standard output.
        render: lays the report out, given summary and folder.

    Raises:
        ParityError: it could not be judged, or standard output can't be written.
    """
    start = Path.cwd()  # a model's code may go elsewhere
    _settle()
    with watch(name) as draw:

        def observe(event: Event) -> None:
            if not isinstance(event, Finished):
                raise_if_interrupted()
            if isinstance(event, Made):
                tell_made(event.partial, event.parents)
            if isinstance(event, Prepared):
                tell_partial(event.partial)
                tell_recorded(event.recorded)
            draw(event)

        result = judge(observe)
    if as_json:
        print_json(result.summary)
    else:
        with output():
            show(render(result.summary, _seen_from(start, result.folder)))
    return result


@cache
def _settle() -> None:
    """Load the engine, and look for garbage neither meanwhile nor in what is there by then.

    In a process of its own nothing of a model or of a user is there yet. What there is stays until
    the end, and to go through it then, three times, takes longer than anything else that is left.
    """
    if is_supervised():
        gc.disable()
        try:
            from paritygate import api

            _ = api.run  # which is where most of the engine is loaded
            gc.freeze()
        finally:
            gc.enable()


def _seen_from(start: Path, folder: Path | None) -> Path | None:
    """A run folder as one would type it in the folder that the command was given in."""
    return folder.relative_to(start) if folder and folder.is_relative_to(start) else folder
