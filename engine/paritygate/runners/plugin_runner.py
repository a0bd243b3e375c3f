"""A plug-in's runner, held at arm's length.

It is given copies, what it gives is checked, and whatever it raises costs what it was asked for.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec.structs import replace

from paritygate.core.digest import canonical_json
from paritygate.core.errors import RunnerError, RunnerLoadError, UnusableError
from paritygate.core.tensors import Batch
from paritygate.core.text import clean
from paritygate.runners.base import (
    Finding,
    Lease,
    Runner,
    RunnerSession,
    RunnerSpec,
    describe_batch,
)
from paritygate.runners.plugin_checks import (
    plain_outputs,
    taken_facts,
    wrong_facts,
    wrong_findings,
    wrong_lease,
    wrong_parts,
)
from paritygate.runners.python import private_copy
from paritygate.runners.python_import import is_interrupt, tell_error

_LOG = logging.getLogger("paritygate.runners")


class Source(Protocol):
    """Where a kind comes from; its text is distribution and version."""

    @property
    def distribution(self) -> str:
        """Its name."""

    @property
    def version(self) -> str:
        """Of the distribution."""


def wrap_runner(given: object, spec: RunnerSpec, source: Source) -> Runner:
    """The runner that a plug-in's `prepare` gave, as the engine uses it.

    Raises:
        RunnerLoadError: it is no runner, or not a whole one.
    """
    where = f"runner {spec.name!r}, kind {spec.kind!r} of {source}"
    if not isinstance(given, Runner):
        told = type(given).__name__
        raise RunnerLoadError(spec.name, f"{where}: prepare gave {told}, which is no Runner")
    problems = wrong_parts(given)
    if not problems and (taken := taken_facts(given.facts)):
        problems = [f"facts {taken}"]
    if problems:
        _attempt(where, "close()", given.close)
        raise RunnerLoadError(spec.name, f"{where}: the runner's {'; its '.join(problems)}")
    return PluginRunner(given, spec, source)


class PluginRunner(Runner):
    """A plug-in's runner; distribution and version are part of what it is."""

    def __init__(self, inner: Runner, spec: RunnerSpec, source: Source) -> None:
        self.told: dict[str, object] = dict(inner.facts)
        super().__init__(
            spec.name,
            spec.kind,
            limits=inner.limits,
            inputs=inner.inputs,
            outputs=inner.outputs,
            identity=_identity(inner, source),
            findings=tuple(inner.findings),
        )
        self.watched = tuple(inner.watched)
        self.constant_names = inner.constant_names
        self.layout = inner.layout
        self.inner = inner
        self.source_of = source
        self.where = f"runner {spec.name!r}, kind {spec.kind!r} of {source}"
        self._bad_facts = ""

    @property
    def facts(self) -> Mapping[str, object]:
        """What is known of the runner, and where it comes from; as last told, where it fails."""
        self._read_facts()
        told = {"distribution": self.source_of.distribution, "version": self.source_of.version}
        return {**self.told, "plugin": told}

    def final_findings(self) -> tuple[Finding, ...]:
        """All findings of the runner; one that it can't tell them is a finding too."""
        self._read_facts()
        found = self._ask_findings()
        if self._bad_facts:
            found += (_fault(f"facts {self._bad_facts}", self.source_of),)
        return found

    def _read_facts(self) -> None:
        try:
            found = self.inner.facts
            problem = wrong_facts(found) or taken_facts(found)
        except BaseException as e:  # whatever a plug-in raises
            if is_interrupt(e):
                raise
            problem = f"can't be read: {clean(tell_error(e))}"
        if problem is None:
            self.told = dict(found)
        else:
            self._bad_facts = problem

    def _ask_findings(self) -> tuple[Finding, ...]:
        try:
            found = self.inner.final_findings()
            problem = wrong_findings(found)
        except BaseException as e:  # whatever a plug-in raises
            if is_interrupt(e):
                raise
            problem = f"raised {clean(tell_error(e))}"
        if problem is None:
            return tuple(found)
        return (*self.findings, _fault(f"final_findings() {problem}", self.source_of))

    def session(self) -> RunnerSession:
        """A session for the calling thread; where the plug-in gives none, one that says so."""
        try:
            inner: object = self.inner.session()
        except BaseException as e:  # whatever a plug-in raises
            if is_interrupt(e):
                raise
            return _NoSession(self, f"session() raised {clean(tell_error(e))}")
        if not isinstance(inner, RunnerSession):
            return _NoSession(self, f"session() gave {type(inner).__name__}, no RunnerSession")
        return _PluginSession(self, inner)

    def close(self) -> None:
        """Free what the runner holds; what it raises then is logged, as the verdict stands."""
        _attempt(self.where, "close()", self.inner.close)


class _NoSession(RunnerSession):
    def __init__(self, runner: PluginRunner, why: str) -> None:
        super().__init__(runner)
        self._why = f"{runner.where}: {why}"

    def _run_impl(self, batch: Batch) -> Lease:
        raise RunnerError(f"{describe_batch(self.runner.name, batch)}: {self._why}")


class _PluginSession(RunnerSession):
    def __init__(self, runner: PluginRunner, inner: RunnerSession) -> None:
        super().__init__(runner)
        self._inner = inner
        self._plugin = runner

    def _run_impl(self, batch: Batch) -> Lease:
        """Answer a copy of one batch; whatever is raised or given instead costs this batch alone.

        The arrays of a batch are shared with the other runners, or lie in a file, and a library may
        write to them though they are read-only.
        """
        where = describe_batch(self.runner.name, batch)
        given = {name: private_copy(array) for name, array in batch.inputs.items()}
        try:
            lease = self._inner._run_impl(replace(batch, inputs=given, ids=batch.ids.copy()))
            problem = wrong_lease(lease, batch.valid)
            outputs = {} if problem else plain_outputs(lease.outputs)
        except BaseException as e:  # whatever a plug-in raises
            if is_interrupt(e):
                raise
            raise _raised(where, e) from e
        if problem:
            raise UnusableError(f"{where}: {self._plugin.source_of} {problem}")
        return Lease(outputs, lease.present, self._releasing(lease))

    def _releasing(self, lease: Lease) -> Callable[[], None]:
        return lambda: _attempt(self._plugin.where, "a lease's give_back", lease.release)

    def close(self) -> None:
        """Free what the plug-in's session holds; what it raises then is logged."""
        _attempt(self._plugin.where, "a session's close()", self._inner.close)


def _identity(inner: Runner, source: Source) -> str:
    """Digest, hex, of the runner, its distribution and version."""
    parts = [source.distribution, source.version, inner.identity]
    return hashlib.sha256(canonical_json(["plug-in", *parts])).hexdigest()


def _fault(text: str, source: Source) -> Finding:
    mend = "mend the plug-in; what it has to say of itself can't be known without it"
    return Finding("runner.error", f"{source}: {text}", mend)


def _attempt(where: str, what: str, work: Callable[[], object]) -> None:
    """Do what no verdict depends on; what is raised is logged."""
    try:
        work()
    except BaseException as e:  # whatever a plug-in raises
        if is_interrupt(e):
            raise
        _LOG.warning("%s: %s raised %s", where, what, clean(tell_error(e)))


def _raised(where: str, error: BaseException) -> RunnerError:
    """As a fault of the batch; what else a kind of ours may say by other errors, it can't."""
    if isinstance(error, RunnerError) and type(error) in (RunnerError, UnusableError):
        return error
    return RunnerError(f"{where}: {clean(tell_error(error))}")
