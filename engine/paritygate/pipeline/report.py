"""The summary of a run, as a dict in the order of `summary.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from paritygate.comparison.stage import StageComparer
from paritygate.core.digest import digest_of
from paritygate.core.plan import Stage
from paritygate.core.verdict import Reason, Verdict
from paritygate.golden.pack import GoldenPack
from paritygate.judge import Judgement
from paritygate.pipeline.prepare import Preparation
from paritygate.pipeline.sides import list_differences
from paritygate.runfolder import SCHEMA_VERSION
from paritygate.tally.coupling import Consistency, Measured
from paritygate.tally.output import OutputTally
from paritygate.tally.stage import SliceTally, StageTally, Tally


def build_summary(
    ready: Preparation,
    tally: Tally,
    judgement: Judgement,
    shards: Mapping[str, Mapping[str, object]],
    digests: Sequence[str],
    environment: Mapping[str, object],
    timing: Mapping[str, float],
    threads: Mapping[str, object],
    stats: str,
) -> dict[str, Any]:
    """Everything that `summary.json` holds; values may still be non-finite floats."""
    plan, pack = ready.prepared.plan, ready.prepared.pack
    table = plan.table
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": judgement.verdict.value,
        "reasons": [describe_reason(r) for r in judgement.reasons],
        "not_judged": list(judgement.not_judged),
        "plan": {
            "name": plan.name,
            "digest": plan.digest(),
            "identity": table.identity,
            "operation": table.operation,
            "meta": table.meta,
            "canonical": plan.canonical(),
            "folder": str(plan.folder.absolute()),
        },
        "golden": {
            **describe_golden(pack, digests),
            "block_samples": ready.prepared.block_samples,
            **_synthetic(ready),
        },
        "stages": [_stage(ready, s, tally, judgement, shards, stats) for s in ready.selected],
        "runners": {
            name: {"kind": r.kind, "identity": r.identity, **r.facts}
            for name, r in ready.prepared.runners.items()
        },
        "timing": dict(timing),
        "threads": dict(threads),
        "environment": dict(environment),
    }


def _synthetic(ready: Preparation) -> dict[str, int]:
    """How many samples of the pack are no acceptance evidence, where some are."""
    marked = ready.prepared.synthetic
    return {} if marked is None else {"synthetic": int(marked.sum())}


def describe_golden(pack: GoldenPack, digests: Sequence[str]) -> dict[str, Any]:
    """The golden pack: its files with their digests, the digest over them, its samples."""
    files = [
        {"path": str(f.path), "rows": f.rows, "bytes": f.bytes, "sha256": digest}
        for f, digest in zip(pack.files, digests, strict=True)
    ]
    digest = digest_of({f"{i:08d}": digest for i, digest in enumerate(digests)})
    return {"files": files, "digest": digest, "samples": pack.samples}


def describe_reason(reason: Reason) -> dict[str, Any]:
    """A reason without the fields that it has no value for."""
    fields = asdict(reason)
    ids = fields.pop("ids")
    kept = {key: value for key, value in fields.items() if value not in (None, "")}
    if ids:
        kept["ids"] = list(ids)
    return kept


def _stage(
    ready: Preparation,
    stage: Stage,
    tally: Tally,
    judgement: Judgement,
    shards: Mapping[str, Mapping[str, object]],
    stats: str,
) -> dict[str, Any]:
    found = tally.stages.get(stage.name, StageTally())
    comparer = next((s for s in ready.prepared.stages if s.stage is stage), None)
    names = comparer.names if comparer is not None else {}
    ran = ready.runs(stage)
    verdict = judgement.stages[stage.name] if ran else Verdict.HOLD
    summary: dict[str, Any] = {
        "name": stage.name,
        "verdict": verdict.value,
        "reference": stage.reference,
        "candidate": stage.candidate,
        "differences": _differences(ready, stage) if ran else [],
        "ran": ran,
        "stats": stats,
        "samples": _samples(ready, stage, found),
        "outputs": {name: _output(ready, stage, name, t) for name, t in found.outputs.items()},
        "decisions": {
            name: {
                "budget": stage.flips.get(name, 0),
                **_with_id(ready, t.figures(names[name], _max_error(ready, found, name))),
                **_function_of(comparer, name),
            }
            for name, t in found.decisions.items()
        },
    }
    if found.slices:
        summary["slices"] = {
            name: {value: _slice(t) for value, t in values.items()}
            for name, values in found.slices.items()
        }
    if found.errors:
        summary["errors"] = {
            side: {"samples": e.samples, "first": e.text}
            for side, e in found.errors.items()
            if " runner." not in side  # the same by rule, for the sentences
        }
    if stage.of_inputs:
        summary["of"] = "inputs"
    if stage.name in shards:
        summary["failures"] = dict(shards[stage.name])
    return summary


def _differences(ready: Preparation, stage: Stage) -> list[dict[str, str]]:
    runners = ready.prepared.runners
    return list_differences(runners[stage.reference], runners[stage.candidate])


def _samples(ready: Preparation, stage: Stage, tally: StageTally) -> dict[str, int]:
    """Every sample of the pack is in exactly one of compared, rejected, missing and errors.

    Where the pack says which ones must be rejected, `as_expected` and `not_rejected` are two more.
    """
    counts = {"extra": 0, "duplicate": 0}
    for name in (stage.reference, stage.candidate):
        runner = ready.prepared.runners.get(name)
        for finding in runner.final_findings() if runner is not None else ():
            kind = finding.code.removeprefix("sample.")
            if finding.code.startswith("sample.") and kind in counts:
                counts[kind] += finding.count or 0
    marked = {"as_expected": tally.as_expected, "not_rejected": tally.not_rejected}
    not_run = tally.rejected + tally.as_expected + tally.not_rejected
    return {
        "expected": ready.prepared.samples,
        "compared": tally.compared,
        "rejected": tally.rejected,
        **(marked if ready.prepared.expect is not None else {}),
        "missing": tally.absent,
        **counts,
        "errors": tally.seen - tally.compared - not_run - tally.absent,
        "failed": tally.failed,
    }


def _with_id(ready: Preparation, figure: Any) -> Any:
    """A figure that is located by its sample's ordinal also names the sample's id."""
    if not isinstance(figure, Mapping):
        return figure
    told = {key: _with_id(ready, value) for key, value in figure.items()}
    at = told.get("ordinal")
    return told if at is None else {**told, "id": ready.prepared.pack.ids(at, at + 1).tolist()[0]}


def _output(ready: Preparation, stage: Stage, name: str, tally: OutputTally) -> dict[str, Any]:
    tolerance = stage.tolerance(name, is_float=tally.is_float)
    figures = {key: _with_id(ready, value) for key, value in tally.figures().items()}
    if tolerance is not None:
        figures["tolerance"] = {k: v for k, v in asdict(tolerance).items() if v is not None}
    return figures


def _function_of(comparer: StageComparer | None, decision: str) -> dict[str, Any]:
    """What is recorded of the function that decides, where one does."""
    function = comparer.functions.get(decision) if comparer is not None else None
    return {} if function is None else {"function": dict(function.facts)}


def _slice(tally: SliceTally) -> dict[str, Any]:
    return {"samples": tally.samples, "failed": tally.failed, "flips": dict(tally.flips)}


def _max_error(ready: Preparation, tally: StageTally, decision: str) -> float | None:
    output = next(d.output for d in ready.prepared.plan.decisions if d.name == decision)
    found = tally.outputs.get(output)
    if found is None or found.max_abs_error is None:
        return None
    return float(found.max_abs_error.value)


def describe_consistency(ready: Preparation, found: Consistency) -> dict[str, Any]:
    """What runners did by themselves: by runner and batch size, and against recorded outputs."""
    runners: dict[str, Any] = {}
    for name, check in found.runners.items():
        at: dict[str, Any] = {str(size): {} for size in check.others}
        for (size, output), measured in check.outputs.items():
            at[str(size)][output] = _measured(ready, measured)
        for size, text in check.errors.items():
            at[str(size)] = {"error": text}
        told: dict[str, Any] = {"size": check.size, "at": at}
        runners[name] = {**told, "not_checked": check.why_not} if check.why_not else told
    drift: dict[str, Any] = {}
    for (stage, output), measured in found.drift.items():
        drift.setdefault(stage, {})[output] = _measured(ready, measured)
    return {"samples": found.samples, "runners": runners, "recorded": drift}


def _measured(ready: Preparation, measured: Measured) -> dict[str, Any]:
    allowed = {"atol": measured.allowed.atol, "rtol": measured.allowed.rtol}
    figures: dict[str, Any] = {"good": measured.is_good, "allowed": allowed}
    if measured.layouts is not None:
        figures["layouts"] = list(measured.layouts)
    if measured.tally is not None:
        counted = measured.tally.figures()
        for key in ("samples", "failing_samples", "max_abs_error", "max_excess"):
            figures[key] = _with_id(ready, counted[key])
    if measured.scaled is not None:
        scaled = measured.scaled.figures()
        figures["by_stage"] = {
            "stage": measured.stage,
            "failing_samples": scaled["failing_samples"],
            "max_excess": _with_id(ready, scaled["max_excess"]),
        }
    return figures
