"""Errors that a user can mend. Each says where, what was found and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Struct

SHOWN_PROBLEMS = 50

E = TypeVar("E", bound=BaseException)


class ParityError(Exception):
    """Base of all errors that paritygate raises on purpose.

    Attributes:
        code: stable dotted code, the same as in `summary.json`.
        exit_code: what a command ends with when this error ends it (2: could not judge).
    """

    code = "internal.error"
    exit_code = 2

    def __reduce__(self) -> tuple[Any, ...]:
        """As it was made, whatever it was made of: other processes of a pool send errors on."""
        return revived, (type(self), self.args, self.__dict__)


def revived(kind: type[E], args: tuple[object, ...], attributes: Mapping[str, object]) -> E:
    """An error with these arguments and attributes, as `pickle` makes it again."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class Problem(Struct, frozen=True):
    """One thing wrong with a plan: the dotted path of the field and what to change."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class PlanError(ParityError):
    """A plan that can't be used, with all of its problems at once."""

    code = "policy.invalid"

    def __init__(self, problems: Sequence[Problem], source: str = "plan") -> None:
        self.problems = tuple(problems)
        self.source = source
        count = len(self.problems)
        head = f"{source}: {count} problem{'s' if count != 1 else ''}"
        lines = [f"  {p}" for p in self.problems[:SHOWN_PROBLEMS]]
        if count > SHOWN_PROBLEMS:
            lines.append(f"  and {count - SHOWN_PROBLEMS} more")
        super().__init__("\n".join([head, *lines]))


@contextmanager
def gathering(problems: dict[Problem, None]) -> Iterator[None]:
    """Note what is wrong with a plan, each problem once, and go on, so that all of it is told."""
    try:
        yield
    except PlanError as e:
        problems.update(dict.fromkeys(e.problems))


class GoldenError(ParityError):
    """A golden pack that can't be read or whose ids or columns are unusable."""

    code = "golden.unreadable"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class RunnerLoadError(ParityError):
    """A runner that could not be prepared.

    Attributes:
        runner: the runner's name in the plan.
        is_plan_fault: true when the plan or this machine is at fault (unknown option, a provider
            that isn't in the build, a plan that contradicts the model): exit 2 on either side.
            Otherwise a candidate that doesn't load is a hold and a reference is exit 2.
        detail: all that the runtime said, where the message is shorter.
    """

    code = "runner.load_failed"

    def __init__(
        self,
        runner: str,
        message: str,
        *,
        is_plan_fault: bool = False,
        code: str | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.runner = runner
        self.detail = detail
        self.is_plan_fault = is_plan_fault
        if code is not None:
            self.code = code


class RunnerError(ParityError):
    """A runner that raised for one batch.

    Attributes:
        rule: what the samples of the batch fail by; `runner.disagreement` holds for those that the
            other side answered, the others are `runner.error`.
    """

    code = "runner.error"
    exit_code = 1
    rule = "runner.disagreement"


class UnusableError(RunnerError):
    """A runner that answered a batch with something unusable."""

    rule = "runner.error"


class ImputeError(ParityError):
    """A function that should replace missing values of a sample, and didn't."""

    code = "contract.imputation"


class DenormalError(ParityError):
    """The thread that compares flushes denormal numbers to zero: nothing it says would hold."""

    code = "environment.denormals_flushed"


class DeviceError(ParityError):
    """A GPU that nothing can be compared on, or one that failed or counted wrong."""

    code = "comparison.device"


class FolderError(ParityError):
    """A run folder that can't be written or read (full disk, permissions, newer schema)."""

    code = "runfolder.unwritable"


class UnreadableRunError(FolderError):
    """A folder that isn't a finished run, or one that this version can't read."""

    code = "runfolder.unreadable"


class ReplayError(ParityError):
    """A replay that would not be one: other models, other samples, or none that were kept."""

    code = "replay.refused"


class Interrupted(ParityError):  # noqa: N818 - the word that users know
    """The run was stopped from outside before its verdict.

    Attributes:
        exit_code: 128 and the signal's number, as shells and supervisors have it: 130 for SIGINT.
    """

    code = "run.interrupted"
    exit_code = 130

    def __init__(self, message: str, signal: int = 2) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal
