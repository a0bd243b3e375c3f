"""Kind `recorded`: outputs that were computed before, joined to the golden samples by id."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from pydantic import Field, StrictStr, field_validator, model_validator

from paritygate.core.digest import canonical_json
from paritygate.core.dtypes import is_string, zeros
from paritygate.core.errors import GoldenError, RunnerError, RunnerLoadError
from paritygate.core.problems import did_you_mean
from paritygate.core.ragged import Ragged, Tensor, repeat_last, row_of, stack_rows
from paritygate.core.tensors import Array, Batch, TensorSpec
from paritygate.golden.pack import GoldenPack, open_pack
from paritygate.runners.base import (
    Finding,
    Lease,
    Limits,
    PrepareContext,
    Runner,
    RunnerSession,
    RunnerSpec,
    describe_batch,
)
from paritygate.runners.options import RunnerOptions, check_mapping
from paritygate.runners.prepared import PREFIX as PREPARED
from paritygate.runners.prepared import PreparedRunner
from paritygate.runners.recorded_origin import Origin, find_origin

_STEP = 65_536
_TOLD = 10
_PREFIX = "out."
_GOLDEN = "golden"
_ROW_FAULTS = ("golden.null_id", "golden.null_value", "golden.shape", "golden.value")


class Options(RunnerOptions):
    """`[runners.NAME]` of kind `recorded`.

    Attributes:
        path: file, glob or list of them; None: the golden pack's own `out.*` columns.
        id: column of the sample ids in `path`; None: as in the golden pack.
        outputs: our name -> name in the recording, where they differ.
        outputs_from: "all": where no column is named `out.NAME`, every other column is an output.
        outputs_prefix: what the names of output columns begin with; `ref.` and `cand.` are the two
            sides of a failure shard, and `in.`, without a path, the golden pack's own inputs as the
            plan names them. None: `out.`.
    """

    path: tuple[StrictStr, ...] | None = None
    id: StrictStr | None = None
    outputs: dict[StrictStr, StrictStr] = Field(default={})
    outputs_from: Literal["prefix", "all"] = "prefix"
    outputs_prefix: Annotated[StrictStr, Field(min_length=1)] | None = None

    @field_validator("path", mode="before")
    @classmethod
    def _some(cls, value: Any) -> Any:
        if value is None:
            return value
        paths = [value] if isinstance(value, str) else value
        is_text = isinstance(paths, list | tuple) and all(isinstance(p, str) and p for p in paths)
        if not is_text or not paths:
            raise ValueError("is a file, a glob or a list of them; or leave it out")
        return tuple(paths)

    @model_validator(mode="after")
    def _one_way_to_name_outputs(self) -> Options:
        if self.outputs_prefix is not None and self.outputs_from == "all":
            raise ValueError("outputs_prefix and outputs_from = 'all' exclude each other; keep one")
        return self

    @field_validator("outputs")
    @classmethod
    def _one_to_one(cls, value: dict[str, str]) -> dict[str, str]:
        check_mapping(value, "output of the recording")
        return value


class IdCount(Struct, frozen=True):
    """Samples counted, and the ids of the first few."""

    count: int
    first: tuple[int | str, ...] = ()


class RecordedRunner(Runner):
    """Recorded outputs; identity and digest are made on first use, for they read every byte."""

    constant_names = frozenset[str]()

    def __init__(
        self,
        name: str,
        golden: GoldenPack,
        recording: GoldenPack,
        fetches: Mapping[str, str],
        path: object,
        findings: tuple[Finding, ...] = (),
        duplicates: IdCount | None = None,
        prefix: str | None = None,
        origin: Origin | None = None,
    ) -> None:
        outputs = {
            ours: TensorSpec(
                ours,
                recording.outputs[theirs].dtype,
                ("batch", *recording.outputs[theirs].shape),
            )
            for ours, theirs in fetches.items()
        }
        super().__init__(
            name,
            "recorded",
            limits=Limits(None, True),
            inputs={},
            outputs=outputs,
            findings=(*findings, *(origin.findings() if origin is not None else ())),
        )
        self.watched = recording.watched
        self.duplicates = duplicates or IdCount(0)
        self.origin = origin or Origin()
        self._golden = golden
        self._recording = recording
        self._fetches = dict(fetches)
        self._path = path
        self._prefix = prefix
        self._extra: IdCount | None = None
        scan = None if recording is golden else recording.scan_ids(allow_duplicates=True)
        self._is_like = scan is not None and scan.is_like

    @property
    def is_golden(self) -> bool:
        """Whether the outputs are the golden pack's own."""
        return self._recording is self._golden

    @property
    def recording(self) -> GoldenPack:
        """The pack that holds the outputs."""
        return self._recording

    @property
    def own_inputs(self) -> tuple[str, ...]:
        """Inputs that the recording holds as well as the golden pack; nobody compares the two."""
        if self._path == _GOLDEN:
            return ()
        return tuple(name for name in self._recording.inputs if name in self._golden.inputs)

    @property
    def skipped_columns(self) -> tuple[str, ...]:
        """Columns of a recording of its own that are no outputs, such as the plan's labels."""
        if self._path == _GOLDEN:
            return ()
        inputs = {f"in.{name}" for name in self._recording.inputs}
        return tuple(name for name in self._recording.skipped_columns if name not in inputs)

    @property
    def source(self) -> str:
        """Identity of the runner that was recorded, where that is known and no output renamed."""
        is_plain = all(ours == theirs for ours, theirs in self._fetches.items())
        known = self.origin.source if is_plain and self._prefix in (None, _PREFIX) else None
        return known or self.identity

    @property
    def identity(self) -> str:
        """Digest, hex; equal for two runners of the same files, in whatever order they are named.

        The same samples in other files, or cut into other record batches, are another recording.
        """
        if not self._identity:
            digests = sorted(self._recording.file_digests())
            parts = ["recorded", digests, sorted(self._fetches.items())]
            parts += [self._prefix] if self._prefix not in (None, _PREFIX) else []
            self._identity = hashlib.sha256(canonical_json(parts)).hexdigest()
        return self._identity

    @property
    def facts(self) -> Mapping[str, object]:
        """Path, digest, samples and columns of the recording."""
        if not self._facts:
            self._facts = {
                "path": self._path,
                "digest": self._recording.digest(),
                "samples": self._recording.samples,
                "fetches": dict(self._fetches),
                "outputs": [str(spec) for spec in (self.outputs or {}).values()],
                "duplicates": self.duplicates.count,
                "skipped_columns": list(self._recording.skipped_columns),
            }
            if self.origin.recordings:
                self._facts["recorded"] = self.origin.facts()
        return self._facts

    def extra(self) -> IdCount:
        """Recorded samples that the golden pack doesn't have, each id once."""
        if self._extra is None:
            has_none = self.is_golden or self._is_like
            self._extra = IdCount(0) if has_none else self._count_extra()
        return self._extra

    def final_findings(self) -> tuple[Finding, ...]:
        """All findings; recorded samples that the golden pack lacks are `sample.extra`."""
        extra = self.extra()
        if not extra.count:
            return self.findings
        finding = Finding(
            "sample.extra",
            f"{extra.count} recorded samples aren't in the golden pack",
            "compare recordings of the same samples, or add these to the golden pack",
            extra.count,
            extra.first,
        )
        return (*self.findings, finding)

    def session(self) -> RunnerSession:
        """A session for the calling thread."""
        return _RecordedSession(self)

    def close(self) -> None:
        """Close the recording, unless it is the golden pack."""
        if not self.is_golden:
            self._recording.close()

    @property
    def answers_runs(self) -> bool:
        """Whether `answer_run` can be asked: samples lie here as they do in the golden pack."""
        specs = [self._recording.outputs[theirs] for theirs in self._fetches.values()]
        is_plain = all(spec.is_fixed and not is_string(spec.dtype) for spec in specs)
        return is_plain and (self.is_golden or self._is_like)

    def answer_run(self, start: int, stop: int, room: Callable[[str, int, Array], Array]) -> Lease:
        """Outputs of the golden samples `[start, stop)`, where `answers_runs`.

        Whoever asks lets go of them.

        Args:
            start: the first of them.
            stop: end of them.
            room: output, rows and an array like its own -> an array with room for them.

        Raises:
            GoldenError: the recording can't be read.
        """
        pack = self._recording
        outputs = {
            ours: pack.output(theirs, start, stop, partial(room, ours))
            for ours, theirs in self._fetches.items()
        }
        self.observe(outputs)
        return Lease(outputs)

    def look_up(self, batch: Batch) -> Lease:
        """Outputs of a batch by id, and which ids were found (None: all)."""
        if self.is_golden and self._is_consecutive(batch):
            start, stop = batch.start, batch.start + batch.valid
            whole = {o: self._golden.output(t, start, stop) for o, t in self._fetches.items()}
            return Lease({name: repeat_last(array, batch.size) for name, array in whole.items()})
        if self._is_like and self._is_consecutive(batch):
            return self._look_up_run(batch)
        rows = self._recording.index().rows(batch.ids[: batch.valid])
        present = rows >= 0
        if present.all():
            found = {o: self._recording.take_output(t, rows) for o, t in self._fetches.items()}
            outputs = {name: repeat_last(array, batch.size) for name, array in found.items()}
            return Lease(outputs, give_back=partial(self._let_go, rows))
        return Lease(
            {o: self._scatter(t, rows, batch.size) for o, t in self._fetches.items()}, present
        )

    def _look_up_run(self, batch: Batch) -> Lease:
        """Outputs of samples that lie in the recording as in the golden pack."""
        start, stop = batch.start, batch.start + batch.valid
        whole = {o: self._recording.output(t, start, stop) for o, t in self._fetches.items()}
        outputs = {name: repeat_last(array, batch.size) for name, array in whole.items()}
        return Lease(outputs, give_back=partial(self._recording.done_with, start, stop))

    def _let_go(self, rows: npt.NDArray[np.int64]) -> None:
        """Of consecutive rows, which are mapped and not copied, drop what was mapped.

        Whoever reads the golden pack drops its rows.
        """
        if len(rows) and not self.is_golden and rows[-1] - rows[0] == len(rows) - 1:
            self._recording.done_with(int(rows[0]), int(rows[-1]) + 1)

    def _is_consecutive(self, batch: Batch) -> bool:
        """Whether no golden sample is left out between a batch's first and last.

        Batches are in pack order, so that comparing both ends is enough.
        """
        last = batch.start + batch.valid - 1
        if not batch.valid or last >= self._golden.samples:
            return False
        if batch.last >= 0:
            return batch.last == last
        ends = self._golden.ids(batch.start, batch.start + 1), self._golden.ids(last, last + 1)
        return bool(ends[0][0] == batch.ids[0] and ends[1][0] == batch.ids[batch.valid - 1])

    def _scatter(self, theirs: str, rows: npt.NDArray[np.int64], size: int) -> Tensor:
        """Found rows in their places, zeros elsewhere; without a shape of their own, nothing."""
        spec = self._recording.outputs[theirs]
        present = np.flatnonzero(rows >= 0)
        if not spec.is_fixed:
            nothing: Array = zeros(tuple(dim or 0 for dim in spec.shape), spec.dtype)
            arrays = [nothing] * size
            if present.size:
                found = self._recording.take_output(theirs, rows[present])
                for place, at in enumerate(present.tolist()):
                    arrays[at] = row_of(found, place)
            return Ragged(arrays, nothing.dtype, nothing.ndim)
        array: Array = zeros((size, *spec.fixed_shape), spec.dtype)
        if present.size:
            taken = self._recording.take_output(theirs, rows[present])
            array[present] = stack_rows(taken, np.arange(len(taken)))
        array.flags.writeable = False
        return array

    def _count_extra(self) -> IdCount:
        index, count = self._golden.index(), 0
        first: list[int | str] = []
        for start in range(0, self._recording.samples, _STEP):
            stop = min(start + _STEP, self._recording.samples)
            ids = self._recording.ids(start, stop)
            is_strange = index.rows(ids) < 0
            if self.duplicates.count and is_strange.any():
                at = np.flatnonzero(is_strange)
                is_strange[at] = self._recording.index().rows(ids[at]) == at + start
            strange = ids[is_strange]
            self._recording.done_with(start, stop)
            count += len(strange)
            first += strange[: _TOLD - len(first)].tolist()
        return IdCount(count, tuple(first))


class _RecordedSession(RunnerSession):
    def __init__(self, runner: RecordedRunner) -> None:
        super().__init__(runner)
        self._recorded = runner

    def _run_impl(self, batch: Batch) -> Lease:
        try:
            return self._recorded.look_up(batch)
        except GoldenError as e:
            raise RunnerError(f"{describe_batch(self.runner.name, batch)}: {e}") from e


def prepare(spec: RunnerSpec, context: PrepareContext) -> RecordedRunner | PreparedRunner:
    """Open a recording and make sure that it can be joined with the golden pack.

    Raises:
        RunnerLoadError: it can't be read, has null ids, or (a fault of the plan) its ids are of
            another type, or it has no such output.
    """
    options = cast(Options, spec.options)
    golden = context.pack
    if golden is None:
        raise RunnerLoadError(
            spec.name,
            f"runner {spec.name!r}: recorded outputs are joined with a golden pack, but there is "
            "none",
            is_plan_fault=True,
        )
    if options.path is None and options.outputs_prefix == PREPARED and not options.outputs:
        return PreparedRunner(spec.name, golden)
    if options.path is None and options.outputs_prefix is None:
        return RecordedRunner(
            spec.name,
            golden,
            golden,
            _fetches(spec.name, options, golden),
            _GOLDEN,
            origin=find_origin(spec.name, golden, golden),
        )
    files = options.path or tuple(str(file.path.absolute()) for file in golden.files)
    recording = _open(spec.name, options, files, context)
    try:
        origin = find_origin(spec.name, recording, golden) if options.path else Origin()
        duplicates, findings = _scan(spec.name, golden, recording)
        fetches = _fetches(spec.name, options, recording)
    except BaseException:
        recording.close()
        raise
    return RecordedRunner(
        spec.name,
        golden,
        recording,
        fetches,
        list(options.path) if options.path else _GOLDEN,
        findings,
        duplicates,
        options.outputs_prefix,
        origin,
    )


def _open(
    runner: str, options: Options, path: tuple[str, ...], context: PrepareContext
) -> GoldenPack:
    try:
        return open_pack(
            path,
            context.folder,
            id_column=options.id or context.id_column,
            label_column=None,
            outputs_from=options.outputs_from,
            not_outputs=context.named_columns,
            outputs_prefix=options.outputs_prefix or _PREFIX,
        )
    except GoldenError as e:
        raise _load_error(runner, e) from e


def _scan(
    runner: str, golden: GoldenPack, recording: GoldenPack
) -> tuple[IdCount, tuple[Finding, ...]]:
    if recording.samples and golden.samples and recording.id_kind != golden.id_kind:
        raise RunnerLoadError(
            runner,
            f"runner {runner!r}: ids of the recording are {recording.id_kind}, those of the golden "
            f"pack are {golden.id_kind}; write both with ids of one type",
            is_plan_fault=True,
        )
    try:
        scan = recording.scan_ids(allow_duplicates=True, like=golden)
    except GoldenError as e:
        raise _load_error(runner, e) from e
    if not scan.duplicates:
        return IdCount(0), ()
    first = tuple(dict.fromkeys(found.id for found in scan.first_duplicates))
    finding = Finding(
        "sample.duplicate",
        f"{scan.duplicates} of the recorded rows repeat the id of an earlier row, "
        f"first {first[0]!r}; only the first of each is compared",
        "record each sample once; look at what wrote the recording",
        scan.duplicates,
        first,
    )
    return IdCount(scan.duplicates, first), (finding,)


def _load_error(runner: str, error: GoldenError) -> RunnerLoadError:
    """A recording with unusable rows doesn't load; one that can't be read can't be judged."""
    return RunnerLoadError(
        runner,
        f"runner {runner!r}: {error}",
        is_plan_fault=error.code not in _ROW_FAULTS,
        code=error.code,
    )


def _fetches(runner: str, options: Options, recording: GoldenPack) -> dict[str, str]:
    """Our name -> the recording's, of all its outputs."""
    absent = [(o, t) for o, t in options.outputs.items() if t not in recording.outputs]
    if absent:
        ours, theirs = absent[0]
        raise RunnerLoadError(
            runner,
            f"runners.{runner}.outputs.{ours}: the recording has no output {theirs!r}"
            f"{did_you_mean(theirs, recording.outputs)}",
            is_plan_fault=True,
        )
    if not recording.outputs:
        raise RunnerLoadError(
            runner,
            f"runner {runner!r}: {recording.files[0].path} has no recorded output; outputs are "
            f"columns named {options.outputs_prefix or _PREFIX}NAME",
            is_plan_fault=True,
        )
    ours_of = {theirs: ours for ours, theirs in options.outputs.items()}
    fetches: dict[str, str] = {}
    for theirs in recording.outputs:
        ours = ours_of.get(theirs, theirs)
        if ours in fetches:
            raise RunnerLoadError(
                runner,
                f"runners.{runner}.outputs.{ours}: the recording has another output of this name",
                is_plan_fault=True,
            )
        fetches[ours] = theirs
    return fetches
