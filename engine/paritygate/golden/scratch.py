"""One column in an unlinked temporary file, mapped: to be read in any order in little memory."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from io import IOBase
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from paritygate.golden.source import let_go
from paritygate.golden.write import folder_error


class Scratch:
    """Consecutive arrays of one type; nothing of them stays in memory."""

    def __init__(self, arrays: Iterator[pa.Array[Any]], kind: pa.DataType) -> None:
        """Write all arrays; the file has no name and goes when the last of its arrays goes.

        Raises:
            FolderError: no room in the folder for temporary files.
        """
        try:
            with tempfile.TemporaryFile(prefix="paritygate-column-") as file:
                _write(file, arrays, kind)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise folder_error(Path(tempfile.gettempdir()) / "paritygate-column", error) from error
        self._buffer = pa.py_buffer(self._map)
        self._reader = pa.ipc.open_file(self._buffer)

    def array(self, number: int) -> pa.Array[Any]:
        """Array `number`, as it lies in the file."""
        array: pa.Array[Any] = self._reader.get_batch(number).column(0)
        return array

    def drop(self, number: int, start: int, stop: int) -> None:
        """Let go of the mapped pages of rows `[start, stop)` of an array."""
        let_go(self._buffer, [self.array(number)], start, stop)


def _write(file: IO[bytes], arrays: Iterator[pa.Array[Any]], kind: pa.DataType) -> None:
    schema = pa.schema({"column": kind})
    with pa.ipc.new_file(pa.PythonFile(cast(IOBase, file), "w"), schema) as writer:
        for array in arrays:
            writer.write_batch(pa.record_batch([array], schema=schema))
    file.flush()
