"""Functions by `module:function`, looked up in the plan's folder first."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from msgspec import Struct

from paritygate.core.digest import sha256_file
from paritygate.core.errors import RunnerLoadError
from paritygate.core.problems import did_you_mean
from paritygate.runners.python_identity import PLAN_MODULE

_IMPORTING = threading.RLock()
# Two functions may share state, such as that of their module.
ONE_AT_A_TIME = threading.Lock()
_TEXT_LIMIT = 600
_OURS = str(Path(__file__).parents[1])


class Found(Struct, frozen=True):
    """A function, and where it was looked up: in which module, under what name."""

    function: Any
    module: ModuleType
    attribute: str


def find_function(owner: str, where: str, call: str, folder: Path) -> Found:
    """Import the module of `module:function` and find the function in it.

    Args:
        owner: whose function it is, for the error.
        where: path of the plan's key that names it.
        call: `module:function`; the function may be an attribute of a class.
        folder: the plan's, where the module is looked for first.

    Raises:
        RunnerLoadError: no such module or function (faults of the plan), or the import raised.
    """
    module_name, _, attribute = call.partition(":")
    module = _import(owner, where, module_name, folder)
    function: Any = module
    for part in attribute.split("."):
        if not _has(owner, where, function, part):
            known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            raise RunnerLoadError(
                owner,
                f"{where}: {module_name!r} ({module.__file__}) has no "
                f"{attribute!r}{did_you_mean(attribute, known)}",
                is_plan_fault=True,
            )
        function = getattr(function, part)
    if not callable(function):
        raise RunnerLoadError(
            owner,
            f"{where}: {call!r} is a {type(function).__name__}, not a function",
            is_plan_fault=True,
        )
    return Found(function, module, attribute)


def _has(runner: str, where: str, owner: object, name: str) -> bool:
    """Whether there is an attribute; a module may have a `__getattr__` of its own."""
    try:
        return hasattr(owner, name)
    except BaseException as e:
        if is_interrupt(e):
            raise
        raise RunnerLoadError(runner, f"{where}: {name!r}: {tell_error(e)}") from None


def is_interrupt(error: BaseException) -> bool:
    """Whether it is the user's own: Python hands signals to the main thread alone."""
    is_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and is_main


def tell_error(error: BaseException) -> str:
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
    if trace is None or trace.tb_frame.f_code.co_filename.startswith(_OURS):
        return ""
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"


def _import(runner: str, where: str, name: str, folder: Path) -> ModuleType:
    file = folder.joinpath(*name.split("."))
    single = file.with_suffix(".py") if "." not in name else None
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
        if is_interrupt(e):
            raise
        raise RunnerLoadError(runner, f"{where}: importing {name!r}: {tell_error(e)}") from None
    _check_origin(runner, where, module, file)
    return module


def _import_file(name: str, file: Path) -> ModuleType:
    """Import a file of the plan's folder under a name that no other plan's module has."""
    digest = hashlib.sha256(f"{file.resolve()}\0{sha256_file(file, cache=False)}".encode())
    unique = f"{PLAN_MODULE}{digest.hexdigest()[:16]}_{name}"
    if unique in sys.modules:
        return sys.modules[unique]
    loader = _FromSource(unique, str(file))
    spec = importlib.util.spec_from_file_location(unique, file, loader=loader)
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


class _FromSource(SourceFileLoader):
    """Runs what the file says now: bytecode of a file of that size and second may be of another."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


@contextmanager
def _first_in_path(folder: Path) -> Iterator[None]:
    """Import from a folder first, leaving no bytecode there that could outlive its source."""
    entry, is_kept = str(folder.resolve()), sys.dont_write_bytecode
    sys.path.insert(0, entry)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = is_kept
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
