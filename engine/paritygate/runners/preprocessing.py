"""Kind `preprocessing`: a function from the raw records of a pack to prepared inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from msgspec.structs import replace
from pydantic import StrictBool, StrictStr, field_validator

from paritygate.core.digest import canonical_json
from paritygate.core.errors import GoldenError, RunnerError, RunnerLoadError, UnusableError
from paritygate.core.forms import NO_COLUMNS
from paritygate.core.ragged import repeat_last
from paritygate.core.tensors import Array, Batch, ColumnSpec
from paritygate.golden.pack import GoldenPack
from paritygate.golden.raw import PREFIX, RawRecords
from paritygate.runners.answers import unusable
from paritygate.runners.base import (
    DEFAULT_BATCH_SIZE,
    Lease,
    Limits,
    PrepareContext,
    RunnerSession,
    RunnerSpec,
    describe_batch,
)
from paritygate.runners.layout import Layout
from paritygate.runners.prepared import golden_rows
from paritygate.runners.python import (
    Function,
    FunctionOptions,
    PythonRunner,
    PythonSession,
    check_takes_one,
)
from paritygate.runners.python_identity import digest_of_module, identify_function
from paritygate.runners.python_import import find_function


class Options(FunctionOptions):
    """`[runners.NAME]` of kind `preprocessing`; `outputs` are the inputs that it prepares.

    Attributes:
        batch: the function is given the records of a batch, name -> `(n, ...)`; False: one record
            a call, name -> value, and it answers without a sample axis.
        columns: names of the raw columns that it is given; None: all of the pack.
    """

    batch: StrictBool = True
    columns: tuple[StrictStr, ...] | None = None

    @field_validator("columns", mode="before")
    @classmethod
    def _one_column_or_more(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("columns")
    @classmethod
    def _some(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value == ():
            raise ValueError(NO_COLUMNS)
        return value


class PreprocessingRunner(PythonRunner):
    """A function that is called with raw records and nothing else of the golden pack."""

    constant_names = frozenset[str]()

    def __init__(self, *args: Any, golden: GoldenPack, raw: RawRecords) -> None:
        super().__init__(*args)
        self.inputs = {}
        self.golden = golden
        self.raw = raw
        self.watched = raw.watched

    def session(self) -> RunnerSession:
        """A session for the calling thread."""
        return _Session(self)

    def close(self) -> None:
        """Close the pack's files."""
        self.raw.close()


class _Session(PythonSession):
    def __init__(self, runner: PreprocessingRunner) -> None:
        super().__init__(runner)
        self._own = runner

    def _run_impl(self, batch: Batch) -> Lease:
        try:
            records = self._own.raw.take(golden_rows(self._own.golden, batch))
        except GoldenError as e:
            raise RunnerError(f"{describe_batch(self.runner.name, batch)}: {e}") from e
        lease = super()._run_impl(replace(batch, size=batch.valid, inputs=records))
        for name, tensor in lease.outputs.items():
            problem = unusable(tensor, batch.valid, 0)
            if problem:
                where = describe_batch(self.runner.name, batch)
                raise UnusableError(f"{where}: input {name!r} {problem}")
        return Lease({n: repeat_last(t, batch.size) for n, t in lease.outputs.items()})


def prepare(spec: RunnerSpec, context: PrepareContext) -> PreprocessingRunner:
    """Import the function, and open the raw columns of the golden pack.

    Raises:
        RunnerLoadError: no such module or function, no such column, or no golden pack (faults of
            the plan), or the import raised.
    """
    options = cast(Options, spec.options)
    where = f"runners.{spec.name}.call"
    found = find_function(spec.name, where, options.call, context.folder / (options.folder or ""))
    check_takes_one(spec.name, where, options.call, found.function)
    size = (options.batch_size or DEFAULT_BATCH_SIZE) if options.batch else 1
    unique = identify_function(found.module, found.attribute, found.function)
    golden, raw = _open(spec.name, options, context)
    facts: dict[str, object] = {
        "call": options.call,
        "source_sha256": digest_of_module(found.module),
        "batch_size": size,
        "batch": options.batch,
        "outputs_named": list(options.outputs),
        "raw": {name: str(kind) for name, kind in raw.types.items()},
    }
    parts = ["preprocessing", *unique, options.batch, size, list(raw.types)]
    return PreprocessingRunner(
        spec.name,
        found.function if options.batch else _one_by_one(found.function, options.outputs),
        Limits((size,), options.thread_safe, is_fixed=not options.batch),
        hashlib.sha256(canonical_json(parts)).hexdigest(),
        facts,
        options.outputs if options.batch else (),
        {},
        Layout(dims={name: _dims(spec) for name, spec in context.inputs.items()}),
        golden=golden,
        raw=raw,
    )


def _open(runner: str, options: Options, context: PrepareContext) -> tuple[GoldenPack, RawRecords]:
    golden = context.pack
    if golden is None:
        raise RunnerLoadError(
            runner,
            f"runner {runner!r}: raw records are columns of a golden pack, but there is none",
            is_plan_fault=True,
        )
    shared = [f"in.{n}" for n, column in golden.input_columns.items() if column.startswith(PREFIX)]
    if shared:
        raise RunnerLoadError(
            runner,
            f"runner {runner!r}: {', '.join(shared)} is a raw column itself (inputs.NAME.column), "
            "so that it would be prepared from what it is compared with; keep both in the pack",
            is_plan_fault=True,
        )
    try:
        files = [file.path for file in golden.files]
        return golden, RawRecords(files, context.id_column, options.columns or ())
    except GoldenError as e:
        raise RunnerLoadError(
            runner, f"runner {runner!r}: {e}", is_plan_fault=True, code=e.code
        ) from e


def _dims(column: ColumnSpec) -> list[int | str]:
    """The dims of a sample; one that varies has a name."""
    return [f"dim {at}" if dim is None else dim for at, dim in enumerate(column.shape)]


def _one_by_one(function: Function, names: Sequence[str]) -> Function:
    """A function of one record as a function of a batch of one."""

    def prepare_batch(records: dict[str, Array]) -> object:
        answer = function({name: values[0] for name, values in records.items()})
        if isinstance(answer, np.ndarray | np.generic) and len(names) == 1:
            answer = {names[0]: answer}
        if isinstance(answer, list | tuple) and len(answer) == len(names):
            answer = dict(zip(names, answer, strict=True))
        if not isinstance(answer, Mapping):
            return answer
        return {
            name: np.asarray(v)[None] if isinstance(v, np.ndarray | np.generic) else v
            for name, v in answer.items()
        }

    return prepare_batch
