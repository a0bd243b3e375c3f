"""Rounds of timings in turn, and the rows that they become."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import paritygate
from paritygate.api import RunResult

Judged = Literal["ratio", "ours"]

THREADS = min(2, len(os.sched_getaffinity(0)))  # two cores read as fast as memory gives here
PASSES = 4  # over arrays that are shared out
_pool = ThreadPoolExecutor(THREADS)


@dataclass(frozen=True)
class Scale:
    """How much to measure: for figures, or only to see that it works.

    Attributes:
        folder: where packs and models are made.
        quick: smallest sizes, one round.
        turns: how often the case is measured, each time a part of the rounds.
    """

    folder: Path
    quick: bool = False
    turns: int = 1

    @property
    def rounds(self) -> int:
        """Interleaved rounds, of which the median is told."""
        return 1 if self.quick else 9 // self.turns

    def size(self, full: int, quick: int) -> int:
        """One of two sizes."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Figure:
    """Median and range of some rounds."""

    median: float
    low: float
    high: float
    values: tuple[float, ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def of(values: Sequence[float]) -> Figure:
        """The figure of one value a round."""
        return Figure(statistics.median(values), min(values), max(values), tuple(values))

    @staticmethod
    def joined(figures: Sequence[Figure | None]) -> Figure | None:
        """The figure of the rounds of all; None where there are none."""
        found = [value for figure in figures if figure is not None for value in figure.values]
        return Figure.of(found) if found else None


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        label: what was measured; unique.
        ours: our figure.
        unit: its unit.
        base: the baseline's figure, of the same unit and rounds; None: there is none.
        baseline: what the baseline is.
        ratio: ours over the baseline, round by round.
        limit: largest median allowed.
        limited: what the limit is about.
    """

    label: str
    ours: Figure
    unit: str
    base: Figure | None = None
    baseline: str = ""
    ratio: Figure | None = None
    limit: float | None = None
    limited: Judged = "ours"

    @staticmethod
    def of(label: str, ours: Sequence[float], unit: str, limit: float | None = None) -> Row:
        """A figure by itself."""
        return Row(label, Figure.of(ours), unit, limit=limit)

    @staticmethod
    def against(
        label: str,
        ours: Sequence[float],
        unit: str,
        base: Sequence[float],
        baseline: str,
        *,
        limit: float | None = None,
        limited: Judged = "ratio",
    ) -> Row:
        """A figure beside one that was measured in the same rounds."""
        ratio = [o / b for o, b in zip(ours, base, strict=True)]
        found = Figure.of(ours), Figure.of(base), Figure.of(ratio)
        return Row(label, found[0], unit, found[1], baseline, found[2], limit, limited)

    @staticmethod
    def joined(rows: Sequence[Row]) -> Row:
        """One row of the rounds of several of one label."""
        ours = Figure.joined([row.ours for row in rows])
        assert ours is not None
        base, ratio = (Figure.joined([getattr(row, n) for row in rows]) for n in ("base", "ratio"))
        return replace(rows[0], ours=ours, base=base, ratio=ratio)

    @property
    def is_met(self) -> bool:
        """Whether the limit, if there is one, is kept."""
        judged = self.ratio if self.limited == "ratio" and self.ratio is not None else self.ours
        return self.limit is None or judged.median <= self.limit


class Case(Protocol):
    """Something to measure: its name, the labels of its rows, and how."""

    @property
    def name(self) -> str:
        """Unique name."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the rows that `measure` gives."""

    def measure(self, scale: Scale) -> list[Row]:
        """Measure."""


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def shared(work: Callable[[Sequence[slice]], object], cuts: Sequence[slice]) -> float:
    """Wall time of a work whose cuts are shared out among as many threads as the limit needs.

    It is done over and over, since threads that have slept stay on one core for some milliseconds.
    """
    parts = [list(cuts[at::THREADS]) * PASSES for at in range(THREADS)]
    return seconds(lambda: list(_pool.map(work, parts))) / PASSES


def run_seconds(plan: Mapping[str, Any], threads: int) -> tuple[float, RunResult]:
    """Wall time of a run less its start (`timing.startup_s`), and its result."""
    started = time.perf_counter()
    result = paritygate.run(plan, out=None, threads=threads)
    whole = time.perf_counter() - started
    return whole - float(result.summary["timing"]["startup_s"]), result


def in_turn(
    scale: Scale,
    works: Mapping[str, Callable[[], float]],
    *,
    is_warm: bool = False,
    times: int = 1,
) -> dict[str, list[float]]:
    """Let each work measure itself once a round; every other round goes backwards.

    There are `times` as many rounds as elsewhere, for what differs much between them.

    One round goes before that isn't counted, so that caches, kernels and sessions are warm, unless
    they are.
    """
    found: dict[str, list[float]] = {name: [] for name in works}
    for work in () if scale.quick or is_warm else works.values():
        work()
    for number in range(scale.rounds if scale.quick else times * scale.rounds):
        for name in list(works)[:: 1 if number % 2 == 0 else -1]:
            found[name].append(works[name]())
    return found
