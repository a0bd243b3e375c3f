"""The noise of references, for the summary: the floor of each output, errors as multiples of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paritygate.tally.noise import Noise, ReferenceNoise, Varied
from paritygate.tally.output import OutputTally

Locate = Callable[[int], int | str]


def describe_noise(noise: Noise, references: Mapping[str, str], locate: Locate) -> dict[str, Any]:
    """What was varied, and by stage what it did.

    Args:
        noise: what was measured.
        references: stage -> its reference.
        locate: ordinal -> sample id.
    """
    return {
        name: {
            "samples": found.samples,
            "not_varied": dict(found.why_not),
            "varied": [_varied(v) for v in found.varied],
            **({"left_out": found.left_out} if found.left_out else {}),
            **({"error": found.error} if found.error else {}),
            "stages": {
                stage: _stage(stage, found, locate)
                for stage, reference in references.items()
                if reference == name
            },
        }
        for name, found in noise.references.items()
    }


def add_noise(stages: list[dict[str, Any]], noise: Noise) -> None:
    """Put each output's largest error as a multiple of its floor into the stages of a summary."""
    for stage in stages:
        found = noise.references.get(stage["reference"])
        for name, figures in stage["outputs"].items():
            floor = found.floor(stage["name"], name) if found is not None else None
            if floor is not None:
                extreme, varied = floor
                figures["noise"] = _multiple(figures, float(extreme.value), varied)


def _multiple(figures: Mapping[str, Any], floor: float, varied: Varied) -> dict[str, Any]:
    told: dict[str, Any] = {"floor": floor}
    if not floor:
        return {**told, "times": None, "why_not": "the reference differs from itself nowhere"}
    told["cause"] = str(varied)
    worst = figures.get("max_abs_error")
    if isinstance(worst, Mapping):
        told["times"] = float(worst["value"]) / floor
    return told


def _varied(varied: Varied) -> dict[str, Any]:
    told = {"cause": varied.cause, "at": varied.at, "was": varied.was, "error": varied.error}
    return {key: value for key, value in told.items() if value not in (None, "")}


def _stage(stage: str, found: ReferenceNoise, locate: Locate) -> dict[str, Any]:
    """By circumstance each output's errors and each decision's flips."""
    told: dict[str, Any] = {}
    for varied in found.varied:
        tally = varied.stages.get(stage)
        if tally is None:
            continue
        told[str(varied)] = {
            "outputs": {name: _output(t, locate) for name, t in tally.outputs.items()},
            "decisions": {
                name: {"samples": t.samples, "flips": t.flips}
                for name, t in tally.decisions.items()
            },
        }
    return told


def _output(tally: OutputTally, locate: Locate) -> dict[str, Any]:
    figures = tally.figures()
    told = {
        key: figures[key] for key in ("samples", "failing_samples", "max_abs_error", "max_excess")
    }
    for figure in told.values():
        if isinstance(figure, dict) and "ordinal" in figure:
            figure["id"] = locate(figure["ordinal"])
    return told
