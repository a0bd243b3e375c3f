"""A runner in a process of its own: what that process said of it, and sessions that ask it."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from paritygate.core.digest import canonical_json
from paritygate.core.errors import RunnerError, RunnerLoadError, UnusableError
from paritygate.runners.base import (
    Finding,
    PrepareContext,
    Runner,
    RunnerSession,
    RunnerSpec,
)
from paritygate.runners.failures import SampleFailure, StoppedError
from paritygate.runners.isolate.channel import ClosedError, GarbledError, LateError
from paritygate.runners.isolate.order import Order, Ready, describe_build
from paritygate.runners.isolate.process import End, Worker
from paritygate.runners.isolate.settings import Isolation
from paritygate.runners.isolate.turns import Turns
from paritygate.runners.ort_warnings import read_warnings
from paritygate.runners.registry import admit

_SHORTEST_S = 5.0  # deadline of a part of a batch, however fast others were


class IsolatedRunner(Runner):
    """A runner in another process, which is replaced when it ends.

    Attributes:
        isolation: where it runs, and its deadlines.
        turns: who may use the worker.
        failures: sample id -> why it has no answer, of those that ended a worker by themselves.
        slowest_s: the longest that a batch took which was answered.
    """

    runs_elsewhere = True

    def __init__(self, spec: RunnerSpec, context: PrepareContext, isolation: Isolation) -> None:
        self.isolation = isolation
        self.turns = Turns()
        self.failures: dict[int | str, SampleFailure] = {}
        self.slowest_s = 0.0
        spec = replace(spec, isolation=None)
        self._files = admit(spec, context)
        self._order = Order.of(spec, context, self._files.value if self._files else None)
        self._python = isolation.python(context.folder)
        self._starting = threading.Lock()
        self._counting = threading.Lock()
        self._talking = threading.Lock()
        self._worker: Worker | None = None
        self._loaded_as = ""
        self._started = 0
        self._startup_s: list[float] = []
        self._regrouped = 0
        self._wanting = 0
        self._unexplained: list[Finding] = []
        self._stopped: str = ""
        self._told: tuple[Mapping[str, object], tuple[Finding, ...]] | None = None
        self._keys: Mapping[str, Any] = {}
        self._is_closed = False
        self._peak_bytes = 0
        self._stderr_bytes = 0
        try:
            ready = self._ready = self._first_start(spec)
        except BaseException:
            self._let_go()
            raise
        super().__init__(
            spec.name,
            spec.kind,
            limits=ready.limits,
            inputs=ready.inputs,
            outputs=ready.outputs,
            findings=ready.findings,
        )
        self.watched = ready.watched
        self.constant_names = ready.constant_names
        self.layout = ready.layout

    def _first_start(self, spec: RunnerSpec) -> Ready:
        worker = self.worker()
        ready: Ready = worker.ready
        own = {**describe_build(spec.kind), "executable": ""}
        theirs = {**ready.build, "executable": ""}
        if own != theirs:
            ready = replace(
                ready,
                identity=_other_build(ready.identity, theirs),
                source=_other_build(ready.source, theirs),
            )
        return ready

    @property
    def identity(self) -> str:
        """Digest, hex: the runner's own, unless it runs on another build than this process."""
        return self._ready.identity

    @property
    def source(self) -> str:
        """Identity without what the plan declares of its outputs."""
        return self._ready.source

    @property
    def facts(self) -> Mapping[str, object]:
        """What the worker knows of the runner, and what became of the worker."""
        facts = dict(self._tell()[0])
        if self._keys:
            facts["class_keys"] = self._keys
        if printed := self._printed():
            known = facts.get("warnings")
            facts["warnings"] = [*(known if isinstance(known, list) else []), *printed]
        return {**facts, "isolation": self._describe()}

    def _printed(self) -> list[dict[str, object]]:
        """What the worker wrote to standard error, each message once."""
        worker = self._worker
        if worker is None:
            return []
        tail = worker.stderr
        said = tail.lines()
        return [w.to_json() for w in read_warnings(said, max(0, tail.written - len(said)))]

    @property
    def class_keys(self) -> Mapping[str, list[int | str]]:
        """Keys of maps, as the first batches have shown them."""
        return self._keys

    def final_findings(self) -> tuple[Finding, ...]:
        """What holds the run: the runner's own findings, and what ended a worker unexplained."""
        told = self._tell()[1]
        return (*told, *self._unexplained)

    def session(self) -> RunnerSession:
        """A session for the calling thread."""
        from paritygate.runners.isolate.session import IsolatedSession

        if self._is_closed:
            raise RunnerError(f"runner {self.name!r} is closed")
        return IsolatedSession(self)

    def close(self) -> None:
        """End the worker."""
        with self._starting:
            self._is_closed = True
            worker, self._worker = self._worker, None
            if worker is not None:
                worker.close()
                self._count(worker)
            self._let_go()

    def _let_go(self) -> None:
        if self._files is not None:
            self._files.close()

    def worker(self) -> Worker:
        """The worker, started anew where there is none.

        Raises:
            StoppedError: it ended too often.
            RunnerLoadError: the first one can't be started.
            RunnerError: it can't be started again, or the runner is closed.
        """
        with self._starting:
            if self._stopped:
                raise StoppedError(f"runner {self._order.spec.name!r}: {self._stopped}")
            if self._worker is None:
                if self._is_closed:
                    raise RunnerError(f"runner {self._order.spec.name!r} is closed")
                self._worker = self._start()
            return self._worker

    def _start(self) -> Worker:
        is_first = not self._started
        try:
            worker = self._load()
        except RunnerLoadError as e:
            if is_first:
                raise
            self._stopped = f"its process can't be started again: {e}"
            raise StoppedError(f"runner {self.name!r}: {self._stopped}") from None
        if not is_first and worker.ready.identity != self._loaded_as:
            worker.close()
            self._stopped = "its model or its code changed since it was loaded first"
            raise StoppedError(f"runner {self.name!r}: {self._stopped}")
        self._loaded_as = worker.ready.identity
        return worker

    def _load(self) -> Worker:
        name, started = self._order.spec.name, time.perf_counter()
        try:
            worker = Worker(self._python, self._started)
        except OSError as e:
            raise RunnerLoadError(
                name,
                f"runners.{name}.isolate.interpreter: {self._python} can't be started "
                f"({e.strerror or e})",
                is_plan_fault=True,
            ) from None
        self._started += 1
        try:
            worker.ready = self._prepared(name, worker)
        except BaseException:
            worker.close()
            raise
        worker.look(always=True)
        self._startup_s.append(time.perf_counter() - started)
        return worker

    def _prepared(self, name: str, worker: Worker) -> Ready:
        limit = self.isolation.load_timeout_s
        has_begun = False
        try:
            worker.hear(limit)
            has_begun = True
            path = list(sys.path) if self._python is None else None
            message = (self._order, self.isolation.memory_limit, path)
            kind, *told = worker.ask(message, limit)
        except GarbledError as e:
            end = worker.disown(str(e))
            raise RunnerLoadError(name, f"runner {name!r}: {end}", detail=end.tail) from None
        except LateError:
            end = worker.expire(f"it didn't load within {limit:g} s (load_timeout_s)")
            raise RunnerLoadError(name, f"runner {name!r}: {end}", detail=end.tail) from None
        except ClosedError:
            end = worker.ended()
            if has_begun:
                text = f"runner {name!r}: while it loaded, {end}"
                raise RunnerLoadError(name, text, detail=end.tail) from None
            raise RunnerLoadError(
                name,
                f"runner {name!r}: {self._python or 'this interpreter'} doesn't start as its "
                f"process: {end}; it needs numpy, msgspec, pydantic, ml_dtypes, orjson, onnx "
                "and the runner's own runtime",
                is_plan_fault=True,
            ) from None
        if kind == "failed":
            text, is_plan_fault, code, detail = told
            raise RunnerLoadError(name, text, is_plan_fault=is_plan_fault, code=code, detail=detail)
        if kind == "fault":
            raise RuntimeError(f"runner {name!r} could not be prepared in its process: {told[0]}")
        ready: Ready = told[0]
        return ready

    def open_channel(self, worker: Worker, fd: int, limit_s: float) -> None:
        """Hand a worker the other end of a session's channel.

        Raises:
            ClosedError: it is gone.
            LateError: it didn't take it in time.
        """
        with self._talking:
            worker.control.send(("session",), (fd,), limit_s, worker.is_alive)

    def deadline(self, *, is_part: bool) -> float:
        """Seconds for a batch; for a part of one, which decides nothing alone, a shorter one."""
        limit = self.isolation.batch_timeout_s
        return min(limit, max(_SHORTEST_S, 10 * self.slowest_s)) if is_part else limit

    def answered(self, worker: Worker, seconds: float, keys: Mapping[str, Any]) -> None:
        """A batch was answered.

        Raises:
            RunnerError: columns are other keys of maps than before.
        """
        if seconds > self.slowest_s:
            self.slowest_s = seconds
        worker.look()
        if not keys:
            return
        with self._counting:
            first = self._keys = {**keys, **self._keys}
        if any(first.get(name, found) != found for name, found in keys.items()):
            raise UnusableError(
                f"runner {self.name!r}: its outputs have the keys {keys} in this batch, {first} "
                "before its process was started again"
            )

    def lost(self, worker: Worker) -> None:
        """A worker ended that had a batch; the next batch starts another one."""
        with self._counting:
            worker.in_flight += 1
        with self._starting:
            if self._worker is worker:
                self._worker = None
                self._count(worker)
        worker.close()

    def settle(self, worker: Worker, end: End, where: str, *, is_reproduced: bool) -> None:
        """A batch that was in flight when a worker ended has been run again, alone.

        When none of these batches ended its worker again, nobody is to blame, and the run holds.
        """
        with self._counting:
            worker.settled += 1
            worker.is_reproduced |= is_reproduced
            if worker.settled < worker.in_flight or worker.is_reproduced:
                return
        self.unexplained(
            end,
            f"while {where} ran, {end}; it answered when it was run again alone, so this is not "
            "reproducible",
        )

    def unexplained(self, end: End, text: str) -> None:
        """Something ended a worker that no single sample is to blame for."""
        next_ = "memory, other processes of this machine, and threads that the runtime starts"
        with self._counting:
            self._unexplained.append(Finding(end.rule, text, next_))
        self._stop_if_too_many()

    def blame(self, sample: int | str, failure: SampleFailure) -> None:
        """A sample ends a worker by itself."""
        with self._counting:
            self.failures[sample] = failure
        self._stop_if_too_many()

    def want(self, samples: int) -> None:
        """Samples want more memory than there is; their worker goes on."""
        with self._counting:
            self._wanting += samples

    def may_search(self) -> bool:
        """Whether at most `max_crashes` samples wanted more memory than there is."""
        return self._wanting <= self.isolation.max_crashes

    def regroup(self, samples: int) -> None:
        """Samples were answered in other batches than planned."""
        with self._counting:
            self._regrouped += samples

    def _stop_if_too_many(self) -> None:
        crashes, most = len(self.failures) + len(self._unexplained), self.isolation.max_crashes
        if crashes > most and not self._stopped:
            self._stopped = (
                f"its process was ended by {crashes} samples, more than max_crashes = {most}, and "
                "isn't started again"
            )

    def _tell(self) -> tuple[Mapping[str, object], tuple[Finding, ...]]:
        """Facts and findings, of the worker while there is one, else as last known."""
        worker, end = self._worker, None
        if worker is not None and not self._is_closed:
            limit = self.isolation.load_timeout_s
            try:
                with self._talking:
                    kind, told = worker.ask(("tell",), limit)
            except ClosedError:
                end = worker.ended()
            except LateError:
                end = worker.expire(f"it took longer than {limit:g} s (load_timeout_s)")
            except GarbledError as e:
                end = worker.disown(str(e))
            else:
                if kind == "fault":
                    raise RuntimeError(f"runner {self.name!r}, in its process: {told}")
                self._told = told
        if worker is not None and end is not None:
            self.lost(worker)
            self.unexplained(end, f"when it was asked what it knows of the run, {end}")
        return self._told or (self._ready.facts, self._ready.findings)

    def _count(self, worker: Worker) -> None:
        self._peak_bytes = max(self._peak_bytes, worker.peak_bytes)
        self._stderr_bytes += worker.stderr.written

    def _describe(self) -> dict[str, object]:
        worker = self._worker
        settings = self.isolation
        return {
            "process": True,
            "why": settings.why,
            "interpreter": self._ready.build["executable"],
            "python": self._ready.build["python"],
            "numpy": self._ready.build["numpy"],
            "memory_limit_bytes": settings.memory_limit,
            "load_timeout_s": settings.load_timeout_s,
            "batch_timeout_s": settings.batch_timeout_s,
            "max_crashes": settings.max_crashes,
            "restarts": self._started - 1,
            "slowest_start_s": round(max(self._startup_s), 3),
            "peak_memory_bytes": max(self._peak_bytes, worker.peak_bytes if worker else 0),
            "stderr_bytes": self._stderr_bytes + (worker.stderr.written if worker else 0),
            "stderr_tail": worker.stderr.text() if worker else "",
            "failed_samples": len(self.failures),
            "unexplained_ends": len(self._unexplained),
            "regrouped_samples": self._regrouped,
            "stopped": self._stopped,
        }


def _other_build(identity: str, build: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(["isolated", identity, build])).hexdigest()


def prepare_isolated(spec: RunnerSpec, context: PrepareContext) -> IsolatedRunner:
    """Start a process for a runner and prepare it there.

    Raises:
        RunnerLoadError: as for the runner itself; or its process ended while it loaded, or it took
            longer than its deadline.
    """
    return IsolatedRunner(spec, context, spec.isolation or Isolation())
