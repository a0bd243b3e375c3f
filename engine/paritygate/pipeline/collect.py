"""What the caller's thread does with results, in block order: keep the worst, list the failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest

import pyarrow as pa

from paritygate.comparison.keep import KeepBest, KeptRow
from paritygate.comparison.rows import KeepHint
from paritygate.core.dtypes import element_bytes
from paritygate.core.tensors import ColumnSpec
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.span import BlockResult, Prepared, Rejected
from paritygate.pipeline.window import WindowOrder
from paritygate.runfolder import IdsWriter, RejectedWriter, RunFolder, write_shard


@dataclass
class Seconds:
    """Time spent, summed over threads."""

    read: float = 0.0
    compare: float = 0.0
    run: dict[str, float] = field(default_factory=dict)


class Collector:
    """Bounded sets and ids files of all stages, and the time spent."""

    def __init__(self, prepared: Prepared, folder: RunFolder | None) -> None:
        self.seconds = Seconds()
        self._prepared = prepared
        self._folder = folder
        self._limit = _row_limit(prepared)
        names = [s.stage.name for s in prepared.stages]
        self._worst = {name: KeepBest(self._limit) for name in names}
        self._flips = {name: KeepBest(self._limit) for name in names}
        self._ids: dict[str, IdsWriter] = {}
        self._rejected: RejectedWriter | None = None
        self._order = WindowOrder()

    def hints(self) -> dict[str, KeepHint]:
        """Thresholds of the bounded sets by stage."""
        return {
            name: KeepHint(self._limit, worst.threshold, self._flips[name].threshold)
            for name, worst in self._worst.items()
        }

    def take(self, result: BlockResult) -> dict[str, KeepHint]:
        """Take one block's result.

        Raises:
            FolderError: an ids file can't be written.
        """
        self.seconds.read += result.read_s
        self.seconds.compare += result.compare_s
        for name, seconds in result.run_s.items():
            self.seconds.run[name] = self.seconds.run.get(name, 0.0) + seconds
        self._order.hold_rejected(result.rejected)
        for name, stage in result.stages.items():
            for kept, found in ((self._worst, stage.worst), (self._flips, stage.flips)):
                kept[name].offer(found.primary, found.secondary, found.ordinals, stage.rows)
            self._order.hold(name, stage.failed)
        if self._order.ready(result.block):
            self._write_window()
        return self.hints()

    def _write_window(self) -> None:
        rejected, failed = self._order.take_rejected(), self._order.take()
        if self._folder is None:
            return
        if rejected:
            self._reject(rejected, self._folder)
        for name, rows in failed.items():
            self._writer(name, self._folder).write(rows)

    def write(self) -> dict[str, dict[str, object]]:
        """Finish the ids files and write the shards.

        Returns:
            For each stage with failing samples its files and how many samples were kept whole.

        Raises:
            FolderError: a file can't be written.
        """
        written: dict[str, dict[str, object]] = {}
        self._write_window()
        if self._rejected is not None:
            self._rejected.close()
        for name, writer in self._ids.items():
            writer.close()
            written[name] = self._write_stage(name, writer.rows)
        return written

    def _reject(self, rejected: Sequence[Rejected], folder: RunFolder) -> None:
        if self._rejected is None:
            path = folder.partial / "rejected-00000.arrow"
            self._rejected = RejectedWriter(path, _id_type(self._prepared))
        self._rejected.write(
            [{"sample_id": r.sample_id, "row": r.ordinal, **asdict(r.violation)} for r in rejected]
        )

    def abort(self) -> None:
        """Drop unfinished files."""
        if self._rejected is not None:
            self._rejected.abort()
        for writer in self._ids.values():
            writer.abort()

    def _writer(self, stage: str, folder: RunFolder) -> IdsWriter:
        if stage not in self._ids:
            self._ids[stage] = IdsWriter(
                folder.failures / f"{stage}-ids.arrow",
                _id_type(self._prepared),
                self._decisions(stage),
            )
        return self._ids[stage]

    def _decisions(self, stage: str) -> list[str]:
        comparer = next(s for s in self._prepared.stages if s.stage.name == stage)
        return [r.name for r in self._prepared.plan.decisions if comparer.stage.decides(r.output)]

    def _write_stage(self, name: str, failed: int) -> dict[str, object]:
        assert self._folder is not None
        both = zip_longest(self._worst[name].rows(), self._flips[name].rows())
        rows = {r.ordinal: r for pair in both for r in pair if r is not None}
        kept = _within_bytes(self._prepared, list(rows.values()))
        path = self._folder.failures / f"{name}-00000.arrow"
        facts: dict[str, object] = {
            "ids": f"failures/{name}-ids.arrow",
            "failed": failed,
            "kept": len(kept),
            "truncated": len(kept) < failed,
        }
        if kept:
            pack = self._prepared.pack
            facts["bytes"] = write_shard(
                path,
                kept,
                self._decisions(name),
                _id_type(self._prepared),
                _extra_columns(self._prepared),
                lambda at: {n: pack.input(n, at, at + 1)[0, ...] for n in pack.inputs},
                lambda at: _extra(self._prepared, at),
                {"paritygate.stage": name, "paritygate.plan": self._prepared.plan.digest()},
            )
            facts["shards"] = [f"failures/{path.name}"]
        return facts


def _row_limit(prepared: Prepared) -> int:
    """Rows that a bounded set may hold: the plan's count, or what its bytes allow."""
    table = prepared.plan.table
    per_row = max(1, _tensor_bytes(prepared))
    return min(table.max_failures, max(1, table.max_failure_bytes // per_row))


def _tensor_bytes(prepared: Prepared) -> int:
    columns: list[ColumnSpec] = [*prepared.pack.inputs.values(), *prepared.pack.outputs.values()]
    return sum(c.sample_bytes for c in columns)


def _within_bytes(prepared: Prepared, rows: Sequence[KeptRow]) -> list[KeptRow]:
    """The first rows, at most `max_failures` of them, whose tensors fit `max_failure_bytes`."""
    table = prepared.plan.table
    kept, total = [], 0
    for row in rows[: table.max_failures]:
        total += _input_bytes(prepared.pack, row.ordinal) + sum(
            t.nbytes for t in row.tensors.values()
        )
        if total > table.max_failure_bytes:
            break
        kept.append(row)
    return kept


def _input_bytes(pack: GoldenPack, at: int) -> int:
    """Bytes of all inputs of one sample."""
    total = 0
    for name, spec in pack.inputs.items():
        if spec.is_fixed:
            total += spec.sample_bytes
        else:
            elements = int(pack.input_shapes(name, at, at + 1).prod())
            total += elements * element_bytes(spec.dtype)
    return total


def _id_type(prepared: Prepared) -> pa.DataType:
    return pa.int64() if prepared.pack.id_kind == "int64" else pa.string()


def _extra_columns(prepared: Prepared) -> dict[str, pa.DataType]:
    columns: dict[str, pa.DataType] = {}
    for name in prepared.label_columns:
        kind = prepared.pack.labels_of[name]
        columns[name] = pa.int64() if kind == "int64" else pa.string()
    columns.update((name, pa.string()) for name in prepared.plan.slices)
    return columns


def _extra(prepared: Prepared, at: int) -> Mapping[str, object]:
    pack = prepared.pack
    values: dict[str, object] = {}
    for name in prepared.label_columns:
        values[name] = pack.labels(at, at + 1, name).tolist()[0]
    for name in prepared.plan.slices:
        coded = pack.slice_values(name, at, at + 1)
        values[name] = coded.values[int(coded.codes[0])]
    return values
