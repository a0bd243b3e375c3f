"""A runner whose outputs are seen as the plan declares them: another runner, with its own name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from paritygate.core.digest import canonical_json
from paritygate.core.errors import RunnerLoadError, UnusableError
from paritygate.core.ragged import Ragged, Tensor, as_tensor
from paritygate.core.tensors import Batch, TensorSpec
from paritygate.runners.base import Finding, Lease, Runner, RunnerSession, describe_batch
from paritygate.runners.views import View


def view_runner(runner: Runner, views: Mapping[str, View]) -> Runner:
    """The runner, its outputs seen through views; itself where none is declared.

    Raises:
        RunnerLoadError: a view doesn't fit what the runner declares to answer.
    """
    return ViewedRunner(runner, views) if views else runner


class ViewedRunner(Runner):
    """Answers what another runner answers, seen through views; all else is that runner's."""

    def __init__(self, inner: Runner, views: Mapping[str, View]) -> None:
        super().__init__(
            inner.name,
            inner.kind,
            limits=inner.limits,
            inputs=inner.inputs,
            outputs=_seen(inner, views),
            findings=inner.findings,
        )
        self.watched = inner.watched
        self.constant_names = inner.constant_names
        self.layout = inner.layout
        self.runs_elsewhere = inner.runs_elsewhere
        self.views = dict(views)
        self.inner = inner

    @property
    def identity(self) -> str:
        """Digest, hex, of the runner and the views: another declaration is another runner."""
        if not self._identity:
            told = {name: view.to_plan() for name, view in sorted(self.views.items())}
            parts = ["viewed", self.inner.identity, told]
            self._identity = hashlib.sha256(canonical_json(parts)).hexdigest()
        return self._identity

    @property
    def source(self) -> str:
        """Identity of the runner itself, whatever is declared of its outputs."""
        return self.inner.source

    @property
    def facts(self) -> Mapping[str, object]:
        """What is known of the runner, and the views."""
        told = {name: view.to_plan() for name, view in sorted(self.views.items())}
        return {**self.inner.facts, "views": told}

    @property
    def class_keys(self) -> Mapping[str, list[int | str]]:
        """Keys of maps, as the runner has them."""
        return self.inner.class_keys

    def final_findings(self) -> tuple[Finding, ...]:
        """All findings of the runner."""
        return self.inner.final_findings()

    def session(self) -> RunnerSession:
        """A session for the calling thread."""
        return _ViewedSession(self, self.inner.session())

    def close(self) -> None:
        """Free what the runner holds."""
        self.inner.close()


class _ViewedSession(RunnerSession):
    def __init__(self, runner: ViewedRunner, inner: RunnerSession) -> None:
        super().__init__(runner)
        self._inner = inner
        self._views = runner.views

    def run(self, batch: Batch, following: Batch | None = None) -> Lease:
        """Answer one batch; the runner's own session has moved and checked the arrays."""
        lease = self._run_impl(batch, following)
        try:
            self._check_all_alike(lease, batch)
        except BaseException:
            lease.release()
            raise
        return lease

    def _run_impl(self, batch: Batch, following: Batch | None = None) -> Lease:
        lease = self._inner.run(batch, following)
        try:
            lease.outputs = {
                name: self._seen(name, array, batch) for name, array in lease.outputs.items()
            }
            absent = sorted(set(self._views) - set(lease.outputs))
            if absent:
                where = describe_batch(self.runner.name, batch)
                raise UnusableError(f"{where}: the answer lacks {absent}, which outputs declares")
        except BaseException:
            lease.release()
            raise
        return lease

    def _seen(self, name: str, tensor: Tensor, batch: Batch) -> Tensor:
        view = self._views.get(name)
        if view is None:
            return tensor
        try:
            if isinstance(tensor, Ragged):
                return as_tensor([view.apply(array[None])[0] for array in tensor])
            return view.apply(tensor)
        except ValueError as e:
            where = describe_batch(self.runner.name, batch)
            raise UnusableError(
                f"{where}: runners.{self.runner.name}.outputs.{name}: {e}"
            ) from None

    def close(self) -> None:
        """Let go of what the runner's session holds."""
        self._inner.close()


def _seen(inner: Runner, views: Mapping[str, View]) -> dict[str, TensorSpec] | None:
    """Declared outputs as they are seen."""
    if inner.outputs is None:
        return None
    seen = dict(inner.outputs)
    for name, view in views.items():
        spec = inner.outputs.get(name)
        try:
            if spec is None:
                raise ValueError(f"there is no such output; it answers {sorted(inner.outputs)}")
            batch, dims = spec.shape[:1], spec.shape[1:]
            seen[name] = TensorSpec(name, spec.dtype, (*batch, *view.shape(dims)))
        except ValueError as e:
            raise RunnerLoadError(
                inner.name,
                f"runners.{inner.name}.outputs.{name}: {e}",
                is_plan_fault=True,
            ) from None
    return seen
