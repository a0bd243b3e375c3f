"""What the plan or the pack names and nobody uses: told with the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from paritygate.core.plan import Plan, Stage
from paritygate.core.problems import did_you_mean
from paritygate.pipeline.graph_contract import note_unanswered
from paritygate.pipeline.meaning import note_meanings
from paritygate.pipeline.prepare import Preparation
from paritygate.pipeline.same_graph import note_same_graphs
from paritygate.pipeline.target import note_targets
from paritygate.runners.base import Runner
from paritygate.runners.ort_exercised import note_idle
from paritygate.runners.recorded_origin import Origin
from paritygate.runners.viewed import ViewedRunner


def note_unused(ready: Preparation) -> Iterator[str]:
    """Sentences on what nobody used or checked: labels, columns, inputs, ignored outputs."""
    prepared = ready.prepared
    pack = prepared.pack
    if pack.label_note:
        yield f"labels: {pack.label_note}"
    if pack.skipped_columns:
        yield f"columns: {', '.join(pack.skipped_columns)} of the pack are compared in no stage"
    unused = prepared.unused_inputs()
    if unused:
        yield f"inputs: no runner takes {', '.join(unused)} of the pack"
    yield from _without_contract(ready)
    yield from _without_replay(prepared.plan)
    yield from note_meanings(prepared.plan, pack.inputs, pack.outputs)
    yield from _own_columns(ready)
    yield from _idle_budgets(ready)
    facts = {name: runner.facts for name, runner in prepared.runners.items()}
    for name, known in facts.items():
        yield from note_idle(name, known)
    yield from note_targets(prepared.plan, facts)
    yield from note_unanswered(prepared.plan, prepared.runners)
    for stage in ready.selected:
        if ready.runs(stage):
            sides = [prepared.runners[name] for name in (stage.reference, stage.candidate)]
            yield from _ignored_in_vain(stage, sides)
            yield from note_same_graphs(stage, *sides)


def _without_contract(ready: Preparation) -> Iterator[str]:
    """Inputs that a plan with contracts leaves out; one without any is told by the verdict."""
    prepared = ready.prepared
    contracts, unused = prepared.plan.table.inputs, prepared.unused_inputs()
    names = [n for n in prepared.pack.inputs if n not in contracts and n not in unused]
    if contracts and names:
        yield f"inputs: {', '.join(names)} without a contract: range and missing values unchecked"


def _without_replay(plan: Plan) -> Iterator[str]:
    if plan.table.preprocessing is not None:
        call = plan.table.preprocessing.python
        yield f'preprocessing: {call} was not run; replay = "raw" compares what it prepares'


def _own_columns(ready: Preparation) -> Iterator[str]:
    """What a recording brings along and nobody compares."""
    for name, runner in ready.prepared.runners.items():
        if skipped := getattr(runner, "skipped_columns", ()):
            yield f"columns: {', '.join(skipped)} of the recording of {name} are not compared"
        if isinstance(origin := getattr(seen_through(runner), "origin", None), Origin):
            for note in origin.notes:
                yield f"recording {name}: {note}"
        if own := getattr(runner, "own_inputs", ()):
            yield (
                f"inputs: the recording of {name} has {', '.join(own)} too, which was not compared "
                "with the pack's: that both sides were given the same is taken as right"
            )


def seen_through(runner: Runner) -> Runner:
    """The runner itself, without the views that the plan declares."""
    return runner.inner if isinstance(runner, ViewedRunner) else runner


def _idle_budgets(ready: Preparation) -> Iterator[str]:
    prepared = ready.prepared
    for name, budgets in prepared.plan.table.batch_coupling.items():
        runner = prepared.runners.get(name)
        answered = runner.observed if runner is not None else None
        for output in budgets:
            if answered is not None and output not in answered:
                hint = did_you_mean(output, sorted(answered))
                yield f"batch_coupling.{name}: it answers no output {output!r}{hint}"


def _ignored_in_vain(stage: Stage, sides: list[Runner]) -> Iterator[str]:
    answered = {name for side in sides for name in side.observed or side.outputs or ()}
    if not answered:
        return
    for name in stage.ignore:
        if name not in answered:
            hint = did_you_mean(name, sorted(answered))
            yield f"stage {stage.name}: ignore names {name!r}, which neither side answers{hint}"
