"""Drive spans with threads: one reads ahead, several run and compare, the caller collects.

Where all is recorded nobody reads ahead: each thread reads its own blocks, handing nothing over.

Queues are bounded and the caller only waits on one, so that an interrupt is served at once.
Results are handed on in block order, whatever order they finish in.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from paritygate.comparison.ahead import second_process
from paritygate.comparison.rows import KeepHint
from paritygate.core.errors import Interrupted
from paritygate.core.events import Compiling, Observer, Progress
from paritygate.core.tensors import Block
from paritygate.kernels.compiling import compiled_for, until
from paritygate.pipeline.lane import Lane, Shared
from paritygate.pipeline.letting_go import LettingGo
from paritygate.pipeline.results import Results
from paritygate.pipeline.sharing import Sharing
from paritygate.pipeline.span import BlockInput, BlockResult, Hints, Prepared, read_block
from paritygate.pipeline.threads import Slots, Threads, Tuner, spare_cores
from paritygate.pipeline.turns import Turns
from paritygate.tally.stage import Tally

PROGRESS_EVERY_S = 0.1
WAKE_EVERY_S = 0.1
COMPILING_AFTER_S = 1.0
MERGED_AT_ONCE = 32

Sink = Callable[[BlockResult], dict[str, KeepHint]]


class Driven(NamedTuple):
    """All blocks, run and compared.

    Attributes:
        tally: their statistics.
        kernels_s: seconds in which kernels were loaded, or compiled, before the first of them.
        blocks_s: wall time of the blocks themselves, reading included.
    """

    tally: Tally
    kernels_s: float = 0.0
    blocks_s: float = 0.0


def drive(
    prepared: Prepared,
    blocks: Sequence[Block],
    threads: Threads,
    sink: Sink,
    hints: dict[str, KeepHint],
    observer: Observer,
) -> Driven:
    """Run all blocks on several threads and merge their tallies.

    Args:
        prepared: plan, pack, runners and stages.
        blocks: blocks to run.
        threads: threads that run and compare, and, afterwards, how many did; one more reads.
        sink: called in this thread with every result in block order; returns new hints.
        hints: the bounded sets' thresholds at the start.
        observer: given a `Progress` about ten times a second.

    Raises:
        Interrupted: on KeyboardInterrupt, once the batches that are running have ended, or the
            kernel that is compiled for them; at once before the first of them; on a further one at
            once. Threads that aren't waited for end by themselves.
    """
    work = _Threads(prepared, blocks, threads, Hints(dict(hints)))
    try:
        work.start()
        tally = _collect(work, prepared, blocks, sink, observer)
        return work.driven(tally)
    except KeyboardInterrupt:
        work.is_interrupted = True
        raise Interrupted("interrupted; no verdict") from None
    finally:
        work.end()


def _collect(
    work: _Threads,
    prepared: Prepared,
    blocks: Sequence[Block],
    sink: Sink,
    observer: Observer,
) -> Tally:
    found, waiting = _Merging(), dict[int, BlockResult]()
    order = {block.number: at for at, block in enumerate(blocks)}
    started = shown = time.perf_counter()
    following, is_waiting = 0, False
    while following < len(blocks):
        for item in work.results.take(WAKE_EVERY_S):
            if isinstance(item, BaseException):
                raise item
            waiting[order[item.block.number]] = item
        done_until, before = 0, following
        while following in waiting:
            result = waiting.pop(following)
            found.add(result.tally())
            work.hints.by_stage.update(sink(result))
            done_until = result.block.done_until
            work.permit()
            following += 1
        if done_until and not prepared.reads_runs:
            prepared.pack.done_until(done_until)
        is_waiting = following == before and (_tells_compiling(observer) or is_waiting)
        if is_waiting:
            continue  # for kernels, which "0 samples/s" would hide
        now = time.perf_counter()
        if now - shown >= PROGRESS_EVERY_S or following == len(blocks):
            shown = now
            answered = int(work.answered)
            observer(_progress(found.merged(), answered, blocks, now - started))
    return found.merged()


def _tells_compiling(observer: Observer) -> bool:
    seconds, is_compiling = compiled_for()
    is_long = is_compiling and seconds >= COMPILING_AFTER_S
    if is_long:
        observer(Compiling(seconds))
    return is_long


class _Merging:
    """Tallies, merged many at a time: a merge that follows another one costs a third."""

    def __init__(self) -> None:
        self._merged = Tally()
        self._waiting: list[Tally] = []

    def add(self, tally: Tally) -> None:
        self._waiting.append(tally)
        if len(self._waiting) == MERGED_AT_ONCE:
            self.merged()

    def merged(self) -> Tally:
        """All so far."""
        self._merged = functools.reduce(Tally.merge, self._waiting, self._merged)
        self._waiting.clear()
        return self._merged


def _progress(tally: Tally, answered: int, blocks: Sequence[Block], elapsed_s: float) -> Progress:
    total = sum(b.samples for b in blocks)
    stages = tally.stages.values()
    samples = min(total, max(tally.samples, answered))
    left = elapsed_s * (total - samples) / samples if samples else None
    return Progress(
        samples=samples,
        total=total,
        flips=sum(s.flips for s in stages),
        failed=sum(s.failed for s in stages),
        elapsed_s=elapsed_s,
        left_s=left,
    )


class _Threads:
    """The reader and the workers, and the two bounded queues between them and the caller."""

    def __init__(
        self, prepared: Prepared, blocks: Sequence[Block], chosen: Threads, hints: Hints
    ) -> None:
        threads, own = chosen.most, prepared.reads_runs
        self.hints = hints
        self.is_interrupted = False
        self._prepared = prepared
        self._blocks = blocks
        self._stop = threading.Event()
        self._shared = Shared()
        self._turns = Turns(blocks, self._stop)
        self._sharing = Sharing(len(blocks), self._stop, threads)
        self._letting_go = LettingGo(prepared.recorded_packs() if own else (), blocks)
        self._reads: queue.Queue[BlockInput | None] = queue.Queue(threads + 1)
        self._pending, self._claiming = iter(blocks), threading.Lock()
        self.results: Results[BlockResult] = Results(2 * threads if own else 1, len(blocks))
        self._permits = threading.Semaphore(4 * threads + 2)
        self._workers = threads
        self._warming = threading.Lock()
        comparers = [c for stage in prepared.stages for c in stage.comparers]
        self._second = second_process(comparers, spare_cores())
        self._started = self._warm = 0.0
        self._slots = Slots(threads)
        self._lanes: list[Lane] = []
        self._tuner = Tuner(chosen, self._slots, sum(block.samples for block in blocks))
        reading = [] if own else [("paritygate-read", self._read)]
        working = self._work_alone if own else self._work
        self._threads = [
            threading.Thread(target=self._guard, args=(body,), name=name, daemon=True)
            for name, body in (*reading, *((f"paritygate-{i}", working) for i in range(threads)))
        ]
        self._cold = set(self._threads[len(reading) :])  # that wait for kernels, and touch nothing

    def start(self) -> None:
        """Start all threads."""
        self._started = time.perf_counter()
        for thread in self._threads:
            thread.start()

    def driven(self, tally: Tally) -> Driven:
        """All blocks, once they are collected."""
        warm = self._warm or self._started
        return Driven(tally, warm - self._started, time.perf_counter() - warm)

    @property
    def answered(self) -> float:
        """Samples that all runners have answered, those of blocks that are running included."""
        return sum(lane.answered for lane in self._lanes)

    def permit(self) -> None:
        """Let the reader go one block further; blocks in flight are bounded by the permits."""
        self._permits.release()

    def end(self) -> None:
        """Stop and join all threads; after an interrupt not those that wait for kernels.

        Raises:
            Interrupted: an interrupt arrived; what still runs isn't waited for, and its sessions
                stay open.
        """
        try:
            self._stop.set()
            self._second.end()
            for thread in self._threads:
                while thread.is_alive() and not (self.is_interrupted and thread in self._cold):
                    self._permits.release()
                    thread.join(timeout=0.05)
        except KeyboardInterrupt:
            self._stop.set()
            raise Interrupted("interrupted; no verdict") from None
        self._shared.close()
        self._letting_go.end()

    def _guard(self, body: Callable[[], None]) -> None:
        try:
            with until(self._stop):
                body()
        except BaseException as e:  # handed to the caller, who raises it
            if not self._stop.is_set():
                self.results.fail(_as_fault(e))

    def _read(self) -> None:
        for block in self._blocks:
            self._permits.acquire()
            if self._stop.is_set():
                return
            self._put(read_block(self._prepared, block))
        for _ in range(self._workers):
            self._put(None)

    def _put(self, item: BlockInput | None) -> None:
        while not self._stop.is_set():
            try:
                self._reads.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def _warm_up(self) -> bool:
        """Let one thread load the kernels; the others wait, as they would for the first block.

        Returns:
            Whether there is anything to do then: after a stop nobody may wait for this thread.
        """
        with self._warming:
            if not self._warm and not self._stop.is_set():
                with self._second.watching():
                    for stage in self._prepared.stages:
                        stage.warm_up(self._stop)
                self._warm = time.perf_counter()
        self._cold.discard(threading.current_thread())  # before it looks whether it was stopped
        return not self._stop.is_set()

    def _work_alone(self) -> None:
        """Read, run and compare one block after the other."""
        if not self._warm_up():
            return
        with Lane(self._prepared, self._shared, self._stop) as lane:
            while (block := self._claim()) is not None:
                self.results.put(lane.run_block(read_block(self._prepared, block), self.hints))
                self._letting_go.finish(block)

    def _claim(self) -> Block | None:
        self._permits.acquire()
        with self._claiming:
            return None if self._stop.is_set() else next(self._pending, None)

    def _work(self) -> None:
        if not self._warm_up():
            return
        with Lane(self._prepared, self._shared, self._stop, self._turns, self._sharing) as lane:
            self._lanes.append(lane)
            for work in (self._work_once, Lane.help):
                while not self._stop.is_set() and self._in_slot(work, lane):
                    pass

    def _in_slot(self, work: Callable[[Lane], bool], lane: Lane) -> bool:
        self._slots.take(self._stop)
        try:
            return work(lane)
        finally:
            self._slots.give()

    def _work_once(self, lane: Lane) -> bool:
        """Run one block, if one has been read; False: there are no more."""
        try:
            item = self._reads.get(timeout=0.1)
        except queue.Empty:
            return True
        if item is None:
            return False
        self._sharing.begin()
        self.results.put(lane.run_block(item, self.hints))
        self._turns.finish(item.block)
        self._sharing.finish()
        self._tuner.note(item.block.samples)
        return True


def _as_fault(error: BaseException) -> Exception:
    """What ended a thread, as what ends no process by itself: not `SystemExit` and its like."""
    if isinstance(error, Exception):
        return error
    fault = RuntimeError(f"{type(error).__name__} ended a thread: {error}")
    fault.__cause__ = error
    return fault
