"""Kind `python`: a function from a dict of arrays to a dict of arrays.

Whatever a function raises, `SystemExit` too, costs its batch. A function that ends the process
itself (`os._exit`, a crash in native code) ends the gate without a verdict.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, cast

import numpy as np
from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator

from paritygate.core.digest import canonical_json, sha256_file
from paritygate.core.errors import RunnerError, RunnerLoadError
from paritygate.core.problems import did_you_mean
from paritygate.core.tensors import Array, Batch
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
from paritygate.runners.python_identity import PLAN_MODULE, digest_of_module, identify_function

Function = Callable[[dict[str, Array]], object]
_CALL = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_IMPORTING = threading.RLock()
# Two functions may share state, such as that of their module.
_ONE_AT_A_TIME = threading.Lock()
_TEXT_LIMIT = 600


class Options(RunnerOptions):
    """`[runners.NAME]` of kind `python`.

    Attributes:
        call: `module:function`, looked up in the plan's folder first.
        batch_size: rows of a batch; None: 256.
        outputs: names of the outputs, in order, needed where the function returns a plain array
            or a sequence of arrays.
        thread_safe: the function may be called from several threads at once; else no other
            function that doesn't say so runs at the same time.
    """

    call: StrictStr
    batch_size: Annotated[StrictInt, Field(ge=1)] | None = None
    outputs: tuple[StrictStr, ...] = ()
    thread_safe: StrictBool = False

    @field_validator("outputs", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("call")
    @classmethod
    def _module_and_function(cls, value: str) -> str:
        if not _CALL.fullmatch(value):
            raise ValueError("write it as 'module:function'")
        return value


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
        self.lock: Any = nullcontext() if limits.thread_safe else _ONE_AT_A_TIME

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

    def session(self) -> RunnerSession:
        """A session for the calling thread."""
        return _PythonSession(self)


class _PythonSession(RunnerSession):
    def __init__(self, runner: PythonRunner) -> None:
        super().__init__(runner)
        self._python = runner

    def _run_impl(self, batch: Batch) -> Lease:
        python = self._python
        given = {**python.constants, **batch.inputs}
        where = describe_batch(python.name, batch)
        try:
            with python.lock:
                answer = python.function({name: _private(array) for name, array in given.items()})
                outputs = _own(where, answer, python.output_names)
        except RunnerError:
            raise
        except BaseException as e:  # whatever a user's function raises
            if _is_interrupt(e):
                raise
            raise RunnerError(f"{where}: {_told(e)}") from None
        return Lease(outputs)


def prepare(spec: RunnerSpec, context: PrepareContext) -> PythonRunner:
    """Import the function.

    Raises:
        RunnerLoadError: no such module or function (faults of the plan), or the import raised.
    """
    options = cast(Options, spec.options)
    module_name, _, attribute = options.call.partition(":")
    module = _import(spec.name, module_name, context.folder)
    function: Any = module
    for part in attribute.split("."):
        if not _has(spec.name, function, part):
            known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            raise RunnerLoadError(
                spec.name,
                f"runners.{spec.name}.call: {module_name!r} ({module.__file__}) has no "
                f"{attribute!r}{did_you_mean(attribute, known)}",
                is_plan_fault=True,
            )
        function = getattr(function, part)
    if not callable(function):
        raise RunnerLoadError(
            spec.name,
            f"runners.{spec.name}.call: {options.call!r} is a {type(function).__name__}, "
            "not a function",
            is_plan_fault=True,
        )
    size = options.batch_size or DEFAULT_BATCH_SIZE
    facts: dict[str, object] = {
        "call": options.call,
        "source_sha256": digest_of_module(module),
        "batch_size": size,
        "outputs_named": list(options.outputs),
    }
    unique = [*identify_function(module, attribute, function), size]
    return PythonRunner(
        spec.name,
        function,
        Limits((size,), options.thread_safe),
        hashlib.sha256(canonical_json(["python", unique])).hexdigest(),
        facts,
        options.outputs,
        context.constants,
        context.layout,
    )


def _own(where: str, answer: object, names: tuple[str, ...]) -> dict[str, Array]:
    """Outputs by name, copied: a function may use its arrays again in the next call."""
    if isinstance(answer, np.ndarray):
        if len(names) != 1:
            raise RunnerError(
                f"{where}: returned a plain array; return a dict of name -> array, or name it: "
                'outputs = ["y"]'
            )
        answer = {names[0]: answer}
    if isinstance(answer, list | tuple) and names:
        if len(answer) != len(names):
            raise RunnerError(
                f"{where}: returned {len(answer)} outputs for the {len(names)} names "
                f"{', '.join(names)}; name each in the order in which they are returned"
            )
        answer = dict(zip(names, answer, strict=True))
    if not isinstance(answer, Mapping):
        raise RunnerError(
            f"{where}: returned a {type(answer).__name__}; return a dict of name -> array"
        )
    if names and set(answer) != set(names):
        raise RunnerError(f"{where}: returned {sorted(map(str, answer))}, not {sorted(names)}")
    wrong = [key for key in answer if not isinstance(key, str)]
    if wrong:
        raise RunnerError(f"{where}: output names are text (found {wrong[0]!r})")
    # What isn't an array stays as it is: the check of the answer says what is wrong with it.
    return {
        name: value.copy(order="C") if isinstance(value, np.ndarray) else value
        for name, value in answer.items()
    }


def _private(array: Array) -> Array:
    """A read-only copy: what is given is shared with the other runners, or lies in a file."""
    own: Array = np.array(array, order="C", copy=True)
    own.flags.writeable = False
    return own


def _has(runner: str, owner: object, name: str) -> bool:
    """Whether there is an attribute; a module may have a `__getattr__` of its own."""
    try:
        return hasattr(owner, name)
    except BaseException as e:
        if _is_interrupt(e):
            raise
        raise RunnerLoadError(runner, f"runners.{runner}.call: {name!r}: {_told(e)}") from None


def _is_interrupt(error: BaseException) -> bool:
    """Whether it is the user's own: Python hands signals to the main thread alone."""
    is_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and is_main


def _told(error: BaseException) -> str:
    """What was raised, and where; `SystemExit: 0` for `sys.exit(0)`."""
    try:
        text = " ".join(str(error).split())[:_TEXT_LIMIT]
    except Exception:  # an error whose own text fails
        text = ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{_line_of(error)}"


def _line_of(error: BaseException) -> str:
    """Where a user's function raised, as file name and line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_filename == __file__:
        return ""
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"


def _import(runner: str, name: str, folder: Path) -> ModuleType:
    file = folder.joinpath(*name.split("."))
    single = file.with_suffix(".py") if "." not in name else None
    where = f"runners.{runner}.call"
    try:
        with _IMPORTING, _first_in_path(folder):
            if single is not None and single.is_file():
                return _import_file(name, single)
            module = importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is not None and (name == e.name or name.startswith(e.name + ".")):
            raise RunnerLoadError(
                runner,
                f"{where}: no module {e.name!r}, neither in {folder} nor installed",
                is_plan_fault=True,
            ) from None
        raise RunnerLoadError(runner, f"{where}: importing {name!r}: {e}") from None
    except BaseException as e:  # whatever a user's module raises
        if _is_interrupt(e):
            raise
        raise RunnerLoadError(runner, f"{where}: importing {name!r}: {_told(e)}") from None
    _check_origin(runner, where, module, file)
    return module


def _import_file(name: str, file: Path) -> ModuleType:
    """Import a file of the plan's folder under a name that no other plan's module has."""
    digest = hashlib.sha256(f"{file.resolve()}\0{sha256_file(file, cache=False)}".encode())
    unique = f"{PLAN_MODULE}{digest.hexdigest()[:16]}_{name}"
    if unique in sys.modules:
        return sys.modules[unique]
    spec = importlib.util.spec_from_file_location(unique, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} can't be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[unique]
        raise
    return module


@contextmanager
def _first_in_path(folder: Path) -> Iterator[None]:
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


def _check_origin(runner: str, where: str, module: ModuleType, file: Path) -> None:
    """A package of the plan's folder must not be one that another plan loaded before."""
    in_folder = [f for f in (file.with_suffix(".py"), file / "__init__.py") if f.is_file()]
    loaded = getattr(module, "__file__", None)
    if in_folder and loaded and Path(loaded).resolve() != in_folder[0].resolve():
        raise RunnerLoadError(
            runner,
            f"{where}: {module.__name__!r} is already loaded from {loaded}, not from "
            f"{in_folder[0]}; rename one of them",
            is_plan_fault=True,
        )


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
