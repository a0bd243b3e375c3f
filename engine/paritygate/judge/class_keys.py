"""Columns made of maps: their classes must be the same on both sides, in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from paritygate.core.policy import DecisionRule
from paritygate.core.verdict import Reason
from paritygate.judge.facts import SideFacts, StageFacts

Keys = Sequence[int | str]
_MOVES = {"select", "transpose", "reshape"}


def judge_class_keys(stage: StageFacts) -> Iterator[Reason]:
    """A reason for each output whose columns are other classes on the other side.

    Agreeing numbers of other classes prove nothing.
    """
    ref, cand = _all_keys(stage.ref), _all_keys(stage.cand)
    for output in sorted(set(ref) | set(cand)):
        found = _first_difference(ref.get(output, []), cand.get(output, []))
        if found is not None and stage.stage.judges(output):
            of, left, right = found
            yield Reason(
                "output.classes",
                f"output {output!r}: its columns are the classes {_told(left)} of the "
                f"{of[0]} and {_told(right)} of the {of[1]}",
                stage=stage.stage.name,
                output=output,
                next="export both models with the same classes",
            )


def _first_difference(
    ref: Sequence[Keys], cand: Sequence[Keys]
) -> tuple[tuple[str, str], Keys, Keys] | None:
    """Two keys that differ, with whose they are; None: there are none."""
    for left in ref:
        for right in cand:
            if list(left) != list(right):
                return ("reference", "candidate"), left, right
    for side, keys in (("reference", ref), ("candidate", cand)):
        if len(keys) > 1:
            return (f"{side}'s first recording", f"{side}'s others"), keys[0], keys[1]
    return None


def judge_labels(stage: StageFacts, rules: Sequence[DecisionRule]) -> Iterator[Reason]:
    """A reason for each list of labels that has a side's own names of its columns in another order.

    Decisions are then told, and those of two sides paired, by names that the model contradicts.
    """
    for rule in rules:
        if not (rule.argmax or rule.topk) or not stage.stage.decides(rule.output):
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
    return {output: found[0] for output, found in _all_keys(side).items()}


def _all_keys(side: SideFacts) -> dict[str, list[Keys]]:
    """Keys by output, each once; more than one where the files of a recording differ."""
    return _keys_of(side.facts)


def _keys_of(facts: Mapping[str, object]) -> dict[str, list[Keys]]:
    """Not of outputs whose columns are declared to be others than what was answered."""
    keys = cast(Mapping[str, Keys], facts.get("class_keys") or {})
    found: dict[str, list[Keys]] = {output: [told] for output, told in keys.items()}
    for recording in cast(Sequence[Mapping[str, Any]], facts.get("recorded") or ()):
        theirs = _keys_of(recording["runner"]["facts"])
        for ours, name in cast(Mapping[str, str], facts.get("fetches") or {}).items():
            known = found.setdefault(ours, [])
            known += [told for told in theirs.get(name, []) if told not in known]
    views = cast(Mapping[str, Mapping[str, object]], facts.get("views") or {})
    moved = {output for output, view in views.items() if _MOVES & set(view)}
    return {output: told for output, told in found.items() if told and output not in moved}


def _told(keys: Keys) -> str:
    text = ", ".join(repr(key) for key in keys[:8])
    return text + (f", ... ({len(keys)})" if len(keys) > 8 else "")
