"""The verdict and the summary of a replay, which looks at failing samples only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paritygate.core.verdict import Reason, Verdict
from paritygate.judge import Judgement
from paritygate.pipeline.execute import Outcome
from paritygate.pipeline.report import describe_reason
from paritygate.rerun.compare import count_outcomes, tell
from paritygate.runfolder import SCHEMA_VERSION
from paritygate.runfolder.reading import FailedSample, FinishedRun

if TYPE_CHECKING:
    from paritygate.rerun.replay import Parts


def conclude(
    run: FinishedRun,
    parts: Parts,
    chosen: Mapping[str, Sequence[FailedSample]],
    *,
    with_batch: bool,
) -> tuple[Judgement, dict[str, Any]]:
    """Judge a replay: hold where a rule fires again, else incomplete; never a release.

    Args:
        run: the run that was replayed.
        parts: what its stages gave.
        chosen: the samples, by stage.
        with_batch: whether they ran in their own batches.
    """
    held = [o for o in parts.outcomes if o.judgement.verdict is Verdict.HOLD]
    reasons = tuple(reason for o in held for reason in o.judgement.reasons)
    verdict = Verdict.HOLD if reasons else Verdict.INCOMPLETE
    count = len({s.id for samples in chosen.values() for s in samples})
    if not reasons:
        reasons = (_incomplete(run, count),)
    notes = [n for o in parts.outcomes for n in o.judgement.not_judged]
    not_judged = (f"every sample of {run.folder} but {count} that failed in it", *notes)
    judgement = Judgement(verdict, reasons, {}, tuple(dict.fromkeys(not_judged)))
    samples = [
        parts.found.get((name, s.id)) or _lost(name, s)
        for name, of_stage in chosen.items()
        for s in of_stage
    ]
    summary = {
        "schema_version": SCHEMA_VERSION,
        "verdict": verdict.value,
        "reasons": [describe_reason(r) for r in reasons],
        "not_judged": list(judgement.not_judged),
        "plan": dict(run.summary["plan"]),
        "golden": {**run.summary["golden"], "samples": count, "block_samples": None},
        "stages": [stage for o in parts.outcomes for stage in o.summary["stages"]],
        "runners": _merged(parts.outcomes, "runners"),
        "timing": _timing(parts.outcomes),
        "environment": parts.outcomes[-1].summary["environment"],
        "replay": {
            "of": str(run.folder.absolute()),
            "with_batch": with_batch,
            "changed": parts.changed,
            "notes": parts.notes,
            "outcomes": count_outcomes(samples),
            "samples": [{**found, "says": tell(found)} for found in samples],
        },
    }
    return judgement, summary


def _incomplete(run: FinishedRun, count: int) -> Reason:
    return Reason(
        "evidence.partial",
        f"{count} failing samples of {run.folder} were run again and no rule fires on them now; a "
        "replay looks at nothing else, so it releases nothing",
        next="run the whole plan for a release",
    )


def _lost(stage: str, sample: FailedSample) -> dict[str, Any]:
    """A sample that was not run: the plan's contract rejects it now."""
    return {
        "stage": stage,
        "id": sample.id,
        "row": sample.row,
        "outcome": "not_reproduced",
        "rules_then": sample.rules,
        "rules_now": ["sample.rejected"],
        "differs": [],
        "worst": None,
    }


def _merged(outcomes: Sequence[Outcome], key: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for outcome in outcomes:
        merged.update(outcome.summary[key])
    return merged


def _timing(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Times of all parts together; the last part's wall time counts from the start."""
    timings = [dict(o.summary["timing"]) for o in outcomes]
    total = {key: sum(t[key] for t in timings) for key in timings[0]}
    return {**total, "wall_s": timings[-1]["wall_s"], "startup_s": timings[0]["startup_s"]}
