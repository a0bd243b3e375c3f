"""Packs made of a shard: the inputs of some samples, and a side that was recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from paritygate.core.errors import ReplayError
from paritygate.golden.dtypes import column_of
from paritygate.golden.write import PackWriter
from paritygate.runfolder.files import read_columns
from paritygate.runfolder.reading import FailedSample

ROWS_PER_BATCH = 256
_ID = "sample_id"


def write_inputs(path: Path, samples: Sequence[FailedSample]) -> None:
    """Write the golden pack of some samples of one stage: ids and `in.*`, as the shard has them.

    Raises:
        GoldenError: a shard can't be read.
        FolderError: the pack can't be written.
    """
    _write(path, _take(samples, lambda name: name == _ID or name.startswith("in.")))


def write_side(path: Path, samples: Sequence[FailedSample], prefix: str, runner: str) -> None:
    """Write a recording of the outputs that one side answered, without samples that it lacked.

    Args:
        path: of the recording.
        samples: of one stage.
        prefix: `ref.` or `cand.`.
        runner: whose answers they are, for messages.

    Raises:
        ReplayError: the shard keeps none.
        GoldenError: a shard can't be read.
        FolderError: the pack can't be written.
    """
    table = _take(samples, lambda name: name == _ID or name.startswith(prefix))
    names = [name for name in table.column_names if name != _ID]
    if not names:
        raise ReplayError(
            f"the shard keeps no outputs of {runner!r}, which was recorded, so that there is "
            "nothing to compare with; replay with the recording itself (--with-batch)"
        )
    for name in names:
        is_there = pc.is_valid(table[name])
        table = table.filter(is_there)
    fields = [
        field if field.name == _ID else field.with_name(f"out.{field.name.removeprefix(prefix)}")
        for field in table.schema
    ]
    _write(path, pa.table(table.columns, schema=pa.schema(fields)))


def _take(samples: Sequence[FailedSample], pick: Callable[[str], bool]) -> pa.Table:
    """Columns of these samples, in their order."""
    parts = []
    for path in dict.fromkeys(s.place[0] for s in samples if s.place is not None):
        places = [s.place[1] for s in samples if s.place is not None and s.place[0] == path]
        parts.append(read_columns(path, pick).take(column_of(places, pa.int64())))
    return pa.concat_tables(parts)


def _write(path: Path, table: pa.Table) -> None:
    with PackWriter(path, table.schema) as writer:
        for batch in table.combine_chunks().to_batches(max_chunksize=ROWS_PER_BATCH):
            writer.write(batch)
