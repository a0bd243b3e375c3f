"""Kind `null`: answers at no cost, for measuring everything around a runner."""

from __future__ import annotations

import hashlib
import threading
from typing import Annotated, cast

from pydantic import Field, StrictInt, StrictStr, field_validator, model_validator

from paritygate.core.digest import canonical_json
from paritygate.core.dtypes import DTYPES, zeros
from paritygate.core.errors import RunnerError, RunnerLoadError
from paritygate.core.problems import did_you_mean
from paritygate.core.tensors import Array, Batch, TensorSpec
from paritygate.runners.base import (
    Lease,
    Limits,
    PrepareContext,
    Runner,
    RunnerSession,
    RunnerSpec,
    describe_batch,
)
from paritygate.runners.options import RunnerOptions


class NullOutput(RunnerOptions):
    """An output of zeros: dtype, and the shape of one sample."""

    dtype: StrictStr
    shape: tuple[Annotated[StrictInt, Field(ge=0)], ...] = ()

    @field_validator("dtype")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in DTYPES:
            raise ValueError(f"isn't a dtype that can be judged; known: {', '.join(DTYPES)}")
        return value


class Options(RunnerOptions):
    """`[runners.NAME]` of kind `null`.

    Attributes:
        outputs: outputs that are zeros.
        echo: output -> input that it repeats.
        batch_size: rows of a batch; None: any.
    """

    outputs: dict[StrictStr, NullOutput] = Field(default={})
    echo: dict[StrictStr, StrictStr] = Field(default={})
    batch_size: Annotated[StrictInt, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _some_once(self) -> Options:
        if not self.outputs and not self.echo:
            raise ValueError(
                "give outputs = { NAME = { dtype, shape } } or echo = { NAME = INPUT }"
            )
        both = sorted(set(self.outputs) & set(self.echo))
        if both:
            raise ValueError(f"{both} are in outputs and in echo")
        return self


class NullRunner(Runner):
    """Zeros of the declared outputs, and inputs repeated."""

    constant_names = frozenset[str]()

    def __init__(self, name: str, options: Options, inputs: dict[str, TensorSpec]) -> None:
        outputs = {
            out: TensorSpec(out, table.dtype, ("batch", *table.shape))
            for out, table in options.outputs.items()
        }
        for out, source in options.echo.items():
            outputs[out] = TensorSpec(out, inputs[source].dtype, inputs[source].shape)
        settings = options.model_dump(mode="json")
        super().__init__(
            name,
            "null",
            limits=Limits((options.batch_size,) if options.batch_size else None, True),
            inputs=inputs,
            outputs=outputs,
            identity=hashlib.sha256(canonical_json(["null", settings])).hexdigest(),
            facts=settings,
        )
        self._options = options
        self._zeros: dict[int, dict[str, Array]] = {}
        self._lock = threading.Lock()

    def session(self) -> RunnerSession:
        """A session for the calling thread."""
        return _NullSession(self)

    def answer(self, batch: Batch) -> dict[str, Array]:
        """Read-only outputs of a batch; zeros are shared by all batches of a size."""
        with self._lock:
            if batch.size not in self._zeros:
                self._zeros[batch.size] = {
                    name: _zeros((batch.size, *table.shape), table.dtype)
                    for name, table in self._options.outputs.items()
                }
            made = self._zeros[batch.size]
        return {**made, **{out: batch.inputs[name] for out, name in self._options.echo.items()}}


class _NullSession(RunnerSession):
    def __init__(self, runner: NullRunner) -> None:
        super().__init__(runner)
        self._null = runner

    def _run_impl(self, batch: Batch) -> Lease:
        absent = sorted(set(self._null.inputs or {}) - set(batch.inputs))
        if absent:
            raise RunnerError(f"{describe_batch(self.runner.name, batch)}: lacks inputs {absent}")
        return Lease(self._null.answer(batch), is_lasting=True)


def prepare(spec: RunnerSpec, context: PrepareContext) -> NullRunner:
    """Match the inputs that are echoed with the pack.

    Raises:
        RunnerLoadError: the pack lacks such an input; a fault of the plan.
    """
    options = cast(Options, spec.options)
    inputs = {}
    for out, source in options.echo.items():
        column = context.inputs.get(source)
        if column is None:
            raise RunnerLoadError(
                spec.name,
                f"runners.{spec.name}.echo.{out}: the golden pack has no input {source!r}"
                f"{did_you_mean(source, context.inputs)}",
                is_plan_fault=True,
            )
        inputs[source] = TensorSpec(source, column.dtype, ("batch", *column.shape))
    return NullRunner(spec.name, options, inputs)


def _zeros(shape: tuple[int, ...], dtype: str) -> Array:
    array: Array = zeros(shape, dtype)
    array.flags.writeable = False
    return array
