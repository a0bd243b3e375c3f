"""Kind `python`: a function from a dict of arrays to a dict of arrays.

Whatever a function raises, `SystemExit` too, costs its batch. A function that ends the process
itself (`os._exit`, a crash in native code) ends the gate without a verdict.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator

from paritygate.core.digest import canonical_json, sha256_file
from paritygate.core.errors import RunnerError, RunnerLoadError, UnusableError
from paritygate.core.forms import CALL
from paritygate.core.ragged import Tensor, as_tensor
from paritygate.core.tensors import Array, Batch
from paritygate.runners.answers import mixed
from paritygate.runners.base import (
    DEFAULT_BATCH_SIZE,
    Lease,
    Limits,
    PrepareContext,
    Runner,
    RunnerSession,
    RunnerSpec,
    describe_batch,
)
from paritygate.runners.layout import Layout
from paritygate.runners.options import RunnerOptions
from paritygate.runners.python_identity import digest_of_module, identify_function
from paritygate.runners.python_import import (
    ONE_AT_A_TIME,
    find_function,
    is_interrupt,
    tell_error,
)

Function = Callable[[dict[str, Array]], object]
_TEXT_KINDS = ("U", "T")


class FunctionOptions(RunnerOptions):
    """What is said of a function, whatever it is given.

    Attributes:
        call: `module:function`, looked up in `folder` first.
        folder: where that is, relative to the plan's folder; None: the plan's folder itself.
        batch_size: rows of a batch; None: 256.
        outputs: names of the outputs, in order, needed where the function returns a plain array
            or a sequence of arrays.
        thread_safe: the function may be called from several threads at once; else no other
            function that doesn't say so runs at the same time.
    """

    call: StrictStr
    folder: StrictStr | None = None
    batch_size: Annotated[StrictInt, Field(ge=1)] | None = None
    outputs: tuple[StrictStr, ...] = ()
    thread_safe: StrictBool = False

    @field_validator("outputs", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("outputs")
    @classmethod
    def _once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("names an output twice, of which one would be lost")
        return value

    @field_validator("call")
    @classmethod
    def _module_and_function(cls, value: str) -> str:
        if not CALL.fullmatch(value):
            raise ValueError("write it as 'module:function'")
        return value


class Options(FunctionOptions):
    """`[runners.NAME]` of kind `python`."""


class PythonRunner(Runner):
    """A function that is called with name -> read-only array and returns name -> array.

    The arrays are copies of its own: native code heeds no read-only flag.
    """

    def __init__(
        self,
        name: str,
        function: Function,
        limits: Limits,
        identity: str,
        facts: Mapping[str, object],
        outputs: Sequence[str] = (),
        constants: Mapping[str, Array] | None = None,
        layout: Layout | None = None,
    ) -> None:
        super().__init__(
            name,
            "python",
            limits=limits,
            inputs=None,
            outputs=None,
            identity=identity,
            facts=facts,
        )
        self.function = function
        self.output_names = tuple(outputs)
        self.constants = dict(constants or {})
        self.layout = layout or Layout()
        self.lock: Any = nullcontext() if limits.thread_safe else ONE_AT_A_TIME

    @classmethod
    def from_callable(
        cls,
        name: str,
        function: Function,
        *,
        outputs: Sequence[str] = (),
        batch_size: int | None = DEFAULT_BATCH_SIZE,
        thread_safe: bool = False,
        constants: Mapping[str, Array] | None = None,
        layout: Layout | None = None,
    ) -> PythonRunner:
        """A runner of a function object; two are the same thing if the object is the same.

        Args:
            name: the runner's name.
            function: takes a dict of read-only arrays, returns a dict of arrays.
            outputs: names of the outputs, in order, of a function that returns a plain array or a
                sequence of arrays.
            batch_size: rows of a batch; None: any number.
            thread_safe: the function may be called from several threads at once.
            constants: inputs that are the same for all samples.
            layout: where the function's tensors have their samples.
        """
        target = getattr(function, "__func__", function)
        owner = getattr(function, "__self__", None)
        facts = {**_source_facts(function), "outputs_named": list(outputs)}
        unique = [id(target), id(owner), batch_size]
        return cls(
            name,
            function,
            Limits((batch_size,) if batch_size else None, thread_safe),
            hashlib.sha256(canonical_json(["python", unique])).hexdigest(),
            facts,
            outputs,
            constants,
            layout,
        )

    def answer_raw(self, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """Give the function any inputs, and look at its answer's form only."""
        given = {name: private_copy(array) for name, array in {**self.constants, **inputs}.items()}
        return _own("the function", self.function(given), self.output_names)

    def session(self) -> RunnerSession:
        """A session for the calling thread."""
        return PythonSession(self)


class PythonSession(RunnerSession):
    """One thread's way to call the function."""

    def __init__(self, runner: PythonRunner) -> None:
        super().__init__(runner)
        self._python = runner

    def _run_impl(self, batch: Batch) -> Lease:
        python = self._python
        given = {**python.constants, **batch.inputs}
        where = describe_batch(python.name, batch)
        process = os.getpid()
        try:
            with python.lock:
                try:
                    answer = python.function(
                        {name: private_copy(array) for name, array in given.items()}
                    )
                finally:
                    if os.getpid() != process:  # forked in there: the run isn't this one's
                        os._exit(1)
                outputs = _own(where, answer, python.output_names)
        except RunnerError:
            raise
        except BaseException as e:  # whatever a user's function raises
            if is_interrupt(e):
                raise
            raise RunnerError(f"{where}: {tell_error(e)}") from None
        return Lease(outputs)


def prepare(spec: RunnerSpec, context: PrepareContext) -> PythonRunner:
    """Import the function.

    Raises:
        RunnerLoadError: no such module or function (faults of the plan), or the import raised.
    """
    options = cast(Options, spec.options)
    where = f"runners.{spec.name}.call"
    folder = context.folder / (options.folder or "")
    found = find_function(spec.name, where, options.call, folder)
    check_takes_one(spec.name, where, options.call, found.function)
    size = options.batch_size or DEFAULT_BATCH_SIZE
    facts: dict[str, object] = {
        "call": options.call,
        "source_sha256": digest_of_module(found.module),
        "batch_size": size,
        "outputs_named": list(options.outputs),
    }
    unique = [*identify_function(found.module, found.attribute, found.function), size]
    return PythonRunner(
        spec.name,
        found.function,
        Limits((size,), options.thread_safe),
        hashlib.sha256(canonical_json(["python", unique])).hexdigest(),
        facts,
        options.outputs,
        context.constants,
        context.layout,
    )


def check_takes_one(runner: str, where: str, call: str, function: Function) -> None:
    """Refuse a function that can't be called with the inputs."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of native code
        return
    try:
        signature.bind({})
    except TypeError:
        takes = "no arguments" if not signature.parameters else f"{signature}"
        raise RunnerLoadError(
            runner,
            f"{where}: {call!r} takes {takes}, and is called with one, a dict of name -> array; "
            f"where it makes an nn.Module of torch, say factory = {call!r} in its place",
            is_plan_fault=True,
        ) from None


def _is_module(answer: object) -> bool:
    """Whether it is a module of torch, which is not imported to find out."""
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    return isinstance(module, type) and isinstance(answer, module)


def _own(where: str, answer: object, names: tuple[str, ...]) -> dict[str, Tensor]:
    """Outputs by name, copied: a function may use its arrays again in the next call.

    A list of arrays is one array a sample.
    """
    if isinstance(answer, np.ndarray):
        if len(names) != 1:
            raise UnusableError(
                f"{where}: returned a plain array; return a dict of name -> array, or name it: "
                'outputs = ["y"]'
            )
        answer = {names[0]: answer}
    if isinstance(answer, list | tuple) and names:
        if len(answer) != len(names):
            raise UnusableError(
                f"{where}: returned {len(answer)} outputs for the {len(names)} names "
                f"{', '.join(names)}; name each in the order in which they are returned"
            )
        answer = dict(zip(names, answer, strict=True))
    if _is_module(answer):
        raise UnusableError(
            f"{where}: returned a module of torch ({type(answer).__name__}); say factory = "
            "'module:function' in place of call, and it is run as one"
        )
    if not isinstance(answer, Mapping):
        raise UnusableError(
            f"{where}: returned a {type(answer).__name__}; return a dict of name -> array"
        )
    if names and set(answer) != set(names):
        raise UnusableError(f"{where}: returned {sorted(map(str, answer))}, not {sorted(names)}")
    wrong = [key for key in answer if not isinstance(key, str)]
    if wrong:
        raise UnusableError(f"{where}: output names are text (found {wrong[0]!r})")
    return {name: _own_value(where, name, value) for name, value in answer.items()}


def _own_value(where: str, name: str, value: Any) -> Any:
    """What isn't an array stays as it is: the check of the answer says what is wrong with it."""
    if isinstance(value, np.ndarray):
        return _copied(value)
    if not isinstance(value, list) or not value or not _are_arrays(value):
        return value
    problem = mixed(value)
    if problem:
        raise UnusableError(f"{where}: output {name!r} {problem}; its samples have one of each")
    return as_tensor([_copied(array) for array in value])


def _are_arrays(values: list[Any]) -> bool:
    return all(isinstance(v, np.ndarray) and not isinstance(v, np.ma.MaskedArray) for v in values)


def _copied(array: Array) -> Array:
    """A copy; NumPy's own texts as an object array of str."""
    if array.dtype.kind in _TEXT_KINDS and not isinstance(array, np.ma.MaskedArray):
        return array.astype(object, order="C")
    return array.copy(order="C")


def private_copy(array: Array) -> Array:
    """A read-only copy: what is given is shared with the other runners, or lies in a file."""
    own: Array = np.array(array, order="C", copy=True)
    own.flags.writeable = False
    return own


def _source_facts(function: Function) -> dict[str, object]:
    target: Any = getattr(function, "__func__", function)
    try:
        file = inspect.getsourcefile(target)
    except TypeError:
        file = None
    known = file is not None and Path(file).is_file()
    return {
        "call": f"{getattr(target, '__module__', None)}:"
        f"{getattr(target, '__qualname__', type(target).__qualname__)}",
        "source_sha256": sha256_file(Path(cast(str, file)), cache=False) if known else None,
    }
