"""Write recorded outputs: ids and `out.*`, streamed, with metadata that are known at the end only.

An Arrow file begins and ends with its schema, so that its metadata can't be written last. Room for
them is left in both places, and filled in before the file takes its name.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paritygate.core.dtypes import numpy_dtype
from paritygate.core.errors import FolderError
from paritygate.core.ragged import Ragged, Tensor, row_of, stack_rows
from paritygate.core.tensors import Array, ColumnSpec
from paritygate.golden.dtypes import tensor_field
from paritygate.golden.recording import KEY, RESERVED
from paritygate.golden.values import Ids
from paritygate.golden.write import PackWriter, tensor_array
from paritygate.golden.write_varying import varying_array, varying_field


def partial_beside(path: Path) -> Path:
    """A name for the partial file of a recording, which no other writer has."""
    return path.with_name(f"{path.name}.{secrets.token_hex(6)}.partial")


class RecordingWriter(PackWriter):
    """Streaming writer of one recording; complete and on the disk, or not there at all."""

    def __init__(self, path: Path, columns: pa.Schema, partial: Path | None = None) -> None:
        """Open a partial file beside the path, of a name that no other writer has.

        Args:
            path: of the complete recording.
            columns: its schema.
            partial: the partial file, as `partial_beside(path)` named it; None: it is named here.

        Raises:
            FolderError: the file can't be made.
        """
        self._named_partial = partial or partial_beside(path)
        self._token = secrets.token_hex(32).encode()
        self._final = b""
        room = self._token.ljust(RESERVED)
        super().__init__(path, columns, {KEY.decode(): room.decode()})

    def finish(self, metadata: bytes) -> None:
        """Fill in the metadata, make sure that all is on the disk, give the file its name.

        Raises:
            FolderError: the disk is full or the file can't be written; nothing is left of it.
        """
        self._final = metadata
        self.close()

    def _complete(self, partial: Path) -> None:
        if len(self._final) != RESERVED:
            raise ValueError(f"metadata of {len(self._final)} bytes where {RESERVED} were reserved")
        with partial.open("r+b") as file:
            with mmap.mmap(file.fileno(), 0) as content:
                places = content.find(self._token), content.rfind(self._token)
                if places[0] == places[1]:
                    raise ValueError(f"{partial}: has no two places for its metadata")
                for place in places:
                    content[place : place + RESERVED] = self._final
                content.flush()
            os.fsync(file.fileno())

    def _partial_path(self) -> Path:
        return self._named_partial

    def _take_name(self, partial: Path) -> None:
        """Take the name unless somebody else has it: two recordings never replace each other."""
        try:
            try:
                os.link(partial, self.path)
            except FileExistsError:
                raise
            except OSError:  # no hard links here: take the name by an empty file, and fill it
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                partial.replace(self.path)
                return
        except FileExistsError:
            raise FolderError(
                f"{self.path}: was written by somebody else while this was recorded, and is left "
                "as it is; record again under another name (--out)"
            ) from None
        partial.unlink()

    def _named(self) -> None:
        with contextlib.suppress(OSError):  # some file systems can't, and lose nothing by it
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def recorded_batch(
    id_column: str,
    ids: Ids,
    outputs: Mapping[str, Tensor],
    specs: Mapping[str, ColumnSpec],
    places: npt.NDArray[np.int64],
) -> pa.RecordBatch:
    """One row a sample: its id and its outputs, copied.

    Args:
        id_column: name of the id column.
        ids: `(n,)` of all samples.
        outputs: name -> `(n, *shape)`, or one array a sample.
        specs: what every answer looks like; where a dim may vary, the column is one of tensors of
            any shape.
        places: the samples that are written.
    """
    kind = pa.int64() if ids.dtype == np.int64 else pa.string()
    columns: list[pa.Array[Any]] = [pa.array(ids[places], kind)]
    fields: list[pa.Field[Any]] = [pa.field(id_column, kind)]
    for name, spec in specs.items():
        column, field = _column(f"out.{name}", outputs[name], spec, places)
        columns.append(column)
        fields.append(field)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _column(
    name: str, tensor: Tensor, spec: ColumnSpec, places: npt.NDArray[np.int64]
) -> tuple[pa.Array[Any], pa.Field[Any]]:
    dtype = numpy_dtype(spec.dtype)
    if spec.is_fixed:
        array = tensor_array(_rows(tensor, places))
        return array, tensor_field(name, array.type, dtype)
    rows = [row_of(tensor, at) for at in places.tolist()]
    array = varying_array(rows, dtype, len(spec.shape))
    return array, varying_field(name, array.type, dtype)


def _rows(tensor: Tensor, places: npt.NDArray[np.int64]) -> Array:
    """A copy of these samples: what was answered is written over by the next batch."""
    if isinstance(tensor, Ragged) or len(places) < len(tensor):
        return stack_rows(tensor, places)
    return np.array(tensor, order="C")
