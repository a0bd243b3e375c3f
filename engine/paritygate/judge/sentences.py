"""One sentence a reason: the worst case with both values and the bound, and what to look at."""

from __future__ import annotations

from collections.abc import Mapping

from paritygate.core.policy import Tolerance
from paritygate.core.verdict import Reason
from paritygate.golden.overlap import Overlap
from paritygate.judge.facts import RunFacts, StageFacts
from paritygate.judge.suggest import Answerer, suggest_name, suggest_view
from paritygate.runners.ort_text import shorten
from paritygate.tally.decision import DecisionTally
from paritygate.tally.extremes import Extreme
from paritygate.tally.output import OutputTally
from paritygate.tally.pairs import Code
from paritygate.tally.stage import Hits, StageTally

_SHOWN_LAYOUTS = 3
_SHOWN_REJECTIONS = 3

NEXT: Mapping[str, str] = {
    "sample.rejected": "inputs break the plan's contract ([inputs], [dims]); mend the data or "
    "the bounds, or allow some (max_rejected)",
    "contract.not_rejected": "tighten the contract ([inputs], [dims]), or mend the pack",
    "sample.missing": "record these samples, or take them out of the golden pack",
    "runner.error": "run the samples named alone; the text is the runtime's own",
    "runner.disagreement": "one side refuses what the other takes; look at shapes and operators",
    "runner.crashed": "run the samples named alone under a debugger; report it to the runtime",
    "runner.timeout": "look for loops without end, or raise isolate.batch_timeout_s",
    "runner.stopped": "mend what ends its process, or raise isolate.max_crashes",
    "output.missing": "map the output's name (runners.NAME.outputs), or take it out of the stage",
    "dtype.mismatch": "mend the export, or the candidate_dtype that the tolerance declares",
    "shape.mismatch": "nothing is broadcast or flattened; check the export's output layout",
    "nonfinite.candidate": "look for overflow, masks or a division in the converted graph",
    "nonfinite.mismatch": "look at how both runtimes treat NaN and infinity in this operator",
    "nonfinite.reference": "the reference isn't finite; nonfinite = 'match' accepts equal ones",
    "tolerance.hard_cap": "an outlier beyond max_abs; compare this sample's activations",
    "tolerance.exceeded": "look at dtype casts, opset, evaluation mode and layout of the export",
    "decision.error": "mend the function of the decision; it is given one side's output of a block",
    "decision.flip": "look at the flipped samples in the shard; a flip has a budget, no tolerance",
}


_ONLY_FLOATS = (
    "the stage's default is a tolerance of floats: give stages.outputs.{} one if others may differ"
)


def for_rule(
    facts: RunFacts, stage: StageFacts, tally: StageTally, rule: str, subject: str
) -> Reason:
    """The reason for a rule that caught samples."""
    hits = tally.rules[(rule, subject)]
    message = _message(facts, stage, tally, rule, subject, hits)
    is_decision = rule in ("decision.flip", "decision.error")
    return Reason(
        code=rule,
        message=message,
        stage=stage.stage.name,
        output=_output_of(rule, subject),
        decision=subject if is_decision else None,
        count=hits.samples,
        ids=tuple(sample_id for _, sample_id in hits.first),
        next=_next(facts, stage, tally, rule, subject),
        detail=_detail(tally, rule, subject),
    )


def _detail(tally: StageTally, rule: str, subject: str) -> str:
    """All that was said of samples without an answer, where the message is shorter."""
    error = tally.errors.get(f"{subject} {rule}") if rule in DID else None
    return "" if error is None or shorten(error.text) == error.text else error.text


def _next(facts: RunFacts, stage: StageFacts, tally: StageTally, rule: str, subject: str) -> str:
    """What to look at; where a declaration would make names or shapes agree, which one."""
    told = NEXT.get(rule, "") if not _is_text(tally, subject) else _NEXT_OF_TEXTS
    if rule == "shape.mismatch":
        names = stage.ref.name, stage.cand.name
        for output, ref, cand in sorted(tally.layouts):
            hint = suggest_view(output, ref, cand, names) if output == subject else None
            if hint is not None:
                return f"{told}; {hint}"
    if rule == "tolerance.exceeded" and not tally.outputs[subject].is_float:
        default = stage.stage.default
        if subject not in stage.stage.tolerances and default and (default.atol or default.rtol):
            return f"{told}; {_ONLY_FLOATS.format(subject)}"
    if rule == "output.missing":
        return suggest_name(*_alone(facts, stage, tally)) or told
    return told


def _alone(facts: RunFacts, stage: StageFacts, tally: StageTally) -> tuple[Answerer, Answerer]:
    """Both sides, with what each answers that the other lacks."""
    lacks = [subject for rule, subject in sorted(tally.rules) if rule == "output.missing"]

    def side(name: str, other: str) -> Answerer:
        found = [s.removeprefix(f"{other}:") for s in lacks if s.startswith(f"{other}:")]
        return name, facts.plan.runners[name].kind, found

    return side(stage.ref.name, "candidate"), side(stage.cand.name, "reference")


_OF_A_SIDE = ("sample.missing", "sample.rejected", "contract.not_rejected")
# What a runner did, for rules about a side that gave no answer.
DID = {
    "runner.error": "raised for",
    "runner.disagreement": "raised for",
    "runner.crashed": "ended its process for",
    "runner.timeout": "missed its deadline for",
    "runner.stopped": "was stopped and not run for",
}


def _output_of(rule: str, subject: str) -> str | None:
    """The output that a rule is about: the subject, but for rules about a side or a decision."""
    if rule.startswith("decision.") or rule in _OF_A_SIDE or rule in DID:
        return None
    return subject.partition(":")[2] if rule == "output.missing" else subject


def told_rejections(facts: RunFacts) -> str:
    """How many may be rejected, and the first ones that were, in words."""
    allowed = f"{facts.plan.table.max_rejected} allowed (max_rejected)"
    first = [f"id {i}: {told}" for i, told in facts.rejections[:_SHOWN_REJECTIONS]]
    return "; ".join([allowed, *first])


def same_runner(stage: StageFacts) -> Reason:
    """Both sides are one thing, so agreement says nothing."""
    return Reason(
        "policy.same_runner",
        f"{stage.ref.name!r} and {stage.cand.name!r} are the same thing (model, runtime, provider "
        "and options, or recording), so their agreement proves nothing",
        stage=stage.stage.name,
        next="name the model that ships as the candidate, or for a noise check say self = true in "
        "the plan's stage (compare: --self)",
    )


def _message(
    facts: RunFacts, stage: StageFacts, tally: StageTally, rule: str, subject: str, hits: Hits
) -> str:
    of = f"{hits.samples} of {tally.compared} samples"
    if rule == "decision.flip":
        return _flip(facts, stage, tally.decisions[subject], subject)
    if rule == "decision.error":
        error = tally.errors.get(f"decision {subject}")
        return f"{subject!r} could not be decided for {of}; first: {error.text if error else ''}"
    if rule in ("tolerance.exceeded", "tolerance.hard_cap"):
        return _tolerance(facts, stage, tally, rule, subject, of)
    if rule.startswith("nonfinite."):
        return _nonfinite(tally.outputs[subject], rule, subject, of)
    side = stage.ref if subject == "reference" else stage.cand
    total = f"{hits.samples} of {tally.seen} samples"
    if rule == "sample.missing":
        return f"{total} are missing from the {subject}'s recording ({side.name!r})"
    if rule in DID:
        return _unanswered(stage, tally, rule, subject, total)
    if rule == "sample.rejected":
        return f"{total} were rejected, {told_rejections(facts)}"
    if rule == "contract.not_rejected":
        marked = tally.as_expected + tally.not_rejected
        return (
            f"{hits.samples} of {marked} samples that the pack expects to be rejected satisfy the "
            "plan's contract; they were not run"
        )
    if rule == "output.missing":
        of_side, _, output = subject.partition(":")
        return f"output {output!r} isn't answered by the {of_side}, so {of} can't be compared"
    return _layout(facts, stage, tally, subject, of)


def _unanswered(stage: StageFacts, tally: StageTally, rule: str, subject: str, total: str) -> str:
    """Samples that one side gave no answer for: what was raised, or how its process ended."""
    sides = {"reference": stage.ref, "candidate": stage.cand}
    text = f"the {subject} ({sides[subject].name!r}) {DID[rule]} {total}"
    if rule == "runner.disagreement":
        other = "candidate" if subject == "reference" else "reference"
        text += f" that the {other} ({sides[other].name!r}) answered"
    error = tally.errors.get(f"{subject} {rule}") or tally.errors.get(subject)
    return f"{text}; first: {shorten(error.text)}" if error is not None else text


def _layout(facts: RunFacts, stage: StageFacts, tally: StageTally, output: str, of: str) -> str:
    """Which layouts disagree: the two sides', or the plan's with both."""
    pairs = [(ref, cand) for name, ref, cand in sorted(tally.layouts) if name == output]
    shown = pairs[:_SHOWN_LAYOUTS]
    told = "; ".join(f"the reference answers {ref}, the candidate {cand}" for ref, cand in shown)
    if len(pairs) > len(shown):
        told += f"; and {len(pairs) - len(shown)} other pairs of shapes"
    contract = facts.plan.table.outputs.get(output)
    if contract is not None and (contract.dtype or contract.shape):
        dims = f"[{', '.join(map(str, contract.shape))}]" if contract.shape else ""
        told += f"; [outputs] demands {contract.dtype or 'any dtype'}{dims}"
    tolerance = stage.stage.tolerances.get(output) or stage.stage.default
    if tolerance is not None and tolerance.candidate_dtype:
        told += f"; the stage demands {tolerance.candidate_dtype} of the candidate"
    return f"output {output!r}: {told}; {of} can't be compared"


def _code_order(code: Code) -> tuple[bool, int | str]:
    return isinstance(code, str), code


def _flip(facts: RunFacts, stage: StageFacts, tally: DecisionTally, name: str) -> str:
    budget = stage.stage.flips.get(name, 0)
    names = stage.decision_names.get(name, ())

    def label(code: Code) -> str:
        if isinstance(code, str):
            return code if code.isprintable() else repr(code)
        return names[code] if 0 <= code < len(names) else "undefined"

    changes = sorted(
        ((n, ref, cand) for (ref, cand), n in tally.matrix.items() if ref != cand),
        key=lambda change: (-change[0], *map(_code_order, change[1:])),
    )
    listed = ", ".join(f"{label(ref)} -> {label(cand)} {n}x" for n, ref, cand in changes[:4])
    more = f" and {len(changes) - 4} other changes" if len(changes) > 4 else ""
    text = f"{tally.flips} of {tally.samples} samples changed {name!r}"
    if tally.is_positioned:
        text += f" in {tally.position_flips} of {tally.positions} places"
    text += f" ({listed}{more})" if listed else " (undefined on both sides)"
    text += f"; {budget} allowed"
    widest = tally.flip_margin_max
    if widest is not None:
        where = facts.locate(widest.ordinal)
        place = f", place {widest.position}" if widest.position >= 0 else ""
        text += (
            f"; widest at id {where}{place}, margin {_number(widest.margin)} on the reference side"
        )
    return text


def _tolerance(
    facts: RunFacts, stage: StageFacts, tally: StageTally, rule: str, output: str, of: str
) -> str:
    found = tally.outputs[output]
    if found.text:
        return _texts(facts, found, output, of)
    tolerance = stage.stage.tolerance(output, is_float=found.is_float) or Tolerance()
    cap = rule == "tolerance.hard_cap"
    worst = found.max_abs_error if cap or found.max_excess is None else found.max_excess
    limit = f"hard cap max_abs {_number(tolerance.max_abs or 0.0)}" if cap else "tolerance"
    text = f"output {output!r}: {of} exceed the {limit}"
    if worst is None:
        return text
    allowed = tolerance.atol + tolerance.rtol * abs(float(worst.ref))
    text += (
        f"; worst at id {facts.locate(worst.ordinal)}, element {worst.index}: reference "
        f"{_value(worst.ref)}, candidate {_value(worst.cand)}, |error| {_error(worst)}"
    )
    if cap:
        return text
    return text + (
        f", allowed {_number(allowed)} (atol {_number(tolerance.atol)} + rtol "
        f"{_number(tolerance.rtol)} x |reference|)"
    )


_NEXT_OF_TEXTS = "look at labels, tokens and text operators of the export"


def _is_text(tally: StageTally, subject: str) -> bool:
    found = tally.outputs.get(subject)
    return found is not None and found.text


def _texts(facts: RunFacts, found: OutputTally, output: str, of: str) -> str:
    text = f"output {output!r}: {of} differ; texts are compared exactly"
    first = found.difference
    if first is None:
        return text
    return (
        f"{text}; first at id {facts.locate(first.ordinal)}, element {first.index}: reference "
        f"{first.ref!r}, candidate {first.cand!r}"
    )


_KIND = {
    "nonfinite.candidate": "the candidate is NaN or infinite where the reference is finite",
    "nonfinite.mismatch": "the reference is NaN or infinite and the candidate is something else",
    "nonfinite.reference": "both sides are NaN or infinite alike, which the policy does not accept",
}


def _nonfinite(found: OutputTally, rule: str, output: str, of: str) -> str:
    of_candidate = sum(found.classes[1:4])
    elements = {
        "nonfinite.candidate": of_candidate,
        "nonfinite.mismatch": found.disagreeing_nonfinite - of_candidate,
        "nonfinite.reference": found.agreeing_nonfinite,
    }[rule]
    return f"output {output!r}: {_KIND[rule]}, in {of} ({elements} elements)"


def _error(worst: Extreme) -> str:
    error = abs(worst.cand - worst.ref)
    return str(error) if isinstance(error, int) else _number(error)


def _number(value: float) -> str:
    return f"{value:.6g}"


def _value(value: float) -> str:
    """A value with enough digits to tell float32 neighbours apart; integers whole."""
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def calibration_overlap(samples: int, found: Overlap) -> Reason:
    """Golden samples that the calibration pack holds too."""
    files = ", ".join(str(path) for path in found.files[:3]) + (", ..." * (len(found.files) > 3))
    (ours, theirs), *_ = found.first
    verb = "is" if found.count == 1 else "are"
    return Reason(
        "evidence.calibration_overlap",
        f"{found.count} of {samples} golden samples {verb} also in the calibration pack {files} of "
        f"{found.samples} samples: all inputs are equal; first: {ours!r}, there {theirs!r}",
        count=found.count,
        ids=tuple(ours for ours, _ in found.first),
        next="take them out of the golden pack: a model does better on what it was calibrated on",
    )
