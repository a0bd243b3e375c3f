"""Keep what one runner answers: Arrow is made by the threads that run it, written in pack order."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from paritygate.comparison.rows import Ints, SampleRows, Side
from paritygate.core.digest import sha256_file
from paritygate.core.tensors import Block
from paritygate.core.text import clean
from paritygate.golden.evidence import MARK, with_marks
from paritygate.golden.recording import (
    VERSION,
    RecordedBy,
    RecordedFinding,
    RecordedPack,
    RecordedSamples,
    Recording,
    encode_recording,
)
from paritygate.golden.write import folder_error
from paritygate.golden.write_recording import RecordingWriter, partial_beside, recorded_batch
from paritygate.pipeline.reject import Rejected, hits_of
from paritygate.pipeline.span import Prepared, place_of
from paritygate.runners.base import Finding, Runner
from paritygate.runners.environment import package_versions
from paritygate.tally.maps import merge_maps
from paritygate.tally.stage import FirstError, Hits

_WRITTEN_ROWS = 8_192


class _Answers(Struct, frozen=True):
    """One block: its samples that were answered, and what became of the others."""

    ordinals: Ints
    batch: pa.RecordBatch | None
    raised: int
    missing: int
    errors: Mapping[str, FirstError]


class Kept(Struct, frozen=True):
    """What a recorder has done.

    Attributes:
        path: of the recording; None where no sample was answered, so that there is none.
        samples: what became of those that were asked for.
        errors: rule -> the first failure by it, and how many there are.
        outputs: name -> dtype and dims.
        sha256: of the file; "" where there is none.
        bytes: of the file.
        not_rejected: samples that the pack expects to be rejected, but that break no contract.
    """

    path: Path | None
    samples: RecordedSamples
    errors: Mapping[str, FirstError]
    outputs: Mapping[str, str]
    sha256: str = ""
    bytes: int = 0
    not_rejected: Hits = field(default_factory=Hits)

    @property
    def error(self) -> FirstError | None:
        """The first failure of all."""
        return _first(self.errors)


def _first(errors: Mapping[str, FirstError]) -> FirstError | None:
    return reduce(FirstError.merge, errors.values()) if errors else None


class Recorder:
    """Records one runner. `keep` is called by any thread, all else by one.

    Attributes:
        partial: the file that is written until the recording is complete.
    """

    def __init__(self, prepared: Prepared, runner: Runner, path: Path) -> None:
        self._prepared = prepared
        self._runner = runner
        self._path = path
        self.partial = partial_beside(path)
        self._id_column = prepared.plan.table.id
        self._lock = threading.Lock()
        self._waiting: dict[int, _Answers] = {}
        self._window: list[_Answers] = []
        self._writer: RecordingWriter | None = None
        self._rejected = self._refused = self._raised = self._missing = 0
        self._not_rejected = Hits()
        self._errors: Mapping[str, FirstError] = {}

    def keep(self, samples: SampleRows, side: Side) -> None:
        """Take the answers to a block, of which nothing is used after this call."""
        places = np.flatnonzero(side.answered)
        observed = self._runner.observed
        batch = None
        if len(places) and observed is not None:
            batch = recorded_batch(self._id_column, samples.ids, side.outputs, observed, places)
            batch = with_marks(batch, self._prepared.synthetic, samples.ordinals[places])
        missing = int(side.missing.sum())
        raised = samples.count - len(places) - missing
        by_rule = {f.rule: side.error(samples.ordinals, f.rule) for f in side.failures}
        errors = {rule: error for rule, error in by_rule.items() if error is not None}
        answers = _Answers(samples.ordinals[places], batch, raised, missing, errors)
        with self._lock:
            self._waiting[samples.place] = answers

    def take(self, block: Block, rejected: Sequence[Rejected]) -> None:
        """Write a block; called in block order, after `keep`.

        Args:
            block: the block.
            rejected: samples of it that were not run.

        Raises:
            FolderError: the recording can't be written.
        """
        self._rejected += hits_of(rejected, "rejected").samples
        self._refused += hits_of(rejected, "as_expected").samples
        self._not_rejected = self._not_rejected.merge(hits_of(rejected, "not_rejected"))
        with self._lock:
            answers = self._waiting.pop(place_of(self._prepared, block))
        self._raised += answers.raised
        self._missing += answers.missing
        self._errors = merge_maps(self._errors, answers.errors, FirstError.merge)
        if answers.batch is not None:
            self._window.append(answers)
        if block.done_until >= block.stop:
            self._write_window()

    def finish(
        self,
        golden_digest: str,
        environment: Mapping[str, object],
        findings: Sequence[Finding],
        unchecked: Sequence[str],
    ) -> Kept:
        """Complete the recording.

        Args:
            golden_digest: of the pack.
            environment: in which it was recorded.
            findings: what holds whatever is made of it.
            unchecked: what of the runner was not looked for, each after "when it was recorded,".

        Raises:
            FolderError: the recording can't be written.
        """
        recorded = self._writer.rows if self._writer is not None else 0
        samples = RecordedSamples(
            asked=self._prepared.samples,
            recorded=recorded,
            rejected=self._rejected,
            as_expected=self._refused,
            raised=self._raised,
            missing=self._missing,
        )
        outputs = {n: str(c) for n, c in (self._runner.observed or {}).items()}
        if self._writer is None:
            return Kept(None, samples, self._errors, outputs, not_rejected=self._not_rejected)
        recording = self._describe(samples, golden_digest, environment, findings, unchecked)
        self._writer.finish(encode_recording(recording))
        try:
            size, digest = self._path.stat().st_size, sha256_file(self._path, cache=False)
        except OSError as e:
            raise folder_error(self._path, e) from None
        return Kept(self._path, samples, self._errors, outputs, digest, size, self._not_rejected)

    def abort(self) -> None:
        """Drop what has been written."""
        if self._writer is not None:
            self._writer.abort()

    def _write_window(self) -> None:
        parts, self._window = self._window, []
        batches = [part.batch for part in parts if part.batch is not None]
        if not batches:
            return
        if self._writer is None:
            schema, synthetic = batches[0].schema, self._prepared.synthetic
            if synthetic is not None and synthetic.all():
                schema = schema.with_metadata(dict(MARK))
            self._writer = RecordingWriter(self._path, schema, self.partial)
        if len(batches) == 1:
            self._writer.write(batches[0])
            return
        order = np.argsort(np.concatenate([part.ordinals for part in parts]), kind="stable")
        table = pa.Table.from_batches(batches)
        for start in range(0, len(order), _WRITTEN_ROWS):
            rows = table.take(order[start : start + _WRITTEN_ROWS])
            for batch in rows.combine_chunks().to_batches():
                self._writer.write(batch)

    def _describe(
        self,
        samples: RecordedSamples,
        golden_digest: str,
        environment: Mapping[str, object],
        findings: Sequence[Finding],
        unchecked: Sequence[str],
    ) -> Recording:
        runner, pack = self._runner, self._prepared.pack
        error = _first(self._errors)
        sizes = runner.limits.batch_sizes
        return Recording(
            version=VERSION,
            golden=RecordedPack(digest=golden_digest, samples=pack.samples),
            plan=self._prepared.plan.digest(),
            runner=RecordedBy(
                name=clean(runner.name),
                kind=runner.kind,
                identity=runner.identity,
                source=runner.source,
                batch_size=max(sizes) if sizes else None,
                facts=dict(runner.facts),
            ),
            samples=samples,
            max_rejected=self._prepared.plan.table.max_rejected,
            first_error=clean(error.text) if error is not None else "",
            findings=tuple(
                RecordedFinding(code=f.code, message=clean(f.message)) for f in findings
            ),
            unchecked=tuple(clean(told) for told in unchecked),
            environment=dict(environment),
            paritygate=package_versions()["paritygate"] or "",
            finished=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        )


def describe_kept(kept: Kept, root: Path | None = None) -> dict[str, Any]:
    """A recording for the summary; its path relative to a folder."""
    told: dict[str, Any] = {"path": None}
    if kept.path is not None:
        path = kept.path.relative_to(root) if root is not None else kept.path
        told = {"path": str(path), "bytes": kept.bytes, "sha256": kept.sha256}
    told["samples"] = kept.samples.model_dump()
    told["outputs"] = dict(kept.outputs)
    if kept.error is not None:
        told["first_error"] = kept.error.text
    return told
