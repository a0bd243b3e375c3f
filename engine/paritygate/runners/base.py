"""The protocol of runners: prepared once from picklable options, then one session a thread.

A session answers a batch with a lease on named outputs. The lease's arrays stay as they are until
`release()`; whoever needs them longer copies them.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from pydantic import BaseModel

from paritygate.core.digest import Watched
from paritygate.core.errors import UnusableError
from paritygate.core.ragged import Tensor
from paritygate.core.tensors import Array, Batch, ColumnSpec, TensorSpec
from paritygate.gpu.tensor import DeviceTensor, lying
from paritygate.runners.answers import (
    differs_from_declared,
    differs_from_first,
    first_look,
    form_of_plain,
    unusable,
)
from paritygate.runners.isolate.settings import Isolation
from paritygate.runners.layout import Layout
from paritygate.runners.views import View, put_views

if TYPE_CHECKING:
    from paritygate.golden.pack import GoldenPack

DEFAULT_BATCH_SIZE = 256


class Limits(Struct, frozen=True):
    """What a runner asks of whoever calls it.

    Attributes:
        batch_sizes: rows that a batch may have; None: any number of rows in one call.
        thread_safe: several sessions may run at once.
        is_fixed: a batch has exactly one of these sizes, whatever the plan approves.
        device: "cpu", "cuda", ...: where the work is done.
        process_wide: settings that hold for the whole process, as `name=value`.
    """

    batch_sizes: tuple[int, ...] | None
    thread_safe: bool
    device: str = "cpu"
    process_wide: tuple[str, ...] = ()
    is_fixed: bool = False


class Finding(Struct, frozen=True):
    """Something that holds the run whatever the numbers say, such as `placement.downgraded`.

    Attributes:
        code: stable dotted code, as in the verdict's reasons.
        message: one sentence, without the runner's name.
        next: what to look at next.
        count: samples concerned, where it is about samples.
        ids: the first few of their ids.
    """

    code: str
    message: str
    next: str = ""
    count: int | None = None
    ids: tuple[int | str, ...] = ()


class RunnerSpec(Struct, frozen=True):
    """Everything needed to prepare a runner, here or in another process.

    Attributes:
        name: the runner's name in the plan.
        kind: the kind that `options` belong to.
        options: the kind's options model, frozen and picklable.
        views: our output name -> how the plan declares it to be seen.
        isolation: whether it runs in a process of its own; None: the plan doesn't say.
    """

    name: str
    kind: str
    options: BaseModel
    views: Mapping[str, View] = field(default_factory=dict)
    isolation: Isolation | None = None

    def to_plan(self) -> dict[str, object]:
        """The runner's table in a plan, with every default written out."""
        options = self.options.model_dump(mode="json", exclude_none=True)
        if self.views:
            options["outputs"] = put_views(options.get("outputs"), self.views)
        if self.isolation is not None:
            options["isolate"] = self.isolation.to_plan()
        return {"kind": self.kind, **options}


class PrepareContext(Struct, frozen=True):
    """What a runner is prepared against.

    Attributes:
        folder: what relative paths in the options refer to.
        pack: the golden pack; None where there is none (then `inputs` says what will come).
        inputs: name -> what the pack's batches will hold under that name.
        constants: name -> array that is the same for all samples.
        check_models: whether models are checked for structure, in a child process.
        id_column: column of the sample ids in the golden pack.
        named_columns: columns that the plan names as labels or slices.
        layout: where the plan's tensors have their samples.
        admitted: what the kind's `admit` gave in the process that started this one; None: it is
            done here.
    """

    folder: Path
    pack: GoldenPack | None
    inputs: Mapping[str, ColumnSpec]
    constants: Mapping[str, Array] = field(default_factory=dict)
    check_models: bool = True
    id_column: str = "sample_id"
    named_columns: tuple[str, ...] = ()
    layout: Layout = field(default_factory=Layout)
    admitted: object = None


class Filler(Struct, frozen=True):
    """What answers whole batches of a block straight into the block's arrays.

    Attributes:
        answers: output -> an array like its answer to one batch, of which the values say nothing.
        fill: given arrays with room for the block's answers, by output; the first row; how many
            batches follow from there, none of them padded; and what says when to stop. It writes
            what `RunnerSession.run` would answer, and says of how many batches; the one that
            follows is to be asked of `run`, unless it was stopped.
    """

    answers: Mapping[str, Array]
    fill: Callable[[Mapping[str, Array], int, int, Callable[[], bool]], int]


class Lease:
    """Outputs of one batch, valid until `release()`.

    Attributes:
        outputs: name -> `(batch.size, *sample_shape)`, or one array a sample.
        present: `(batch.valid,)` bool, which samples were found (recorded outputs); None: all.
        is_lasting: the arrays are of memory that nobody uses again, as of the golden pack; they
            stay as they are, released or not.
    """

    __slots__ = ("_give_back", "is_lasting", "outputs", "present")

    def __init__(
        self,
        outputs: Mapping[str, Tensor],
        present: npt.NDArray[np.bool_] | None = None,
        give_back: Callable[[], None] | None = None,
        *,
        is_lasting: bool = False,
    ) -> None:
        self.outputs = outputs
        self.is_lasting = is_lasting
        self.present = present
        self._give_back = give_back

    def release(self) -> None:
        """Let the buffers be used again; releasing twice is the same as once."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Runner(ABC):
    """Something that maps a batch of inputs to named outputs.

    Attributes:
        name: the runner's name in the plan.
        kind: the kind of runner.
        limits: what it asks of its caller.
        inputs: name -> what it takes, under our names; None: unknown.
        outputs: name -> what it declares to answer, under our names; None: unknown until the
            first batch (then see `observed`).
        findings: what holds the run whatever the numbers say.
        watched: the files that it runs from, as they were before they were digested.
        constant_names: the plan's constants that it takes; None: unknown.
        layout: where its own tensors have their samples; all else here has them first.
        runs_elsewhere: it runs in another process, so that others can be asked meanwhile.
        can_stay: outputs that it can leave on the first GPU.
        stays: those of them that it is to leave there once it has answered a batch.
    """

    watched: tuple[Watched, ...] = ()
    constant_names: frozenset[str] | None = None
    layout: Layout = Layout()
    runs_elsewhere: bool = False
    can_stay: frozenset[str] = frozenset()
    stays: frozenset[str] = frozenset()

    def __init__(
        self,
        name: str,
        kind: str,
        *,
        limits: Limits,
        inputs: Mapping[str, TensorSpec] | None,
        outputs: Mapping[str, TensorSpec] | None,
        identity: str = "",
        facts: Mapping[str, object] | None = None,
        findings: tuple[Finding, ...] = (),
    ) -> None:
        self.name = name
        self.kind = kind
        self.limits = limits
        self.inputs = inputs
        self.outputs = outputs
        self.findings = findings
        self._identity = identity
        self._facts = dict(facts or {})
        self._observed: dict[str, ColumnSpec] | None = None
        self._observing = threading.Lock()

    @property
    def source(self) -> str:
        """Identity without what the plan declares of its outputs; equal: the same thing ran."""
        return self.identity

    @property
    def identity(self) -> str:
        """Digest, hex; equal for two runners exactly where they are the same thing."""
        return self._identity

    @property
    def facts(self) -> Mapping[str, object]:
        """What is known of it, of JSON types, for the summary."""
        return self._facts

    @property
    def observed(self) -> Mapping[str, ColumnSpec] | None:
        """Dtype and sample shape of each output as first answered; None before a batch has run."""
        return self._observed

    @property
    def class_keys(self) -> Mapping[str, list[int | str]]:
        """Output made of maps -> their keys in the order of its columns, as far as seen."""
        return {}

    def observe(self, outputs: Mapping[str, Tensor | DeviceTensor]) -> Mapping[str, ColumnSpec]:
        """Keep what the first batch looks like; all later ones must look the same.

        Dims that the runner declares to be free, or that have a name in the plan, may vary.
        """
        if self._observed is None:
            with self._observing:
                if self._observed is None:
                    self._observed = {
                        name: first_look(
                            name,
                            tensor,
                            (self.outputs or {}).get(name),
                            self.layout.dims.get(name),
                        )
                        for name, tensor in outputs.items()
                    }
        return self._observed

    def final_findings(self) -> tuple[Finding, ...]:
        """All findings, with those that take a look at the whole pack; asked once, at the end."""
        return self.findings

    @abstractmethod
    def session(self) -> RunnerSession:
        """A session for the calling thread."""

    def close(self) -> None:  # noqa: B027 - most runners hold nothing
        """Free what the runner holds; closing twice is the same as once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class RunnerSession(ABC):
    """One thread's way into a runner."""

    _last_form: list[object] | None = None  # of an answer that passed all checks

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    def run(self, batch: Batch, following: Batch | None = None) -> Lease:
        """Answer one batch, and check the answer.

        Args:
            batch: the batch.
            following: what this session is asked next, where that is known: one that asks another
                process sends it ahead. The next call must be for it.

        Raises:
            RunnerError: the runner raised, or answered with something unusable.
        """
        layout = self.runner.layout
        lease = self._run_impl(layout.arrange(batch))
        form = None if layout.is_moved else form_of_plain(lease.outputs, batch.size)
        if form is not None and form == self._last_form:
            return lease
        try:
            self._check_arrays(lease, batch)
            lease.outputs = layout.samples_first(lease.outputs)
            self._check_all_alike(lease, batch)
        except BaseException:
            lease.release()
            raise
        self._last_form = form
        return lease

    def filler(self, inputs: Mapping[str, Array], rows: int) -> Filler | None:
        """What answers batches of a block without a copy between; None: only `run` does.

        There is one only where the last answer of `run` had these rows, and passed all checks.

        Args:
            inputs: name -> `(n, *sample_shape)` of the whole block, read-only.
            rows: of a batch.
        """
        return None

    @abstractmethod
    def _run_impl(self, batch: Batch) -> Lease:
        """Answer one batch; what is raised is a `RunnerError`."""

    def heed(self, stop: threading.Event) -> None:  # noqa: B027 - most just answer
        """Be given what is set once nobody waits for answers; long searches then end."""

    def close(self) -> None:  # noqa: B027 - most sessions hold nothing
        """Free what the session holds; closing twice is the same as once."""

    def _check_arrays(self, lease: Lease, batch: Batch) -> None:
        axes = self.runner.layout.outputs
        for name, array in lying(lease.outputs).items():
            problem = unusable(array, batch.size, axes.get(name, 0))
            if problem:
                where = describe_batch(self.runner.name, batch)
                raise UnusableError(f"{where}: output {name!r} {problem}")

    def _check_all_alike(self, lease: Lease, batch: Batch) -> None:
        outputs, problem = lying(lease.outputs), None
        if self.runner.observed is None:
            problem = differs_from_declared(self.runner.outputs, outputs)
        problem = problem or differs_from_first(self.runner.observe(outputs), outputs)
        if problem:
            raise UnusableError(f"{describe_batch(self.runner.name, batch)}: {problem}")


def describe_batch(runner: str, batch: Batch) -> str:
    """Where a runner failed: its name, the batch and the ids in it."""
    return f"runner {runner!r}, {describe_samples(batch)}"


def describe_samples(batch: Batch) -> str:
    """The batch and the ids in it."""
    ids = "no samples"
    if batch.valid:
        first, last = batch.ids[0], batch.ids[batch.valid - 1]
        ids = f"id {first!s}" if batch.valid == 1 else f"ids {first!s} to {last!s}"
    return f"batch {batch.number} ({ids})"
