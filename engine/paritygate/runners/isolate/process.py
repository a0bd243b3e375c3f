"""A worker's process: started, heard, ended; and how it ended, in words.

A worker dies with the gate, which the kernel sees to when the *thread* that started it ends. So
all are started by one thread that lasts as long as the gate.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from paritygate.core.text import clean
from paritygate.runners.isolate.channel import Channel, ClosedError, LateError

_PACKAGE = Path(__file__).parents[2]
_START = (
    "import importlib.util as u, sys; "
    "s = u.spec_from_file_location('paritygate', sys.argv[1] + '/__init__.py', "
    "submodule_search_locations=[sys.argv[1]]); "
    "m = u.module_from_spec(s); sys.modules['paritygate'] = m; s.loader.exec_module(m); "
    "from paritygate.runners.isolate.worker import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
# What another interpreter must not take from this one.
_FOREIGN = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "__PYVENV_LAUNCHER__")
_KEPT_STDERR = 16_384
_SHOWN_STDERR = 600
# What faulthandler tells of frames that are ours, and of modules that are loaded.
_NOISE = ("Extension modules:", "Stack (most", 'File "<string>"', f'File "{_PACKAGE}')
_GRACE_S = 2.0


class End(Struct, frozen=True):
    """How a worker ended.

    Attributes:
        rule: `runner.crashed` or `runner.timeout`.
        what: the signal's name or the status, or which deadline passed.
        tail: the last lines that it wrote to standard error.
    """

    rule: str
    what: str
    tail: str

    def __str__(self) -> str:
        return f"{self.what}; its stderr ended with: {self.tail}" if self.tail else self.what


class _Tail:
    """What a process writes: counted, and the last of it kept."""

    def __init__(self, pipe: int) -> None:
        self.written = 0
        self._pipe = pipe
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, name="paritygate-stderr", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError):
            while piece := os.read(self._pipe, 65_536):
                self.written += len(piece)
                self._kept = (self._kept + piece)[-_KEPT_STDERR:]
        os.close(self._pipe)

    def lines(self) -> str:
        """The whole lines that are kept, as they were written."""
        told = bytes(self._kept).decode(errors="replace")
        return told if self.written <= _KEPT_STDERR else told.partition("\n")[2]

    def text(self, wait_s: float = 0.0) -> str:
        """What is kept, on one line; waits for the rest of a process that has ended."""
        self._thread.join(wait_s)
        told = bytes(self._kept).decode(errors="replace")
        lines = [line.strip() for line in told.splitlines()]
        text = clean(" | ".join(line for line in lines if line and not line.startswith(_NOISE)))
        return text if len(text) <= _SHOWN_STDERR else "... " + text[-_SHOWN_STDERR:]


class Worker:
    """One process, from its start to its end.

    Attributes:
        generation: how many of the runner's workers were started before it.
        ready: what it said of its runner.
        control: for one thread at a time.
        in_flight: batches that it had when it ended.
        is_reproduced: whether one of them ended a worker again.
        settled: batches in flight at its end that have been run again.
    """

    def __init__(self, python: str | None, generation: int) -> None:
        self.generation = generation
        self.ready: Any = None
        self.in_flight = 0
        self.settled = 0
        self.is_reproduced = False
        self.peak_bytes = 0
        self._end: End | None = None
        self._ending = threading.Lock()
        self._sampled = 0.0
        reading, writing = os.pipe()
        self.control, theirs = Channel.pair()
        try:
            self._process = _SPAWNER.start(_command(python, theirs.fileno()), python, writing)
        except BaseException:
            os.close(reading)
            self.control.close()
            raise
        finally:
            theirs.close()
            os.close(writing)
        self.stderr = _Tail(reading)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ask(self, message: object, timeout_s: float, fds: tuple[int, ...] = ()) -> Any:
        """Send a message to the process itself and wait for the answer.

        Raises:
            ClosedError, LateError, GarbledError: as `Channel.ask`.
        """
        return self.control.ask(message, fds, timeout_s, self.is_alive)

    def hear(self, timeout_s: float) -> Any:
        """The next message of the process itself."""
        return self.control.receive(timeout_s, self.is_alive)

    def look(self, *, always: bool = False) -> None:
        """Note how much memory it has used at most; now and then."""
        now = time.monotonic()
        if not always and now - self._sampled < 1.0:
            return
        self._sampled = now
        with suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
            peak = status.partition("VmHWM:")[2].split()[0]
            self.peak_bytes = max(self.peak_bytes, int(peak) * 1024)

    def ended(self) -> End:
        """How it ended, once its channel has closed."""
        with self._ending:
            if self._end is None:
                self._end = self._bury(_GRACE_S)
        return self._end

    def expire(self, what: str) -> End:
        """End it because a deadline passed."""
        return self._break_off("runner.timeout", what)

    def disown(self, what: str) -> End:
        """End it because what it sends can't be relied on."""
        return self._break_off("runner.crashed", what)

    def _break_off(self, rule: str, what: str) -> End:
        with self._ending:
            if self._end is None:
                self.look(always=True)
                self._terminate()
                self._end = End(rule, what, self.stderr.text(0.2))
        return self._end

    def _bury(self, grace_s: float) -> End:
        try:
            status = self._process.wait(grace_s)
            self._end_children()
            what = _describe(status)
        except subprocess.TimeoutExpired:
            self._terminate()
            what = "its process closed its channel and went on"
        return End("runner.crashed", what, self.stderr.text(0.2))

    def _terminate(self) -> None:
        """Terminate, then kill."""
        self._process.terminate()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._end_children()

    def _end_children(self) -> None:
        """Kill what is left of its process group, which it leads."""
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it in peace, or else by force."""
        with self._ending:
            if self._end is None and self.is_alive():
                self.look(always=True)
                with suppress(ClosedError, LateError):
                    self.control.send(("close",), timeout_s=_GRACE_S)
                self.control.close()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_GRACE_S)
                    self._end_children()
            self.control.close()
            if self.is_alive():
                self._terminate()


def _command(python: str | None, control: int) -> list[str]:
    start = [python or sys.executable, "-P", "-u", "-c", _START]
    return [*start, str(_PACKAGE), str(control), str(os.getpid())]


class _Spawner:
    """The thread that starts all workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: queue.SimpleQueue[tuple[Future[Any], list[str], str | None, int]] | None
        self._orders = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock, self._orders = threading.Lock(), None

    def start(self, command: list[str], python: str | None, out: int) -> subprocess.Popen[bytes]:
        """Start a process whose output goes to a pipe.

        Raises:
            OSError: it can't be started.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._orders is None:
                self._orders = queue.SimpleQueue()
                body, orders = self._work, self._orders
                threading.Thread(
                    target=body, args=(orders,), name="paritygate-spawn", daemon=True
                ).start()
            self._orders.put((future, command, python, out))
        process: subprocess.Popen[bytes] = future.result()
        return process

    @staticmethod
    def _work(orders: queue.SimpleQueue[Any]) -> None:
        while True:
            future, command, python, out = orders.get()
            try:
                future.set_result(_popen(command, python, out))
            except BaseException as e:  # handed to whoever asked
                future.set_exception(e)


def _popen(command: list[str], python: str | None, out: int) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    for name in _FOREIGN if python is not None else ():
        environment.pop(name, None)
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        env=environment,
        pass_fds=(int(command[-2]),),
        start_new_session=True,  # an interrupt at the terminal is the gate's to handle
    )


_SPAWNER = _Spawner()


def _describe(status: int) -> str:
    if status >= 0:
        return f"its process was ended with status {status}, as by exit"
    number = -status
    known = {int(s): s.name for s in signal.Signals}
    name = known.get(number, f"signal {number}")
    more = ", most often for lack of memory" if number == signal.SIGKILL else ""
    return f"its process was ended by {name}{more}"
