"""References against themselves: again, at another batch size, in another place, by other threads.

A part of the pack is run again. What was answered is compared as a stage compares its two sides, by
the stage's own tolerances and decisions, so that the noise and what is allowed have one measure.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from paritygate.comparison.rows import Ints, KeepHint, Side
from paritygate.comparison.stage import StageComparer
from paritygate.core.plan import Plan, Stage
from paritygate.core.policy import Tolerance
from paritygate.core.ragged import as_tensor
from paritygate.core.tables import NoiseTable
from paritygate.pipeline.prepare import Preparation, prepare_context
from paritygate.pipeline.span import Prepared
from paritygate.pipeline.windows import ANY_SIZE, Tried, Window, rows_of, try_answers, windows
from paritygate.runners.base import Runner, RunnerSession
from paritygate.runners.registry import prepare_all
from paritygate.tally.noise import CAUSES, Cause, Noise, ReferenceNoise, Varied
from paritygate.tally.stage import StageTally

_COMPUTE_NOTHING = ("recorded", "null")
_THREADS = "intra_op_num_threads"
_MOST_THREADS = 8
_BY_BATCH = ("batch_size", "position")


def measure_noise(ready: Preparation, table: NoiseTable | None) -> Noise:
    """Run a part of the pack again and compare each reference with itself.

    Args:
        ready: what stands ready; the run itself is over.
        table: what is varied, over how many samples; None: nobody asks for it.
    """
    if table is None:
        return Noise()
    prepared = ready.prepared
    with ExitStack() as stack:
        names = dict.fromkeys(comparer.stage.reference for comparer in prepared.stages)
        found = {name: _Reference.of(ready, name, table, stack) for name in names}
        live = [reference for reference in found.values() if reference.variations]
        if live and ready.blocks:
            length = max(reference.longest for reference in live)
            for window in windows(prepared, ready.blocks, length, table.samples):
                for reference in live:
                    reference.run(window)
    return Noise(True, {name: reference.result() for name, reference in found.items()})


class _Variation(Struct):
    """One changed circumstance: whose session answers, at which batch size, in which order."""

    cause: Cause
    at: int | None
    was: int | None
    runner: Runner
    session: RunnerSession
    size: int | None = None
    is_reversed: bool = False
    tallies: dict[str, StageTally] = field(default_factory=dict)
    error: str = ""
    is_varied: bool = False

    def varies(self, prepared: Prepared, window: Window) -> bool:
        """Whether the window is run in another way than in the run."""
        if self.cause not in _BY_BATCH:
            return True
        before = rows_of(prepared, self.runner, window)
        if self.is_reversed:
            return any(valid > 1 for valid, _ in before)
        return before != rows_of(prepared, self.runner, window, self.size)

    def answers(
        self, prepared: Prepared, window: Window, rows: int, excused: frozenset[int]
    ) -> Tried:
        """The window's answers, by their places in it.

        Args:
            prepared: the plan.
            window: the samples.
            rows: of a batch in the run.
            excused: places of the samples that have no answer in batches as in the run.
        """
        if not self.is_reversed:
            args = prepared, self.runner, self.session, window, self.size, excused
            return try_answers(*args)
        order = _reversed(window.samples.count, rows)
        place = order.tolist()  # there and back: it undoes itself
        moved = frozenset(place[at] for at in excused)
        turned = window.in_order(order)
        made = try_answers(prepared, self.runner, self.session, turned, None, moved)
        answers = {
            name: {place[at]: array for at, array in arrays.items()}
            for name, arrays in made.answers.items()
        }
        return Tried(answers, frozenset(place[at] for at in made.without), made.error)


def _reversed(count: int, rows: int) -> Ints:
    """Every batch from its last sample to its first; it undoes itself."""
    batches = [np.arange(start, min(start + rows, count)) for start in range(0, count, rows)]
    return np.concatenate([batch[::-1] for batch in batches])


class _Reference(Struct):
    """One reference: what is varied, the stages that judge it, and what was measured so far."""

    prepared: Prepared
    runner: Runner
    session: RunnerSession | None
    comparers: Sequence[StageComparer]
    variations: Sequence[_Variation]
    why_not: Mapping[str, str]
    samples: int = 0
    left_out: int = 0
    error: str = ""

    @staticmethod
    def of(ready: Preparation, name: str, table: NoiseTable, stack: ExitStack) -> _Reference:
        prepared = ready.prepared
        runner = prepared.runners[name]
        if runner.kind in _COMPUTE_NOTHING:
            told = f"{name} computes nothing ({runner.kind})"
            return _Reference(prepared, runner, None, (), (), dict.fromkeys(table.vary, told))
        stages = [c.stage for c in prepared.stages if c.stage.reference == name]
        session = _opened(runner, stack)
        why_not: dict[str, str] = {}
        variations: list[_Variation] = []
        for cause in CAUSES:
            if cause not in table.vary:
                why_not[cause] = "[noise] vary leaves it out"
                continue
            made = _vary(ready, runner, session, cause, table, stack)
            if isinstance(made, str):
                why_not[cause] = made
            else:
                variations += made
        comparers = [_comparer(prepared.plan, stage) for stage in stages]
        return _Reference(prepared, runner, session, comparers, variations, why_not)

    @property
    def longest(self) -> int:
        """Samples of a window that fills a batch of every size."""
        return max(_rows(self.runner), *(v.size or 1 for v in self.variations))

    def run(self, window: Window) -> None:
        """Run one window in all circumstances."""
        if self.session is None:
            return
        base = try_answers(self.prepared, self.runner, self.session, window)
        self.error = self.error or base.error
        self.left_out += len(base.without)
        self.samples += window.samples.count - len(base.without)
        for variation in self.variations:
            if variation.error or not variation.varies(self.prepared, window):
                continue
            other = variation.answers(self.prepared, window, _rows(self.runner), base.without)
            variation.error = other.error
            lacks = base.without | other.without
            both = [at for at in range(window.samples.count) if at not in lacks]
            variation.is_varied |= bool(other.error or both)
            if other.error or not both:
                continue
            for comparer in self.comparers:
                name = comparer.stage.name
                sides = _side(base, both), _side(other, both)
                tally = comparer.compare(window.only(both), *sides, KeepHint(0)).tally
                held = variation.tallies.get(name, StageTally())
                variation.tallies[name] = held.merge(tally)

    def result(self) -> ReferenceNoise:
        """What was measured."""
        did = [v for v in self.variations if v.is_varied]
        varied = [Varied(v.cause, v.at, v.was, v.tallies, v.error) for v in did]
        idle = {v.cause for v in self.variations} - {v.cause for v in did}
        why_not = dict(self.why_not)
        for cause in () if self.error else sorted(idle):
            why_not[cause] = "there are too few samples for other batches"
        counts = self.samples, tuple(varied), why_not, self.error, self.left_out
        return ReferenceNoise(*counts)


def _vary(
    ready: Preparation,
    runner: Runner,
    session: RunnerSession,
    cause: Cause,
    table: NoiseTable,
    stack: ExitStack,
) -> list[_Variation] | str:
    """The variations of a cause, or why there is none."""
    prepared = ready.prepared
    size = max(runner.limits.batch_sizes) if runner.limits.batch_sizes else None
    if cause == "repetition":
        times = range(2, table.repeat + 1)
        return [_Variation(cause, n, 1, runner, session) for n in times]
    if cause == "position":
        if size == 1:
            return "a batch is one sample"
        return [_Variation(cause, None, None, runner, session, is_reversed=True)]
    if cause == "batch_size":
        sizes = _other_sizes(prepared, runner, size)
        if isinstance(sizes, str):
            return sizes
        return [_Variation(cause, n, size, runner, session, n) for n in sizes]
    return _other_threads(ready, runner, stack)


def _other_sizes(prepared: Prepared, runner: Runner, size: int | None) -> list[int] | str:
    """Other batch sizes: those that the plan approves, or one sample at a time."""
    dim = prepared.plan.table.dims.batch
    if size == 1 and (dim is None or not dim.besides(1)):
        return "a batch is one sample"
    if runner.limits.is_fixed or (dim is not None and size is not None and not dim.approves(size)):
        return f"it takes batches of {size} only"
    if dim is None or size is None:
        return [1]
    return dim.besides(size) or f"{size} is the only approved size"


def _other_threads(ready: Preparation, runner: Runner, stack: ExitStack) -> list[_Variation] | str:
    """The same runner with another number of threads of its own."""
    prepared = ready.prepared
    spec = prepared.plan.runners[runner.name]
    if _THREADS not in type(spec.options).model_fields:
        return f"a runner of kind {runner.kind} has no setting for it"
    was = getattr(spec.options, _THREADS) or _cores()
    at = 1 if was != 1 else max(2, min(_MOST_THREADS, _cores()))
    other = replace(spec, options=spec.options.model_copy(update={_THREADS: at}))
    made, failed = prepare_all([other], prepare_context(prepared.plan, prepared.pack))
    if failed:
        return f"with {at} threads it doesn't load: {failed[0]}"
    stack.callback(made[runner.name].close)
    session = _opened(made[runner.name], stack)
    return [_Variation("threads", at, was, made[runner.name], session)]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _opened(runner: Runner, stack: ExitStack) -> RunnerSession:
    session = runner.session()
    stack.callback(session.close)
    return session


def _rows(runner: Runner) -> int:
    """Samples of a batch in the run."""
    return max(runner.limits.batch_sizes) if runner.limits.batch_sizes else ANY_SIZE


def _comparer(plan: Plan, stage: Stage) -> StageComparer:
    """A stage whose both sides are its reference: what is NaN twice is the same here."""
    itself = replace(
        stage,
        tolerances={name: _of_itself(t) for name, t in stage.tolerances.items()},
        default=None if stage.default is None else _of_itself(stage.default),
        candidate=stage.reference,
        is_self=True,
    )
    rules = [
        replace(
            rule,
            labels=rule.labels or rule.ref_labels,
            ref_labels=None,
            cand_labels=None,
            label_column=None,
        )
        for rule in plan.decisions
    ]
    return StageComparer(replace(plan, decisions=tuple(rules)), itself, "gate")


def _of_itself(tolerance: Tolerance) -> Tolerance:
    return replace(tolerance, nonfinite="match", candidate_dtype=None)


def _side(tried: Tried, places: Sequence[int]) -> Side:
    """The answers of samples that all have one."""
    everyone, nobody = np.ones(len(places), np.bool_), np.zeros(len(places), np.bool_)
    outputs = {
        name: as_tensor([arrays[at] for at in places]) for name, arrays in tried.answers.items()
    }
    return Side(outputs, everyone, nobody)
