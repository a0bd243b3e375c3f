"""Numbers of CSV that a float can't hold: Arrow reads them as infinite without a word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from paritygate.core.errors import GoldenError


class OverflowCheck:
    """Holds infinite values against their texts, which are read only where there are any.

    Args:
        path: the file.
        open_texts: opens it anew, these columns as texts, in the same batches.
    """

    def __init__(self, path: Path, open_texts: Callable[[Sequence[str]], Any]) -> None:
        self._path = path
        self._open = open_texts

    def look_at(self, number: int, row: int, batch: pa.RecordBatch) -> None:
        """Refuse an infinite value whose text is a number.

        Args:
            number: of the batch.
            row: its first row in the file.
            batch: as it was read.

        Raises:
            GoldenError: naming row and column.
        """
        found = {name: at for name in batch.schema.names if (at := _infinite(batch, name)).size}
        if not found:
            return
        names = list(found)
        with self._open(names) as reader:
            texts = next(texts for at, texts in enumerate(reader) if at == number)
        for name, rows in found.items():
            for at in rows:
                text = str(texts.column(name)[int(at)].as_py())
                if any(char.isdigit() for char in text):
                    told = f"{batch.schema.field(name).type} can't hold {text[:60]!r}"
                    raise GoldenError(
                        f"{self._path}: column {name!r}, row {row + int(at)}: {told}; name a wider "
                        "dtype, or mend the value",
                        "golden.value",
                    )


def _infinite(batch: pa.RecordBatch, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    array = batch.column(batch.schema.get_field_index(name))
    if not pa.types.is_floating(array.type):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.isinf(array.to_numpy(zero_copy_only=False)))
