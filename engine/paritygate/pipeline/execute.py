"""Run a plan from start to verdict, and leave the run folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from paritygate.comparison.rows import KeepHint
from paritygate.core.errors import PlanError, Problem
from paritygate.core.events import Finished, Observer, Prepared, ignore
from paritygate.core.plan import Plan, Stage
from paritygate.core.probes import Probes
from paritygate.core.tables import NoiseTable
from paritygate.core.tensors import CompareOn, Stats
from paritygate.golden.overlap import Overlap
from paritygate.judge import Judgement, RunFacts, SideFacts, StageFacts, judge
from paritygate.kernels.compiling import compiled_for
from paritygate.pipeline.calibration import describe_calibration
from paritygate.pipeline.collect import Collector
from paritygate.pipeline.consistency import check_consistency
from paritygate.pipeline.coverage import range_ends
from paritygate.pipeline.coverage_summary import describe_coverage
from paritygate.pipeline.drive import Driven, Sink, drive
from paritygate.pipeline.impute import describe_imputed, note_imputed
from paritygate.pipeline.notes import note_unused
from paritygate.pipeline.open_dims import describe_dims
from paritygate.pipeline.prepare import CallableRunner, Preparation, prepare_plan
from paritygate.pipeline.report import build_summary, describe_consistency
from paritygate.pipeline.sharing import most_threads
from paritygate.pipeline.span import BlockResult
from paritygate.pipeline.staying import describe_placing
from paritygate.pipeline.surroundings import (
    changed_files,
    in_background,
    look_around,
    recorded_files,
)
from paritygate.pipeline.target import target_findings
from paritygate.pipeline.threads import Threads, choose_threads
from paritygate.runfolder import PLAN_FILE, RunFolder, encode_summary, saved_plan
from paritygate.tally.coupling import Consistency
from paritygate.tally.noise import Noise
from paritygate.tally.stage import StageTally, Tally

if TYPE_CHECKING:
    from paritygate.pipeline.keeper import Keeper


class Options(Struct, frozen=True):
    """How to run, as against what to judge.

    Attributes:
        out: parent of the run folder; None: leave none.
        stage: only this stage.
        limit: only the first samples of the pack.
        stats: tier of the statistics, "gate" or "full".
        threads: threads that run and compare; None: as the plan says, or by cores and runners.
        cuts: samples of each block, one batch each; empty: blocks by the samples' size.
        callables: runner name -> function object that stands in for the plan's runner.
        observer: given the engine's events.
        keep_outputs: leave what every runner answers in the run folder.
        noise: measure the noise of the references, as the plan's `[noise]` says or as its defaults.
        compare_on: "cpu", "cuda" or "auto"; None: as the plan says, else "cpu".
    """

    out: Path | None = None
    stage: str | None = None
    limit: int | None = None
    stats: Stats = "full"
    threads: int | None = None
    cuts: tuple[int, ...] = ()
    callables: Mapping[str, CallableRunner] = field(default_factory=dict)
    observer: Observer = ignore
    keep_outputs: bool = False
    noise: bool = False
    compare_on: CompareOn | None = None


class Outcome(Struct, frozen=True):
    """A finished run: its judgement, its summary and its folder, if it left one."""

    judgement: Judgement
    summary: Mapping[str, Any]
    folder: Path | None
    tally: Tally


def execute(plan: Plan, options: Options) -> Outcome:
    """Run a plan.

    Raises:
        ParityError: the plan could not be judged; no folder is left but a `.partial` one where
            writing failed midway.
    """
    started = time.perf_counter()
    if options.out is not None:  # a model's code may change the current folder
        options = replace(options, out=options.out.absolute())
    if options.threads is not None and options.threads < 1:
        problem = Problem("threads", f"is {options.threads}; give at least 1, or leave it out")
        raise PlanError([problem], plan.source)
    if options.keep_outputs and options.out is None:
        problem = Problem("keep_outputs", "needs a run folder; say where by out")
        raise PlanError([problem], plan.source)
    ready = prepare_plan(
        plan,
        stage=options.stage,
        limit=options.limit,
        stats=options.stats,
        cuts=options.cuts,
        callables=options.callables,
        compare_on=options.compare_on or plan.table.compare_on or "cpu",
        threads=options.threads,
    )
    with ready.resources:
        folder = RunFolder(options.out, plan.name) if options.out is not None else None
        try:
            if folder is not None:
                options.observer(folder.made)
            outcome = run_prepared(ready, options, folder, started)
            if folder is not None:
                golden = [file.path for file in ready.prepared.pack.files]
                saved = saved_plan(ready.prepared.plan, golden)
                planned = {**outcome.summary["plan"], "file_sha256": sha256(saved).hexdigest()}
                summary = {**outcome.summary, "plan": planned}
                folder.write(PLAN_FILE, saved)
                folder.write("summary.json", encode_summary(summary))
                outcome = replace(outcome, summary=summary, folder=folder.finish())
        except BaseException:
            if folder is not None:
                folder.drop()
            raise
    options.observer(Finished(outcome.judgement.verdict.value))
    return outcome


def run_prepared(
    ready: Preparation,
    options: Options,
    folder: RunFolder | None,
    started: float,
) -> Outcome:
    """Run what stands ready and judge it; its shards go to a folder, which isn't finished here.

    Args:
        ready: plan, pack, runners and stages.
        options: how to run; `out` isn't looked at.
        folder: for shards; None: none are written.
        started: when the run began, by `time.perf_counter`.

    Raises:
        ParityError: it could not be judged.
    """
    prepared = ready.prepared
    compiled_s, _ = compiled_for()
    around = look_around(prepared.pack, prepared.runners.values())
    calibration = ready.calibration
    overlapping = in_background(calibration.run) if calibration is not None else None
    partial = folder.partial if folder is not None else None
    recorded = recorded_files(prepared.pack, prepared.runners.values())
    options.observer(Prepared(prepared.plan.name, prepared.samples, partial, recorded))
    startup_s = time.perf_counter() - started
    collector = Collector(prepared, folder)
    keeper = _keeper(ready, folder) if options.keep_outputs else None
    try:
        threads = choose_threads(prepared, options.threads).at_most(
            most_threads(prepared.runners, ready.blocks)
        )
        driven = _drive(ready, options, collector, keeper, threads)
        tally = driven.tally
        checking = time.perf_counter()
        consistency = check_consistency(ready, is_cut=bool(options.cuts))
        checked_s = time.perf_counter() - checking
        checking = time.perf_counter()
        noise = _measure_noise(ready, options)
        noise_s = time.perf_counter() - checking
        checking = time.perf_counter()
        probes = _run_probes(ready, options)
        probes_s = time.perf_counter() - checking
        digests = around.file_digests()
        overlap = overlapping.result() if overlapping is not None else None
        facts = _facts(ready, tally, consistency, overlap, noise)
        first = collector.first_rejected()
        facts = replace(
            facts,
            probes=probes,
            rejections=[(r.sample_id, str(r.violation)) for r in first],
            notes=[*facts.notes, *note_imputed(prepared.imputations, collector.imputed)],
        )
        outputs = keeper.finish(around, facts) if keeper is not None else None
    except BaseException:
        if keeper is not None:
            keeper.abort()
        raise
    judgement = judge(facts)
    shards = collector.write() if folder is not None else {}
    rejected = collector.write_rejected()
    timing = {
        "read_s": collector.seconds.read,
        "reference_s": _seconds(ready, collector, "reference"),
        "candidate_s": _seconds(ready, collector, "candidate"),
        "compare_s": collector.seconds.compare,
        "blocks_s": driven.blocks_s,
        "kernels_s": driven.kernels_s,
        "consistency_s": checked_s,
        **({"noise_s": noise_s} if noise.is_asked else {}),
        **({"probes_s": probes_s} if probes.is_asked else {}),
        "wall_s": time.perf_counter() - started,
        "startup_s": startup_s,
        "staging_s": _staging_seconds(ready),
        "compiling_s": compiled_for()[0] - compiled_s,
    }
    summary = build_summary(
        ready,
        tally,
        judgement,
        shards,
        digests,
        around.environment(),
        timing,
        threads.describe(),
        options.stats,
    )
    summary["comparison"] = describe_placing(ready.placing)
    if overlap is not None:
        summary["golden"]["calibration"] = describe_calibration(overlap)
    summary["dims"] = describe_dims(ready)
    summary["consistency"] = describe_consistency(ready, consistency)
    if prepared.only is None:
        summary["coverage"] = describe_coverage(facts)
    if prepared.imputations:
        summary["imputed"] = describe_imputed(prepared.imputations, collector.imputed)
    if rejected:
        summary["rejected"] = {**rejected, "allowed": prepared.plan.table.max_rejected}
    if outputs is not None:
        summary["outputs"] = outputs
    if noise.is_asked:
        _tell_noise(summary, ready, noise)
    if probes.is_asked:
        summary["probes"] = to_builtins(probes)
        del summary["probes"]["is_asked"]
    return Outcome(judgement, summary, None, tally)


# What few runs ask for is imported by those that do.


def _keeper(ready: Preparation, folder: RunFolder | None) -> Keeper | None:
    from paritygate.pipeline.keeper import Keeper

    return Keeper(ready, folder) if folder is not None else None


def _measure_noise(ready: Preparation, options: Options) -> Noise:
    table = ready.prepared.plan.table.noise
    if table is None and not options.noise:
        return Noise()
    from paritygate.pipeline.noise import measure_noise

    return measure_noise(ready, table or NoiseTable())


def _tell_noise(summary: dict[str, Any], ready: Preparation, noise: Noise) -> None:
    from paritygate.pipeline.noise_summary import add_noise, describe_noise

    references = {s.stage.name: s.stage.reference for s in ready.prepared.stages}
    summary["noise"] = describe_noise(noise, references, ready.prepared.pack.id_of)
    add_noise(summary["stages"], noise)


def _run_probes(ready: Preparation, options: Options) -> Probes:
    if ready.prepared.plan.table.probes is None:
        return Probes()
    from paritygate.pipeline.probes import run_probes

    return run_probes(ready, options.callables)


def _drive(
    ready: Preparation,
    options: Options,
    collector: Collector,
    keeper: Keeper | None,
    threads: Threads,
) -> Driven:
    prepared = ready.prepared
    if not prepared.stages or not ready.blocks:
        return Driven(Tally())
    sink: Sink = collector.take
    if keeper is not None:
        prepared = replace(prepared, witness=keeper.witness)
        sink = _both(keeper, collector)
    return drive(prepared, ready.blocks, threads, sink, collector.hints(), options.observer)


def _both(keeper: Keeper, collector: Collector) -> Sink:
    def take(result: BlockResult) -> dict[str, KeepHint]:
        keeper.take(result)
        return collector.take(result)

    return take


def _staging_seconds(ready: Preparation) -> float:
    """Seconds in which models were copied and digested, summed over runners; part of the start."""
    facts = (runner.facts.get("staging") for runner in ready.prepared.runners.values())
    return sum(float(found["seconds"]) for found in facts if isinstance(found, Mapping))


def _seconds(ready: Preparation, collector: Collector, side: str) -> float:
    """Seconds in the runners of one side; a runner on both sides counts as the candidate."""
    candidates = {s.candidate for s in ready.selected}
    names = (
        {s.reference for s in ready.selected} - candidates if side == "reference" else candidates
    )
    return sum(collector.seconds.run.get(name, 0.0) for name in names)


def _facts(
    ready: Preparation,
    tally: Tally,
    consistency: Consistency,
    overlap: Overlap | None,
    noise: Noise,
) -> RunFacts:
    prepared = ready.prepared
    names = {s.stage.name: s.names for s in prepared.stages}
    stages = [
        StageFacts(
            stage=stage,
            ref=_side(ready, stage.reference),
            cand=_side(ready, stage.candidate),
            tally=_stage_tally(ready, tally, stage),
            decision_names=names.get(stage.name, {}),
        )
        for stage in ready.selected
    ]
    return RunFacts(
        plan=prepared.plan,
        samples=prepared.pack.samples,
        asked=prepared.samples,
        stages=stages,
        locate=prepared.pack.id_of,
        changed=changed_files(ready),
        notes=list(note_unused(ready)),
        consistency=consistency,
        overlap=overlap,
        noise=noise,
        coverage=tally.coverage,
        all_synthetic=prepared.synthetic is not None and bool(prepared.synthetic.all()),
        ranges=range_ends(prepared.plan, prepared.pack.inputs),
    )


def _stage_tally(ready: Preparation, tally: Tally, stage: Stage) -> StageTally | None:
    if not ready.runs(stage):
        return None
    return tally.stages.get(stage.name, StageTally())


def _side(ready: Preparation, name: str) -> SideFacts:
    failure = ready.load_failures.get(name)
    if failure is not None:
        told = failure.code, str(failure)
        return SideFacts(name, load_failure=told, load_detail=failure.detail)
    runner = ready.prepared.runners.get(name)
    if runner is None:
        return SideFacts(name)
    beyond = target_findings(ready.prepared.plan, name, runner.facts)
    findings = (*runner.final_findings(), *beyond)
    return SideFacts(name, runner.source, findings, None, runner.facts)
