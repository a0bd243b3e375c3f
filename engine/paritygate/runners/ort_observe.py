"""One more session of a model, profiled over one batch, in a process beside this one.

The process is started when the first model is prepared and serves all others, one after another;
it ends after a while without work. Whatever becomes of it, the run goes on: what could not be
observed is told.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from msgspec import Struct

IDLE_S = 10.0
START_S = 60.0
# With this variable set, a model's metadata would choose session options.
CONFIG_FROM_MODEL = "ORT_LOAD_CONFIG_FROM_MODEL"
_CHILD = Path(__file__).with_name("_observe.py")


class Fed(Struct, frozen=True):
    """One input of the observed run.

    Attributes:
        name: the model's.
        shape: of the array.
        dtype: of the bytes, for NumPy.
        element: ONNX's number of the element type.
        data: the bytes; empty for texts.
        texts: the texts, where it holds texts.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    element: int
    data: bytes
    texts: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, object]:
        """All but the bytes."""
        return {
            "name": self.name,
            "shape": self.shape,
            "dtype": self.dtype,
            "element": self.element,
            "bytes": len(self.data),
            "texts": self.texts,
        }


class Observation(Struct, frozen=True):
    """What the other session showed.

    Attributes:
        in_force: providers in force once it was made.
        in_force_after: providers in force after its run; None where it didn't run.
        version: of onnxruntime there.
        assigned: provider, name, domain and op type of each node; None where it can't tell.
        executed: provider, name, op type, index and times of each node that ran; None where
            nothing was run.
        events: events of nodes in the profile.
        said: what was printed meanwhile.
        said_cut: bytes of it that are left out.
        problem: why there is nothing, or not all; empty where all is there.
    """

    in_force: tuple[str, ...] = ()
    in_force_after: tuple[str, ...] | None = None
    version: str = ""
    assigned: tuple[tuple[str, str, str, str], ...] | None = None
    executed: tuple[tuple[str, str, str, str, int], ...] | None = None
    events: int = 0
    said: str = ""
    said_cut: int = 0
    problem: str = ""


class Observer:
    """Runs observations one after another in a process of its own."""

    def __init__(self, command: Sequence[str] | None = None, idle_s: float = IDLE_S) -> None:
        # -P: the child's own folder has modules whose names would hide others.
        self._command = list(command or (sys.executable, "-P", str(_CHILD)))
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._owner: int | None = None  # a forked process has the thread's queue, not the thread
        self._jobs: queue.Queue[_Job | None] = queue.Queue()

    def warm(self) -> None:
        """Let the process start, so that it is there when it is needed."""
        self._put(None)

    def submit(
        self, request: Mapping[str, Any], fed: Sequence[Fed], deadline_s: float
    ) -> Future[Observation]:
        """Have a model observed.

        Args:
            request: the session, see `_observe.py`.
            fed: the inputs of the run.
            deadline_s: seconds that session and run may take together.

        Returns:
            What was seen; it never holds an exception.
        """
        job = _Job(dict(request), tuple(fed), deadline_s, Future())
        self._put(job)
        return job.future

    def _put(self, job: _Job | None) -> None:
        with self._lock:
            if self._owner != os.getpid():
                self._jobs = queue.Queue()
                self._owner = os.getpid()
                threading.Thread(
                    target=self._serve, args=(self._jobs,), name="paritygate-observer", daemon=True
                ).start()
            self._jobs.put(job)

    def _serve(self, jobs: queue.Queue[_Job | None]) -> None:
        """Own the process: it ends with the thread that started it."""
        process: _Process | None = None
        while True:
            try:
                job = jobs.get(timeout=self._idle_s)
            except queue.Empty:
                with self._lock:
                    if not jobs.empty():
                        continue
                    self._owner = None
                if process is not None:
                    process.end()
                return
            try:
                if process is not None and not process.is_alive:
                    process.end()
                    process = None
                process = process or _Process(self._command)
                if job is not None:
                    found = process.observe(job)
                    job.future.set_result(found)
            except Exception as e:  # a machine without memory or processes; told, not raised
                if job is not None:
                    text = f"the observing process could not be used ({e})"
                    job.future.set_result(Observation(problem=text))


class _Job(Struct, frozen=True):
    request: dict[str, Any]
    fed: tuple[Fed, ...]
    deadline_s: float
    future: Future[Observation]


class _Process:
    """The child and the ways to it."""

    def __init__(self, command: Sequence[str]) -> None:
        modules = os.pathsep.join(p for p in sys.path if p)
        # NumPy's OpenBLAS keeps a core busy for 0.1 s as soon as it has threads; none is needed.
        env = {"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": modules}
        env.pop(CONFIG_FROM_MODEL, None)
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command, str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
                env=env,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._answers = reading
        self._is_new = True

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None and self._process.poll() is None

    def observe(self, job: _Job) -> Observation:
        with tempfile.TemporaryDirectory(
            prefix="paritygate-profile-", ignore_cleanup_errors=True
        ) as folder:
            return self._observe(job, folder)

    def _observe(self, job: _Job, folder: str) -> Observation:
        request = {**job.request, "feeds": [fed.to_json() for fed in job.fed], "folder": folder}
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            for fed in job.fed:
                stdin.write(fed.data)
            stdin.flush()
        except OSError:
            return Observation(problem=self._ended())
        line = self._line(job.deadline_s + (START_S if self._is_new else 0.0))
        self._is_new = False
        if line is None:
            self.end(kill=True)
            return Observation(problem=f"it took longer than {job.deadline_s:.0f} s")
        if not line.endswith(b"\n"):
            return Observation(problem=self._ended())
        return _read(json.loads(line))

    def _line(self, seconds: float) -> bytes | None:
        """One line of the answers, or what came of it before the end; None: it took too long."""
        deadline = time.monotonic() + seconds
        line = bytearray()
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                return None
            piece = os.read(self._answers, 1 << 20)
            if not piece:
                break
            line += piece
        return bytes(line)

    def _ended(self) -> str:
        self.end(kill=True)
        code = self._process.returncode
        known = {int(s) for s in signal.Signals}
        how = f"exit code {code}"
        if code < 0:
            how = signal.Signals(-code).name if -code in known else f"signal {-code}"
        return f"the observing process ended with {how}"

    def end(self, *, kill: bool = False) -> None:
        """Let go of the child; it ends at the end of its stdin."""
        if kill:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.5)  # how it ended by itself is worth knowing
            self._process.kill()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1


def _read(answer: Mapping[str, Any]) -> Observation:
    after, assigned, executed = (
        answer.get(key) for key in ("in_force_after", "assigned", "executed")
    )
    error = answer.get("error")
    return Observation(
        in_force=tuple(answer.get("in_force") or ()),
        in_force_after=None if after is None else tuple(after),
        version=str(answer.get("version") or ""),
        assigned=None if assigned is None else tuple((p, n, d, o) for p, n, d, o in assigned),
        executed=None if executed is None else tuple((p, n, o, i, c) for p, n, o, i, c in executed),
        events=int(answer.get("events") or 0),
        said=str(answer.get("said") or ""),
        said_cut=int(answer.get("said_cut") or 0),
        problem=f"the observed session raised: {error}" if error else "",
    )


OBSERVER = Observer()
