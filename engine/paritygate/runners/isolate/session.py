"""One thread's way to a runner in another process, through memory that both see.

A batch is written there once and read in place; so are its answers. Where the process ends or is
late, the batch is run again alone in a new one, and then cut in halves until single samples are
left to blame.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from paritygate.core.errors import RunnerError, UnusableError
from paritygate.core.tensors import Batch
from paritygate.runners.base import Lease, RunnerSession, describe_batch
from paritygate.runners.failures import PartialError, SampleFailure, StoppedError
from paritygate.runners.isolate.channel import Channel, ClosedError, LateError
from paritygate.runners.isolate.memory import SharedMemory, Told, read_tensors, write_tensors
from paritygate.runners.isolate.parts import Parts
from paritygate.runners.isolate.process import End, Worker
from paritygate.runners.isolate.runner import IsolatedRunner

_ROOM = 1 << 16


class EndedError(Exception):
    """The worker ended while it had a batch."""

    def __init__(self, worker: Worker, end: End) -> None:
        super().__init__(str(end))
        self.worker = worker
        self.end = end


class _Piece:
    """Memory of one batch and its answers, and its number among those of a session."""

    def __init__(self, number: int, memory: SharedMemory) -> None:
        self.number = number
        self.memory = memory
        self.known_to = -1  # generation of the worker that has it
        self.free = 0  # where the inputs end


class IsolatedSession(RunnerSession):
    """One thread's channel to the worker, and its pieces of memory."""

    def __init__(self, runner: IsolatedRunner) -> None:
        super().__init__(runner)
        self._isolated = runner
        self._channel: Channel | None = None
        self._generation = -1
        self._free: list[_Piece] = []
        self._made = 0
        self._room = _ROOM
        self._is_closed = False
        self._lock = runner.turns.join()
        self._seen: list[Told] = []
        self._is_checked = False

    def close(self) -> None:
        """Let go of the channel, and of memory that isn't leased."""
        self._is_closed = True
        self._isolated.turns.leave(self._lock)
        self._free = []
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def run(self, batch: Batch) -> Lease:
        """Answer one batch; the runner's own session, in its process, has checked the arrays.

        Raises:
            RunnerError: the runner raised, or answered with something unusable, or isn't run any
                more.
            PartialError: some samples ended its process, or took too long; the others' answers.
        """
        lease = self._run_impl(batch)
        if self._is_checked:
            return lease
        try:
            self._check_all_alike(lease, batch)
        except BaseException:
            lease.release()
            raise
        self._is_checked = True
        return lease

    def _run_impl(self, batch: Batch) -> Lease:
        if self._is_closed:
            raise RunnerError(f"runner {self.runner.name!r}: the session is closed")
        isolated = self._isolated
        isolated.turns.wait()
        if isolated.failures and not isolated.failures.keys().isdisjoint(batch.ids.tolist()):
            with isolated.turns.alone():
                return self._without_known(batch)
        try:
            with self._lock:
                return self.once(batch, is_part=False)
        except EndedError as ended:
            first = ended
        with isolated.turns.alone():
            return self._again(batch, first)

    def _again(self, batch: Batch, first: EndedError) -> Lease:
        """Run a batch that was in flight when the worker ended: alone, then in parts."""
        isolated = self._isolated
        where = describe_batch(isolated.name, batch)
        try:
            lease = self.once(batch, is_part=False)
        except EndedError as again:
            isolated.settle(first.worker, first.end, where, is_reproduced=True)
            return self._in_parts(batch, again.end)
        except RunnerError as e:
            has_run = not isinstance(e, StoppedError)
            isolated.settle(first.worker, first.end, where, is_reproduced=not has_run)
            raise
        isolated.settle(first.worker, first.end, where, is_reproduced=False)
        return lease

    def _in_parts(self, batch: Batch, end: End) -> Lease:
        parts = Parts(self, batch)
        parts.search(list(range(batch.valid)), end)
        if not parts.failures:
            where = describe_batch(self._isolated.name, batch)
            told = f"while {where} ran, {end}; no sample of it does so alone"
            self._isolated.unexplained(end, told)
        self._isolated.regroup(parts.answered)
        return self._put_together(parts)

    def _without_known(self, batch: Batch) -> Lease:
        """Leave out the samples that are known to end the process."""
        parts, known = Parts(self, batch), self._isolated.failures
        ids = batch.ids[: batch.valid].tolist()
        parts.failures = {at: known[i] for at, i in enumerate(ids) if i in known}
        rows = [at for at in range(batch.valid) if at not in parts.failures]
        parts.attempt(rows)
        return self._put_together(parts)

    def blame(self, sample: int | str, failure: SampleFailure) -> None:
        """A sample ends the process by itself."""
        self._isolated.blame(sample, failure)

    def _put_together(self, parts: Parts) -> Lease:
        lease = parts.lease()
        if parts.failures:
            if lease.outputs:
                self._check_all_alike(lease, parts.batch)
            raise PartialError(lease, dict(sorted(parts.failures.items())))
        return lease

    def once(self, batch: Batch, *, is_part: bool) -> Lease:
        """Ask the worker once.

        Raises:
            RunnerError: as `run`.
            EndedError: it ended, or was ended because it was late.
        """
        isolated = self._isolated
        worker = isolated.worker()
        limit = isolated.deadline(is_part=is_part)
        started = time.perf_counter()
        try:
            piece, reply = self._ask(worker, batch, limit)
        except ClosedError:
            end = worker.ended()
        except LateError:
            end = worker.expire(f"it took longer than {limit:g} s (batch_timeout_s)")
        else:
            return self._lease(worker, batch, piece, reply, time.perf_counter() - started)
        isolated.lost(worker)  # counts this batch before it lets go of its turn
        self._drop_channel()
        raise EndedError(worker, end)

    def _ask(self, worker: Worker, batch: Batch, limit_s: float) -> tuple[_Piece, Any]:
        channel = self._channel_to(worker)
        piece = self._free.pop() if self._free else self._new_piece()
        told, free = write_tensors(piece.memory, batch.inputs, 0)
        piece.free = free
        piece.memory.reserve(free + self._room)
        is_known = piece.known_to == worker.generation
        piece.known_to = worker.generation
        ids = batch.ids
        channel.send(
            (
                piece.number,
                piece.memory.capacity,
                (batch.bucket, batch.number, batch.start, batch.valid, batch.size),
                ids.tobytes() if ids.dtype == np.int64 else ids.tolist(),
                told,
                free,
            ),
            () if is_known else (piece.memory.fd,),
        )
        return piece, channel.receive(limit_s, worker.is_alive)

    def _lease(
        self, worker: Worker, batch: Batch, piece: _Piece, reply: Any, seconds: float
    ) -> Lease:
        kind, *rest = reply
        if kind != "ok":
            self._free.append(piece)
            if kind == "fault":
                raise RuntimeError(f"runner {self.runner.name!r}, in its process: {rest[0]}")
            text, rule = rest
            raise UnusableError(text) if rule == UnusableError.rule else RunnerError(text)
        capacity, told, present, keys = rest
        self._isolated.answered(worker, seconds, keys)
        if capacity > piece.memory.capacity:
            self._room = max(self._room, capacity - piece.free)
            piece.memory.see(capacity)
        mask = None if present is None else np.frombuffer(present, np.bool_)
        outputs = read_tensors(piece.memory, told)
        # What looks like answers that were checked needs no second look.
        self._is_checked = self._is_checked and told == self._seen
        self._seen = told
        return Lease(outputs, mask, give_back=lambda: self._give_back(piece))

    def _give_back(self, piece: _Piece) -> None:
        if not self._is_closed:
            self._free.append(piece)

    def _new_piece(self) -> _Piece:
        self._made += 1
        return _Piece(self._made, SharedMemory.create(self._room))

    def _channel_to(self, worker: Worker) -> Channel:
        if self._channel is not None and self._generation == worker.generation:
            return self._channel
        self._drop_channel()
        self._channel, theirs = Channel.pair()
        self._generation = worker.generation
        try:
            self._isolated.open_channel(worker, theirs.fileno())
        finally:
            theirs.close()
        return self._channel

    def _drop_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def part_of(batch: Batch, rows: Sequence[int]) -> Batch:
    """Some samples of a batch, the last one repeated up to the batch's size; at least one."""
    at = np.array([*rows, *[rows[-1]] * (batch.size - len(rows))], np.int64)
    inputs = {name: array[at] for name, array in batch.inputs.items()}
    for array in inputs.values():
        array.flags.writeable = False
    return Batch(
        batch.bucket,
        batch.number,
        batch.start + rows[0],
        len(rows),
        batch.size,
        batch.ids[at[: len(rows)]],
        inputs,
    )
