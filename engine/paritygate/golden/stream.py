"""Read one Arrow IPC stream through a memory map, by an index of its messages.

A stream has no footer, so that its messages are walked once; only their places are kept. A batch
is then read by itself: its dictionary columns as their codes, to which the dictionaries that were
in force at that place are added.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct

from paritygate.core.errors import GoldenError
from paritygate.golden.source import MappedSource, fields_of, reading

MAGIC = b"\xff\xff\xff\xff"
_END = MAGIC + bytes(4)
_PREFIX = 8
_PADDING = 4096

Dictionaries = dict[str, Any]


class _Messages(Struct, frozen=True):
    """Places of a stream's messages.

    Attributes:
        schema_stop: where the schema ends.
        batches: `(start, stop)` of each record batch.
        has_dictionaries: whether there are dictionaries between them.
    """

    schema_stop: int
    batches: list[tuple[int, int]]
    has_dictionaries: bool


class MappedStream(MappedSource):
    """An Arrow IPC stream, mapped. Bodies that aren't compressed are never copied."""

    def __init__(self, path: Path, count_column: str) -> None:
        """Map the file, walk its messages and count the rows of its batches.

        Args:
            path: the file.
            count_column: column by which compressed batches are counted, if it is there.

        Raises:
            GoldenError: `golden.unreadable`, for a damaged stream or one without its end, or
                `golden.format`.
        """
        super().__init__(path)
        with reading(path):
            self.schema = pa.ipc.open_stream(self._reader_at(0)).schema
            self.fields = fields_of(path, self.schema)
            self._messages = self._walk()
            self._is_swapped = _is_big_endian(self._metadata_at(0))
            self._refuse_swapped_dictionaries()
            self._coded = pa.schema([_coded(field) for field in self.schema])
            self._included: list[int] | None = None
            self.is_mapped = not self._is_swapped and self._first_is_mapped()
            self._dictionaries = self._find_dictionaries()
            at = self.schema.get_field_index(count_column)
            included = [at] if at >= 0 else None
            numbers = range(len(self._messages.batches))
            self._count(self._read(number, included) for number in numbers)

    def select(self, columns: Sequence[str]) -> None:
        """Decompress only these columns from now on; join small batches."""
        self._included = sorted(self.schema.get_field_index(name) for name in columns)
        self._kept.clear()
        self._group(columns)

    def _load(self, number: int) -> pa.RecordBatch:
        batch = self._read(number, self._included)
        known = self._dictionaries[number] if self._dictionaries else {}
        if not known:
            return batch
        arrays = [
            pa.DictionaryArray.from_arrays(array, known[name], safe=False)
            if name in known
            else array
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, batch.schema.names)

    def _read(self, number: int, included: list[int] | None) -> pa.RecordBatch:
        """A record batch with its dictionary columns as codes; only some fields where unpacked."""
        start, stop = self._messages.batches[number]
        if self.is_mapped:
            message = pa.ipc.read_message(self._buffer.slice(start, stop - start))
            return pa.ipc.read_record_batch(message, self._coded)
        head = self._map[: self._messages.schema_stop]
        if not self._is_swapped:
            head = self._coded.serialize().to_pybytes()
        options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=not self._groups)
        alone = pa.py_buffer(head + self._map[start:stop] + _END)
        return pa.ipc.open_stream(alone, options=options).read_next_batch()

    def _walk(self) -> _Messages:
        reader = self._reader_at(0)
        pa.ipc.read_message(reader)
        schema_stop = at = reader.tell()
        batches, has_dictionaries = [], False
        while at + _PREFIX <= self.size and self._map[at : at + _PREFIX] != _END:
            kind = pa.ipc.read_message(reader).type
            stop = reader.tell()
            if kind not in ("record batch", "dictionary"):
                raise pa.ArrowInvalid(f"a message of the type {kind!r} at byte {at}")
            if stop > self.size or stop <= at:
                raise pa.ArrowInvalid(f"the message at byte {at} ends past the end of the file")
            if kind == "record batch":
                batches.append((at, stop))
            has_dictionaries = has_dictionaries or kind == "dictionary"
            at = stop
        self._check_end(at)
        return _Messages(schema_stop, batches, has_dictionaries)

    def _check_end(self, at: int) -> None:
        """A stream without its mark of the end may have lost samples with it."""
        if at + _PREFIX > self.size:
            raise GoldenError(
                f"{self.path}: truncated after {self.size} bytes, or never finished: the mark at "
                "the end of an Arrow IPC stream is missing; close its writer or copy it whole"
            )
        rest = self.size - at - _PREFIX
        if rest > _PADDING or any(self._map[at + _PREFIX :]):
            raise GoldenError(
                f"{self.path}: {rest} bytes follow the end of the Arrow IPC stream, at byte "
                f"{at + _PREFIX}; one file holds one stream, so write what follows to another file"
            )

    def _first_is_mapped(self) -> bool:
        for number in range(len(self._messages.batches)):
            batch = self._read(number, None)
            if batch.num_rows:
                return self._lies_in_map(batch)
        return True

    def _find_dictionaries(self) -> list[Dictionaries]:
        """Dictionary columns with the dictionaries in force at each record batch.

        A dictionary that stays the same is kept once.
        """
        fields = [i for i, f in enumerate(self.schema) if isinstance(f.type, pa.DictionaryType)]
        if not fields or not self._messages.has_dictionaries:
            return []
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        found: list[Dictionaries] = []
        for batch in pa.ipc.open_stream(self._reader_at(0), options=options):
            batch.validate()
            now = {
                name: column.dictionary
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
                if isinstance(column, pa.DictionaryArray)
            }
            if found and _places(found[-1]) == _places(now):
                now = found[-1]
            found.append(now)
        if len(found) != len(self._messages.batches):
            raise pa.ArrowInvalid(f"{len(found)} of {len(self._messages.batches)} record batches")
        return found

    def _refuse_swapped_dictionaries(self) -> None:
        if self._is_swapped and any(pa.types.is_dictionary(field.type) for field in self.schema):
            raise GoldenError(
                f"{self.path}: is a big-endian Arrow IPC stream with dictionary columns; this "
                "version reads such streams without dictionaries only, so write it as an Arrow IPC "
                "file or on a little-endian machine",
                "golden.format",
            )

    def _reader_at(self, at: int) -> pa.BufferReader:
        return pa.BufferReader(self._buffer.slice(at))

    def _metadata_at(self, at: int) -> bytes:
        return pa.ipc.read_message(self._reader_at(at)).metadata.to_pybytes()


def _coded(field: pa.Field[Any]) -> pa.Field[Any]:
    """The field as it lies in a record batch: of a dictionary column its codes."""
    kind = field.type
    return field.with_type(kind.index_type) if isinstance(kind, pa.DictionaryType) else field


def _places(dictionaries: Dictionaries) -> list[tuple[int, int]]:
    """What tells dictionaries apart that lie at other places."""
    return [
        (len(values), *(buffer.address for buffer in values.buffers() if buffer is not None))
        for values in dictionaries.values()
    ]


def _is_big_endian(message: bytes) -> bool:
    """Whether the schema of a schema message says that its batches are big-endian.

    Raises:
        pa.ArrowInvalid: it isn't a FlatBuffers table as Arrow's Message and Schema are.
    """
    try:
        schema = _table_field(message, struct.unpack_from("<I", message)[0], 2)
        if schema is None:
            raise pa.ArrowInvalid("the schema message has no schema")
        at = _table_field(message, schema + struct.unpack_from("<I", message, schema)[0], 0)
        return at is not None and struct.unpack_from("<h", message, at)[0] == 1
    except struct.error as error:
        raise pa.ArrowInvalid(f"the schema message is damaged: {error}") from error


def _table_field(message: bytes, table: int, slot: int) -> int | None:
    """Place of a field of a FlatBuffers table, or None where it has its default value."""
    vtable = table - struct.unpack_from("<i", message, table)[0]
    if vtable < 0:
        raise pa.ArrowInvalid("a table of the schema message lies outside of it")
    size = struct.unpack_from("<H", message, vtable)[0]
    if size < 6 + 2 * slot:
        return None
    offset = struct.unpack_from("<H", message, vtable + 4 + 2 * slot)[0]
    return table + offset if offset else None
