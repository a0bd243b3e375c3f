"""`record`: what one runner answers to the golden samples, as a pack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paritygate.api.plans import PathLike, load_plan
from paritygate.core.errors import PlanError, Problem
from paritygate.core.events import Observer, ignore
from paritygate.core.forms import NAME
from paritygate.core.plan import Plan
from paritygate.pipeline.record import RecordOptions, RecordResult
from paritygate.pipeline.record import record as record_runner


def record(
    plan: Plan | PathLike | Mapping[str, Any],
    runner: str,
    *,
    out: PathLike | None = None,
    limit: int | None = None,
    threads: int | None = None,
    observer: Observer | None = None,
) -> RecordResult:
    """Run one runner over the golden samples and write what it answers, as a pack.

    The file holds the sample ids and the outputs as `out.*`, in pack order, and says in its
    metadata what answered, to which golden pack, where and when. Where samples are rejected, a run
    of the plan may put others together in a batch: for a model whose answers depend on the batch,
    let that run keep them (`run`, `keep_outputs`).

    Args:
        plan: a plan, its TOML file, or its dict.
        runner: name of one of its runners.
        out: the file to write, which must not be there; None: `RUNNER.arrow` in this folder.
        limit: only the first samples of the pack; at best `incomplete`.
        threads: threads that run; None chooses by cores and the runner.
        observer: given the engine's events.

    Returns:
        A result that is on hold where the recording lacks samples, since they were rejected or the
        runner raised, or where the runner isn't what was asked for.

    Raises:
        ParityError: it could not be recorded; nothing is left.
    """
    loaded = plan if isinstance(plan, Plan) else load_plan(plan)
    if out is None and runner in loaded.runners and not NAME.fullmatch(runner):
        message = f"runner {runner!r} can't name a file; say which one to write"
        raise PlanError([Problem("out", message)], loaded.source)
    options = RecordOptions(
        out=Path(out) if out is not None else Path(f"{runner}.arrow"),
        limit=limit,
        threads=threads,
        observer=observer or ignore,
    )
    return record_runner(loaded, runner, options)
