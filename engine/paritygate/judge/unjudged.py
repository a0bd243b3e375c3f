"""What a verdict does not cover: a release says so, in so many words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paritygate.judge.class_keys import unknown_classes
from paritygate.judge.consistency import list_unchecked
from paritygate.judge.coverage import list_not_demanded
from paritygate.judge.facts import RunFacts, StageFacts
from paritygate.judge.noise import list_noise
from paritygate.judge.probes import list_probes
from paritygate.judge.sentences import told_rejections
from paritygate.tally.output import OutputTally
from paritygate.tally.stage import StageTally


def list_not_judged(facts: RunFacts) -> tuple[str, ...]:
    """Sentences on everything that this run did not judge."""
    return tuple(dict.fromkeys(_list(facts)))


def _list(facts: RunFacts) -> Iterator[str]:
    ran = {s.stage.name for s in facts.stages if s.tally is not None}
    for planned in facts.plan.stages:
        if planned.name not in ran:
            yield f"stage {planned.name}: not run"
    for stage in facts.stages:
        yield from _stage(facts, stage)
    yield from _rejected(facts)
    yield from _synthetic(facts)
    yield from _inputs(facts)
    yield from facts.notes
    yield from _placement(facts)
    yield from list_unchecked(facts)
    yield from list_noise(facts)
    yield from list_not_demanded(facts)
    yield from list_probes(facts)
    yield "latency: not measured"


def _stage(facts: RunFacts, stage: StageFacts) -> Iterator[str]:
    name = stage.stage.name
    if stage.stage.is_self and stage.ref.identity == stage.cand.identity:
        yield f"stage {name}: compares a thing with itself (self = true), no two things"
    for output in stage.stage.ignore:
        yield f"stage {name}: output {output} is ignored by the plan"
    if stage.tally is None:
        return
    if _is_written_twice(facts, stage, stage.tally):
        yield (
            f"stage {name}: both recordings hold the same numbers in every element, and not both "
            "say whose answers they are; those of one model, written twice, prove nothing"
        )
    yield from _declared(stage)
    yield from unknown_classes(stage)
    if stage.stage.of_inputs:
        pass
    elif not stage.tally.decisions:
        yield f"stage {name}: no decision rule, so decision flips were not counted"
    elif left := [d for d in facts.plan.decisions if d.name not in stage.tally.decisions]:
        names = ", ".join(d.name for d in left)
        yield f"stage {name}: not the decisions {names}, whose output it doesn't compare"
    for output, found in stage.tally.constant.items():
        if found.is_constant:
            yield (
                f"stage {name}: output {output} is the same for all {found.samples} samples on "
                "both sides, so their agreement says nothing about other inputs"
            )
    for decision, tally in stage.tally.decisions.items():
        if tally.labels is None:
            yield f"stage {name}: decision {decision} has no labels, so correctness was not judged"
        elif tally.labels.unknown and not tally.labels.labelled:
            yield (
                f"stage {name}: decision {decision}: none of its {tally.labels.unknown} labels is "
                "a name or an index of it, so correctness was not judged"
            )


def _is_written_twice(facts: RunFacts, stage: StageFacts, tally: StageTally) -> bool:
    """Whether both sides may be one recording: classes are often equal, all floats hardly ever."""
    sides = (stage.ref, stage.cand)
    if any(facts.plan.runners[side.name].kind != "recorded" for side in sides):
        return False
    if stage.stage.is_self or all("recorded" in side.facts for side in sides):
        return False
    outputs = tally.outputs.values()
    return any(found.is_float for found in outputs) and all(map(_is_equal, outputs))


def _is_equal(found: OutputTally) -> bool:
    worst = found.max_abs_error
    return not found.failing_samples and (worst is None or worst.ref == worst.cand)


def _declared(stage: StageFacts) -> Iterator[str]:
    """What the plan declares of one side: it is taken as right, so it is told."""
    for side in (stage.ref, stage.cand):
        views = side.facts.get("views")
        for output, view in views.items() if isinstance(views, Mapping) else ():
            steps = ", ".join(f"{key} {value}" for key, value in view.items())
            yield f"runner {side.name}: output {output} is seen as the plan declares it: {steps}"


def _placement(facts: RunFacts) -> Iterator[str]:
    """What is not known of where operators ran."""
    sides = {side.name: side for stage in facts.stages for side in (stage.ref, stage.cand)}
    placed = {
        name: told
        for name, side in sides.items()
        if isinstance(told := side.facts.get("placement"), Mapping)
    }
    if not placed:
        yield "placement: which operators ran on which provider was not observed"
    observed = [name for name, told in placed.items() if told.get("executed") is not None]
    if observed:
        yield (
            f"placement: {', '.join(observed)}: observed over one batch in a second session; not "
            "in it what fused nodes are made of, nor the variants of kernels"
        )
    for name, told in placed.items():
        if name not in observed:
            unseen = told.get("not_observable") or ["nothing was run"]
            yield f"placement: {name}: which operators ran was not observed; {unseen[0]}"


def _rejected(facts: RunFacts) -> Iterator[str]:
    """Samples that the plan allows to be rejected."""
    counts = [stage.tally.rejected for stage in facts.stages if stage.tally is not None]
    if 0 < max(counts, default=0) <= facts.plan.table.max_rejected:
        noun = "sample was" if max(counts) == 1 else "samples were"
        yield f"inputs: {max(counts)} {noun} rejected and not run, {told_rejections(facts)}"


def _synthetic(facts: RunFacts) -> Iterator[str]:
    """Samples that were run and compared like the others, and count for nothing."""
    if count := facts.coverage.synthetic:
        yield (
            f"inputs: {count} of the samples that were run {'is' if count == 1 else 'are'} "
            "synthetic (paritygate.evidence): compared like the others, but no acceptance evidence"
        )


def _inputs(facts: RunFacts) -> Iterator[str]:
    tables = facts.plan.table.inputs
    if not tables:
        yield "inputs: the plan has no contract, so ranges and missing values were not checked"
    for name, table in tables.items():
        if table.range is None:
            yield f"inputs: {name} has no range"
