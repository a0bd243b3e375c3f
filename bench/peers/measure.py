"""Tools timed in turn on what they are given, once all of them agree."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.measure import Figure, Scale
from bench.peers.given import Given, Pair
from bench.peers.ours import read_both
from bench.peers.tools import Tool

SHORTEST = 0.002  # seconds that one timing takes at least
SLOW, SLOW_ROUNDS = 2.0, 3
LIMIT = "reading both arrays"


class DisagreeError(Exception):
    """Two tools say different things of the same arrays, so that their times say nothing."""


@dataclass(frozen=True)
class Timed:
    """One tool.

    Attributes:
        tool: its name.
        finds: what it finds out.
        seconds: of one comparison.
        share: of the limit: how long that takes over how long this does, round by round.
        slower: than the first tool, in the same rounds.
    """

    tool: str
    finds: str
    seconds: Figure
    share: Figure
    slower: Figure


def missing(tools: Sequence[Tool]) -> list[str]:
    """Modules that aren't installed."""
    modules = dict.fromkeys(tool.module for tool in tools)
    return [name for name in modules if importlib.util.find_spec(name) is None]


def measure(given: Given, pair: Pair, tools: Sequence[Tool], scale: Scale) -> list[Timed]:
    """Time the tools that take it; the first one is ours, and the measure of the others.

    Raises:
        DisagreeError: their answers differ.
    """
    chosen = [tool for tool in tools if tool.takes(given)]
    works = {tool.name: tool.prepare(pair) for tool in chosen}
    _check(given, chosen, works)
    works[LIMIT] = read_both(pair)
    found = _rounds(works, scale)
    ours, limit = found[chosen[0].name], found[LIMIT]
    return [
        Timed(
            tool.name,
            tool.finds,
            Figure.of(times := found[tool.name]),
            Figure.of(_ratios(limit, times)),
            Figure.of(_ratios(times, ours)),
        )
        for tool in chosen
    ] + [Timed(LIMIT, "", Figure.of(limit), Figure(1, 1, 1), Figure.of(_ratios(limit, ours)))]


def _check(given: Given, tools: Sequence[Tool], works: dict[str, Callable[[], Any]]) -> None:
    """Hold all answers against the first; what is to be compiled or loaded is, meanwhile."""
    first = tools[0].read(works[tools[0].name]())
    for tool in tools[1:]:
        answer = tool.read(works[tool.name]())
        if not answer.agrees(first, is_rounded=tool.is_rounded):
            raise DisagreeError(f"{given.name}: {tool.name} says {answer}, {tools[0].name} {first}")


def _rounds(works: dict[str, Callable[[], Any]], scale: Scale) -> dict[str, list[float]]:
    """Times of each by round; every other round goes backwards, and slow ones sit some out."""
    if scale.quick:
        return {name: [_seconds(work, 1)] for name, work in works.items()}
    costs = {name: _seconds(work, 1) for name, work in works.items()}
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(scale.rounds):
        for name in list(works)[:: 1 if number % 2 == 0 else -1]:
            if costs[name] < SLOW or number < SLOW_ROUNDS:
                repeats = max(1, math.ceil(SHORTEST / max(costs[name], 1e-9)))
                found[name].append(_seconds(works[name], repeats))
    return found


def _seconds(work: Callable[[], Any], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - started) / repeats


def _ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(over, under, strict=False)]
