"""Kinds of runners that other distributions bring along, by entry points; loaded when named.

An entry point of the group `paritygate.runners` has the kind's name and leads to a module, or any
object, with `Options` and `prepare(spec, context)`, as the kinds here have them.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Collection
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from paritygate.core.errors import Interrupted, ParityError, PlanError, RunnerLoadError
from paritygate.core.text import clean
from paritygate.runners.base import PrepareContext, Runner, RunnerSpec
from paritygate.runners.options import RunnerOptions
from paritygate.runners.plugin_runner import wrap_runner
from paritygate.runners.python import private_copy
from paritygate.runners.python_import import is_interrupt, tell_error

GROUP = "paritygate.runners"


class Plugin(Struct, frozen=True):
    """A kind of runner of another distribution, not loaded.

    Attributes:
        kind: its name in plans.
        distribution: that brings it along.
        version: of the distribution.
        entry: where it leads to.
    """

    kind: str
    distribution: str
    version: str
    entry: importlib.metadata.EntryPoint

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


class PluginError(ParityError):
    """A kind that can't be used; its text names distribution and version."""

    code = "runner.load_failed"


def list_plugins() -> list[Plugin]:
    """All kinds of other distributions, whether or not they can be used, by name."""
    found: dict[str, list[Plugin]] = {}
    # Of a copy: another thread that imports may put a folder into sys.path or take it out.
    for distribution in importlib.metadata.distributions(path=list(sys.path)):
        entries = distribution.entry_points.select(group=GROUP)
        if entries:
            name = clean(str(distribution.metadata["Name"] or "?"))
            version = clean(distribution.version)
            plugins = [Plugin(entry.name, name, version, entry) for entry in entries]
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), plugins)  # the first is in use
    plugins = [plugin for brought in found.values() for plugin in brought]
    return sorted(plugins, key=lambda p: (p.kind, p.distribution, p.version))


def find_plugin(kind: str) -> Plugin | None:
    """The plug-in of a kind, not loaded; None: no distribution has it.

    Raises:
        PluginError: several distributions have it.
    """
    found = [plugin for plugin in list_plugins() if plugin.kind == kind]
    if len({(p.distribution, p.entry.value) for p in found}) > 1:
        names = " and ".join(dict.fromkeys(map(str, found)))
        raise PluginError(f"{names} both bring a kind {kind!r}; uninstall one of them")
    return found[0] if found else None


def load_plugin(plugin: Plugin) -> Any:
    """What the entry point leads to, with `Options` and `prepare`.

    Raises:
        PluginError: it can't be imported, or lacks either.
    """
    try:
        loaded = plugin.entry.load()
    except BaseException as e:  # whatever a plug-in raises
        if is_interrupt(e):
            raise
        told = clean(f"{type(e).__name__}: {e}")
        raise PluginError(
            f"kind {plugin.kind!r} of {plugin} can't be imported from {plugin.entry.value}: "
            f"{told}; mend or uninstall it"
        ) from e
    options = getattr(loaded, "Options", None)
    if not (isinstance(options, type) and issubclass(options, RunnerOptions)):
        raise PluginError(
            f"kind {plugin.kind!r} of {plugin}: {plugin.entry.value} has no Options, a subclass of "
            "paritygate.runners.RunnerOptions"
        )
    if not callable(getattr(loaded, "prepare", None)):
        raise PluginError(
            f"kind {plugin.kind!r} of {plugin}: {plugin.entry.value} has no prepare(spec, context)"
        )
    return loaded


def describe_plugins(builtin: Collection[str]) -> list[tuple[bool, str, str]]:
    """Each plug-in: whether it can be used, its kind, and its distribution or what is wrong."""
    lines = []
    for plugin in list_plugins():
        told, is_good = str(plugin), True
        if plugin.kind in builtin:
            told, is_good = f"{plugin}: a kind of paritygate has this name and stays", False
        else:
            try:
                find_plugin(plugin.kind)
                load_plugin(plugin)
            except PluginError as e:
                told, is_good = str(e), False
        lines.append((is_good, plugin.kind, told))
    return lines


class PluginKind(Struct, frozen=True):
    """A loaded kind, with `Options` and `prepare` as the kinds here have them."""

    plugin: Plugin
    loaded: Any

    @property
    def Options(self) -> type[RunnerOptions]:  # noqa: N802 - as modules of kinds have it
        """The kind's options."""
        return cast(type[RunnerOptions], self.loaded.Options)

    def prepare(self, spec: RunnerSpec, context: PrepareContext) -> Runner:
        """Make a runner of the kind ready, with constants of its own.

        Raises:
            RunnerLoadError: it can't be prepared, or the plug-in gave no whole runner.
        """
        where = f"runner {spec.name!r}, kind {spec.kind!r} of {self.plugin}"
        own = {name: private_copy(array) for name, array in context.constants.items()}
        try:
            runner = self.loaded.prepare(spec, replace(context, constants=own))
        except BaseException as e:  # whatever a plug-in raises
            if is_interrupt(e) or isinstance(e, Interrupted):
                raise
            raise _load_error(spec.name, where, e) from e
        return wrap_runner(runner, spec, self.plugin)


def _load_error(name: str, where: str, error: BaseException) -> RunnerLoadError:
    if isinstance(error, RunnerLoadError) and error.runner == name:
        return error
    is_plan_fault = isinstance(error, PlanError) or bool(getattr(error, "is_plan_fault", False))
    told = clean(tell_error(error))
    return RunnerLoadError(name, f"{where}: prepare raised {told}", is_plan_fault=is_plan_fault)
