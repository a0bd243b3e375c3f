"""Rows of tables that aren't packs yet: Arrow, Parquet, CSV, and arrays of NumPy."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv

from paritygate.core.dtypes import DTYPES, STRING, dtype_name, numpy_dtype
from paritygate.core.errors import GoldenError
from paritygate.golden.bounds import as_texts, check_regular, read_whole
from paritygate.golden.build import Piece
from paritygate.golden.csv_overflow import OverflowCheck
from paritygate.golden.formats import open_file
from paritygate.golden.source import cannot_open, reading
from paritygate.golden.write import tensor_batch

_BYTES = 8 << 20
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # encrypted, or packed in an unknown way
    MemoryError,  # of an array that says to be larger than any
    OverflowError,
)
_ROWS = 16_384
_MOST_ROW_BYTES = 1 << 30
_MOST_STATE_BYTES = 1 << 24
_DIRECT = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def read_table(path: Path, columns: Sequence[str], dtypes: Mapping[str, str]) -> Iterator[Piece]:
    """Rows of a file or folder of arrays, in pieces of some MiB.

    Args:
        path: an Arrow or Parquet file, `.csv`, `.npz`, or a folder of `.npy` files.
        columns: those that are needed; of arrays none means all.
        dtypes: column -> dtype, for those whose text is read as this dtype.

    Raises:
        GoldenError: it can't be read.
    """
    if path.is_dir():
        yield from _arrays(path, {p.stem: p for p in sorted(path.glob("*.npy"))}, columns)
    elif path.suffix.lower() == ".npz":
        yield from _npz(path, columns)
    elif is_csv(path):
        yield from _csv(path, columns, dtypes)
    else:
        yield from _arrow(path, columns)


def is_csv(path: Path) -> bool:
    """Whether a file is read as CSV, or with tabs: by its name."""
    return path.suffix.lower() in (".csv", ".tsv")


def names_of(path: Path) -> list[str]:
    """Columns or arrays of a source.

    Raises:
        GoldenError: it can't be read.
    """
    if path.is_dir():
        return sorted(p.stem for p in path.glob("*.npy"))
    if path.suffix.lower() == ".npz":
        with _opened_npz(path) as archive:
            return sorted(n.removesuffix(".npy") for n in archive.namelist())
    if is_csv(path):
        _check_lines(path)
        with reading(path), _open_csv(path, (), {}) as reader:
            return list(reader.schema.names)
    source = open_file(path, "")
    names = list(source.fields)
    source.close()
    return names


def saved_dataset(folder: Path) -> list[Path]:
    """Files of a folder that Hugging Face's datasets saved, in their order; none: it is another.

    Raises:
        GoldenError: it holds several splits, or a selection of rows that isn't written out.
    """
    if (folder / "dataset_dict.json").is_file():
        splits = ", ".join(sorted(p.name for p in folder.iterdir() if p.is_dir()))
        told = f"{folder}: holds several splits ({splits}); name the folder of one of them"
        raise GoldenError(told, "golden.format")
    state = folder / "state.json"
    if not state.is_file():
        return []
    try:
        found = orjson.loads(read_whole(state, _MOST_STATE_BYTES))
        names = [str(entry["filename"]) for entry in found["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GoldenError(f"{state}: can't be read ({error!r})", "golden.format") from error
    if found.get("_indices_data_files"):
        told = f"{folder}: is a selection of rows; save it after flatten_indices()"
        raise GoldenError(told, "golden.format")
    outside = [name for name in names if name in ("", ".", "..") or Path(name).name != name]
    if outside:
        told = f"{state}: names {outside[0]!r}, which is no file in this folder"
        raise GoldenError(told, "golden.format")
    return [folder / name for name in names]


def _arrow(path: Path, columns: Sequence[str]) -> Iterator[Piece]:
    source = open_file(path, columns[0] if columns else "")
    try:
        source.select([name for name in columns if name in source.fields])
        row = 0
        for number, rows in enumerate(source.batch_rows):
            with reading(path):
                arrays = {
                    name: source.column(number, name) for name in columns if name in source.fields
                }
            size = sum(array.nbytes for array in arrays.values())
            step = max(1, min(_ROWS, _BYTES * rows // max(1, size)))
            schema = pa.schema([source.fields[name] for name in arrays])
            for low in range(0, rows, step):
                some = [array.slice(low, step) for array in arrays.values()]
                yield Piece(str(path), row + low, pa.RecordBatch.from_arrays(some, schema=schema))
                source.drop(number, low, min(low + step, rows))
            row += rows
    finally:
        source.close()


def _csv(path: Path, columns: Sequence[str], dtypes: Mapping[str, str]) -> Iterator[Piece]:
    row = 0
    _check_lines(path)
    with reading(path), _open_csv(path, (), {}) as reader:
        twice = [name for name, times in Counter(reader.schema.names).items() if times > 1]
        if wrong := [name for name in twice if not columns or name in columns]:
            told = f"{path}: column {wrong[0]!r} occurs twice; give every column its own name"
            raise GoldenError(told, "golden.schema")
    with reading_csv(path), _open_csv(path, columns, dtypes) as reader:
        check = OverflowCheck(
            path, lambda names: _open_csv(path, names, dict.fromkeys(names, STRING))
        )
        for number, batch in enumerate(reader):
            check.look_at(number, row, batch)
            yield Piece(str(path), row, batch)
            row += batch.num_rows


def _check_lines(path: Path) -> None:
    """Refuse a line that no block holds: Arrow would read on to its end, wherever that is."""
    check_regular(path)
    with reading(path), path.open("rb") as file:
        while len(block := file.read(_BYTES)) == _BYTES:
            if b"\n" not in block and b"\r" not in block:
                told = f"{path}: a line has more than {_BYTES} bytes; it is no table of numbers"
                raise GoldenError(f"{told} and texts, or its lines end otherwise", "golden.format")


class reading_csv:  # noqa: N801 - used as a context
    """Turn what the reader of CSV files raises into a `GoldenError` that names the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Say what is wrong, with row and column as Arrow tells them."""
        if isinstance(error, pa.ArrowInvalid | pa.ArrowKeyError):
            told = " ".join(str(error).split())[:300]
            raise GoldenError(f"{self._path}: {told}", "golden.value") from error


def _open_csv(path: Path, columns: Sequence[str], dtypes: Mapping[str, str]) -> Any:
    kinds = {
        name: pa.string() if dtype == STRING else pa.from_numpy_dtype(numpy_dtype(dtype))
        for name, dtype in dtypes.items()
        if dtype in (*_DIRECT, STRING)
    }
    check_regular(path)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        return pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(block_size=_BYTES, use_threads=False),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter),
            convert_options=pa.csv.ConvertOptions(
                include_columns=list(columns) or None, column_types=kinds
            ),
        )
    except OSError as error:
        raise cannot_open(path, error) from error


@contextmanager
def _reading_arrays(where: str | Path) -> Iterator[None]:
    """Turn what damaged archives and arrays raise into a `GoldenError` that says where."""
    try:
        yield
    except _DAMAGE as error:
        told = " ".join(str(error).split())[:200] or type(error).__name__
        raise GoldenError(f"{where}: can't be read ({told})", "golden.unreadable") from error


def _opened_npz(path: Path) -> zipfile.ZipFile:
    check_regular(path)
    with _reading_arrays(path):
        return zipfile.ZipFile(path)
    raise AssertionError("unreachable")


def _npz(path: Path, columns: Sequence[str]) -> Iterator[Piece]:
    with _opened_npz(path) as archive:
        held = Counter(n.removesuffix(".npy") for n in archive.namelist())
        if twice := [name for name, times in held.items() if times > 1]:
            told = f"{path}: holds the array {twice[0][:80]!r} twice; save it anew"
            raise GoldenError(told, "golden.format")
        names = {n.removesuffix(".npy"): n for n in sorted(archive.namelist())}
        yield from _arrays(path, names, columns, archive)


def _arrays(
    path: Path,
    names: Mapping[str, Any],
    columns: Sequence[str],
    archive: zipfile.ZipFile | None = None,
) -> Iterator[Piece]:
    """Arrays whose first axis is that of the samples, side by side."""
    wanted = [name for name in (columns or names) if name in names]
    if not wanted:
        have = ", ".join(names) or "none"
        raise GoldenError(
            f"{path}: none of its arrays is asked for; it has: {have}", "golden.empty"
        )
    with ExitStack() as stack:
        arrays = {}
        for name in wanted:
            if archive is None:
                check_regular(names[name])
            with _reading_arrays(path):
                file: Any = archive.open(names[name]) if archive else names[name].open("rb")
            arrays[name] = _Npy(f"{path}: array {name!r}", stack.enter_context(file))
        counts = {name: array.rows for name, array in arrays.items()}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise GoldenError(
                f"{path}: its arrays have several lengths ({told}); the first axis is that of the "
                "samples, so name those that are inputs and outputs",
                "golden.shape",
            )
        rows = counts[wanted[0]]
        row_bytes = sum(array.row_bytes for array in arrays.values())
        step = max(1, min(_ROWS, _BYTES // max(1, row_bytes)))
        for low in range(0, rows, step):
            some = {name: array.read(min(step, rows - low)) for name, array in arrays.items()}
            yield Piece(str(path), low, tensor_batch(some))


class _Npy:
    """One array of NumPy, read from front to back."""

    def __init__(self, where: str, file: IO[bytes]) -> None:
        self._where, self._file = where, file
        try:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, is_fortran, self._dtype = read(file)
        except Exception as error:  # the parser of headers has errors of many kinds
            told = f"{where}: is no array of NumPy: its header can't be read; save it with np.save"
            raise GoldenError(told, "golden.format") from error
        if not shape:
            raise GoldenError(f"{where}: has no axis of samples", "golden.shape")
        if is_fortran and len(shape) > 1:
            told = f"{where}: lies in Fortran order; save np.ascontiguousarray of it"
            raise GoldenError(told, "golden.format")
        self.rows, self._shape = shape[0], shape[1:]
        self._is_text = self._dtype.kind == "U"
        is_known = self._dtype.kind != "O" and dtype_name(self._dtype.newbyteorder("=")) in DTYPES
        if not self._is_text and not is_known:
            told = f"{where}: holds {self._dtype}; numbers, bools and texts are read"
            raise GoldenError(told, "golden.column_type")
        self.row_bytes = math.prod(self._shape) * self._dtype.itemsize
        if min(shape) < 0:
            raise GoldenError(f"{where}: says to be of shape {shape}", "golden.format")
        if self.row_bytes > _MOST_ROW_BYTES:
            told = f"{where}: a sample of it has {self.row_bytes} bytes, at most {_MOST_ROW_BYTES}"
            raise GoldenError(f"{told} are read", "golden.shape")

    def read(self, rows: int) -> Any:
        """The next rows."""
        size = rows * self.row_bytes
        with _reading_arrays(self._where):
            data = self._file.read(size)
        if len(data) != size:
            raise GoldenError(f"{self._where}: ends before its last sample", "golden.unreadable")
        values = np.frombuffer(data, self._dtype).reshape(rows, *self._shape)
        if self._is_text:
            return as_texts(self._where, values)
        return values.astype(self._dtype.newbyteorder("="), copy=False)
