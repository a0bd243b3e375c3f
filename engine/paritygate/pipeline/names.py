"""Names of outputs in the plan, held against what runners declare to answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from paritygate.core.errors import PlanError, Problem
from paritygate.core.plan import Plan, Stage
from paritygate.core.preprocessing import PREPROCESSING
from paritygate.core.problems import did_you_mean
from paritygate.runners.base import Runner


def check_names(plan: Plan, stages: Sequence[Stage], runners: Mapping[str, Runner]) -> None:
    """Refuse names of outputs that nobody answers, where runners say what they answer.

    Raises:
        PlanError: every such name.
    """
    problems = [*_ignored(stages, runners), *_prepared(stages, runners), *_budgets(plan, runners)]
    if problems:
        raise PlanError(problems, plan.source)


def _ignored(stages: Sequence[Stage], runners: Mapping[str, Runner]) -> Iterator[Problem]:
    for stage in stages:
        sides = [runners[name].outputs for name in (stage.reference, stage.candidate)]
        if None in sides:
            continue
        known = sorted({name for side in sides for name in side or ()})
        for name in stage.ignore:
            if name not in known:
                message = f"neither side answers an output {name!r}{did_you_mean(name, known)}"
                yield Problem(f"stages.{stage.name}.ignore", message)


def _prepared(stages: Sequence[Stage], runners: Mapping[str, Runner]) -> Iterator[Problem]:
    """Names of inputs that the pack lacks, in stages of prepared inputs."""
    for stage in stages:
        if not stage.of_inputs or runners[stage.reference].outputs is None:
            continue
        known = sorted(runners[stage.reference].outputs or ())
        is_short = stage.name == PREPROCESSING
        outputs = "preprocessing.inputs" if is_short else f"stages.{stage.name}.outputs"
        ignore = "preprocessing.ignore" if is_short else f"stages.{stage.name}.ignore"
        named = [(f"{outputs}.{name}", name) for name in stage.tolerances]
        for path, name in (*named, *((ignore, name) for name in stage.ignore)):
            if name not in known:
                message = f"the golden pack has no input {name!r}{did_you_mean(name, known)}"
                yield Problem(path, message)


def _budgets(plan: Plan, runners: Mapping[str, Runner]) -> Iterator[Problem]:
    for runner, budgets in plan.table.batch_coupling.items():
        known = runners[runner].outputs if runner in runners else None
        for name in budgets:
            if known is not None and name not in known:
                message = f"the runner answers no output {name!r}{did_you_mean(name, known)}"
                yield Problem(f"batch_coupling.{runner}.{name}", message)
