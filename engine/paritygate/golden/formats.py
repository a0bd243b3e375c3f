"""Which format a file has, by its first bytes and never by its name."""

from __future__ import annotations

from pathlib import Path

from paritygate.core.errors import GoldenError
from paritygate.golden import SUFFIXES as SUFFIXES
from paritygate.golden import ipc, parquet, stream
from paritygate.golden.ipc import MappedIpc
from paritygate.golden.parquet import ParquetSource
from paritygate.golden.source import Source, cannot_open, empty_file
from paritygate.golden.stream import MappedStream

_MAGICS = (ipc.MAGIC, stream.MAGIC, parquet.MAGIC)
_LONGEST = 8
_OTHERS = {
    b"FEA1": "a Feather file of version 1",
    b"PARE": "an encrypted Parquet file",
    b"ORC": "an ORC file",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "compressed by gzip",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF": "an HDF5 file",
}


def open_file(path: Path, count_column: str) -> Source:
    """Open one file of a pack.

    Args:
        path: the file.
        count_column: column by which the rows of compressed batches are counted.

    Raises:
        GoldenError: `golden.unreadable` or `golden.format`.
    """
    head = _head(path)
    if not head:
        raise empty_file(path)
    if head.startswith(ipc.MAGIC):
        return MappedIpc(path, count_column)
    if head.startswith(stream.MAGIC):
        return MappedStream(path, count_column)
    if head.startswith(parquet.MAGIC):
        return ParquetSource(path)
    kind = next((k for magic, k in _OTHERS.items() if head.startswith(magic)), "no pack file")
    raise GoldenError(
        f"{path}: is {kind}; packs are Arrow IPC files, Arrow IPC streams or Parquet files, as "
        "pyarrow.ipc.new_file, pyarrow.ipc.new_stream and pyarrow.parquet.write_table write them",
        "golden.format",
    )


def is_pack_file(path: Path) -> bool:
    """Whether a file in a folder belongs to the pack: by its suffix, or by its first bytes.

    Raises:
        GoldenError: `golden.unreadable`, for a file that can't be opened.
    """
    return path.suffix.lower() in SUFFIXES or _head(path).startswith(_MAGICS)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST)
    except OSError as error:
        raise cannot_open(path, error) from error
