"""Samples that are no acceptance evidence: how they are marked, and which ones are.

A file's metadata mark all of its samples; a column marks them one by one, and stays with them in
tools that drop metadata, and beside other samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paritygate.golden.files import PackFile
from paritygate.golden.formats import open_file
from paritygate.golden.pack import GoldenPack
from paritygate.golden.plain import plain
from paritygate.golden.schema import EVIDENCE
from paritygate.golden.source import Source, reading

KEY = EVIDENCE
SYNTHETIC = "synthetic"
MARK = {KEY: SYNTHETIC}

Mask = npt.NDArray[np.bool_]


def is_marked(metadata: Mapping[bytes, bytes] | None) -> bool:
    """Whether a file says that all of its samples are synthetic."""
    return (metadata or {}).get(KEY.encode()) == SYNTHETIC.encode()


def synthetic_rows(pack: GoldenPack) -> Mask | None:
    """`(samples,)` which samples of a pack are synthetic; None: none is.

    Raises:
        GoldenError: a file can't be read.
    """
    marked = [is_marked(metadata) for metadata in pack.file_metadata]
    having = pack.files_with(KEY)
    if not any(marked) and not any(having):
        return None
    mask = np.concatenate(
        [
            np.full(file.rows, is_whole) if is_whole or not has else _of_file(file, pack.id_column)
            for file, is_whole, has in zip(pack.files, marked, having, strict=True)
        ]
    )
    return mask if mask.any() else None


def with_marks(batch: pa.RecordBatch, synthetic: Mask | None, ordinals: Any) -> pa.RecordBatch:
    """Rows with a column that marks those of these samples that are synthetic, if any are."""
    if synthetic is None:
        return batch
    marks = [SYNTHETIC if marked else None for marked in synthetic[ordinals].tolist()]
    schema = batch.schema.append(pa.field(KEY, pa.string()))
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(marks, pa.string())], schema=schema)


def _of_file(file: PackFile, id_column: str) -> Mask:
    source = open_file(file.path, id_column)
    mask: Mask = np.zeros(file.rows, np.bool_)
    at = 0
    try:
        source.select([KEY])
        for number, some in enumerate(source.batch_rows):
            mask[at : at + some] = _of_batch(source, number)
            source.drop(number, 0, some)
            at += some
        return mask
    finally:
        source.close()


def _of_batch(source: Source, number: int) -> Any:
    with reading(source.path):
        column = plain(source.column(number, KEY))
        column.validate(full=True)
        if isinstance(column, pa.DictionaryArray):
            column = column.dictionary_decode()
        return [value == SYNTHETIC for value in column.to_pylist()]
