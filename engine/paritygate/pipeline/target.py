"""Models against the runtime that the plan names as their target, which isn't here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paritygate.core.plan import Plan
from paritygate.runners.base import Finding


def target_findings(plan: Plan, runner: str, facts: Mapping[str, object]) -> tuple[Finding, ...]:
    """What of a runner's model is beyond the target.

    Args:
        plan: whose `[target]` counts; without one there is nothing.
        runner: its name.
        facts: of the runner.
    """
    model = facts.get("model")
    if plan.table.target is None or not _is_meant(plan, runner) or not _is_onnx(model):
        return ()
    assert isinstance(model, Mapping)
    told = plan.table.target.target().beyond(model["ir_version"], model["opsets"])
    advice = "export it for an older opset and IR version, or ship a newer runtime with it"
    return tuple(Finding("admission.target", text, advice) for text in told)


def note_targets(plan: Plan, facts: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """What isn't known of runners on the target.

    Args:
        plan: whose `[target]` counts.
        facts: runner -> its facts, of all that ran.
    """
    if plan.table.target is None:
        return
    name = plan.table.target.target().name
    for runner, known in facts.items():
        if not _is_meant(plan, runner):
            continue
        model = known.get("model")
        if not _is_onnx(model):
            yield f"target: {runner} is run from no ONNX file, so nothing is known of it on {name}"
            continue
        assert isinstance(model, Mapping)
        others = sorted(set(model["custom_domains"]))
        if others:
            yield (
                f"target: whether {name} has the operators of {', '.join(others)} that {runner} "
                "uses is unknown"
            )


def _is_meant(plan: Plan, runner: str) -> bool:
    """Whether a runner is one that the target is for: those named, else every candidate."""
    target = plan.table.target
    if target is not None and target.runners is not None:
        return runner in target.runners
    return runner in {stage.candidate for stage in plan.stages}


def _is_onnx(model: object) -> bool:
    return isinstance(model, Mapping) and {"ir_version", "opsets", "custom_domains"} <= set(model)
