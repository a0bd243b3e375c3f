"""What runners do by themselves: batch coupling and drift, as reasons and as what wasn't judged."""

from __future__ import annotations

from collections.abc import Iterator

from paritygate.core.policy import Tolerance
from paritygate.core.verdict import Reason
from paritygate.judge.facts import RunFacts
from paritygate.runners.ort_text import shorten
from paritygate.tally.coupling import Measured, SelfCheck
from paritygate.tally.extremes import Number
from paritygate.tally.output import OutputTally


def judge_consistency(facts: RunFacts) -> Iterator[tuple[str, Reason]]:
    """Reasons, each with the name of the runner that it is about."""
    for runner, check in facts.consistency.runners.items():
        if check.again and not raised_in_run(facts, runner):
            yield runner, _raised_again(runner, check.again)
        for size, text in sorted(check.errors.items()):
            yield runner, _raised(runner, size, text)
        for (size, output), measured in sorted(check.outputs.items()):
            if not measured.is_good:
                yield runner, _coupled(facts, runner, check, size, output, measured)
    references = {s.stage.name: s.stage.reference for s in facts.stages}
    for (stage, output), measured in sorted(facts.consistency.drift.items()):
        if not measured.is_good:
            yield references[stage], _drifted(facts, references[stage], stage, output, measured)


def list_unchecked(facts: RunFacts) -> Iterator[str]:
    """Sentences on the batch sizes that no runner was run at."""
    samples = facts.consistency.samples
    for runner, check in facts.consistency.runners.items():
        if check.why_not:
            yield f"batch sizes: {runner} in the batches of this run only; {check.why_not}"
        elif not check.outputs and not check.errors:
            why = "it raised" if samples else "there is no sample"
            yield f"batch sizes: {runner} in the batches of this run only; {why}"
        elif check.others:
            sizes = ", ".join(map(str, check.others))
            yield (
                f"batch sizes: {runner} was run at {sizes} besides {check.size} over "
                f"{_measured(check, samples)} samples, not over all"
            )
            yield from _undecided(facts, runner, check)
    yield from facts.consistency.notes
    if not facts.consistency.runners:
        yield "batch sizes: only the batch composition of this run, not others"
    for (stage, output), measured in sorted(facts.consistency.drift.items()):
        if measured.is_good:
            yield (
                f"stage {stage}: recorded {output} was compared with the reference over {samples} "
                "samples, not over all"
            )


def _undecided(facts: RunFacts, runner: str, check: SelfCheck) -> Iterator[str]:
    """Decisions on outputs that differ within a budget, which speaks of numbers alone."""
    coupled = {
        output
        for (_, output), m in check.outputs.items()
        if (m.allowed.atol or m.allowed.rtol) and m.tally is not None
        if m.tally.max_abs_error is not None and m.tally.max_abs_error.value
    }
    names = [rule.name for rule in facts.plan.decisions if rule.output in coupled]
    if names:
        yield (
            f"batch sizes: {runner} differs within its budget; whether that changes the decisions "
            f"{', '.join(names)} was not judged"
        )


def _measured(check: SelfCheck, samples: int) -> int:
    """Samples that every output was measured over."""
    tallies = [m.tally for m in check.outputs.values() if m.tally is not None]
    return min((t.samples for t in tallies), default=samples)


def raised_in_run(facts: RunFacts, runner: str) -> bool:
    """Whether a stage tells of it already."""
    return any(
        any(rule.startswith("runner.") and of == side for rule, of in stage.tally.rules)
        for stage in facts.stages
        if stage.tally is not None
        for side, name in (
            ("reference", stage.stage.reference),
            ("candidate", stage.stage.candidate),
        )
        if name == runner
    )


def _raised_again(runner: str, text: str) -> Reason:
    return Reason(
        "runner.error",
        f"runner {runner!r} answered in the run, but raised when it was run again on a part of the "
        f"pack: {shorten(text)}",
        next="mend the model or the function; the same samples must get an answer each time",
    )


def _raised(runner: str, size: int, text: str) -> Reason:
    return Reason(
        "runner.error",
        f"runner {runner!r} raised at batch size {size}, which the plan approves: {shorten(text)}",
        next=f"take {size} out of [dims] batch, or mend the model for it",
    )


def _coupled(
    facts: RunFacts, runner: str, check: SelfCheck, size: int, output: str, measured: Measured
) -> Reason:
    between = f"batch size {check.size}, at which the run was judged, and {size}"
    head = f"runner {runner!r}: output {output!r} depends on the batch: between {between}, "
    if measured.layouts is not None:
        left, right = measured.layouts
        text = f"{head}the answer is {left} and {right}"
        return _reason("runner.batch_coupled", text, output, measured, _SHAPE)
    tally = measured.tally or OutputTally()
    text = head + _effect(facts, tally, (f"at {check.size}", f"at {size}"))
    text += _budget(measured.allowed)
    text += _scale(measured)
    worst = tally.max_abs_error
    room = 0.0 if worst is None else 2 * float(worst.value)
    advice = (
        "approve one batch size, quantise with static scales, or accept it: "
        f"[batch_coupling.{runner}] {output} = {{ atol = {room:.1g}, rtol = 0.0 }}"
    )
    return _reason("runner.batch_coupled", text, output, measured, advice)


_SHAPE = "an answer's dtype and shape must not depend on the batch; look at the export"


def _drifted(facts: RunFacts, runner: str, stage: str, output: str, measured: Measured) -> Reason:
    head = f"reference {runner!r} doesn't answer what the pack recorded as {output!r}: "
    if measured.layouts is not None:
        text = f"{head}recorded is {measured.layouts[0]}, the answer is {measured.layouts[1]}"
    else:
        tally = measured.tally or OutputTally()
        text = head + _effect(facts, tally, ("recorded", "answered"))
        text += f"; {_tolerance(measured.allowed)} by stage {stage!r}"
    advice = "record out.* anew from the approved reference, or give those columns other names"
    return _reason("runner.reference_drift", text, output, measured, advice, stage)


def _reason(
    code: str, text: str, output: str, measured: Measured, advice: str, stage: str | None = None
) -> Reason:
    count = measured.tally.failing_samples if measured.tally is not None else None
    return Reason(
        code, text, stage=stage, output=output, count=count, ids=measured.first, next=advice
    )


def _effect(facts: RunFacts, tally: OutputTally, sides: tuple[str, str]) -> str:
    text = f"{tally.failing_samples} of {tally.samples} samples differ"
    if tally.disagreeing_nonfinite:
        text += f", {tally.disagreeing_nonfinite} elements by being NaN or infinite once only"
    worst = tally.max_abs_error
    if worst is None or not worst.value:
        return text
    where = f"id {facts.locate(worst.ordinal)}, element {worst.index}"
    return (
        f"{text}; worst at {where}: {_value(worst.ref)} {sides[0]}, "
        f"{_value(worst.cand)} {sides[1]}, |error| {float(worst.value):.6g}"
    )


def _value(value: Number) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _budget(allowed: Tolerance) -> str:
    if not allowed.atol and not allowed.rtol:
        return "; none is allowed"
    return f"; {_tolerance(allowed)}"


def _tolerance(allowed: Tolerance) -> str:
    return f"allowed are atol {allowed.atol:.6g} + rtol {allowed.rtol:.6g} x |value|"


def _scale(measured: Measured) -> str:
    found = measured.scaled
    if found is None or found.max_excess is None:
        return ""
    times = float(found.max_excess.value)
    failing = found.failing_samples
    told = "none of them beyond it" if not failing else f"{failing} samples beyond it"
    return f" (up to {times:.3g} times the tolerance of stage {measured.stage!r}, {told})"
