"""The noise of references: tolerances below it, as reasons, and what was not measured."""

from __future__ import annotations

from collections.abc import Iterator

from paritygate.core.plan import Stage
from paritygate.core.verdict import Reason
from paritygate.judge.consistency import raised_in_run
from paritygate.judge.facts import RunFacts
from paritygate.runners.ort_text import shorten
from paritygate.tally.noise import ReferenceNoise, Varied
from paritygate.tally.output import OutputTally
from paritygate.tally.stage import StageTally

_SAID_ELSEWHERE = ("decision.flip", "decision.error", "output.missing")
_SAME = ("repetition", "position")


def judge_noise(facts: RunFacts) -> Iterator[tuple[str, Reason]]:
    """Reasons, each with the name of the reference that it is about."""
    for name, found in facts.noise.references.items():
        if found.error and not raised_in_run(facts, name):
            yield name, _raised(name, found.error)
        for varied in found.varied:
            if varied.error and varied.cause in _SAME:
                yield name, _raised_then(name, varied)
        for stage in facts.stages:
            if stage.stage.reference == name:
                for reason in _below(facts, stage.stage, found):
                    yield name, reason


def list_noise(facts: RunFacts) -> Iterator[str]:
    """Sentences on what was not measured, and on decisions that noise alone changes."""
    if not facts.noise.is_asked:
        yield "noise: how far each runner differs from itself was not measured"
        return
    for name, found in facts.noise.references.items():
        if not found.samples:
            why = next(iter(found.why_not.values()), "nothing is varied")
            yield f"noise: of {name} it was not measured; {found.error or why}"
            continue
        yield (
            f"noise: {name} was compared with itself over {found.samples} samples, not over all; "
            "candidates were not"
        )
        if found.left_out:
            yield (
                f"noise: {name}: {found.left_out} samples are left out of it, since they had no "
                "answer when they were run again"
            )
        for cause, why in found.why_not.items():
            yield f"noise: {name}: {cause} was not varied; {why}"
        for varied in found.varied:
            if varied.error and varied.cause not in _SAME:
                yield f"noise: {name}: {varied}: it raised: {shorten(varied.error)}"
            yield from _flips(name, varied)
            yield from _declared(facts, name, varied)


def _flips(reference: str, varied: Varied) -> Iterator[str]:
    for stage, tally in varied.stages.items():
        for decision, made in tally.decisions.items():
            if made.flips:
                yield (
                    f"noise: decision {decision} of {reference} itself changes for {made.flips} of "
                    f"{made.samples} samples ({varied}), whatever the candidate of {stage} does"
                )


def _declared(facts: RunFacts, reference: str, varied: Varied) -> Iterator[str]:
    """What isn't held since the plan accepts it."""
    for stage, tally in varied.stages.items():
        for rule, output in tally.rules:
            if rule not in _SAID_ELSEWHERE and _is_declared(facts, reference, varied, output):
                yield (
                    f"noise: stage {stage}: {output} of {reference} differs from itself by more "
                    f"than its tolerance ({varied}), which [batch_coupling.{reference}] accepts"
                )


def _is_declared(facts: RunFacts, reference: str, varied: Varied, output: str) -> bool:
    budgets = facts.plan.table.batch_coupling.get(reference, {})
    return varied.cause == "batch_size" and output in budgets


def _raised(reference: str, text: str) -> Reason:
    return Reason(
        "runner.error",
        f"runner {reference!r} answered in the run, but raised when it was run again on a part of "
        f"the pack to measure its noise: {shorten(text)}",
        next="mend the model or the function; the same samples must get an answer each time",
    )


def _raised_then(reference: str, varied: Varied) -> Reason:
    return Reason(
        "runner.error",
        f"runner {reference!r} answered a part of the pack when it was run again to measure its "
        f"noise, and then raised for it ({varied}): {shorten(varied.error)}",
        next="mend the model or the function; the same samples must get an answer each time",
    )


def _below(facts: RunFacts, stage: Stage, found: ReferenceNoise) -> Iterator[Reason]:
    """One reason an output: by the cause that goes furthest beyond what is allowed."""
    worst: dict[str, tuple[float, Varied]] = {}
    for varied in found.varied:
        tally = varied.stages.get(stage.name, StageTally())
        for rule, output in tally.rules:
            if rule in _SAID_ELSEWHERE or _is_declared(facts, stage.reference, varied, output):
                continue
            beyond = _beyond(tally, rule, output)
            if output not in worst or beyond > worst[output][0]:
                worst[output] = beyond, varied
    for output, (_, varied) in worst.items():
        yield _reason(facts, stage, output, varied, varied.stages[stage.name])


def _beyond(tally: StageTally, rule: str, output: str) -> float:
    """How far: another shape or class of value is beyond any error."""
    measured = tally.outputs.get(output)
    if measured is None or not rule.startswith("tolerance.") or measured.max_excess is None:
        return float("inf")
    return float(measured.max_excess.value)


def _reason(
    facts: RunFacts, stage: Stage, output: str, varied: Varied, tally: StageTally
) -> Reason:
    hits = [h for (rule, of), h in tally.rules.items() if of == output and rule != "decision.flip"]
    count = max(h.samples for h in hits)
    measured = tally.outputs.get(output, OutputTally())
    text = (
        f"the tolerance of {output!r} is below the noise of {stage.reference!r}, which exceeds it "
        f"against itself ({varied}) for {count} of {tally.compared} samples"
    )
    return Reason(
        "policy.below_noise",
        text + _size(facts, stage, output, measured, tally),
        stage=stage.name,
        output=output,
        count=count,
        ids=tuple(sample_id for _, sample_id in hits[0].first),
        next=_next(output, measured, varied),
    )


def _size(
    facts: RunFacts, stage: Stage, output: str, measured: OutputTally, tally: StageTally
) -> str:
    layouts = [(ref, cand) for of, ref, cand in tally.layouts if of == output]
    if layouts:
        return f": it answers {layouts[0][0]}, then {layouts[0][1]}"
    if measured.disagreeing_nonfinite:
        text = f"; {measured.disagreeing_nonfinite} elements are NaN or infinite once only"
    else:
        text = ""
    worst = measured.max_excess
    tolerance = stage.tolerance(output, is_float=measured.is_float)
    if worst is None or tolerance is None or not worst.value:
        return text
    largest = measured.max_abs_error
    floor = float(largest.value) if largest is not None else 0.0
    return (
        f"{text}; its noise floor is {floor:.6g}; furthest beyond at id "
        f"{facts.locate(worst.ordinal)}, element {worst.index}: {_value(worst.ref)} and "
        f"{_value(worst.cand)}, {float(worst.value):.3g} times what is allowed (atol "
        f"{tolerance.atol:.6g} + rtol {tolerance.rtol:.6g} x |value|)"
    )


def _value(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


_CURES = {
    "repetition": "make the reference answer the same each time (seeds, deterministic kernels)",
    "batch_size": "approve one batch size, or quantise with static scales",
    "position": "look for what a sample gets from its neighbours",
    "threads": "pin its threads, or let it calculate deterministically",
}


def _next(output: str, measured: OutputTally, varied: Varied) -> str:
    cure = f"{_CURES[varied.cause]}; or leave {varied.cause} out of [noise] vary"
    worst = measured.max_abs_error
    if worst is None or not worst.value:
        return cure
    floor = float(worst.value)
    return f"allow {output} at least atol = {floor * 1.05:.2g}, above the floor; or {cure}"
