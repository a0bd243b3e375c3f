"""Batches of one block that several threads run: who has no block left helps those that have."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from paritygate.comparison.rows import Side
from paritygate.core.errors import RunnerError
from paritygate.core.tensors import Array, Batch, Block
from paritygate.pipeline.batches import Batches
from paritygate.pipeline.gather import Gather
from paritygate.runners.base import Filler, Lease, Runner, RunnerSession
from paritygate.runners.failures import SampleFailure
from paritygate.runners.recorded import RecordedRunner

Fill = Callable[[range], int]
Failures = Iterable[tuple[Sequence[int], SampleFailure]]

_POLL_S = 0.1
_CLAIMED_PART = 4  # of what is left
_CLAIM_S = 0.03
_MOST_CLAIMED = 64


def shares_batches(runner: Runner) -> bool:
    """Whether several threads may run batches of one block, each in a session of its own.

    Not where another process is sent the next batch ahead, nor where answers may stay on a GPU, in
    the order in which they came.
    """
    may = runner.limits.thread_safe and not (runner.runs_elsewhere or runner.can_stay)
    return may and bool(runner.limits.batch_sizes) and not isinstance(runner, RecordedRunner)


def most_threads(runners: Mapping[str, Runner], blocks: Sequence[Block]) -> int:
    """Threads that can be at work at once: one a block, or one a batch where these are shared."""
    sizes = [max(r.limits.batch_sizes or (1,)) for r in runners.values() if shares_batches(r)]
    if not sizes:
        return len(blocks)
    return sum(-(-block.samples // min(sizes)) for block in blocks)


class Pace:
    """How many batches are claimed at once: what takes some time, so that progress is seen.

    Attributes:
        batches: to claim.
    """

    def __init__(self) -> None:
        self.batches = 1

    def took(self, batches: int, seconds: float) -> None:
        """Say how long so many batches took."""
        if not batches:
            return
        wanted = round(_CLAIM_S * batches / max(seconds, 1e-9))
        self.batches = max(1, min(_MOST_CLAIMED, 2 * self.batches, wanted))


class SharedBatches:
    """A runner's batches over a block, each run by whoever claims it.

    The block's own thread claims from the front, helpers from the back.

    Args:
        runner: who is asked.
        batches: all of them, in pack order.
        gather: where the answers go.
        is_whole: the block is one batch.
    """

    def __init__(self, runner: Runner, batches: Batches, gather: Gather, *, is_whole: bool) -> None:
        self.runner = runner
        self.batches = batches
        self.helped_s = 0.0
        self._gather = gather
        self._is_whole = is_whole
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._first, self._end = 0, len(batches)
        self._away = 0
        self._kept: set[int] = set()
        self._error: BaseException | None = None

    @property
    def left(self) -> int:
        """Batches that nobody has claimed yet."""
        return self._end - self._first

    def claim(self, most: int = 1, *, is_helped: bool = True) -> range:
        """Numbers of the next batches for the block's own thread; none: all are claimed.

        Args:
            most: at once.
            is_helped: others may come, so that where few are left they are fewer.
        """
        with self._lock:
            first, left = self._first, self.left
            fair = max(1, left // _CLAIMED_PART) if is_helped else left
            self._first += min(left, most, fair)
            return range(first, self._first)

    def claim_last(self) -> int | None:
        """Number of the last batch that is left, for a helper, who must `help` with it."""
        with self._lock:
            if self._first == self._end:
                return None
            self._gather.scatter()
            self._end -= 1
            self._away += 1
            return self._end

    def keep(self, number: int, lease: Lease | None, failures: Failures) -> bool:
        """Keep what a batch was answered; whether the lease must last as long as the block."""
        at, valid = number * self.batches.rows, self.batches.valid(number)
        is_kept = False
        with self._lock:
            if lease is not None:
                is_kept = self._gather.take(at, valid, lease, is_whole=self._is_whole)
            for rows, failure in failures:
                self._gather.fail([at + row for row in rows], failure.text, failure.rule)
            self._kept.add(number)
        if lease is not None and not is_kept:
            lease.release()
        return is_kept

    def filled_by(self, session: RunnerSession, stop: threading.Event) -> Fill | None:
        """What answers claimed batches without a copy between; None where this session can't.

        Given their numbers it says how many have an answer; the next one is a tail, or it raised.
        """
        filler = session.filler(self.batches.inputs, self.batches.rows)
        if filler is None:
            return None
        with self._lock:
            room = self._gather.room(filler.answers)
        return None if room is None else partial(self._fill, filler, room, stop)

    def _fill(
        self, filler: Filler, room: Mapping[str, Array], stop: threading.Event, numbers: range
    ) -> int:
        start, done = numbers.start, 0
        whole = min(numbers.stop, self.batches.whole) - start
        if whole > 0:
            done = filler.fill(room, start * self.batches.rows, whole, stop.is_set)
        if not done:
            return 0
        with self._lock:
            if not self._gather.filled(room):  # another thread's answer needed others
                return 0
            self._kept.update(numbers[:done])
        return done

    def help(self, number: int, ask: Callable[[Batch], tuple[Lease | None, Failures]]) -> None:
        """Run a claimed batch; what is raised reaches the block's own thread."""
        started = time.perf_counter()
        error = None
        try:
            self.keep(number, *ask(self.batches[number]))
        except BaseException as e:  # handed to the block's own thread, which raises it
            error = e
        with self._changed:
            self._away -= 1
            self._error = self._error or error
            self.helped_s += time.perf_counter() - started
            self._changed.notify()

    def side(self, batch_size: int, stop: threading.Event) -> Side:
        """All answers, once helpers are done; asked when nothing is left.

        Raises:
            RunnerError: it was stopped.
            BaseException: what a helper met with.
        """
        with self._changed:
            while self._away and not stop.is_set():
                self._changed.wait(_POLL_S)
            if self._error is not None:
                raise self._error
            if self._away:
                raise RunnerError("stopped")
            if len(self._kept) != len(self.batches):
                raise RuntimeError(f"{len(self._kept)} of {len(self.batches)} batches were run")
            return self._gather.side(batch_size)


class Sharing:
    """Blocks that are running, where threads without one find batches to run.

    Args:
        blocks: that are to be done in all.
        stop: ends all waiting.
        threads: that share them.
    """

    def __init__(self, blocks: int, stop: threading.Event, threads: int = 2) -> None:
        self._left = self._unbegun = blocks
        self._threads = threads
        self._stop = stop
        self._changed = threading.Condition()
        self._offered: list[SharedBatches] = []

    def begin(self) -> None:
        """Say that a thread has a block."""
        with self._changed:
            self._unbegun -= 1

    @property
    def may_help(self) -> bool:
        """Whether some thread is without a block, or soon will be."""
        return self._threads > 1 and not self._unbegun

    def offer(self, work: SharedBatches) -> None:
        """Let others help with these."""
        with self._changed:
            self._offered.append(work)
            self._changed.notify_all()

    def withdraw(self, work: SharedBatches) -> None:
        """All of these are claimed, or given up."""
        with self._changed:
            if work in self._offered:
                self._offered.remove(work)

    def finish(self) -> None:
        """Say that a block is done."""
        with self._changed:
            self._left -= 1
            if not self._left:
                self._changed.notify_all()

    def claim(self) -> tuple[SharedBatches, int] | None:
        """A batch to help with, waited for; None: all blocks are done, or nobody wants them."""
        with self._changed:
            while self._left and not self._stop.is_set():
                for work in sorted(self._offered, key=lambda w: w.left, reverse=True):
                    number = work.claim_last()
                    if number is not None:
                        return work, number
                self._changed.wait(_POLL_S)
        return None
