"""Run models in a child process: whatever ends it, the command keeps an exit code of its own.

A model's runtime, or a function that stands for a model, may end its process with any status. The
child therefore tells its exit code through a pipe, and no other end of it counts as one.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from msgspec import Struct, field

from paritygate.core.errors import Interrupted

UNHEARD_S = 0.5
TOGETHER_S = 0.25  # a terminal or `timeout` may deliver one interrupt twice
STOPPING = "stopping after the batches that are running; Ctrl-C again ends at once\n"
_CODE, _PARTIAL, _BEGUN, _MADE = b"code ", b"partial ", b"begun ", b"made "
_RECORDED, _SAID, _END = b"recorded ", b"said", b"\0"
_PR_SET_PDEATHSIG = 1
_ISOLATE = "paritygate run --isolate names the samples that do it and judges all others"
_CUT = "a pack was cut while it was read, or "
_NAMED = 3
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Line(Struct, frozen=True):
    """The child's way to tell its parent something; a process that it forks has none."""

    pid: int
    pipe: int

    def tell(self, kind: bytes, text: bytes) -> None:
        if os.getpid() == self.pid:
            with suppress(OSError):
                os.write(self.pipe, kind + text + _END)


_line: _Line | None = None
_told_code: int | None = None
_was_interrupted = False
_has_told_recorded = False


def is_supervised() -> bool:
    """Whether this is the child process that does the work of one command."""
    return _line is not None and os.getpid() == _line.pid


def told_code() -> int | None:
    """The exit code that this child process has told; None: it is no child, or still at work."""
    return _told_code if is_supervised() else None


def tell_partial(folder: Path | None) -> None:
    """Name the unfinished folder or file: it is removed if this process ends without a word.

    From now on models run.
    """
    if _line is not None and folder is not None:
        _line.tell(_PARTIAL, os.fsencode(folder.absolute()))


def tell_made(partial: Path | None, parents: Iterable[Path]) -> None:
    """Name folders that were made: what is unfinished, which is removed then, too, and its parents.

    Args:
        partial: the unfinished folder; None: there is none yet.
        parents: innermost first; removed as far as they are empty.
    """
    if _line is not None:
        if partial is not None:
            _line.tell(_BEGUN, os.fsencode(partial.absolute()))
        for folder in parents:
            _line.tell(_MADE, os.fsencode(folder.absolute()))


def tell_recorded(packs: Iterable[str | Path]) -> None:
    """Name the packs where all sides are recorded and no model runs; the first word counts."""
    global _has_told_recorded
    if _line is not None and not _has_told_recorded:
        for pack in packs:
            _has_told_recorded = True
            _line.tell(_RECORDED, os.fsencode(pack))


def tell_said() -> None:
    """Why there is no verdict stands on standard error."""
    if _line is not None:
        _line.tell(_SAID, b"")


def leave_the_rest() -> None:
    """End at once, without an exit code: what there is left to say, the parent says."""
    if is_supervised():
        os._exit(Interrupted.exit_code)


def supervise(work: Callable[[], int], args: Sequence[str]) -> int:
    """Do work in a child process.

    Returns in both processes; in the child once its exit code has been told.

    Args:
        work: gives an exit code, with everything written.
        args: the command line, for `--json`.

    Returns:
        The exit code: the work's own; 2 if its process ended otherwise; 128 and the number of the
        signal to this process that ended it.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    child = os.fork()
    if child == 0:
        os.close(reading)
        _become_child(parent, writing)
        return _work_and_tell(work, before)
    os.close(writing)
    os.set_blocking(reading, False)  # a process that the child left behind may hold its end
    watch = _Watch(child, reading)
    watch.install()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    watch.remove()
    _, status = os.waitpid(child, 0)
    return _conclude(status, watch, args)


def _work_and_tell(work: Callable[[], int], mask: Iterable[int]) -> int:
    global _told_code
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    except KeyboardInterrupt:  # it waited for this; nothing has been said
        os._exit(Interrupted.exit_code)
    try:
        code = work()
    except KeyboardInterrupt:  # in the middle of its last words
        code = Interrupted.exit_code
    except BaseException:
        if not _was_interrupted:
            raise
        os._exit(Interrupted.exit_code)  # an import broken off halfway; the parent says so
    if _line is not None:
        _line.tell(_CODE, str(code).encode())
        _told_code = code
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


def _become_child(parent: int, pipe: int) -> None:
    """Take the first interrupt only, and outlive the parent by no moment."""
    global _line
    _line = _Line(os.getpid(), pipe)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt_once)
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(2)


def _interrupt_once(_signal: int, _frame: FrameType | None) -> None:
    """Raise; the parent, who gets every further interrupt too, ends this process at the second."""
    global _was_interrupted
    _was_interrupted = True
    signal.signal(signal.SIGINT, lambda *_: None)
    raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether this child process got an interrupt, whatever has become of it."""
    return _was_interrupted


def raise_if_interrupted() -> None:
    """Raise again what a finalizer or a callback of native code may have swallowed."""
    if _was_interrupted:
        raise KeyboardInterrupt


class _Watch(Struct):
    """What the parent does about signals while the child works.

    Attributes:
        pipe: what the child tells.
        ended_by: the signal that made this process end the child.
    """

    child: int
    pipe: int
    ended_by: signal.Signals | None = None
    interrupted_at: float | None = None
    told: bytearray = field(default_factory=bytearray)

    def install(self) -> None:
        """Handle signals, but those that whoever started this process has it ignore."""
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                is_interrupt = number is signal.SIGINT
                signal.signal(number, self._interrupt if is_interrupt else self._terminate)
        signal.signal(signal.SIGALRM, self._say_stopping)

    def remove(self) -> None:
        """The child is over; what is left to do here is short and isn't interrupted."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in (*_SIGNALS, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)

    def records(self) -> list[bytes]:
        """All that the child told so far."""
        with suppress(BlockingIOError):
            while piece := os.read(self.pipe, 65_536):
                self.told += piece
        return bytes(self.told).split(_END)[:-1]

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.interrupted_at is None:
            self.interrupted_at = now
            os.kill(self.child, signal.SIGINT)
            signal.setitimer(signal.ITIMER_REAL, UNHEARD_S)
        elif now - self.interrupted_at > TOGETHER_S:
            self.ended_by = signal.SIGINT
            os.kill(self.child, signal.SIGKILL)

    def _terminate(self, number: int, _frame: FrameType | None) -> None:
        is_deaf = self.ended_by is not None  # a model's code may ignore the first one
        self.ended_by = signal.Signals(number)
        os.kill(self.child, signal.SIGKILL if is_deaf else number)

    def _say_stopping(self, _signal: int, _frame: FrameType | None) -> None:
        if _SAID not in self.records():
            _write("\n" + STOPPING if sys.stderr.isatty() else STOPPING)


def _write(text: str) -> None:
    with suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), text.encode())


def _conclude(status: int, watch: _Watch, args: Sequence[str]) -> int:
    records = watch.records()
    codes = [record.removeprefix(_CODE) for record in records if record.startswith(_CODE)]
    if len(codes) == 1 and codes[0].isdigit():
        return int(codes[0])
    folders = _told(records, _PARTIAL)
    for folder in (*folders, *_told(records, _BEGUN)):
        _remove(folder)
    with suppress(OSError):
        for folder in _told(records, _MADE):
            Path(folder).rmdir()
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        _write("\r\x1b[2K\x1b[?25h")  # a progress bar, and the cursor that it hid
    from paritygate.admission.place import sweep
    from paritygate_frontends.cli.ending import explain, is_json

    sweep()  # the child's copies of models
    end = _describe_end(status, watch, bool(folders), _told(records, _RECORDED))
    return explain(end, is_json(args), is_said=_SAID in records)


def _told(records: Sequence[bytes], kind: bytes) -> list[str]:
    """The paths that were told of this kind, each once."""
    told = (os.fsdecode(r.removeprefix(kind)) for r in records if r.startswith(kind))
    return list(dict.fromkeys(told))


def _remove(unfinished: str) -> None:
    """Remove a run folder or a recording."""
    shutil.rmtree(unfinished, ignore_errors=True)
    with suppress(OSError):
        Path(unfinished).unlink()


def _describe_end(
    status: int, watch: _Watch, was_running: bool, recorded: Sequence[str]
) -> BaseException:
    from paritygate_frontends.cli.ending import CrashedError

    if watch.ended_by is signal.SIGINT:
        return Interrupted("interrupted; no verdict")
    if watch.ended_by is not None:
        name = watch.ended_by.name
        return Interrupted(f"stopped from outside by {name}; no verdict", watch.ended_by)
    if watch.interrupted_at is not None and os.WIFEXITED(status):
        return Interrupted("interrupted; no verdict")
    if recorded:
        return _describe_recorded(status, recorded)
    when = "while models ran" if was_running else "before the first batch"
    if os.WIFEXITED(status):
        return CrashedError(
            f"the process was ended with status {os.WEXITSTATUS(status)} {when}: a model, its "
            f"runtime or a function called exit; {_ISOLATE}"
        )
    number = os.WTERMSIG(status)
    name = _name_of(number)
    advice = (
        "most often the machine ran out of memory; use a smaller batch_size or fewer threads, or "
        "bound each runner: --isolate and isolate = { memory_limit = ... }"
        if number == signal.SIGKILL
        else f"{_CUT if number == signal.SIGBUS else ''}a model's runtime or a function crashed in "
        f"native code; {_ISOLATE}"
    )
    return CrashedError(f"the process was ended by {name} {when}: {advice}")


def _describe_recorded(status: int, packs: Sequence[str]) -> BaseException:
    """What ended a comparison in which no model runs."""
    from paritygate.core.errors import GoldenError
    from paritygate_frontends.cli.ending import CrashedError

    more = f" and {len(packs) - _NAMED} more" if len(packs) > _NAMED else ""
    names = ", ".join(packs[:_NAMED]) + more
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS:
        return GoldenError(
            f"{names}: one of these files was cut or changed while it was read (SIGBUS); compare "
            "again once they are written to their end"
        )
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        advice = "most often the machine ran out of memory; use fewer threads"
    else:
        advice = (
            "a file may be damaged or have been changed meanwhile, or a function of the plan "
            "crashed; try `paritygate pack check`"
        )
    how = (
        f"with status {os.WEXITSTATUS(status)}"
        if os.WIFEXITED(status)
        else f"by {_name_of(os.WTERMSIG(status))}"
    )
    return CrashedError(f"the process was ended {how} while {names} were compared: {advice}")


def _name_of(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
