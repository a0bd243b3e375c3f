"""What the caller's thread does with results, in block order: keep the worst, list the failed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from msgspec import Struct, field

from paritygate.comparison.keep import KeepBest, KeptRow
from paritygate.comparison.rows import KeepHint
from paritygate.core.tensors import ColumnSpec
from paritygate.pipeline.extras import extra_columns, extra_values, id_type, input_bytes
from paritygate.pipeline.impute import Imputed
from paritygate.pipeline.reject import Rejected
from paritygate.pipeline.rejections import Rejections
from paritygate.pipeline.span import BlockResult, Prepared
from paritygate.pipeline.window import WindowOrder
from paritygate.runfolder import IdsWriter, RunFolder, write_shard


class Seconds(Struct):
    """Time spent, summed over threads."""

    read: float = 0.0
    compare: float = 0.0
    run: dict[str, float] = field(default_factory=dict)


class Collector:
    """Bounded sets and ids files of all stages, and the time spent."""

    def __init__(self, prepared: Prepared, folder: RunFolder | None) -> None:
        self.seconds = Seconds()
        self.imputed: dict[str, Imputed] = {}
        self._prepared = prepared
        self._folder = folder
        self._limit = _row_limit(prepared)
        names = [s.stage.name for s in prepared.stages]
        self._worst = {name: KeepBest(self._limit) for name in names}
        self._flips = {name: KeepBest(self._limit) for name in names}
        self._ids: dict[str, IdsWriter] = {}
        self._rejections = Rejections(prepared, folder)
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
        for name, imputed in result.imputed.items():
            self.imputed[name] = self.imputed.get(name, Imputed()).merge(imputed)
        only = self._prepared.only
        self._order.hold_rejected([r for r in result.rejected if only is None or r.ordinal in only])
        for name, stage in result.stages.items():
            for kept, found in ((self._worst, stage.worst), (self._flips, stage.flips)):
                kept[name].offer(found.primary, found.secondary, found.ordinals, stage.rows)
            self._order.hold(name, stage.failed)
        if self._order.ready(result.block):
            self._write_window()
        return self.hints()

    def _write_window(self) -> None:
        rejected, failed = self._order.take_rejected(), self._order.take()
        self._rejections.take(rejected)
        if self._folder is None:
            return
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
        for name, writer in self._ids.items():
            writer.close()
            written[name] = self._write_stage(name, writer.rows)
        return written

    def first_rejected(self) -> Sequence[Rejected]:
        """The first few samples that were rejected, in pack order.

        Raises:
            FolderError: a file can't be written.
        """
        self._write_window()
        return self._rejections.first

    def write_rejected(self) -> dict[str, Any]:
        """Finish the files of rejected samples; what the summary says of them, if there are any.

        Raises:
            FolderError: a file can't be written.
        """
        return self._rejections.finish()

    def abort(self) -> None:
        """Drop unfinished files."""
        self._rejections.abort()
        for writer in self._ids.values():
            writer.abort()

    def _writer(self, stage: str, folder: RunFolder) -> IdsWriter:
        if stage not in self._ids:
            self._ids[stage] = IdsWriter(
                folder.failures / f"{stage}-ids.arrow",
                id_type(self._prepared),
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
                id_type(self._prepared),
                extra_columns(self._prepared),
                lambda at: {n: pack.input(n, at, at + 1)[0, ...] for n in pack.inputs},
                lambda at: extra_values(self._prepared, at),
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
        total += input_bytes(prepared.pack, row.ordinal) + sum(
            t.nbytes for t in row.tensors.values()
        )
        if total > table.max_failure_bytes:
            break
        kept.append(row)
    return kept
