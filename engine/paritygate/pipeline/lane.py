"""Run blocks: run every distinct runner once, compare every stage.

`run_span` is the one function that threads, worker processes, a resumed run and a cluster call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from paritygate.comparison.rows import KeepHint, SampleRows, Side, all_of, none_of
from paritygate.core.errors import GoldenError, RunnerError
from paritygate.core.ragged import take_rows
from paritygate.core.tensors import Array, Block
from paritygate.pipeline.batches import Batches, Cut, ask
from paritygate.pipeline.beside import Beside
from paritygate.pipeline.coverage import cover_block
from paritygate.pipeline.gather import Gather
from paritygate.pipeline.sharing import Fill, Pace, SharedBatches, Sharing, shares_batches
from paritygate.pipeline.span import BlockInput, BlockResult, Hints, Prepared, read_block
from paritygate.pipeline.turns import Turns
from paritygate.runners.base import Runner, RunnerSession
from paritygate.runners.recorded import RecordedRunner
from paritygate.tally.coverage import CoverageTally
from paritygate.tally.stage import Hits, Tally


def run_span(prepared: Prepared, blocks: Sequence[Block], limit: int = 0) -> Tally:
    """Run blocks one after another in this thread.

    Args:
        prepared: plan, pack, runners and stages.
        blocks: any blocks of the pack, in any order.
        limit: failing samples of a block to keep whole; their rows are not returned here.

    Returns:
        The merged statistics; the same bits for any split of the blocks.
    """
    hints = Hints({s.stage.name: KeepHint(limit) for s in prepared.stages})
    tally = Tally()
    with Lane(prepared, Shared()) as lane:
        for block in blocks:
            tally = tally.merge(lane.run_block(read_block(prepared, block), hints).tally())
    return tally


class Shared:
    """Sessions of runners that allow one session only, with a lock each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, tuple[RunnerSession, threading.Lock]] = {}

    def session(self, runner: Runner) -> tuple[RunnerSession, threading.Lock]:
        """The one session of a runner, made at first use."""
        with self._lock:
            if runner.name not in self._sessions:
                self._sessions[runner.name] = (runner.session(), threading.Lock())
            return self._sessions[runner.name]

    def close(self) -> None:
        """Close all sessions."""
        for session, _ in self._sessions.values():
            session.close()
        self._sessions = {}


class Lane:
    """What one thread owns: sessions and block buffers."""

    def __init__(
        self,
        prepared: Prepared,
        shared: Shared,
        stop: threading.Event | None = None,
        turns: Turns | None = None,
        sharing: Sharing | None = None,
    ) -> None:
        self._prepared = prepared
        self._turns = turns
        self._sharing = sharing
        self._shared = shared
        self._stop = stop or threading.Event()
        self._own: dict[str, RunnerSession] = {}
        self._answered = 0
        self._counting = threading.Lock()  # runners that run elsewhere are asked beside this thread
        self._beside: dict[str, Beside[tuple[Side, float]]] = {}
        self._buffers: dict[tuple[str, str], Array] = {}
        self._paces: dict[str, Pace] = {}
        dim = prepared.plan.table.dims.batch
        self._cuts = {name: Cut.of(runner, dim) for name, runner in prepared.runners.items()}

    def __enter__(self) -> Lane:
        """Use it in a with statement, so that its sessions are closed."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close this thread's sessions."""
        for beside in self._beside.values():
            beside.close()
        self._beside = {}
        for session in self._own.values():
            session.close()
        self._own = {}

    @property
    def answered(self) -> float:
        """Samples that were answered here, as far as each runner counts for its part of one."""
        return self._answered / max(1, len(self._prepared.runners))

    def run_block(self, read: BlockInput, hints: Hints) -> BlockResult:
        """Run every runner once over a block and compare every stage."""
        with ExitStack() as leases:
            sides, seconds = self._ask_all(read, leases)
            started = time.perf_counter()
            samples = read.samples
            if self._prepared.only is not None:
                samples, sides = _narrow(samples, sides, self._prepared.only)
            stages = {
                s.stage.name: s.compare(
                    samples,
                    sides[s.stage.reference],
                    sides[s.stage.candidate],
                    hints.by_stage[s.stage.name],
                )
                for s in self._prepared.stages
            }
            if self._prepared.witness is not None:
                self._prepared.witness(samples, sides, stages)
            covered = self._cover(read)
            compare_s = time.perf_counter() - started
        return BlockResult(
            read.block,
            stages,
            read.rejected,
            read.read_s,
            seconds,
            compare_s,
            covered,
            read.imputed,
        )

    def help(self) -> bool:
        """Run a batch of another thread's block, once there is one; False: there won't be any."""
        claimed = self._sharing.claim() if self._sharing is not None else None
        if claimed is None:
            return False
        work, number = claimed
        work.help(number, lambda batch: ask(self._session(work.runner), batch))
        self._count(work.batches.valid(number))
        return True

    def _cover(self, read: BlockInput) -> CoverageTally:
        if self._prepared.only is not None:
            return CoverageTally()
        return cover_block(self._prepared, read, self._cuts)

    def _ask_all(
        self, read: BlockInput, leases: ExitStack
    ) -> tuple[dict[str, Side], dict[str, float]]:
        """Every runner's answers, and seconds; those that run elsewhere are asked at once."""
        runners = self._prepared.runners
        elsewhere = [name for name, runner in runners.items() if runner.runs_elsewhere]
        beside = elsewhere[: len(runners) - 1]  # this thread asks one itself
        for name in beside:
            if name not in self._beside:
                self._beside[name] = Beside(f"paritygate-ask-{name}")
            self._beside[name].start(partial(self._timed, runners[name], read, leases))
        try:
            own = {name: runner for name, runner in runners.items() if name not in beside}
            found = self._ask_own(own, read, leases)
        finally:
            ended = {name: self._beside[name].ended() for name in beside}
        found |= {name: outcome.value() for name, outcome in ended.items()}
        sides = {name: found[name][0] for name in runners}
        return sides, {name: found[name][1] for name in runners}

    def _ask_own(
        self, runners: Mapping[str, Runner], read: BlockInput, leases: ExitStack
    ) -> dict[str, tuple[Side, float]]:
        """Answers, and seconds, of what this thread asks itself.

        Other blocks wait for the first answer of each runner: they are asked for those before all
        others.
        """
        new = {
            name: _Begun(self._batches(runner, read, leases))
            for name, runner in runners.items()
            if self._turns is not None and runner.observed is None and runner.limits.thread_safe
        }
        if len(new) < len(runners):
            new = {}
        for begun in new.values():
            begun.go_on()
        return {
            name: new[name].ended() if name in new else self._timed(runner, read, leases)
            for name, runner in runners.items()
        }

    def _timed(self, runner: Runner, read: BlockInput, leases: ExitStack) -> tuple[Side, float]:
        return _Begun(self._batches(runner, read, leases)).ended()

    def _batches(
        self, runner: Runner, read: BlockInput, leases: ExitStack
    ) -> Generator[None, None, _Answered]:
        """Run a runner over a block, with a halt after each batch but the last."""
        if not read.samples.count:
            return _Answered(Side({}, none_of(0), none_of(0)))
        if isinstance(read.samples.rows, range) and isinstance(runner, RecordedRunner):
            with suppress(GoldenError):  # asked batch by batch, it is told with its samples
                return _Answered(self._read_run(runner, read.samples.rows, leases))
        if self._turns is not None:
            self._turns.wait(runner, read.block)
        if runner.limits.thread_safe:
            return (yield from self._run_batches(runner, self._session(runner), read, leases))
        session, lock = self._shared.session(runner)
        session.heed(self._stop)
        with lock:
            return (yield from self._run_batches(runner, session, read, leases))

    def _count(self, samples: int) -> None:
        with self._counting:
            self._answered += samples

    @property
    def _may_be_helped(self) -> bool:
        return self._sharing is not None and self._sharing.may_help

    def _session(self, runner: Runner) -> RunnerSession:
        """This thread's own session of a runner, made at first use."""
        if runner.name not in self._own:
            self._own[runner.name] = runner.session()
            self._own[runner.name].heed(self._stop)
        return self._own[runner.name]

    def _read_run(self, runner: RecordedRunner, rows: range, leases: ExitStack) -> Side:
        lease = runner.answer_run(rows.start, rows.stop, partial(self.buffer, runner.name))
        leases.callback(lease.release)
        return Side(lease.outputs, all_of(len(rows)), none_of(len(rows)))

    def _run_batches(
        self, runner: Runner, session: RunnerSession, read: BlockInput, leases: ExitStack
    ) -> Generator[None, None, _Answered]:
        cut = self._cuts[runner.name]
        is_whole = cut.size is None or cut.size >= read.samples.count
        gather = Gather(read.samples, partial(self.buffer, runner.name))
        batches = cut.batches(read.block, read.samples, read.inputs)
        work = SharedBatches(runner, batches, gather, is_whole=is_whole)
        sharing = self._sharing if shares_batches(runner) else None
        fill = work.filled_by(session, self._stop)
        pace = self._paces.setdefault(runner.name, Pace())
        following = None
        try:
            while numbers := work.claim(pace.batches if fill else 1, is_helped=self._may_be_helped):
                if sharing is not None and work.left and runner.observed is not None:
                    sharing.offer(work)  # all answers must look like the first one
                    sharing = None
                while numbers:
                    if fill is not None:
                        numbers = self._filled(fill, numbers, batches, pace)
                    if not numbers:
                        break
                    if self._stop.is_set():
                        raise RunnerError("stopped")
                    number, numbers = numbers[0], numbers[1:]
                    is_made = following is not None and following.number == number
                    batch = following if following and is_made else batches[number]
                    following = batches[number + 1] if number + 1 < len(batches) else None
                    lease, failures = ask(session, batch, following)
                    if work.keep(number, lease, failures) and lease is not None:
                        leases.callback(lease.release)
                    self._count(batch.valid)
                    fill = work.filled_by(session, self._stop)
                    if following is not None:
                        yield
            side = work.side(cut.size or 0, self._stop)
        finally:
            if self._sharing is not None:
                self._sharing.withdraw(work)
        return _Answered(side, work.helped_s)

    def _filled(self, fill: Fill, numbers: range, batches: Batches, pace: Pace) -> range:
        """Let batches be filled; those that are left."""
        started = time.perf_counter()
        filled = fill(numbers)
        pace.took(filled, time.perf_counter() - started)
        self._count(batches.samples(numbers[:filled]))
        return numbers[filled:]

    def buffer(self, runner: str, output: str, rows: int, like: Array) -> Array:
        """This thread's buffer of at least `rows` rows for an output; anew for another shape."""
        key = (runner, output)
        held = self._buffers.get(key)
        is_alike = held is not None and (held.dtype, held.shape[1:]) == (like.dtype, like.shape[1:])
        if held is None or not is_alike or len(held) < rows:
            held = self._buffers[key] = np.empty((rows, *like.shape[1:]), like.dtype)
        return held


class _Answered(NamedTuple):
    """What a runner answered, and seconds of others who helped."""

    side: Side
    helped_s: float = 0.0


class _Begun:
    """A runner's way through a block, which may halt after a batch; and the seconds it took."""

    def __init__(self, batches: Generator[None, None, _Answered]) -> None:
        self._batches = batches
        self._seconds = 0.0
        self._side: Side | None = None

    def go_on(self) -> None:
        """One batch more."""
        started = time.perf_counter()
        try:
            next(self._batches)
        except StopIteration as end:
            self._side, helped_s = end.value
            self._seconds += helped_s
        self._seconds += time.perf_counter() - started

    def ended(self) -> tuple[Side, float]:
        """All answers, once there are no more batches."""
        while self._side is None:
            self.go_on()
        return self._side, self._seconds


def _narrow(
    samples: SampleRows, sides: Mapping[str, Side], only: frozenset[int]
) -> tuple[SampleRows, dict[str, Side]]:
    """The samples of these rows; what can't be told of them is which batch they were in."""
    at = np.flatnonzero([row in only for row in samples.ordinals.tolist()])
    chosen = replace(
        samples,
        rows=samples.ordinals[at],
        named=samples.ids[at],
        labels={name: values[at] for name, values in samples.labels.items()},
        slices={name: (values, codes[at]) for name, (values, codes) in samples.slices.items()},
        rejected=Hits(),
        as_expected=0,
        not_rejected=Hits(),
    )
    return chosen, {
        name: replace(
            side,
            outputs={output: take_rows(t, at) for output, t in side.outputs.items()},
            answered=side.answered[at],
            missing=side.missing[at],
            failures=[
                replace(failure, rows=np.flatnonzero(np.isin(at, failure.rows)))
                for failure in side.failures
            ],
            batch_size=0,
        )
        for name, side in sides.items()
    }
