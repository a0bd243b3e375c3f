"""Samples that were not run: the ids file names all of them, the shard keeps some whole.

Both say of each sample what was found; the shard has its inputs too and is itself a golden pack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paritygate.core.violation import Violation
from paritygate.golden.dtypes import column_of
from paritygate.runfolder.shards import LateWriter

_INT, _FLOAT, _TEXT = pa.int64(), pa.float64(), pa.string()
_FOUND: dict[str, pa.DataType] = {
    "row": _INT,
    "code": _TEXT,
    "input": _TEXT,
    "index": _INT,
    "channel": _TEXT,
    "value": _FLOAT,
    "low": _FLOAT,
    "high": _FLOAT,
    "failing_elements": _INT,
    "outcome": _TEXT,
    "says": _TEXT,
}

Row = tuple[int | str, int, Violation, str]


class RejectedIds(LateWriter):
    """`rejected-ids.arrow`: every rejected sample with what was found, in pack order."""

    def __init__(self, path: Path, id_type: pa.DataType) -> None:
        super().__init__(path, pa.schema({"sample_id": id_type, **_FOUND}))

    def write(self, rows: Sequence[Row]) -> None:
        """Append samples: id, row over all golden files, violation, outcome.

        Raises:
            FolderError: the disk is full or the file can't be written.
        """
        arrays = _found(rows, self._schema.field("sample_id").type)
        self.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class RejectedShard(LateWriter):
    """`rejected-00000.arrow`: the same with labels, slices and inputs."""

    def __init__(
        self,
        path: Path,
        id_type: pa.DataType,
        extra: Mapping[str, pa.DataType],
        inputs: Sequence[pa.Field[Any]],
        metadata: Mapping[str, str],
    ) -> None:
        """Begin.

        Args:
            path: final path of the file.
            id_type: type of the ids.
            extra: label and slice columns and their types; one whose name the shard needs for
                itself is named `pack.<name>`.
            inputs: fields of the tensors, `in.<name>`.
            metadata: what the shard belongs to.
        """
        own = {"sample_id": id_type, **_FOUND}
        taken = {*own, *(field.name for field in inputs)}
        named = [
            pa.field(f"pack.{name}" if name in taken else name, t) for name, t in extra.items()
        ]
        fields = [pa.field(name, kind) for name, kind in own.items()]
        super().__init__(path, pa.schema([*named, *fields, *inputs]), metadata)
        self._extra = list(extra)

    def write(
        self,
        rows: Sequence[Row],
        extra: Sequence[Mapping[str, object]],
        inputs: Sequence[pa.Array[Any]],
    ) -> None:
        """Append samples with label and slice values and the columns of their inputs.

        Raises:
            FolderError: the disk is full or the file can't be written.
        """
        schema = self._schema
        more = [
            column_of([values[name] for values in extra], schema.field(at).type)
            for at, name in enumerate(self._extra)
        ]
        found = _found(rows, schema.field("sample_id").type)
        self.append(pa.RecordBatch.from_arrays([*more, *found, *inputs], schema=schema))


def _found(rows: Sequence[Row], id_type: pa.DataType) -> list[pa.Array[Any]]:
    ids, ordinals, violations, outcomes = zip(*rows, strict=True)
    columns: dict[str, list[Any]] = {
        "row": list(ordinals),
        "outcome": list(outcomes),
        "says": [str(violation) for violation in violations],
    }
    for name in _FOUND.keys() - columns.keys():
        columns[name] = [getattr(violation, name) for violation in violations]
    for name in ("value", "low", "high"):
        columns[name] = [_as_float(value) for value in columns[name]]
    return [
        column_of(ids, id_type),
        *(column_of(columns[name], kind) for name, kind in _FOUND.items()),
    ]


def _as_float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
