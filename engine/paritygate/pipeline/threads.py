"""How many threads run and compare: asked for, fixed by the plan, by the cores, or measured."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from paritygate.pipeline.span import Prepared
from paritygate.runners.recorded import RecordedRunner

Reason = Literal["option", "plan", "cores", "measured"]

MEASURED_S = 0.25
WORTH_S = 16 * MEASURED_S  # where less is left, measuring costs more than it gives
# What waits for a core in this container, or else on this machine, as Linux tells it.
PRESSURE = (Path("/sys/fs/cgroup/cpu.pressure"), Path("/proc/pressure/cpu"))
_BUSY_PERCENT = 33.0
_BETTER = 1.1  # what is nearer is noise, and a wrong choice of fewer threads is the dearer one


class Threads(Struct):
    """How many threads there are, and why so many.

    Attributes:
        most: threads that are started.
        reason: "option", "plan", "cores", or "measured" once `rates` has decided.
        may_measure: fewer of them may turn out to be faster.
        used: threads that are at work at once.
        rates: threads -> samples per second of blocks that counted, in the order they were tried.
    """

    most: int
    reason: Reason
    may_measure: bool = False
    used: int = 0
    rates: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.used = self.most

    def at_most(self, busy: int) -> Threads:
        """No more of them than can be at work at once."""
        return replace(self, most=max(1, min(self.most, busy)))

    def describe(self) -> dict[str, Any]:
        """What a summary says of them."""
        rates = [{"threads": n, "samples_per_s": round(r, 1)} for n, r in self.rates.items()]
        return {"used": self.used, "reason": self.reason, **({"measured": rates} if rates else {})}


def choose_threads(prepared: Prepared, asked: int | None = None) -> Threads:
    """The threads of a run: those asked for, else the plan's, else by cores and runners.

    Args:
        prepared: plan and runners.
        asked: by whoever starts the run, at least 1.
    """
    if asked is not None:
        return Threads(asked, "option")
    if prepared.plan.table.threads is not None:
        return Threads(prepared.plan.table.threads, "plan")
    asks = any(not isinstance(runner, RecordedRunner) for runner in prepared.runners.values())
    return Threads(_by_cores(prepared), "cores", may_measure=asks)


def _by_cores(prepared: Prepared) -> int:
    """The cores, shared among threads that a runner starts itself."""
    cores = usable_cores()
    own = 1
    for name in prepared.runners:
        wanted = getattr(prepared.plan.runners[name].options, "intra_op_num_threads", 1)
        own = max(own, cores if wanted == 0 else int(wanted or 1))
    return max(1, cores // own)


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spare_cores() -> int:
    """The same; one where, for a third of the last ten seconds, something waited for a core."""
    for path in PRESSURE:
        with suppress(OSError, ValueError, IndexError):
            waited = float(path.read_text().split("avg10=")[1].split()[0])
            return 1 if waited > _BUSY_PERCENT else usable_cores()
    return usable_cores()


class Slots:
    """Lets only so many threads work at once; how many may change meanwhile."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._busy = 0
        self._changed = threading.Condition()

    def take(self, stop: threading.Event) -> None:
        """Wait for a slot; on a stop there is one for everybody."""
        with self._changed:
            while self._busy >= self._limit and not stop.is_set():
                self._changed.wait(0.1)
            self._busy += 1

    def give(self) -> None:
        """Give a slot back."""
        with self._changed:
            self._busy -= 1
            self._changed.notify()

    def allow(self, limit: int) -> None:
        """Let so many work from now on."""
        with self._changed:
            self._limit = limit
            self._changed.notify_all()


class Tuner:
    """Tries fewer threads on the first blocks of a long run, and stays with what was fastest.

    Half as many threads are tried as long as that is faster. The blocks that are measured count as
    all others do: threads change no result.
    """

    def __init__(
        self,
        threads: Threads,
        slots: Slots,
        samples: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._threads = threads
        self._slots = slots
        self._left = samples
        self._clock = clock
        self._lock = threading.Lock()
        self._is_done = not threads.may_measure or threads.most == 1
        self._try(threads.most)

    def note(self, samples: int) -> None:
        """Say that a block of so many samples has been run and compared."""
        if self._is_done:
            return
        with self._lock:
            self._left -= samples
            self._blocks += 1
            if self._blocks <= self._settling:  # begun before, beside other threads
                self._samples, self._since = 0, self._clock()
                return
            self._samples += samples
            taken = self._clock() - self._since
            enough = self._blocks >= self._settling + 2 * self._tried
            if enough and taken >= MEASURED_S and not self._is_done:
                self._decide(self._samples / taken)

    def _try(self, threads: int) -> None:
        # What was begun beside other threads doesn't count, nor what warms up.
        self._settling = self._threads.most
        self._tried, self._blocks, self._samples = threads, 0, 0
        self._since = self._clock()
        self._slots.allow(threads)

    def _decide(self, rate: float) -> None:
        rates = self._threads.rates
        if not rates and self._left < WORTH_S * rate:
            self._is_done = True
            return
        rates[self._tried] = rate
        others = [known for threads, known in rates.items() if threads != self._tried]
        is_better = rate > _BETTER * max(others, default=0.0)
        if is_better and self._tried > 1:
            self._try(self._tried // 2)
            return
        self._is_done = True
        self._threads.used = _fastest(rates)
        self._threads.reason = "measured"
        self._slots.allow(self._threads.used)


def _fastest(rates: Mapping[int, float]) -> int:
    """The number of threads with the best rate; of those that are as fast, the first one tried."""
    best = next(iter(rates))
    for threads, rate in rates.items():
        if rate > _BETTER * rates[best]:
            best = threads
    return best
