"""The process that one runner runs in: prepares it, then answers batches, one thread a session."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import re
import resource
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from paritygate.core.errors import RunnerError, RunnerLoadError
from paritygate.core.tensors import Batch
from paritygate.runners.base import Runner, RunnerSession
from paritygate.runners.isolate.channel import Channel, ClosedError
from paritygate.runners.isolate.memory import (
    SharedMemory,
    read_tensors,
    unpack_array,
    write_tensors,
)
from paritygate.runners.isolate.order import Order, Ready

_PR_SET_PDEATHSIG = 1
_WANT = re.compile(r"\bMemoryError\b|bad_alloc|[Ff]ailed to allocate memory")


def main(control_fd: int, parent: int) -> None:
    """Serve until the gate is gone or says so; never returns."""
    _die_with(parent)
    os.set_inheritable(control_fd, False)
    faulthandler.enable(all_threads=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = Channel(socket.socket(fileno=control_fd))
    code = 1
    with suppress(ClosedError):
        _send(control, ("hello", os.getpid()))
        _serve(control)
        code = 0
    sys.stdout.flush()
    os._exit(code)


_PID = os.getpid()


def _send(channel: Channel, message: object) -> None:
    """Send a message; a process that was forked in a call shares the channel and must not."""
    if os.getpid() != _PID:
        os._exit(1)
    channel.send(message)


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _serve(control: Channel) -> None:
    order, memory_limit, path = control.receive()
    if path is not None:
        sys.path[:] = path
    if memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    runner = _prepare(control, order)
    if runner is None:
        return
    while True:
        what, *told = control.receive()
        if what == "session":
            _Session(runner, Channel(socket.socket(fileno=control.fds.pop(0)))).start()
        elif what == "try":
            _send(control, _attempt(partial(_try, runner, *told)))
        elif what == "tell":
            _send(control, _attempt(lambda: (dict(runner.facts), runner.final_findings())))
        else:
            runner.close()
            return


def _prepare(control: Channel, order: Order) -> Runner | None:
    from paritygate.runners.registry import prepare_here

    try:
        runner = prepare_here(order.spec, order.context())
        _send(control, ("ready", Ready.of(runner)))
    except RunnerLoadError as e:
        _send(control, ("failed", str(e), e.is_plan_fault, e.code, e.detail))
        return None
    except MemoryError:
        _send(control, ("failed", f"runner {order.spec.name!r}: out of memory", False, None, ""))
        return None
    except ClosedError:
        raise
    except BaseException as e:  # a fault of ours, or of what a model's code does
        _send(control, ("fault", _tell(e)))
        return None
    return runner


def _try(runner: Runner, packed: Any, size: int) -> tuple[str, str]:
    from paritygate.runners.tryout import try_out

    return try_out(runner, {name: unpack_array(told) for name, told in packed.items()}, size)


def _attempt(work: Callable[[], Any]) -> tuple[Any, ...]:
    try:
        return "ok", work()
    except BaseException as e:  # told to the gate
        return "fault", _tell(e)


def _tell(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-4000:]


class _Session:
    """One session, its channel and the memory that it shares with the gate."""

    def __init__(self, runner: Runner, channel: Channel) -> None:
        self._runner = runner
        self._channel = channel
        self._memory: dict[int, SharedMemory] = {}

    def start(self) -> None:
        """Answer batches in a thread of its own, until the gate closes its end."""
        threading.Thread(target=self._work, name="paritygate-session", daemon=True).start()

    def _work(self) -> None:
        with suppress(ClosedError):
            made = _attempt(self._runner.session)
            session: RunnerSession | None = made[1] if made[0] == "ok" else None
            try:
                while True:
                    serial, *request = self._channel.receive()
                    answer = made if session is None else self._answer(session, *request)
                    self._reply(serial, answer)
            finally:
                self._channel.close()
                if session is not None:
                    session.close()

    def _answer(self, session: RunnerSession, number: int, capacity: int, *told: Any) -> Any:
        try:
            return self._run(session, number, capacity, *told)
        except RunnerError as e:
            return "memory" if _wants_memory(e) else "error", str(e), e.rule
        except MemoryError as e:
            return self._want(e)
        except BaseException as e:  # a fault of ours: ends the run, as it would in the gate
            return "fault", _tell(e)

    def _reply(self, serial: int, answer: tuple[Any, ...]) -> None:
        try:
            _send(self._channel, (serial, *answer))
        except MemoryError as e:  # before anything was sent
            _send(self._channel, (serial, *self._want(e)))

    def _want(self, error: MemoryError) -> tuple[str, str, str]:
        told = f"out of memory: {error}" if str(error) else "out of memory"
        return "memory", f"runner {self._runner.name!r}: {told}", RunnerError.rule

    def _run(
        self,
        session: RunnerSession,
        number: int,
        capacity: int,
        head: tuple[int, int, int, int, int],
        ids: Any,
        inputs: Any,
        free: int,
    ) -> Any:
        memory = self._memory.get(number)
        if memory is None:
            memory = self._memory[number] = SharedMemory(self._channel.fds.pop(0))
        memory.see(capacity)
        given = np.frombuffer(ids, np.int64) if isinstance(ids, bytes) else _objects(ids)
        batch = Batch(*head, given, read_tensors(memory, inputs))  # type: ignore[arg-type]
        with session.run(batch) as lease:
            told, _ = write_tensors(memory, lease.outputs, free)
            present = None if lease.present is None else lease.present.tobytes()
        return "ok", memory.capacity, told, present, self._runner.class_keys


def _wants_memory(error: RunnerError) -> bool:
    """Whether a call failed for want of memory, as its cause or the runtime's message says."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return True
        cause = cause.__cause__ or cause.__context__
    return _WANT.search(str(error)) is not None


def _objects(values: list[str]) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made
