"""One thread's way to a runner in another process.

Where that process ends or is late, the batch is run again alone in a new one, and then cut in
halves until single samples are left to blame.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from paritygate.core.errors import Interrupted, RunnerError, UnusableError
from paritygate.core.tensors import Batch
from paritygate.runners.base import Lease, RunnerSession, describe_batch, describe_samples
from paritygate.runners.failures import PartialError, SampleFailure, StoppedError
from paritygate.runners.isolate.channel import ClosedError, GarbledError, LateError
from paritygate.runners.isolate.memory import Told
from paritygate.runners.isolate.parts import Parts
from paritygate.runners.isolate.process import End, Worker
from paritygate.runners.isolate.replies import Refusal
from paritygate.runners.isolate.requests import Request, Requests
from paritygate.runners.isolate.runner import IsolatedRunner


class EndedError(Exception):
    """The worker ended while it had a batch."""

    def __init__(self, worker: Worker, end: End) -> None:
        super().__init__(str(end))
        self.worker = worker
        self.end = end


class WantError(RunnerError):
    """The worker goes on, but it, or the gate, had not enough memory for a batch."""


class IsolatedSession(RunnerSession):
    """One thread's requests to the worker, and what is done where it ends."""

    def __init__(self, runner: IsolatedRunner) -> None:
        super().__init__(runner)
        self._isolated = runner
        self._requests = Requests(runner)
        self._ahead: Request | None = None
        self._is_closed = False
        self._lock = runner.turns.join()
        self._has_turn = False
        self._stop: threading.Event | None = None
        self._seen: list[Told] = []
        self._is_checked = False

    def heed(self, stop: threading.Event) -> None:
        """Give up a search once this is set; a batch that is answered as planned is waited for."""
        self._stop = stop

    def close(self) -> None:
        """Let go of the channel, and of memory that isn't leased."""
        self._is_closed = True
        self._ahead = None
        self._requests.close()
        self._end_turn()
        self._isolated.turns.leave(self._lock)

    def run(self, batch: Batch, following: Batch | None = None) -> Lease:
        """Answer one batch; the runner's own session, in its process, has checked the arrays.

        Raises:
            RunnerError: the runner raised, or answered with something unusable, or isn't run any
                more.
            PartialError: some samples ended its process, or took too long; the others' answers.
            ValueError: another batch was announced as the following one.
        """
        lease = self._run_impl(batch, following)
        if self._is_checked:
            return lease
        try:
            self._check_all_alike(lease, batch)
        except BaseException:
            lease.release()
            raise
        self._is_checked = True
        return lease

    def _run_impl(self, batch: Batch, following: Batch | None = None) -> Lease:
        if self._is_closed:
            raise RunnerError(f"runner {self.runner.name!r}: the session is closed")
        request, self._ahead = self._ahead, None
        if request is not None and request.batch is not batch:
            self._ahead = request
            raise ValueError(f"batch {request.batch.number} was announced, not {batch.number}")
        isolated = self._isolated
        first: EndedError | None
        if request is None:
            isolated.turns.wait()
            if self._is_known_to_fail(batch):
                with isolated.turns.alone():
                    return self._without_known(batch)
        try:
            with self._turn():
                return self._once(batch, request, following)
        except EndedError as ended:
            first = ended
        except WantError:
            first = None
        with isolated.turns.alone():
            return self._for_memory(batch) if first is None else self._again(batch, first)

    def _is_known_to_fail(self, batch: Batch) -> bool:
        known = self._isolated.failures
        return bool(known) and not known.keys().isdisjoint(batch.ids.tolist())

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Beside nobody who is alone: until there is no batch on its way any more."""
        if not self._has_turn:
            self._isolated.turns.wait()
            self._lock.acquire()
            self._has_turn = True
        try:
            yield
        except (EndedError, WantError):
            self._settle()
            raise
        finally:
            if self._ahead is None or not self._ahead.is_on_its_way:
                self._end_turn()

    def _end_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._lock.release()

    def _settle(self) -> None:
        """Wait for the answer to the batch that was sent ahead, and keep it for later."""
        ahead = self._ahead
        if ahead is not None and ahead.is_on_its_way:
            try:
                self._receive(ahead, is_part=False)
            except EndedError as ended:
                ahead.ended = ended

    def _again(self, batch: Batch, first: EndedError) -> Lease:
        """Run a batch that was in flight when the worker ended: alone, then in parts."""
        isolated = self._isolated
        where = describe_samples(batch)
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
            where = describe_samples(parts.batch)
            told = f"while {where} ran, {end}; no sample of it does so alone"
            self._isolated.unexplained(end, told)
        if parts.failures:
            raise PartialError(lease, dict(sorted(parts.failures.items())))
        return lease

    def part(self, batch: Batch, rows: Sequence[int]) -> Lease:
        """Ask as `once` for some samples; the answer is like those of whole batches.

        Raises:
            RunnerError, EndedError: as `once`.
        """
        try:
            part = batch if len(rows) == batch.valid else part_of(batch, rows)
        except MemoryError as e:
            raise self._own_want(f"{describe_batch(self.runner.name, batch)}: {e}") from None
        lease = self.once(part, is_part=len(rows) > 1)
        try:
            self._check_all_alike(lease, part)
        except BaseException:
            lease.release()
            raise
        return lease

    def once(self, batch: Batch, *, is_part: bool) -> Lease:
        """Ask the worker once, alone.

        Raises:
            RunnerError: as `run`.
            EndedError: it ended, or was ended because it was late.
            Interrupted: nobody waits for the answer any more.
        """
        self._go_on()
        request = self._send(batch, is_part=is_part)
        worker = request.worker
        try:
            self._receive(request, is_part=is_part, is_alive=lambda: self._go_on(worker))
        except Interrupted:
            self._requests.drop()
            raise
        return self._lease(request)

    def _go_on(self, worker: Worker | None = None) -> bool:
        """Whether a worker is alive; asked while a batch is searched."""
        if self._stop is not None and self._stop.is_set():
            raise Interrupted(f"runner {self.runner.name!r}: the search of a batch was given up")
        return worker is None or worker.is_alive()

    def _once(self, batch: Batch, request: Request | None, following: Batch | None) -> Lease:
        """Ask the worker once, unless that was done ahead, and send the following batch ahead."""
        if request is None:
            request = self._send(batch, is_part=False)
        if request.is_on_its_way:
            if following is not None:
                self._send_ahead(request, following)
            self._receive(request, is_part=False)
        if request.ended is not None:
            raise request.ended
        return self._lease(request)

    def _send(self, batch: Batch, *, is_part: bool) -> Request:
        worker = self._isolated.worker()
        limit = self._isolated.deadline(is_part=is_part)
        try:
            with self._ending(worker, limit):
                return self._requests.send(worker, batch, limit)
        except MemoryError as e:
            raise self._own_want(f"{describe_batch(self.runner.name, batch)}: {e}") from None

    def _send_ahead(self, request: Request, following: Batch) -> None:
        isolated, worker = self._isolated, request.worker
        if isolated.turns.is_wanted or self._is_known_to_fail(following):
            return
        limit = isolated.deadline(is_part=False)
        with self._ending(worker, limit):
            self._ahead = self._requests.send_ahead(worker, following, limit)

    def _receive(
        self, request: Request, *, is_part: bool, is_alive: Callable[[], bool] | None = None
    ) -> None:
        limit = self._isolated.deadline(is_part=is_part)
        with self._ending(request.worker, limit):
            self._requests.receive(request, limit, is_alive or request.worker.is_alive)

    @contextmanager
    def _ending(self, worker: Worker, limit_s: float) -> Iterator[None]:
        """What makes a worker useless ends it, and whatever it has been given."""
        try:
            yield
            return
        except GarbledError as e:
            end = worker.disown(str(e))
        except ClosedError:
            end = worker.ended()
        except LateError:
            end = worker.expire(f"it took longer than {limit_s:g} s (batch_timeout_s)")
        self._isolated.lost(worker)  # counts this batch before it lets go of its turn
        self._requests.drop()
        if self._ahead is not None and self._ahead.is_on_its_way:
            self._ahead = None  # it hadn't begun, and is sent again
        raise EndedError(worker, end)

    def _lease(self, request: Request) -> Lease:
        answer, piece = request.reply, request.piece
        assert answer is not None
        if isinstance(answer, Refusal):
            raise self._refused(answer)
        try:
            self._isolated.answered(request.worker, request.seconds, answer.keys)
        except BaseException:
            self._requests.give_back(piece)
            raise
        # What looks like answers that were checked needs no second look.
        self._is_checked = self._is_checked and answer.told == self._seen
        self._seen = answer.told
        give_back = partial(self._requests.give_back, piece)
        return Lease(answer.outputs, answer.present, give_back=give_back)

    @staticmethod
    def _own_want(text: str) -> WantError:
        return WantError(f"{text}; it is the gate's own process that has too little memory")

    def _refused(self, refusal: Refusal) -> Exception:
        text = refusal.text
        if refusal.kind == "fault":
            return RuntimeError(f"runner {self.runner.name!r}, in its process: {text}")
        if refusal.kind == "own memory":
            return self._own_want(f"runner {self.runner.name!r}: {text}")
        if refusal.kind == "memory":
            limit = self._isolated.isolation.memory_limit
            told = "no memory_limit is set" if limit is None else f"memory_limit: {limit:,} bytes"
            return WantError(f"{text}; this tells of too little memory ({told})")
        return UnusableError(text) if refusal.rule == UnusableError.rule else RunnerError(text)


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
