"""Columns made of maps: their classes must be the same on both sides, in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from paritygate.core.policy import DecisionRule
from paritygate.core.verdict import Reason
from paritygate.judge.facts import SideFacts, StageFacts

Keys = Sequence[int | str]
_MOVES = {"select", "transpose", "reshape"}


def judge_class_keys(stage: StageFacts) -> Iterator[Reason]:
    """A reason for each output whose columns are other classes on the other side.

    Agreeing numbers of other classes prove nothing.
    """
    ref, cand = _keys(stage.ref), _keys(stage.cand)
    for output in sorted(set(ref) & set(cand)):
        if list(ref[output]) != list(cand[output]) and stage.stage.judges(output):
            yield Reason(
                "output.classes",
                f"output {output!r}: its columns are the classes {_told(ref[output])} of the "
                f"reference and {_told(cand[output])} of the candidate",
                stage=stage.stage.name,
                output=output,
                next="export both models with the same classes",
            )


def judge_labels(stage: StageFacts, rules: Sequence[DecisionRule]) -> Iterator[Reason]:
    """A reason for each list of labels that has a side's own names of its columns in another order.

    Decisions are then told, and those of two sides paired, by names that the model contradicts.
    """
    for rule in rules:
        if not (rule.argmax or rule.topk) or not stage.stage.judges(rule.output):
            continue
        for side, key, labels in (
            (stage.ref, "ref_labels", rule.ref_labels),
            (stage.cand, "cand_labels", rule.cand_labels),
        ):
            keys = _keys(side).get(rule.output, ())
            given = labels or rule.labels or ()
            if list(given) != list(keys) and set(given) == set(keys):
                yield Reason(
                    "output.classes",
                    f"decision {rule.name!r}: {key if labels else 'labels'} has the classes "
                    f"{_told(given)}, but the columns of {rule.output!r} are {_told(keys)} by "
                    f"{side.name!r} itself",
                    stage=stage.stage.name,
                    decision=rule.name,
                    next="give the labels in the order of the columns, which is that of the keys",
                )


def unknown_classes(stage: StageFacts) -> Iterator[str]:
    """What could not be checked: one side names its columns, the other doesn't."""
    ref, cand = _keys(stage.ref), _keys(stage.cand)
    for output in sorted(set(ref) ^ set(cand)):
        if stage.stage.judges(output):
            side = "reference" if output in ref else "candidate"
            yield (
                f"stage {stage.stage.name}: output {output} has named columns in the {side} alone "
                f"({_told((ref | cand)[output])}), so their order was not checked"
            )


def _keys(side: SideFacts) -> dict[str, Keys]:
    """Keys by output; not of one whose columns the plan declares to be others than it answers."""
    keys = cast(Mapping[str, Keys], side.facts.get("class_keys") or {})
    views = cast(Mapping[str, Mapping[str, object]], side.facts.get("views") or {})
    moved = {output for output, view in views.items() if _MOVES & set(view)}
    return {output: found for output, found in keys.items() if output not in moved}


def _told(keys: Keys) -> str:
    text = ", ".join(repr(key) for key in keys[:8])
    return text + (f", ... ({len(keys)})" if len(keys) > 8 else "")
