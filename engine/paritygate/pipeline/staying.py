"""Outputs that stay on a GPU: those that every stage compares there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from paritygate.comparison.place import Place, describe_place, find_place, open_place
from paritygate.comparison.stage import StageComparer
from paritygate.core.errors import DeviceError
from paritygate.core.plan import Stage
from paritygate.core.tensors import CompareOn, Stats
from paritygate.pipeline.host_outputs import (
    WORTH_BYTES,
    Measured,
    host_outputs,
    measure_outputs,
)
from paritygate.runners.base import Runner


class Placing(Struct, frozen=True):
    """Where a run compares.

    Attributes:
        place: the GPU; None: the CPU compares.
        why_not: why that compares what lies on a GPU, or was to be tried there.
        measured: how fast large outputs of the host are compared on each.
    """

    place: Place | None = None
    why_not: tuple[str, ...] = ()
    measured: tuple[Measured, ...] = ()


def place_of(
    asked: CompareOn,
    stages: Sequence[Stage],
    runners: Mapping[str, Runner],
    samples: int,
    stats: Stats,
    threads: int,
) -> Placing:
    """Where a run compares.

    Args:
        asked: for "auto" it is where both sides of an output lie, and where it is faster for others
            that are so many that measuring it is worth it.
        stages: those that run.
        runners: theirs, by name.
        samples: that are compared.
        stats: "gate" or "full".
        threads: that compare at once.

    Raises:
        DeviceError: "cuda" was asked for, and nothing can be compared on a GPU here.
    """
    is_asked = asked != "auto"
    if asked == "cpu":
        return Placing()
    lying = frozenset(
        (stage.name, output)
        for stage in stages
        for output in runners[stage.reference].can_stay & runners[stage.candidate].can_stay
        if stage.judges(output)
    )
    large = [one for one in host_outputs(stages, runners, samples) if one.size >= WORTH_BYTES]
    if not (is_asked or lying or large):
        return Placing()
    try:
        place = open_place(asked) if is_asked else find_place()
    except DeviceError as e:
        if is_asked:
            raise
        told = f"outputs that lie on a GPU were compared on the CPU: {e}"
        return Placing(None, (told,) if lying else ())
    assert place is not None
    measured = tuple(measure_outputs(place, large, stats, threads, is_asked=is_asked))
    if is_asked:
        return Placing(place, (), measured)
    faster = {(one.stage, one.output) for one in measured if one.on == "cuda"}
    if not (lying or faster):
        place.close()
        return Placing(None, tuple(place.notes), measured)
    place.wanted = lying | faster
    return Placing(place, (), measured)


def describe_placing(placing: Placing) -> dict[str, Any]:
    """What a summary says of it."""
    measured = [one.describe() for one in placing.measured]
    return describe_place(placing.place, placing.why_not, measured)


def let_stay(comparers: Sequence[StageComparer], runners: Mapping[str, Runner]) -> None:
    """Tell runners which outputs to leave on the GPU.

    Args:
        comparers: of the stages that run, bound to what runners declare.
        runners: by name.
    """
    for name, runner in runners.items():
        own = [c for c in comparers if name in (c.stage.reference, c.stage.candidate)]
        runner.stays = frozenset(output for output in runner.can_stay if _is_placed(output, own))


def _is_placed(output: str, comparers: Iterable[StageComparer]) -> bool:
    judging = [c for c in comparers if c.stage.judges(output)]
    return bool(judging) and all(c.takes_device(output) for c in judging)
