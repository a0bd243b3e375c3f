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
from paritygate.runners.isolate.channel import Channel, ClosedError, GarbledError, LateError
from paritygate.runners.isolate.memory import SharedMemory, Told, write_tensors
from paritygate.runners.isolate.parts import Parts
from paritygate.runners.isolate.process import End, Worker
from paritygate.runners.isolate.replies import Refusal, read_reply
from paritygate.runners.isolate.runner import IsolatedRunner

_ROOM = 1 << 16


class EndedError(Exception):
    """The worker ended while it had a batch."""

    def __init__(self, worker: Worker, end: End) -> None:
        super().__init__(str(end))
        self.worker = worker
        self.end = end


class WantError(RunnerError):
    """The worker goes on, but had not enough memory for a batch."""


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
        self._serial = 0
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
        first: EndedError | None
        isolated.turns.wait()
        if isolated.failures and not isolated.failures.keys().isdisjoint(batch.ids.tolist()):
            with isolated.turns.alone():
                return self._without_known(batch)
        try:
            with self._lock:
                return self.once(batch, is_part=False)
        except EndedError as ended:
            first = ended
        except WantError:
            first = None
        with isolated.turns.alone():
            return self._for_memory(batch) if first is None else self._again(batch, first)

    def _again(self, batch: Batch, first: EndedError) -> Lease:
        """Run a batch that was in flight when the worker ended: alone, then in parts."""
        isolated = self._isolated
        where = describe_batch(isolated.name, batch)
        try:
            lease = self.once(batch, is_part=False)
        except EndedError as again:
            isolated.settle(first.worker, first.end, where, is_reproduced=True)
            return self._in_parts(batch, again.end)
        except WantError:
            isolated.settle(first.worker, first.end, where, is_reproduced=False)
            return self._for_memory(batch)
        except RunnerError as e:
            has_run = not isinstance(e, StoppedError)
            isolated.settle(first.worker, first.end, where, is_reproduced=not has_run)
            raise
        isolated.settle(first.worker, first.end, where, is_reproduced=False)
        return lease

    def _in_parts(self, batch: Batch, end: End) -> Lease:
        parts = Parts(self, batch)
        parts.search(list(range(batch.valid)), end)
        return self._put_together(parts)

    def _for_memory(self, batch: Batch) -> Lease:
        """Run a batch that wants more memory than there is: alone, then in parts."""
        parts = Parts(self, batch)
        parts.attempt(list(range(batch.valid)))
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

    def may_search(self) -> bool:
        """Whether so few samples wanted too much memory that it is worth while to look for them."""
        return self._isolated.may_search()

    def want(self, samples: int) -> None:
        """Samples want more memory than there is."""
        self._isolated.want(samples)

    def _put_together(self, parts: Parts) -> Lease:
        lease, end = parts.lease(), parts.unexplained
        self._isolated.regroup(parts.regrouped)
        if end is not None:
            where = describe_batch(self._isolated.name, parts.batch)
            told = f"while {where} ran, {end}; no sample of it does so alone"
            self._isolated.unexplained(end, told)
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
            return self._lease(worker, batch, piece, reply, time.perf_counter() - started)
        except GarbledError as e:
            end = worker.disown(str(e))
        except ClosedError:
            end = worker.ended()
        except LateError:
            end = worker.expire(f"it took longer than {limit:g} s (batch_timeout_s)")
        isolated.lost(worker)  # counts this batch before it lets go of its turn
        self._drop_channel()
        raise EndedError(worker, end)

    def _ask(self, worker: Worker, batch: Batch, limit_s: float) -> tuple[_Piece, Any]:
        channel = self._channel_to(worker, limit_s)
        piece = self._free.pop() if self._free else self._new_piece()
        told, free = write_tensors(piece.memory, batch.inputs, 0)
        piece.free = free
        piece.memory.reserve(free + self._room)
        is_known = piece.known_to == worker.generation
        piece.known_to = worker.generation
        ids = batch.ids
        self._serial += 1
        reply = channel.ask(
            (
                self._serial,
                piece.number,
                piece.memory.capacity,
                (batch.bucket, batch.number, batch.start, batch.valid, batch.size),
                ids.tobytes() if ids.dtype == np.int64 else ids.tolist(),
                told,
                free,
            ),
            () if is_known else (piece.memory.fd,),
            limit_s,
            worker.is_alive,
            is_plain=True,
        )
        return piece, reply

    def _lease(
        self, worker: Worker, batch: Batch, piece: _Piece, reply: Any, seconds: float
    ) -> Lease:
        answer = read_reply(reply, self._serial, piece.memory, piece.free, batch.valid)
        if isinstance(answer, Refusal):
            self._free.append(piece)
            raise self._refused(answer)
        self._isolated.answered(worker, seconds, answer.keys)
        self._room = max(self._room, piece.memory.capacity - piece.free)
        # What looks like answers that were checked needs no second look.
        self._is_checked = self._is_checked and answer.told == self._seen
        self._seen = answer.told
        return Lease(answer.outputs, answer.present, give_back=lambda: self._give_back(piece))

    def _refused(self, refusal: Refusal) -> Exception:
        text = refusal.text
        if refusal.kind == "fault":
            return RuntimeError(f"runner {self.runner.name!r}, in its process: {text}")
        if refusal.kind == "memory":
            limit = self._isolated.isolation.memory_limit
            told = "none is set" if limit is None else f"{limit:,} bytes"
            return WantError(f"{text}; its process had too little memory (memory_limit: {told})")
        return UnusableError(text) if refusal.rule == UnusableError.rule else RunnerError(text)

    def _give_back(self, piece: _Piece) -> None:
        if not self._is_closed:
            self._free.append(piece)

    def _new_piece(self) -> _Piece:
        self._made += 1
        return _Piece(self._made, SharedMemory.create(self._room))

    def _channel_to(self, worker: Worker, limit_s: float) -> Channel:
        if self._channel is not None and self._generation == worker.generation:
            return self._channel
        self._drop_channel()
        self._channel, theirs = Channel.pair()
        self._generation = worker.generation
        try:
            self._isolated.open_channel(worker, theirs.fileno(), limit_s)
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
