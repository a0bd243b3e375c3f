"""Outputs that stay on a GPU: those that every stage compares there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from paritygate.comparison.place import Place, find_place, open_place
from paritygate.comparison.stage import StageComparer
from paritygate.core.errors import DeviceError
from paritygate.core.plan import Stage
from paritygate.core.tensors import CompareOn
from paritygate.runners.base import Runner


def place_of(
    asked: CompareOn, stages: Sequence[Stage], runners: Mapping[str, Runner]
) -> tuple[Place | None, str]:
    """The GPU that compares, and why none does though outputs lie on one.

    Args:
        asked: for "auto" it is where both sides of an output lie.
        stages: those that run.
        runners: theirs, by name.

    Raises:
        DeviceError: "cuda" was asked for, and nothing can be compared on a GPU here.
    """
    wanted = frozenset(
        (stage.name, output)
        for stage in stages
        for output in runners[stage.reference].can_stay & runners[stage.candidate].can_stay
        if stage.judges(output)
    )
    if asked != "auto":
        asked_for = open_place(asked)
        if asked_for is not None:
            asked_for.lying = wanted
        return asked_for, ""
    if not wanted:
        return None, ""
    try:
        place = find_place()
    except DeviceError as e:
        return None, f"outputs that lie on a GPU were compared on the CPU: {e}"
    place.wanted = place.lying = wanted
    return place, ""


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
