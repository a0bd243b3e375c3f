"""Rejected samples of a run: all told by id, the first ones in words, some kept whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paritygate.core.dtypes import numpy_dtype
from paritygate.core.tensors import ColumnSpec
from paritygate.golden.dtypes import tensor_field
from paritygate.golden.pack import GoldenPack
from paritygate.golden.write import tensor_array, tensor_type
from paritygate.golden.write_varying import varying_array, varying_field
from paritygate.pipeline.extras import extra_columns, extra_values, id_type, input_bytes
from paritygate.pipeline.reject import Outcome, Rejected
from paritygate.pipeline.span import Prepared
from paritygate.runfolder import RejectedIds, RejectedShard, RunFolder
from paritygate.tally.stage import FIRST

IDS, SHARD = "rejected-ids.arrow", "rejected-00000.arrow"
_AT_ONCE = 256


class Rejections:
    """Takes rejected samples in pack order.

    Attributes:
        counts: how many, by outcome.
        first: the first few of those that nobody expects to be rejected.
    """

    def __init__(self, prepared: Prepared, folder: RunFolder | None) -> None:
        self.counts: Counter[Outcome] = Counter()
        self.first: list[Rejected] = []
        self._prepared = prepared
        self._kept = self._bytes = 0
        self._is_full = folder is None
        self._waiting: list[Rejected] = []
        self._ids: RejectedIds | None = None
        self._shard: RejectedShard | None = None
        if folder is not None:
            of = id_type(prepared)
            self._ids = RejectedIds(folder.partial / IDS, of)
            self._shard = RejectedShard(
                folder.partial / SHARD,
                of,
                extra_columns(prepared),
                [_field(f"in.{name}", spec) for name, spec in prepared.pack.inputs.items()],
                {"paritygate.plan": prepared.plan.digest()},
            )

    def take(self, rejected: Sequence[Rejected]) -> None:
        """Take further samples.

        Raises:
            FolderError: a file can't be written.
        """
        self.counts.update(r.outcome for r in rejected)
        unexpected = [r for r in rejected if r.outcome == "rejected"]
        self.first += unexpected[: FIRST - len(self.first)]
        self._waiting += rejected
        while len(self._waiting) >= _AT_ONCE:
            self._write(self._waiting[:_AT_ONCE])
            del self._waiting[:_AT_ONCE]

    def finish(self) -> dict[str, Any]:
        """Complete the files; what the summary says, nothing where no sample was rejected.

        Raises:
            FolderError: a file can't be written.
        """
        total = self.counts.total()
        if not total:
            return {}
        if self._waiting:
            self._write(self._waiting)
        told: dict[str, Any] = {
            "count": self.counts["rejected"],
            "as_expected": self.counts["as_expected"],
            "not_rejected": self.counts["not_rejected"],
            "first": [_told(r) for r in self.first],
        }
        if self._ids is None or self._shard is None:
            return told
        self._ids.close()
        self._shard.close()
        told |= {"ids": IDS, "kept": self._kept, "truncated": self._kept < total}
        return {**told, "shards": [SHARD]} if self._kept else told

    def abort(self) -> None:
        """Drop unfinished files."""
        for writer in (self._ids, self._shard):
            if writer is not None:
                writer.abort()

    def _write(self, some: Sequence[Rejected]) -> None:
        if self._ids is None or self._shard is None:
            return
        self._ids.write([_row(r) for r in some])
        kept = [] if self._is_full else self._that_fit(some)
        if not kept:
            return
        pack = self._prepared.pack
        rows = np.array([r.ordinal for r in kept], np.int64)
        inputs = [_column(pack, name, rows) for name in pack.inputs]
        extra = [extra_values(self._prepared, at) for at in rows.tolist()]
        self._shard.write([_row(r) for r in kept], extra, inputs)
        self._kept += len(kept)
        if pack.is_large:
            pack.done_with(int(rows[0]), int(rows[-1]) + 1)

    def _that_fit(self, some: Sequence[Rejected]) -> list[Rejected]:
        """The samples up to `max_failures` and `max_failure_bytes`; after the first cut none."""
        table = self._prepared.plan.table
        kept: list[Rejected] = []
        for one in some:
            size = input_bytes(self._prepared.pack, one.ordinal)
            self._is_full = (
                self._kept + len(kept) >= table.max_failures
                or self._bytes + size > table.max_failure_bytes
            )
            if self._is_full:
                break
            kept.append(one)
            self._bytes += size
        return kept


def _row(rejected: Rejected) -> Any:
    return rejected.sample_id, rejected.ordinal, rejected.violation, rejected.outcome


def _told(rejected: Rejected) -> dict[str, Any]:
    return {
        "id": rejected.sample_id,
        "row": rejected.ordinal,
        "code": rejected.violation.code,
        "says": str(rejected.violation),
    }


def _field(name: str, spec: ColumnSpec) -> pa.Field[Any]:
    """The field of an input as it is written, with what the pack's own field says."""
    dtype = numpy_dtype(spec.dtype)
    if spec.is_fixed:
        field = tensor_field(name, tensor_type(spec.dtype, spec.fixed_shape), dtype)
    else:
        kind = varying_array([], dtype, len(spec.shape)).type
        field = varying_field(name, kind, dtype)
    said = {k.encode(): v.encode() for k, v in spec.metadata.items()}
    merged: dict[Any, Any] = {**said, **(field.metadata or {})}
    return field.with_metadata(merged) if merged else field


def _column(pack: GoldenPack, name: str, rows: Any) -> pa.Array[Any]:
    spec = pack.inputs[name]
    if spec.is_fixed:
        return tensor_array(pack.take_input(name, rows))
    each = [pack.input(name, at, at + 1)[0, ...] for at in rows.tolist()]
    return varying_array(each, numpy_dtype(spec.dtype), len(spec.shape))
