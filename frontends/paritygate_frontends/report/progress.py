"""Progress of a run: drawn on standard error, and only where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from paritygate.core.events import (
    Compiling,
    Event,
    Finished,
    Observer,
    Prepared,
    Progress,
    ignore,
)


@contextmanager
def watch(name: str) -> Iterator[Observer]:
    """Give an observer that draws a run's progress while the context lasts.

    Args:
        name: shown until the run says its own name.
    """
    if not sys.stderr.isatty():
        yield ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    from paritygate_frontends.report.figures import clean

    with Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(file=sys.stderr, markup=False, emoji=False, highlight=False),
        transient=True,
    ) as bar:
        task = bar.add_task(f"{clean(name)}: preparing", total=None, note="")

        def draw(event: Event) -> None:
            match event:
                case Prepared():
                    bar.update(task, description=clean(event.name), total=event.samples)
                case Compiling():
                    bar.update(task, note=describe_compiling(event))
                case Progress():
                    bar.update(
                        task, completed=event.samples, total=event.total, note=describe(event)
                    )
                case Finished():
                    bar.update(task, description=f"{bar.tasks[0].description}: {event.verdict}")

        yield draw


def describe_compiling(event: Compiling) -> str:
    """Say what a first run on a machine waits for."""
    return f"compiling kernels, once on this machine: {event.seconds:.0f} s"


def describe(event: Progress) -> str:
    """Say speed, flips, failures so far and time left."""
    from paritygate_frontends.report.figures import seconds

    rate = event.samples / event.elapsed_s if event.elapsed_s > 0 else 0.0
    text = f"{rate:,.0f} samples/s"
    if event.flips is not None and event.failed is not None:
        text += f", {event.flips:,} flips, {event.failed:,} failed"
    return text if event.left_s is None else f"{text}, {seconds(event.left_s)} left"
