"""What a plan says of a runner's own process: `isolate` in any runner's table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict
from pydantic import (
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
)

from paritygate.core.errors import Problem
from paritygate.core.problems import describe_error, join_path, merge_by_path
from paritygate.runners.options import RunnerOptions

PROCESS = "process"
# Kinds that run no code of a model: there is nothing to isolate.
NEVER = ("recorded", "preprocessing")
_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_BYTES = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
_LEAST = 64 << 20

Seconds = Annotated[StrictFloat | StrictInt, Field(gt=0, le=1_000_000)]


class IsolateTable(RunnerOptions):
    """`isolate = { ... }` of any runner.

    Attributes:
        interpreter: Python that runs it, of this or another environment; None: this one.
        memory_limit: of its address space, as in "4 GiB"; None: none.
        load_timeout_s: how long it may take to load.
        batch_timeout_s: how long it may take for a batch.
        max_crashes: samples that may end its process before it isn't started again.
    """

    interpreter: Annotated[StrictStr, Field(min_length=1)] | None = None
    memory_limit: StrictStr | StrictInt | None = None
    load_timeout_s: Seconds = 600.0
    batch_timeout_s: Seconds = 120.0
    max_crashes: Annotated[StrictInt, Field(ge=0, le=100_000)] = 20

    @field_validator("memory_limit")
    @classmethod
    def _is_size(cls, value: str | int | None) -> str | int | None:
        if value is not None:
            read_bytes(value)
        return value


class Isolation(Struct, frozen=True):
    """Where a runner runs; picklable.

    Attributes:
        is_on: in a process of its own; false: the plan wants it in this one.
        interpreter: Python that runs it, relative to the plan's folder where it has a slash; None:
            this one.
        memory_limit: bytes of address space; None: no limit.
        load_timeout_s, batch_timeout_s: seconds.
        max_crashes: samples that may end its process before it isn't started again.
        why: who asked for it.
    """

    is_on: bool = True
    interpreter: str | None = None
    memory_limit: int | None = None
    load_timeout_s: float = 600.0
    batch_timeout_s: float = 120.0
    max_crashes: int = 20
    why: str = "the plan"

    def to_plan(self) -> object:
        """The value of `isolate` in a plan, with every default written out."""
        if not self.is_on:
            return False
        told = {key: value for key, value in asdict(self).items() if value is not None}
        del told["is_on"], told["why"]
        return told

    def python(self, folder: Path) -> str | None:
        """The interpreter's path as seen from a plan's folder; None: this one."""
        if self.interpreter is None or "/" not in self.interpreter:
            return self.interpreter
        return str((folder / Path(self.interpreter).expanduser()).absolute())


def isolated(given: Isolation | None, why: str) -> Isolation:
    """In a process of its own: as the plan says, or by default where it doesn't."""
    return given if given is not None and given.is_on else Isolation(why=why)


def take_isolation(
    where: str, kind: str, options: dict[str, Any]
) -> tuple[Isolation | None, list[Problem]]:
    """Take `isolate` out of a runner's table.

    Returns:
        What it says, None where it says nothing, and what is wrong with it.
    """
    if "isolate" not in options:
        return None, []
    given, path = options.pop("isolate"), f"{where}.isolate"
    if given is False:
        return Isolation(is_on=False), []
    if given is True or given == PROCESS:
        given = {}
    if not isinstance(given, Mapping):
        forms = '"process", a table { memory_limit, batch_timeout_s, ... } or false'
        return None, [Problem(path, f"is {forms} (found {given!r})")]
    if kind in NEVER:
        told = "a recording is read and runs no code of a model; leave isolate out"
        if kind == "preprocessing":
            told = "it reads the golden pack in the gate's own process; leave isolate out"
        return None, [Problem(path, told)]
    try:
        table = IsolateTable.model_validate(dict(given))
    except ValidationError as e:
        return None, _describe(path, e)
    limit = None if table.memory_limit is None else read_bytes(table.memory_limit)
    return (
        Isolation(
            interpreter=table.interpreter,
            memory_limit=limit,
            load_timeout_s=float(table.load_timeout_s),
            batch_timeout_s=float(table.batch_timeout_s),
            max_crashes=table.max_crashes,
        ),
        [],
    )


def _describe(path: str, error: ValidationError) -> list[Problem]:
    known = list(IsolateTable.model_fields)
    found = [describe_error(join_path((path, *e["loc"][:1])), e, known) for e in error.errors()]
    return merge_by_path(found)


def read_bytes(text: str | int) -> int:
    """A size such as "4 GiB" or a number of bytes.

    Raises:
        ValueError: it isn't one, or too small for any process.
    """
    found = _BYTES.fullmatch(str(text))
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise ValueError('is a size such as "4 GiB", "500 MB", or a number of bytes')
    size = int(float(found[1]) * unit)
    if size < _LEAST:
        raise ValueError(f"is less than {_LEAST >> 20} MiB, in which no process starts")
    return size
