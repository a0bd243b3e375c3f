"""The verdict: release only if every stage ran, every sample is accounted for, no rule fired."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from paritygate.core.plan import Stage
from paritygate.core.verdict import Reason, Verdict
from paritygate.judge import sentences
from paritygate.judge.class_keys import judge_class_keys, judge_labels
from paritygate.judge.consistency import judge_consistency
from paritygate.judge.coverage import judge_coverage
from paritygate.judge.facts import Judgement, RunFacts, SideFacts, StageFacts
from paritygate.judge.noise import judge_noise
from paritygate.judge.probes import judge_probes
from paritygate.judge.unjudged import list_not_judged
from paritygate.tally.stage import StageTally


def judge(facts: RunFacts) -> Judgement:
    """Judge a run. Pure: the same facts give the same judgement."""
    reasons: list[Reason] = []
    verdicts: dict[str, Verdict] = {}
    for stage in facts.stages:
        found = list(_judge_stage(facts, stage))
        reasons += found
        verdicts[stage.stage.name] = Verdict.HOLD if found else Verdict.RELEASE
    for runner, reason in (*judge_consistency(facts), *judge_noise(facts), *judge_probes(facts)):
        reasons.append(reason)
        for stage in facts.stages:
            is_of = reason.stage in (None, stage.stage.name)
            if is_of and runner in (None, stage.stage.reference, stage.stage.candidate):
                verdicts[stage.stage.name] = Verdict.HOLD
    if facts.changed:
        reasons.append(_changed(facts))
        verdicts = dict.fromkeys(verdicts, Verdict.HOLD)
    if facts.overlap is not None and facts.overlap.count:
        reasons.append(sentences.calibration_overlap(facts.samples, facts.overlap))
        verdicts = dict.fromkeys(verdicts, Verdict.HOLD)
    for reason in judge_coverage(facts):
        reasons.append(reason)
        verdicts |= dict.fromkeys([reason.stage] if reason.stage else verdicts, Verdict.HOLD)
    complete = len(facts.stages) == len(facts.plan.stages) and facts.asked == facts.samples
    if not facts.stages:
        reasons.append(Reason("evidence.empty", "no stage ran, so nothing was compared"))
    verdict = Verdict.RELEASE if complete else Verdict.INCOMPLETE
    if reasons:
        verdict = Verdict.HOLD
    elif not complete:
        reasons.append(_incomplete(facts))
        verdicts = dict.fromkeys(verdicts, Verdict.INCOMPLETE) if _limited(facts) else verdicts
    return Judgement(verdict, tuple(reasons), verdicts, list_not_judged(facts))


def _changed(facts: RunFacts) -> Reason:
    return Reason(
        "evidence.changed",
        f"{', '.join(facts.changed)} changed while the run was judging it, so that its digest may "
        "not name what ran",
        next="run again on files that nobody writes; put new versions under new names",
    )


def _limited(facts: RunFacts) -> bool:
    return facts.asked < facts.samples


def _incomplete(facts: RunFacts) -> Reason:
    parts = []
    if _limited(facts):
        parts.append(f"{facts.asked} of {facts.samples} samples were judged")
    ran = {s.stage.name for s in facts.stages}
    left = [s.name for s in facts.plan.stages if s.name not in ran]
    if left:
        parts.append(f"{'stage' if len(left) == 1 else 'stages'} {', '.join(left)} not run")
    return Reason(
        "stage.not_run" if left else "evidence.partial",
        f"all that was asked is clean, but the plan asks for more: {', '.join(parts)}",
        next="run the whole plan, without --limit and --stage, for a release",
    )


def _judge_stage(facts: RunFacts, stage: StageFacts) -> Iterator[Reason]:
    yield from _judge_sides(stage)
    if stage.tally is None:
        return
    yield from judge_labels(stage, facts.plan.decisions)
    tally = stage.tally
    yield from _judge_structure(stage, tally)
    yield from _judge_rules(facts, stage, tally)
    yield from _judge_evidence(facts, stage, tally)


def _judge_sides(stage: StageFacts) -> Iterator[Reason]:
    name = stage.stage.name
    failed = [s for s in (stage.ref, stage.cand) if s.load_failure is not None]
    for side in failed:
        code, text = side.load_failure or ("", "")
        what = "the recording" if code.startswith("golden.") else "the model or its options"
        yield Reason(
            code,
            text if text.startswith("runner ") else f"runner {side.name!r}: {text}",
            stage=name,
            next=f"mend {what}; the stage can't be judged without it",
            detail=side.load_detail,
        )
    if failed:
        yield Reason("stage.not_run", f"stage {name!r} was not run", stage=name)
        return
    if stage.ref.identity == stage.cand.identity and not stage.stage.is_self:
        yield sentences.same_runner(stage)
    for side in (stage.ref, stage.cand):
        yield from _findings(name, side)
    yield from judge_class_keys(stage)


def _findings(stage: str, side: SideFacts) -> Iterator[Reason]:
    for f in side.findings:
        text = f"runner {side.name!r}: {f.message}"
        yield Reason(f.code, text, stage=stage, count=f.count, ids=f.ids, next=f.next)


_EMPTY = "an empty comparison proves nothing; check the golden files and the ids"


def _judge_evidence(facts: RunFacts, stage: StageFacts, tally: StageTally) -> Iterator[Reason]:
    name = stage.stage.name
    if tally.seen != facts.asked:
        yield Reason(
            "evidence.unaccounted",
            f"{tally.seen} samples are accounted for where {facts.asked} were asked for",
            stage=name,
            next="this is a fault of paritygate; report it with the plan and the summary",
        )
    if tally.compared == 0:
        yield Reason(
            "evidence.empty",
            f"no sample was compared ({facts.samples} in the golden pack)",
            stage=name,
            next=_EMPTY if not tally.rules else "an empty comparison proves nothing; see above",
        )
    else:
        yield from _judge_count(facts, name, tally.compared)
    if tally.compared and not tally.outputs and not tally.rules and not tally.undeclared:
        yield Reason("evidence.empty", "no output was compared", stage=name)
    yield from _judge_substance(stage.stage, tally)


def _judge_count(facts: RunFacts, stage: str, compared: int) -> Iterator[Reason]:
    """Whether enough samples were compared that are acceptance evidence."""
    least = facts.plan.table.min_samples
    synthetic = 0 if _limited(facts) else min(facts.coverage.synthetic, compared)
    if facts.all_synthetic or synthetic == compared:
        yield Reason(
            "evidence.synthetic",
            f"all {compared} samples that were compared are synthetic, as the golden pack or a "
            "recording says of them (paritygate.evidence); that two models agree on made inputs is "
            "no acceptance evidence",
            stage=stage,
            count=compared,
            next="add golden samples that were measured; synthetic ones may stay beside them",
        )
    elif compared - synthetic < min(least, _most(facts)):
        besides = f", besides {synthetic} synthetic ones, which don't count" if synthetic else ""
        yield Reason(
            "evidence.too_few",
            f"{compared - synthetic} samples were compared{besides}; the plan demands at least "
            f"{least} (min_samples)",
            stage=stage,
            count=compared - synthetic,
            next="add golden samples",
        )


def _judge_substance(planned: Stage, tally: StageTally) -> Iterator[Reason]:
    """Agreement over nothing: no element, no finite one, no decision that was ever made."""
    stage = planned.name
    for output, found in tally.outputs.items():
        if found.elements == 0:
            text = f"output {output!r} has no element over the whole stage"
            yield Reason("evidence.empty", text, stage=stage, output=output)
        elif found.agreeing_nonfinite == found.elements and not found.failing_samples:
            yield Reason(
                "evidence.empty",
                f"output {output!r} is NaN or infinite in all of its {found.elements} elements, on "
                "both sides alike, over the whole stage",
                stage=stage,
                output=output,
                next="two sides that fail alike prove nothing; look at the inputs and the export",
            )
    for decision, made in tally.decisions.items():
        if made.is_never_defined and made.flips <= planned.flips.get(decision, 0):
            yield Reason(
                "evidence.empty",
                f"decision {decision!r} is undefined on both sides for all {made.samples} samples",
                stage=stage,
                decision=decision,
                next="a NaN in every score decides nothing; look at the inputs and the export",
            )


def _most(facts: RunFacts) -> int | float:
    """Samples that this run could compare at most, where it was asked for a part of the pack."""
    return facts.asked if _limited(facts) else math.inf


def _judge_structure(stage: StageFacts, tally: StageTally) -> Iterator[Reason]:
    for (side, output), samples in sorted(tally.undeclared.items()):
        yield Reason(
            "output.undeclared",
            f"the {side} answers an output {output!r} that the stage neither compares nor ignores",
            stage=stage.stage.name,
            output=output,
            count=samples,
            next=f"give stages.outputs.{output} a tolerance, or name it in ignore = [...]",
        )


_OF_VALUES = ("tolerance.", "nonfinite.", "dtype.", "shape.")
_PREPARED = (
    "look at scale, units, order of channels and casts of the preprocessing, and at what wrote the "
    "golden inputs"
)
_ORDER = (
    "sample.rejected",
    "contract.not_rejected",
    "sample.missing",
    "runner.stopped",
    "runner.crashed",
    "runner.timeout",
    "runner.disagreement",
    "runner.error",
    "output.missing",
    "dtype.mismatch",
    "shape.mismatch",
    "nonfinite.candidate",
    "nonfinite.mismatch",
    "nonfinite.reference",
    "tolerance.hard_cap",
    "tolerance.exceeded",
    "decision.error",
    "decision.flip",
)


def _judge_rules(facts: RunFacts, stage: StageFacts, tally: StageTally) -> Iterator[Reason]:
    def place(key: tuple[str, str]) -> tuple[int, str]:
        rule, subject = key
        return (_ORDER.index(rule) if rule in _ORDER else len(_ORDER), subject)

    for (rule, subject), hits in sorted(tally.rules.items(), key=lambda item: place(item[0])):
        if rule == "decision.flip":
            flips = tally.decisions[subject].flips
            if flips <= stage.stage.flips.get(subject, 0):
                continue
        if rule == "sample.rejected" and hits.samples <= facts.plan.table.max_rejected:
            continue
        reason = sentences.for_rule(facts, stage, tally, rule, subject)
        is_told = stage.stage.of_inputs and rule.startswith(_OF_VALUES)
        yield replace(reason, next=_PREPARED) if is_told else reason
