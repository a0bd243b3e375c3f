"""What the plan or the pack names and nobody uses: told with the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from paritygate.core.plan import Stage
from paritygate.core.problems import did_you_mean
from paritygate.pipeline.prepare import Preparation
from paritygate.runners.base import Runner


def note_unused(ready: Preparation) -> Iterator[str]:
    """Sentences on labels, columns, inputs and ignored outputs that nobody used."""
    prepared = ready.prepared
    pack = prepared.pack
    if pack.label_note:
        yield f"labels: {pack.label_note}"
    if pack.skipped_columns:
        yield f"columns: {', '.join(pack.skipped_columns)} of the pack are compared in no stage"
    unused = prepared.unused_inputs()
    if unused:
        yield f"inputs: no runner takes {', '.join(unused)} of the pack"
    yield from _idle_budgets(ready)
    for stage in ready.selected:
        if ready.runs(stage):
            sides = [prepared.runners[name] for name in (stage.reference, stage.candidate)]
            yield from _ignored_in_vain(stage, sides)


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
