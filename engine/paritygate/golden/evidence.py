"""Samples that are no acceptance evidence: how they are marked, and which ones are.

A file's metadata mark all of its samples; a column marks them one by one, and stays with them in
tools that drop metadata, and beside other samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paritygate.golden.files import PackFile
from paritygate.golden.formats import open_file
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


def synthetic_rows(files: tuple[PackFile, ...], id_column: str) -> Mask | None:
    """`(samples,)` which samples of a pack are synthetic; None: none is.

    Raises:
        GoldenError: a file can't be read.
    """
    parts = [_of_file(file.path, id_column) for file in files]
    mask = np.concatenate(parts) if parts else np.zeros(0, np.bool_)
    return mask if mask.any() else None


def _of_file(path: Path, id_column: str) -> Mask:
    source = open_file(path, id_column)
    try:
        rows = sum(source.batch_rows)
        if is_marked(source.schema.metadata):
            return np.ones(rows, np.bool_)
        mask: Mask = np.zeros(rows, np.bool_)
        if KEY in source.fields:
            source.select([KEY])
            at = 0
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
