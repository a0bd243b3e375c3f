"""Kinds of runners that other distributions bring along, by entry points; loaded when named.

An entry point of the group `paritygate.runners` has the kind's name and leads to a module, or any
object, with `Options` and `prepare(spec, context)`, as the kinds here have them.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from paritygate.core.digest import canonical_json
from paritygate.core.errors import ParityError, RunnerError, RunnerLoadError
from paritygate.core.tensors import Batch
from paritygate.core.text import clean
from paritygate.runners.base import (
    Finding,
    Lease,
    PrepareContext,
    Runner,
    RunnerSession,
    RunnerSpec,
    describe_batch,
)
from paritygate.runners.options import RunnerOptions

GROUP = "paritygate.runners"


@dataclass(frozen=True)
class Plugin:
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
    found = []
    for entry in importlib.metadata.entry_points(group=GROUP):
        distribution = entry.dist
        name = str(distribution.metadata["Name"] or "?") if distribution is not None else "?"
        version = distribution.version if distribution is not None else "?"
        found.append(Plugin(entry.name, clean(name), clean(version), entry))
    return sorted(found, key=lambda p: (p.kind, p.distribution, p.version))


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
    except (Exception, SystemExit) as e:
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


@dataclass(frozen=True)
class PluginKind:
    """A loaded kind, with `Options` and `prepare` as the kinds here have them."""

    plugin: Plugin
    loaded: Any

    @property
    def Options(self) -> type[RunnerOptions]:  # noqa: N802 - as modules of kinds have it
        """The kind's options."""
        return cast(type[RunnerOptions], self.loaded.Options)

    def prepare(self, spec: RunnerSpec, context: PrepareContext) -> Runner:
        """Make a runner of the kind ready.

        Raises:
            RunnerLoadError: it can't be prepared, or the plug-in gave no runner.
        """
        where = f"runner {spec.name!r}, kind {spec.kind!r} of {self.plugin}"
        try:
            runner = self.loaded.prepare(spec, context)
        except ParityError:
            raise
        except (Exception, SystemExit) as e:
            told = clean(f"{type(e).__name__}: {e}")
            raise RunnerLoadError(spec.name, f"{where}: prepare raised {told}") from e
        if not isinstance(runner, Runner):
            given = type(runner).__name__
            raise RunnerLoadError(spec.name, f"{where}: prepare gave {given}, which is no Runner")
        return PluginRunner(runner, spec, self.plugin)


class PluginRunner(Runner):
    """A plug-in's runner; distribution and version are part of what it is."""

    def __init__(self, inner: Runner, spec: RunnerSpec, plugin: Plugin) -> None:
        super().__init__(
            spec.name,
            spec.kind,
            limits=inner.limits,
            inputs=inner.inputs,
            outputs=inner.outputs,
            findings=inner.findings,
        )
        self.watched = inner.watched
        self.constant_names = inner.constant_names
        self.layout = inner.layout
        self.inner = inner
        self.plugin = plugin

    @property
    def identity(self) -> str:
        """Digest, hex, of the runner, its distribution and version."""
        if not self._identity:
            parts = [self.plugin.distribution, self.plugin.version, self.inner.identity]
            self._identity = hashlib.sha256(canonical_json(["plug-in", *parts])).hexdigest()
        return self._identity

    @property
    def facts(self) -> Mapping[str, object]:
        """What is known of the runner, and where it comes from."""
        told = {"distribution": self.plugin.distribution, "version": self.plugin.version}
        return {**self.inner.facts, "plugin": told}

    def final_findings(self) -> tuple[Finding, ...]:
        """All findings of the runner."""
        return self.inner.final_findings()

    def session(self) -> RunnerSession:
        """A session for the calling thread.

        Raises:
            RunnerError: the plug-in gave none.
        """
        try:
            return _PluginSession(self, self.inner.session())
        except (Exception, SystemExit) as e:
            raise _raised(f"runner {self.name!r}, kind {self.kind!r} of {self.plugin}", e) from e

    def close(self) -> None:
        """Free what the runner holds."""
        self.inner.close()


class _PluginSession(RunnerSession):
    def __init__(self, runner: PluginRunner, inner: RunnerSession) -> None:
        super().__init__(runner)
        self._inner = inner
        self._plugin = runner.plugin

    def _run_impl(self, batch: Batch) -> Lease:
        """Answer one batch; whatever a plug-in raises or gives instead costs this batch alone."""
        try:
            lease: object = self._inner._run_impl(batch)
        except (Exception, SystemExit) as e:
            raise _raised(describe_batch(self.runner.name, batch), e) from e
        if not isinstance(lease, Lease):
            where = describe_batch(self.runner.name, batch)
            raise RunnerError(f"{where}: {self._plugin} gave {type(lease).__name__}, no Lease")
        return lease

    def close(self) -> None:
        """Free what the plug-in's session holds."""
        self._inner.close()


def _raised(where: str, error: BaseException) -> RunnerError:
    if isinstance(error, RunnerError):
        return error
    return RunnerError(f"{where}: {clean(f'{type(error).__name__}: {error}')}")
