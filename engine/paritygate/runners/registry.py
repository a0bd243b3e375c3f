"""Kinds of runners by name, each in a module that is imported when it is first asked for."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from pydantic import ValidationError

from paritygate.admission.staging import Held
from paritygate.core.errors import ParityError, Problem, RunnerLoadError
from paritygate.core.problems import did_you_mean
from paritygate.core.text import clean
from paritygate.golden import SUFFIXES
from paritygate.runners.base import PrepareContext, Runner, RunnerSpec
from paritygate.runners.isolate.defaults import isolate_conflicts
from paritygate.runners.isolate.settings import take_isolation
from paritygate.runners.options import RunnerOptions, describe_errors
from paritygate.runners.viewed import view_runner
from paritygate.runners.views import take_views


class Kind(Struct, frozen=True):
    """Where a kind lives.

    Attributes:
        module: has `Options` and `prepare(spec, context)`.
        key: option that a runner given as a plain string fills.
        suffixes: of files that belong to it.
    """

    module: str
    key: str | None
    suffixes: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    "onnxruntime": Kind("paritygate.runners.ort", "model", (".onnx",)),
    "recorded": Kind("paritygate.runners.recorded", "path", SUFFIXES),
    "python": Kind("paritygate.runners.python", "call"),
    "preprocessing": Kind("paritygate.runners.preprocessing", "call"),
    "torch": Kind("paritygate.runners.torch", "model", (".pt", ".pt2", ".pth", ".jit", ".ts")),
    "null": Kind("paritygate.runners.null", None),
}
_CALL = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_LATER = {
    ".tflite": "LiteRT",
    ".pb": "TensorFlow",
    ".ort": "ORT format",
    ".npz": "NumPy",
    ".npy": "NumPy",
}


def infer_kind(path: str) -> str:
    """Kind of the runner for a file, by its suffix; a path that ends in / is a folder of packs.

    Raises:
        ValueError: with a sentence that names what is known.
    """
    if path.endswith("/"):
        return "recorded"
    suffix = Path(path).suffix.lower()
    for name, kind in KINDS.items():
        if suffix in kind.suffixes:
            return name
    known = ", ".join(f"{s} ({name})" for name, k in KINDS.items() for s in k.suffixes)
    if suffix in _LATER:
        raise ValueError(
            f"{path!r}: {_LATER[suffix]} files ({suffix}) aren't supported in this version; "
            f"known: {known}; or wrap it in a function and give 'module:function'"
        )
    raise ValueError(
        f"{path!r}: no kind of runner takes {f'files that end in {suffix}' if suffix else 'this'}; "
        f"known: {known}, 'module:function' (python); or say kind = one of {', '.join(KINDS)}"
    )


def parse_runner(name: str, table: object, folder: Path) -> tuple[RunnerSpec | None, list[Problem]]:
    """Validate one entry of `[runners]`: a string or a table.

    Args:
        name: the runner's name.
        table: a path, `module:function`, or a table of options.
        folder: what relative paths refer to; nothing is read from it here.

    Returns:
        The specification, or None and all problems found, each with its path in the plan.
    """
    del folder
    where = f"runners.{name}"
    if isinstance(table, str):
        table = {"kind": table} if table in ("recorded", "null") else {"model": table}
    if not isinstance(table, Mapping):
        return None, [Problem(where, f"is a path or a table, not {type(table).__name__}")]
    options = dict(table)
    kind, problem = _kind_of(where, options)
    if kind is None:
        return None, [problem] if problem else []
    model = options_model(kind)
    _rename_model_key(kind, model, options)
    views, problems = take_views(where, kind, options)
    if kind not in KINDS and "outputs" not in model.model_fields:
        _drop_own_names(options)
    isolation, unfit = take_isolation(where, kind, options)
    problems += unfit
    try:
        spec = RunnerSpec(name, kind, model.model_validate(options), views, isolation)
    except ValidationError as e:
        return None, [*problems, *describe_errors(where, e, model, kind)]
    except Exception as e:  # what a plug-in's validator raises
        if kind in KINDS:
            raise
        told = clean(f"{type(e).__name__}: {e}")
        return None, [*problems, Problem(where, f"the options of kind {kind!r} raised {told}")]
    return (None if problems else spec), problems


def options_model(kind: str) -> type[RunnerOptions]:
    """The options model of a known kind."""
    return cast(type[RunnerOptions], _module(kind).Options)


def prepare(spec: RunnerSpec, context: PrepareContext) -> Runner:
    """Make a runner ready, in a process of its own where the plan or its settings want that.

    Raises:
        RunnerLoadError: it can't be prepared; `is_plan_fault` says on whose side the fault is.
    """
    (spec,) = isolate_conflicts([spec], {spec.name: process_wide(spec)})
    return _prepare_settled(spec, context)


def _prepare_settled(spec: RunnerSpec, context: PrepareContext) -> Runner:
    if spec.isolation is not None and spec.isolation.is_on:
        from paritygate.runners.isolate.runner import prepare_isolated

        return prepare_isolated(spec, context)
    return prepare_here(spec, context)


def prepare_here(spec: RunnerSpec, context: PrepareContext) -> Runner:
    """Make a runner ready in this process, whatever its isolation says.

    Raises:
        RunnerLoadError: it can't be prepared; `is_plan_fault` says on whose side the fault is.
    """
    runner = cast(Runner, _module(spec.kind).prepare(spec, context))
    try:
        return view_runner(runner, spec.views)
    except RunnerLoadError:
        runner.close()
        raise


def process_wide(spec: RunnerSpec) -> tuple[str, ...]:
    """What a runner asks of its whole process, as `name=value`, before it is prepared.

    A kind says so by a function `process_wide(options)` of its module.
    """
    found = getattr(_module(spec.kind), "process_wide", None)
    return tuple(found(spec.options)) if found is not None else ()


def admit(spec: RunnerSpec, context: PrepareContext) -> Held[Any] | None:
    """Copy and check the files of a runner, for processes that prepare it from the copies.

    Returns:
        What they are given as `context.admitted`, to be closed after them; None: the kind has
        nothing to copy.

    Raises:
        RunnerLoadError: a file isn't fit to be loaded.
    """
    found = getattr(_module(spec.kind), "admit", None)
    return cast(Held[Any], found(spec, context)) if found is not None else None


def prepare_all(
    specs: Iterable[RunnerSpec], context: PrepareContext
) -> tuple[dict[str, Runner], list[RunnerLoadError]]:
    """Make several runners ready at once; models are hashed and checked side by side.

    Returns:
        The runners that are ready, by name in the order given, and what kept the others from it.

    Raises:
        ParityError: anything that isn't about one runner; those already prepared are closed.
    """
    todo = list(specs)
    if not todo:
        return {}, []
    todo = isolate_conflicts(todo, {spec.name: process_wide(spec) for spec in todo})
    futures: list[tuple[RunnerSpec, Future[Runner]]] = []
    try:
        with ThreadPoolExecutor(min(len(todo), 8), "prepare") as pool:
            futures += ((spec, pool.submit(_prepare_settled, spec, context)) for spec in todo)
    except BaseException:  # an interrupt; those that go on are closed once they are ready
        for _, future in futures:
            future.add_done_callback(_close)
        raise
    ready: dict[str, Runner] = {}
    failed: list[RunnerLoadError] = []
    other: BaseException | None = None
    for spec, future in futures:
        error = future.exception()
        if error is None:
            ready[spec.name] = future.result()
        elif isinstance(error, RunnerLoadError):
            failed.append(error)
        else:
            other = error
    if other is not None:
        for runner in ready.values():
            runner.close()
        if isinstance(other, ParityError):
            raise other
        raise RuntimeError(f"a runner could not be prepared: {other}") from other
    return ready, failed


def _close(future: Future[Runner]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().close()


def _module(kind: str) -> Any:
    """The module of a kind, or what stands for it.

    Raises:
        PluginError: a plug-in that can't be used.
    """
    if kind in KINDS:
        return importlib.import_module(KINDS[kind].module)
    from paritygate.runners.plugins import PluginError, PluginKind, find_plugin, load_plugin

    plugin = find_plugin(kind)
    if plugin is None:
        raise PluginError(f"kind {kind!r}: the distribution that brings it isn't installed here")
    return PluginKind(plugin, load_plugin(plugin))


def _kind_of(where: str, options: dict[str, Any]) -> tuple[str | None, Problem | None]:
    """Take the kind out of a table, or infer it from the key that is there."""
    if "kind" in options:
        kind = options.pop("kind")
        if isinstance(kind, str) and kind in KINDS:
            return kind, None
        if not isinstance(kind, str):
            return None, Problem(f"{where}.kind", f"is the name of a kind (found {kind!r})")
        return _plugged_in(where, kind)
    if "factory" in options:
        return "torch", None
    for key in ("model", "path", "call"):
        if key in options:
            return _infer(where, key, options[key])
    keys = [f"{k.key} ({name})" for name, k in KINDS.items() if k.key]
    return None, Problem(where, f"says neither a kind nor any of {', '.join(keys)}")


def _plugged_in(where: str, kind: str) -> tuple[str | None, Problem | None]:
    """A kind of another distribution, if it can be used."""
    from paritygate.runners.plugins import PluginError, find_plugin, list_plugins, load_plugin

    try:
        plugin = find_plugin(kind)
        if plugin is not None:
            load_plugin(plugin)
            return kind, None
    except PluginError as e:
        return None, Problem(f"{where}.kind", str(e))
    known = [*KINDS, *dict.fromkeys(p.kind for p in list_plugins() if p.kind not in KINDS)]
    return None, Problem(f"{where}.kind", f"{kind!r} isn't known{did_you_mean(kind, known)}")


def _infer(where: str, key: str, value: object) -> tuple[str | None, Problem | None]:
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, str):
        return None, Problem(f"{where}.{key}", f"is text (found {first!r})")
    if key == "call" or (key == "model" and _CALL.fullmatch(first)):
        return "python", None
    try:
        return infer_kind(first), None
    except ValueError as e:
        return None, Problem(where if key == "model" else f"{where}.{key}", str(e))


def _drop_own_names(options: dict[str, Any]) -> None:
    """Outputs that are only seen otherwise have their own names, which a kind need not take."""
    outputs = options.get("outputs")
    if isinstance(outputs, Mapping) and all(ours == theirs for ours, theirs in outputs.items()):
        del options["outputs"]


def _rename_model_key(kind: str, model: type[RunnerOptions], options: dict[str, Any]) -> None:
    """A runner that was a plain string is a table with `model` after `--set`: take it as meant."""
    key = KINDS[kind].key if kind in KINDS else None
    if "model" in options and key is not None and "model" not in model.model_fields:
        options.setdefault(key, options["model"])
        del options["model"]
