"""Small record batches side by side, read as one piece: each costs Python what a large one does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_FEW = 64
_SMALL = 128 << 10
_MOST_BYTES = 1 << 20
_MOST_ROWS = 1 << 16


def group(rows: Sequence[int], sizes: Sequence[int]) -> list[range]:
    """Numbers of the record batches of each piece; few or large ones are pieces of their own.

    Args:
        rows: of each record batch.
        sizes: bytes of each.
    """
    if len(rows) <= _FEW:
        return [range(number, number + 1) for number in range(len(rows))]
    pieces: list[range] = []
    start = held_rows = held_bytes = 0
    for number, (some, size) in enumerate(zip(rows, sizes, strict=True)):
        held_rows, held_bytes = held_rows + some, held_bytes + size
        is_full = held_rows > _MOST_ROWS or held_bytes > _MOST_BYTES
        if number > start and (is_full or size > _SMALL or sizes[start] > _SMALL):
            pieces.append(range(start, number))
            start, held_rows, held_bytes = number, some, size
    pieces.append(range(start, len(rows)))
    return pieces


def can_join(kind: Any) -> bool:
    """Whether arrays of this type lie end to end as one of them does."""
    if isinstance(kind, pa.FixedShapeTensorType):
        return can_join(kind.storage_type)
    if isinstance(kind, (pa.FixedSizeListType, pa.ListType, pa.LargeListType)):
        return can_join(kind.value_type)
    types = pa.types
    texts = types.is_string(kind) or types.is_large_string(kind)
    return texts or types.is_primitive(kind) or types.is_fixed_size_binary(kind)


def row_bytes(kind: Any) -> float | None:
    """Bytes of a row of a type that `can_join`, where all of them have as many."""
    if isinstance(kind, pa.FixedShapeTensorType):
        return row_bytes(kind.storage_type)
    if isinstance(kind, pa.FixedSizeListType):
        inner = row_bytes(kind.value_type)
        return inner * kind.list_size if inner is not None else None
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind):
        return float(kind.bit_width) / 8
    return None


def join(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> pa.RecordBatch:
    """These columns of record batches, end to end; a single batch as it is."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).select(list(columns))
    whole = table.combine_chunks(pa.system_memory_pool())  # gives back what a piece held
    return next(iter(whole.to_batches()), batches[0])
