"""Write packs and failure shards: streaming, and complete or not there at all."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paritygate.core.dtypes import numpy_dtype
from paritygate.core.errors import FolderError
from paritygate.golden.dtypes import array_of, tensor_field

_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


class PackWriter:
    """Streaming writer of one Arrow IPC file.

    Rows go to `<path>.partial`, which takes its final name on `close()`. A writer that fails, is
    aborted or leaves its `with` block by an exception leaves no file. Used by one thread.
    """

    def __init__(
        self,
        path: Path,
        columns: pa.Schema,
        metadata: Mapping[str, str] | None = None,
        *,
        compression: Literal["zstd", "lz4"] | None = None,
    ) -> None:
        """Open `<path>.partial` for writing.

        Args:
            path: final path of the file.
            columns: schema of every batch.
            metadata: metadata of the file, added to that of `columns`.
            compression: body compression; None keeps the file readable without a copy.

        Raises:
            FolderError: the file can't be made.
        """
        self.path = path
        self.rows = 0
        self._partial = self._partial_path()
        merged: dict[Any, Any] = dict(columns.metadata or {})
        merged.update((key.encode(), value) for key, value in (metadata or {}).items())
        self.schema = columns.with_metadata(merged) if merged else columns
        options = pa.ipc.IpcWriteOptions(compression=compression)
        self._sink: pa.NativeFile | None = None
        self._writer: pa.RecordBatchFileWriter | None = None
        self._attempt(lambda: self._open(options))

    @property
    def bytes_written(self) -> int:
        """Bytes written so far, without the footer."""
        return int(self._sink.tell()) if self._sink is not None else 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch.

        Raises:
            FolderError: the disk is full or the file can't be written; nothing is left of it.
        """
        if self._writer is None:
            raise ValueError(f"{self.path}: write after close")
        writer = self._writer
        self._attempt(lambda: writer.write_batch(batch))
        self.rows += batch.num_rows

    def close(self) -> None:
        """Finish the file and give it its final name; a second call does nothing.

        Raises:
            FolderError: the disk is full or the file can't be written; nothing is left of it.
        """
        if self._writer is not None:
            self._attempt(self._finish)

    def abort(self) -> None:
        """Drop what has been written."""
        writer, sink = self._writer, self._sink
        self._writer = self._sink = None
        for part in (writer, sink):
            if part is not None:
                with contextlib.suppress(pa.ArrowException, OSError):
                    part.close()
        with contextlib.suppress(OSError):
            self._partial.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, or abort where the block raised."""
        if kind is None:
            self.close()
        else:
            self.abort()

    def _open(self, options: pa.ipc.IpcWriteOptions) -> None:
        self._sink = pa.OSFile(str(self._partial), "wb")
        self._writer = pa.ipc.new_file(self._sink, self.schema, options=options)

    def _finish(self) -> None:
        if self._writer is not None and self._sink is not None:
            self._writer.close()
            self._sink.close()
        self._complete(self._partial)
        self._take_name(self._partial)
        self._named()
        self._writer = self._sink = None

    def _complete(self, partial: Path) -> None:
        """What is left to do on the closed file before it takes its name."""

    def _partial_path(self) -> Path:
        return self.path.with_name(self.path.name + ".partial")

    def _take_name(self, partial: Path) -> None:
        """Give the complete file its name."""
        partial.replace(self.path)

    def _named(self) -> None:
        """What is left to do once it has its name."""

    def _attempt(self, step: Callable[[], None]) -> None:
        """Run one step; on any error leave nothing, and say what the disk said."""
        try:
            step()
        except OSError as error:
            self.abort()
            raise folder_error(self.path, error) from error
        except BaseException:
            self.abort()
            raise


def folder_error(path: Path, error: OSError) -> FolderError:
    """The sentence for a file that can't be written."""
    if error.errno in _FULL:
        return FolderError(
            f"{path}: no room left while writing ({_reason(error)}); free space in {path.parent} "
            "or write to another folder"
        )
    return FolderError(
        f"{path}: can't be written ({_reason(error)}); check that {path.parent} exists and that "
        "you may write to it"
    )


def tensor_array(values: npt.NDArray[np.generic]) -> pa.Array[Any]:
    """Arrow column of `(n, *shape)` values: fixed-shape tensors, or a plain column for `(n,)`.

    Numbers that lie contiguously aren't copied; bools are packed to bits, texts are lists of fixed
    size, int4 is one a byte. A dim of size zero is kept in the type. What Arrow has no type for is
    written as bits: name it by `tensor_field`.
    """
    samples, shape = values.shape[0], values.shape[1:]
    flat = array_of(np.ascontiguousarray(values).reshape(-1))
    if not shape:
        return flat
    if flat.type == pa.string():
        return _nested(flat, samples, shape)
    listed = pa.list_(flat.type, math.prod(shape))
    storage = pa.Array.from_buffers(listed, samples, [None], children=[flat])
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, shape), storage)


def tensor_type(dtype: str, shape: tuple[int, ...]) -> pa.DataType:
    """Arrow type that `tensor_array` gives to values of this dtype and sample shape."""
    array_type: pa.DataType = tensor_array(np.empty((0, *shape), numpy_dtype(dtype))).type
    return array_type


def tensor_batch(arrays: Mapping[str, npt.NDArray[np.generic]]) -> pa.RecordBatch:
    """One row a sample of tensors `(n, *shape)`, each with its dtype in its field."""
    columns = [tensor_array(values) for values in arrays.values()]
    fields = [
        tensor_field(name, column.type, values.dtype)
        for (name, values), column in zip(arrays.items(), columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _nested(flat: pa.Array[Any], samples: int, shape: tuple[int, ...]) -> pa.Array[Any]:
    """Lists of fixed size, one in another; a tensor type of texts is unknown to most readers."""
    nested = flat
    for axis in range(len(shape) - 1, -1, -1):
        listed = pa.list_(nested.type, shape[axis])
        length = samples * math.prod(shape[:axis])
        nested = pa.Array.from_buffers(listed, length, [None], children=[nested])
    return nested


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
