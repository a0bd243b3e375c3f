"""Read one Arrow IPC file through a memory map: record batches whose buffers lie in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from paritygate.core.errors import GoldenError
from paritygate.golden.source import MappedSource, fields_of, reading

MAGIC = b"ARROW1"


class MappedIpc(MappedSource):
    """An Arrow IPC file, mapped. Bodies that aren't compressed are never copied."""

    def __init__(self, path: Path, count_column: str) -> None:
        """Map the file, check its structure and count the rows of its batches.

        Args:
            path: the file.
            count_column: column by which compressed batches are counted, if it is there.

        Raises:
            GoldenError: `golden.unreadable`.
        """
        super().__init__(path)
        self._check_ends()
        with reading(path):
            self._reader = pa.ipc.open_file(self._buffer)
            self.schema = self._reader.schema
            self.fields = fields_of(path, self.schema)
            self.is_mapped = self._reader.num_record_batches == 0 or self._lies_in_map(
                self._reader.get_batch(0)
            )
            self._count(self._batches_of(count_column))

    def select(self, columns: Sequence[str]) -> None:
        """Decompress only these columns from now on; join small batches."""
        self._group(columns)
        if not self.is_mapped:
            self._reader = self._reader_of(columns, use_threads=not self._groups)
            self._kept.clear()

    def _load(self, number: int) -> pa.RecordBatch:
        return self._reader.get_batch(number)

    def _batches_of(self, count_column: str) -> Iterator[pa.RecordBatch]:
        reader = self._reader
        if not self.is_mapped and count_column in self.fields:
            reader = self._reader_of([count_column], use_threads=False)
        return map(reader.get_batch, range(reader.num_record_batches))

    def _reader_of(self, columns: Sequence[str], *, use_threads: bool) -> pa.RecordBatchFileReader:
        """A reader of some columns; handing small ones to threads takes longer than they do."""
        fields = sorted(self.schema.get_field_index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=use_threads)
        return pa.ipc.open_file(self._buffer, options=options)

    def _check_ends(self) -> None:
        tail = self._map[-len(MAGIC) :]
        if tail != MAGIC or self.size <= 2 * len(MAGIC):
            raise GoldenError(
                f"{self.path}: truncated after {self.size} bytes, or never finished: the footer of "
                "an Arrow IPC file is missing; write it again or copy it whole"
            )
