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

from paritygate.core.errors import GoldenError
from paritygate.core.text import clean
from paritygate.golden.files import PackFile
from paritygate.golden.formats import open_file
from paritygate.golden.pack import GoldenPack
from paritygate.golden.plain import plain
from paritygate.golden.schema import EVIDENCE
from paritygate.golden.source import Source, reading

KEY = EVIDENCE
SYNTHETIC = "synthetic"
MARK = {KEY: SYNTHETIC}

MEASURED = "measured"

Mask = npt.NDArray[np.bool_]

_KNOWN = (SYNTHETIC, MEASURED, "")  # CSV knows no null
_WORDS = (
    f"it is {SYNTHETIC!r} for what is no acceptance evidence, {MEASURED!r}, empty or null for what "
    "is, and nothing else, so mend it"
)


def is_marked(path: Path, metadata: Mapping[bytes, bytes] | None) -> bool:
    """Whether a file says that all of its samples are synthetic.

    Raises:
        GoldenError: `golden.value`, it says something else.
    """
    said = (metadata or {}).get(KEY.encode(), b"").decode(errors="replace")
    if said not in _KNOWN:
        where = f"{path}: its metadata say {KEY} = {clean(said)!r}"
        raise GoldenError(f"{where}; {_WORDS}", "golden.value")
    return said == SYNTHETIC


def check_marks(path: Path | str, values: Any, row: int) -> None:
    """Refuse marks of samples that say what nobody knows.

    Args:
        path: of the file.
        values: texts and nulls.
        row: of the first.

    Raises:
        GoldenError: `golden.value`, with the row.
    """
    import pyarrow.compute as pc

    strange = np.flatnonzero(
        pc.is_in(values, pa.array([*_KNOWN, None], pa.string())).to_numpy(zero_copy_only=False) == 0
    )
    if len(strange):
        at = int(strange[0])
        where = f"{path}: column {KEY!r}, row {row + at}, says {clean(values[at].as_py())!r}"
        raise GoldenError(f"{where}; {_WORDS}", "golden.value")


def synthetic_rows(pack: GoldenPack) -> Mask | None:
    """`(samples,)` which samples of a pack are synthetic; None: none is.

    Raises:
        GoldenError: a file can't be read, or says what nobody knows.
    """
    marked = [
        is_marked(file.path, metadata)
        for file, metadata in zip(pack.files, pack.file_metadata, strict=True)
    ]
    having = pack.files_with(KEY)
    if not any(marked) and not any(having):
        return None
    mask = np.concatenate(
        [
            (_of_file(file, pack.id_column) if has else np.zeros(file.rows, np.bool_)) | is_whole
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
            mask[at : at + some] = _of_batch(source, number, at)
            source.drop(number, 0, some)
            at += some
        return mask
    finally:
        source.close()


def _of_batch(source: Source, number: int, row: int) -> Any:
    with reading(source.path):
        column = plain(source.column(number, KEY))
        column.validate(full=True)
        if isinstance(column, pa.DictionaryArray):
            column = column.dictionary_decode()
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise GoldenError(f"{source.path}: column {KEY!r} holds {kind}; {_WORDS}", "golden.value")
    texts = column.cast(pa.string())
    check_marks(source.path, texts, row)
    import pyarrow.compute as pc

    return pc.equal(texts, pa.scalar(SYNTHETIC)).fill_null(False).to_numpy(zero_copy_only=False)
