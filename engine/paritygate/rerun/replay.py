"""Replay: run failing samples again, alone or in their own batches, and compare then with now."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from paritygate.core.digest import sha256_file
from paritygate.core.errors import PlanError, ReplayError
from paritygate.core.events import Finished, Observer, ignore
from paritygate.core.plan import Plan, Stage
from paritygate.core.text import clean
from paritygate.pipeline.execute import Options, Outcome, run_prepared
from paritygate.pipeline.prepare import Preparation, prepare_plan
from paritygate.rerun.compare import Comparison
from paritygate.rerun.models import changed_models, changed_settings
from paritygate.rerun.plans import (
    is_recorded,
    plan_alone,
    plan_beside,
    refuse_callables,
    without_constants,
)
from paritygate.rerun.select import choose, rows_of
from paritygate.rerun.summary import conclude
from paritygate.runfolder import PLAN_FILE, RunFolder, encode_summary
from paritygate.runfolder.files import SampleId
from paritygate.runfolder.reading import FailedSample, FinishedRun

Chosen = Mapping[str, Sequence[FailedSample]]


class ReplayOptions(Struct, frozen=True):
    """How to replay.

    Attributes:
        ids: samples; empty: all that were kept whole.
        with_batch: in the batches that they were in, read from the golden pack.
        changed: run models whose files aren't the ones that ran.
        out: parent of the run folder.
        threads: threads that run and compare; None: by cores and runners.
        observer: given the engine's events.
    """

    ids: Sequence[SampleId] = ()
    with_batch: bool = False
    changed: bool = False
    out: Path = Path("runs")
    threads: int | None = None
    observer: Observer = ignore


class Parts(Struct):
    """What the runs of a replay gave: one of each stage, or one of all.

    Attributes:
        changed: sentences on models whose files aren't the ones that ran.
        notes: sentences on settings that aren't what they were.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    found: dict[tuple[str, SampleId], dict[str, Any]] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def replay(run: FinishedRun, options: ReplayOptions) -> Outcome:
    """Run failing samples of a run again and leave a run folder of its own.

    Returns:
        The outcome, at best `incomplete`; `summary["replay"]` says how each sample came out.

    Raises:
        ReplayError: an id that can't be replayed, a model or a golden pack that has changed.
        ParityError: it could not be judged.
    """
    started = time.perf_counter()
    chosen = choose(run, options.ids)
    stages = [s for s in run.plan.stages if s.name in chosen]
    refuse_callables(run.plan, stages)
    folder = RunFolder(options.out, f"{run.plan.name}-replay")
    try:
        options.observer(folder.made)
        if options.with_batch:
            parts = _with_batch(run, chosen, options, folder, started)
        else:
            parts = _alone(run, chosen, stages, options, folder, started)
        judgement, summary = conclude(run, parts, chosen, with_batch=options.with_batch)
        folder.write(PLAN_FILE, (run.folder / PLAN_FILE).read_bytes())
        folder.write("summary.json", encode_summary(summary))
        path = folder.finish()
    except BaseException:
        folder.drop()
        raise
    options.observer(Finished(judgement.verdict.value))
    return Outcome(judgement, summary, path, parts.outcomes[-1].tally)


def _alone(
    run: FinishedRun,
    chosen: Chosen,
    stages: Sequence[Stage],
    options: ReplayOptions,
    folder: RunFolder,
    started: float,
) -> Parts:
    """Each stage on its own samples, which lie in its shard."""
    parts = Parts()
    with tempfile.TemporaryDirectory(prefix="paritygate-replay-") as temporary:
        for stage in stages:
            plan = plan_alone(run, stage.name, chosen[stage.name], Path(temporary))
            with _prepared(plan) as ready:
                recorded = [n for n in (stage.reference, stage.candidate) if is_recorded(plan, n)]
                _check_models(run, ready, recorded, options, parts)
                _run(run, ready, chosen, options, folder, started, parts)
    return parts


def _with_batch(
    run: FinishedRun,
    chosen: Chosen,
    options: ReplayOptions,
    folder: RunFolder,
    started: float,
) -> Parts:
    """All stages as they ran, in the blocks that hold the samples."""
    if "replay" in run.summary:
        raise ReplayError(
            f"{run.folder}: is a replay itself, which doesn't know the batches; name the run that "
            f"it replayed: {clean(run.summary['replay'].get('of'))}"
        )
    _check_golden(run)
    parts = Parts()
    ran = [str(s["name"]) for s in run.stages]
    only = ran[0] if len(ran) == 1 else None
    asked = max(int(s["samples"]["expected"]) for s in run.stages)
    with _prepared(plan_beside(run), stage=only, limit=asked, rows=rows_of(chosen)) as ready:
        size = run.summary["golden"].get("block_samples")
        if ready.prepared.block_samples != size:
            raise ReplayError(
                f"{run.folder}: its samples were cut into blocks of {size}, and would be now into "
                f"blocks of {ready.prepared.block_samples}, so that batches would not be the same; "
                "replay without --with-batch, or run again"
            )
        _check_models(run, ready, (), options, parts)
        _run(run, ready, chosen, options, folder, started, parts)
    return parts


@contextmanager
def _prepared(plan: Plan, **how: Any) -> Iterator[Preparation]:
    """What stands ready; a constant that only another stage's runner takes is left out."""
    try:
        ready = prepare_plan(plan, **how)
    except PlanError as e:
        unused = [
            p.path.removeprefix("constants.")
            for p in e.problems
            if p.path.startswith("constants.") and "no runner takes" in p.message
        ]
        if len(unused) < len(e.problems):
            raise
        ready = prepare_plan(without_constants(plan, unused), **how)
    with ready.resources:
        for error in ready.load_failures.values():
            raise error
        yield ready


def _check_golden(run: FinishedRun) -> None:
    """Refuse a golden pack that isn't the one that was run: the neighbours would be others."""
    for file in run.summary["golden"]["files"]:
        path = Path(file["path"])
        try:
            digest = sha256_file(path)
        except OSError as e:
            raise ReplayError(
                f"{path}: can't be read ({e.strerror or e}); the batches are made of the golden "
                "samples of the run: restore it, or replay without --with-batch"
            ) from None
        if digest != file["sha256"]:
            raise ReplayError(
                f"{path}: has changed since the run, so that the batches would hold other samples; "
                "restore it, or replay without --with-batch"
            )


def _check_models(
    run: FinishedRun,
    ready: Preparation,
    recorded: Sequence[str],
    options: ReplayOptions,
    parts: Parts,
) -> None:
    live = {n: r for n, r in ready.prepared.runners.items() if n not in recorded}
    then = run.summary["runners"]
    changed = changed_models(then, live)
    if changed and not options.changed:
        raise ReplayError(
            f"{run.folder}: what would run now isn't what ran then: model "
            f"{'; model '.join(changed)} (digests); restore it, or say --changed to run what is "
            "there"
        )
    parts.changed += [told for told in changed if told not in parts.changed]
    notes = changed_settings(then, live)
    parts.notes += [note for note in notes if note not in parts.notes]


def _run(
    run: FinishedRun,
    ready: Preparation,
    chosen: Chosen,
    options: ReplayOptions,
    folder: RunFolder,
    started: float,
    parts: Parts,
) -> None:
    stages = [s for s in ready.selected if s.name in chosen]
    here = {s.name: chosen[s.name] for s in stages}
    comparison = Comparison(run, stages, here)
    ready = replace(ready, prepared=replace(ready.prepared, witness=comparison.witness))
    how = Options(threads=options.threads, observer=options.observer)
    parts.outcomes.append(run_prepared(ready, how, folder, started))
    parts.found.update(comparison.found)
