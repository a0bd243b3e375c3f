"""Record one runner of a plan: its answers to the golden samples, as a pack."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from paritygate.comparison.rows import KeepHint, SampleRows, Side, StageResult
from paritygate.core.errors import FolderError, PlanError, Problem
from paritygate.core.events import Event, Finished, Made, Observer, Prepared, Progress, ignore
from paritygate.core.plan import Plan
from paritygate.core.verdict import Reason, Verdict
from paritygate.judge.sentences import DID, NEXT
from paritygate.pipeline.drive import drive
from paritygate.pipeline.prepare import CallableRunner, Preparation, prepare_plan
from paritygate.pipeline.recorder import Kept, Recorder, describe_kept
from paritygate.pipeline.report import describe_golden, describe_reason
from paritygate.pipeline.sharing import most_threads
from paritygate.pipeline.span import BlockResult
from paritygate.pipeline.surroundings import Surroundings, changed_finding, look_around
from paritygate.pipeline.threads import choose_threads
from paritygate.runfolder import SCHEMA_VERSION, make_folders, remove_empty
from paritygate.runners.base import Finding, Runner
from paritygate.tally.stage import FirstError

RECORDED = "recorded"
_ENDS = ("runner.stopped", "runner.crashed", "runner.timeout")
_COUPLING = (
    "it was not checked whether the runner's answers depend on the batch (runner.batch_coupled)"
)
_OTHER_BATCHES = "since samples were rejected, a run may put others together in a batch"
_DRIFT = "it was not checked whether they are what the pack had recorded (runner.reference_drift)"


class RecordOptions(Struct, frozen=True):
    """How to record.

    Attributes:
        out: the file to write; it must not be there.
        limit: only the first samples of the pack.
        threads: threads that run; None: by cores and the runner.
        callables: runner name -> function object that stands in for the plan's runner.
        observer: given the engine's events.
    """

    out: Path
    limit: int | None = None
    threads: int | None = None
    callables: Mapping[str, CallableRunner] = field(default_factory=dict)
    observer: Observer = ignore


@dataclass(frozen=True)
class RecordResult:
    """A finished recording.

    Attributes:
        verdict: hold or incomplete; None: every sample of the pack was recorded.
        reasons: why it is on hold, or incomplete.
        path: of the file; None where no sample was answered.
        summary: all that is known of it.
    """

    verdict: Verdict | None
    reasons: tuple[Reason, ...]
    path: Path | None
    summary: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """What a command ends with: 0, 1 on hold, 3 incomplete."""
        return 0 if self.verdict is None else self.verdict.exit_code


def record(plan: Plan, runner: str, options: RecordOptions) -> RecordResult:
    """Run a runner over the golden samples and keep what it answers.

    Raises:
        ParityError: it could not be recorded; nothing is left.
    """
    started = time.perf_counter()
    out = options.out.absolute()  # a model's code may change the current folder
    parents = _check(plan, out, options)
    made = None
    try:
        options.observer(Made(None, tuple(parents)))
        ready = prepare_plan(plan, limit=options.limit, callables=options.callables, alone=runner)
        with ready.resources:
            for error in ready.load_failures.values():
                raise error
            made = _record(ready, runner, replace(options, out=out), started)
    finally:
        if made is None or made.path is None:
            remove_empty(parents)
    options.observer(Finished(made.summary["verdict"]))
    return made


def _check(plan: Plan, out: Path, options: RecordOptions) -> list[Path]:
    """Make the folder of the recording; which folders were made, innermost first."""
    if options.threads is not None and options.threads < 1:
        problem = Problem("threads", f"is {options.threads}; give at least 1, or leave it out")
        raise PlanError([problem], plan.source)
    if os.path.lexists(out):
        raise FolderError(f"{out}: is there already; remove it, or give another name by --out")
    try:
        return make_folders(out.parent)
    except OSError as e:
        raise FolderError(f"{out.parent}: can't be made ({e.strerror or e})") from None


def _record(ready: Preparation, name: str, options: RecordOptions, started: float) -> RecordResult:
    runner = ready.prepared.runners[name]
    recorder = Recorder(ready.prepared, runner, options.out)

    def keep(samples: SampleRows, sides: Mapping[str, Side], _: Mapping[str, StageResult]) -> None:
        recorder.keep(samples, sides[name])

    left_out = 0

    def take(result: BlockResult) -> dict[str, KeepHint]:
        nonlocal left_out
        left_out += len(result.rejected)
        recorder.take(result.block, result.rejected)
        return {}

    def observe(event: Event) -> None:
        unjudged = replace(event, flips=None, failed=None) if isinstance(event, Progress) else None
        options.observer(event if unjudged is None else unjudged)

    prepared = replace(ready.prepared, witness=keep, label_columns=())
    around = look_around(prepared.pack)
    options.observer(Prepared(name, prepared.samples, recorder.partial))
    startup_s = time.perf_counter() - started
    try:
        if ready.blocks:
            threads = choose_threads(prepared, options.threads).at_most(
                most_threads(prepared.runners, ready.blocks)
            )
            drive(prepared, ready.blocks, threads, take, {}, observe)
        findings = [*runner.final_findings(), *changed_finding(ready)]
        environment = around.environment()
        unchecked = _not_looked_for(runner, left_out)
        kept = recorder.finish(around.golden_digest(), environment, findings, unchecked)
    except BaseException:
        recorder.abort()
        raise
    timing = {"wall_s": time.perf_counter() - started, "startup_s": startup_s}
    return _conclude(ready, runner, kept, findings, around, timing)


def _not_looked_for(runner: Runner, left_out: int) -> tuple[str, str]:
    """What a run looks for, and `record` doesn't.

    Args:
        runner: that was recorded.
        left_out: samples that it was not given. Those after them move up as far as their block
            goes, and blocks are cut for all runners that run together.
    """
    is_alone = max(runner.limits.batch_sizes or (2,)) == 1
    is_as_ever = is_alone or not left_out
    return (_COUPLING if is_as_ever else f"{_COUPLING}; {_OTHER_BATCHES}", _DRIFT)


def _conclude(
    ready: Preparation,
    runner: Runner,
    kept: Kept,
    findings: Sequence[Finding],
    around: Surroundings,
    timing: Mapping[str, float],
) -> RecordResult:
    prepared = ready.prepared
    plan, pack = prepared.plan, prepared.pack
    allowed = plan.table.max_rejected
    reasons = [*_of_samples(runner.name, kept, allowed), *_of_findings(runner.name, findings)]
    verdict: Verdict | None = Verdict.HOLD if reasons else None
    if not reasons and kept.samples.asked < pack.samples:
        verdict = Verdict.INCOMPLETE
        asked = f"{kept.samples.asked} of {pack.samples} samples"
        reasons = [Reason("evidence.partial", f"{asked} were recorded (--limit)")]
    summary = {
        "schema_version": SCHEMA_VERSION,
        "verdict": RECORDED if verdict is None else verdict.value,
        "reasons": [describe_reason(r) for r in reasons],
        "plan": {"name": plan.name, "digest": plan.digest()},
        "golden": describe_golden(pack, around.file_digests()),
        "recording": describe_kept(kept),
        "runners": {
            runner.name: {"kind": runner.kind, "identity": runner.identity, **runner.facts}
        },
        "timing": dict(timing),
        "environment": around.environment(),
    }
    return RecordResult(verdict, tuple(reasons), kept.path, summary)


def _of_samples(runner: str, kept: Kept, allowed: int) -> Iterator[Reason]:
    """Samples that the recording lacks."""
    samples = kept.samples
    rejected = samples.rejected if samples.rejected > allowed else 0
    told = (
        ("sample.rejected", rejected, "break the contract of an input and were not run"),
        ("sample.missing", samples.missing, "are not in the recording that was recorded from"),
    )
    for code, count, what in told:
        if count:
            yield Reason(code, f"{count} of {samples.asked} samples {what}", count=count)
    if kept.not_rejected.samples:
        count, first = kept.not_rejected.samples, kept.not_rejected.first
        text = f"{count} samples that the pack expects to be rejected satisfy the contract"
        yield Reason("contract.not_rejected", text, count=count, ids=tuple(i for _, i in first))
    yield from _unanswered(runner, kept)
    if not samples.recorded:
        text = f"no sample of {samples.asked} was recorded, so there is no file"
        yield Reason("evidence.empty", text, next="check the golden files")


def _unanswered(runner: str, kept: Kept) -> Iterator[Reason]:
    """Samples that have no answer: what the runner did, in the order in which a run tells it."""
    raised = [error for rule, error in kept.errors.items() if rule not in _ENDS]
    errors = {rule: kept.errors[rule] for rule in _ENDS if rule in kept.errors}
    if raised:
        errors["runner.error"] = reduce(FirstError.merge, raised)
    for code, error in errors.items():
        yield Reason(
            code,
            f"runner {runner!r} {DID[code]} {error.samples} of {kept.samples.asked} samples, which "
            f"the recording lacks; first: {error.text}",
            count=error.samples,
            next=NEXT[code]
            if code in _ENDS
            else "mend the model or the function, then record again",
        )


def _of_findings(runner: str, findings: Sequence[Finding]) -> Iterator[Reason]:
    for f in findings:
        text = f"runner {runner!r}: {f.message}"
        yield Reason(f.code, text, count=f.count, ids=f.ids, next=f.next)
