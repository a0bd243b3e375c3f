"""Open a golden pack and read its samples by their position over all files."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from paritygate.core.digest import digest_of, sha256_file
from paritygate.core.dtypes import numpy_dtype
from paritygate.core.errors import GoldenError
from paritygate.core.ragged import Ragged, Tensor, as_tensor, row_of
from paritygate.core.tensors import Array, ColumnSpec
from paritygate.golden.columns import ValueFault
from paritygate.golden.files import PackFile, find_files
from paritygate.golden.formats import open_file
from paritygate.golden.ids import IdIndex, IdScan, build_index, scan_ids
from paritygate.golden.places import Places, Room
from paritygate.golden.plain import plain
from paritygate.golden.schema import (
    Kind,
    PackColumns,
    Selection,
    check_same,
    has_texts,
    resolve,
    used_columns,
)
from paritygate.golden.source import Source, reading
from paritygate.golden.values import Ids, SliceCodes, plain_texts, plain_values, slice_codes
from paritygate.golden.varying import (
    LooseDims,
    complete,
    fixed_values,
    shapes_of,
    taken_values,
    varying_values,
)

_T = TypeVar("_T")
_WINDOW = 4 << 20
_RESIDENT = 32 << 20
_DROPPED_AT_ONCE = 20 << 20
_ID_BYTES = 64
_NOTHING: Array = np.empty(0)

Rows = npt.NDArray[np.int64]


def open_pack(
    patterns: Sequence[str | Path],
    folder: Path,
    *,
    id_column: str = "sample_id",
    label_column: str | None = "label",
    slices: Sequence[str] = (),
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    outputs_from: Literal["prefix", "all"] = "prefix",
    extra_labels: Sequence[str] = (),
    not_outputs: Sequence[str] = (),
    outputs_prefix: str = "out.",
    varying: Collection[str] = (),
    slice_if_there: str | None = None,
) -> GoldenPack:
    """Map the files of a pack and check their columns; no tensor is read yet.

    Args:
        patterns: files, folders or globs, relative to `folder` or absolute; what each stands for is
            sorted by path.
        folder: where relative patterns start.
        id_column: column of the sample ids.
        label_column: column of the labels; the default name may be absent, another may not. Where
            every column is an output, one of the default name is an output too.
        slices: columns by which results are split.
        inputs: tensor name -> column, besides the columns `in.<name>`.
        outputs: tensor name -> column, besides the columns `out.<name>`.
        outputs_from: "all": where no column is named `out.<name>`, every column but the id, labels,
            slices, `in.*` and `raw.*` is an output.
        extra_labels: further label columns, read by `labels(..., column=...)`.
        not_outputs: columns, there or not, that are no outputs though "all" are.
        outputs_prefix: what stands for `out.` in the names of output columns.
        varying: inputs whose samples may differ in shape; recorded outputs always may.
        slice_if_there: a column of texts that is a slice too, where the files have it.

    Raises:
        GoldenError: naming file and column; see the codes of `find_files` and `resolve`.
    """
    sources = [open_file(path, id_column) for path in find_files(patterns, folder)]
    if slice_if_there is not None and _every_file_has(sources, slice_if_there):
        slices = [*slices, slice_if_there]
    wanted = Selection(
        id_column,
        label_column,
        tuple(dict.fromkeys(slices)),
        dict(inputs or {}),
        dict(outputs or {}),
        outputs_from,
        tuple(extra_labels),
        tuple(not_outputs),
        outputs_prefix,
        frozenset(varying),
    )
    found = [resolve(source, wanted) for source in sources]
    lead = next((i for i, columns in enumerate(found) if not columns.is_empty), 0)
    for source, columns in zip(sources, found, strict=True):
        if not columns.is_empty or columns.id_kind != found[lead].id_kind:
            check_same(sources[lead].path, found[lead], source.path, columns)
    for source in sources:
        source.select(used_columns(wanted, found[lead]))
    return GoldenPack(sources, wanted, found[lead])


def _every_file_has(sources: Sequence[Source], column: str) -> bool:
    """Whether all files have a column of texts of this name; none may be there.

    Raises:
        GoldenError: `golden.schema`, where some have it: what it says would be lost.
    """
    having = [source for source in sources if has_texts(source, column)]
    if having and len(having) < len(sources):
        lacking = next(source for source in sources if source not in having)
        raise GoldenError(
            f"{lacking.path}: has no column {column!r} of texts, which {having[0].path} has; all "
            "files of a pack have the same columns, so add it, null for an ordinary sample",
            "golden.schema",
        )
    return bool(having)


class GoldenPack:
    """Samples of one or several files, in file order; safe to read from several threads.

    Attributes:
        files: the files in sample order.
        watched: the same files as they were when they were opened.
        file_metadata: metadata of each file's schema.
        samples: rows over all files.
        id_kind: "int64" or "string".
        inputs: tensor name -> spec of an input; which dims vary is known once ids are scanned.
        outputs: tensor name -> spec of a recorded output, as `inputs`.
        label: kind of the label column, or None.
        label_note: why a column named `label` isn't used as one; else "".
        labels_of: label column -> kind.
        slices: names of the slice columns.
        skipped_columns: with `outputs_from` "all", columns that are neither id, output, label nor
            slice, such as `in.*` and `raw.*`.
    """

    def __init__(self, sources: Sequence[Source], wanted: Selection, columns: PackColumns) -> None:
        self.watched = tuple(source.watched for source in sources)
        self.files = tuple(
            PackFile(source.path, sum(source.batch_rows), source.size) for source in sources
        )
        self.file_metadata: Sequence[Mapping[bytes, bytes]] = [
            source.schema.metadata or {} for source in sources
        ]
        self.id_kind: Kind = columns.id_kind
        self._specs = dict(columns.tensors)
        self.inputs = self._named(columns.inputs)
        self.outputs = self._named(columns.outputs)
        self._loose = LooseDims(self._specs, columns.loose)
        self.labels_of: Mapping[str, Kind] = dict(columns.labels)
        self.label: Kind | None = columns.labels.get(wanted.label_column or "")
        self.label_note = columns.label_note
        self.slices = wanted.slices
        self.skipped_columns = columns.skipped
        self._wanted = wanted
        self._columns = columns
        self._sources = sources
        self._lock = threading.Lock()
        self._index_lock = threading.RLock()
        self._digest_lock = threading.Lock()
        self._digests: tuple[str, ...] | None = None
        self._dropped = 0
        self._scan: IdScan | None = None
        self._index: IdIndex | None = None
        self._parts, self._starts = _chunks(sources)
        file_of = [number for number, _ in self._parts]
        self._places = Places([source.whole for source in sources], file_of, self._starts)
        unpacked = self.samples * sum(spec.sample_bytes for spec in columns.tensors.values())
        self._bytes = max(unpacked, sum(file.bytes for file in self.files))

    @property
    def samples(self) -> int:
        """Rows over all files."""
        return self._starts[-1]

    @property
    def input_columns(self) -> Mapping[str, str]:
        """Column of each input."""
        return self._columns.inputs

    def files_with(self, column: str) -> list[bool]:
        """Whether each file has a column of this name, read or not."""
        return [column in source.schema.names for source in self._sources]

    @property
    def id_column(self) -> str:
        """Column of the sample ids."""
        return self._wanted.id_column

    @property
    def is_mapped(self) -> bool:
        """Whether all samples are read where they lie, so that they can be in any order."""
        return all(source.is_mapped for source in self._sources)

    @property
    def may_vary(self) -> bool:
        """Whether some columns have to be read to know whether their samples have one shape."""
        return bool(self._loose.columns)

    @property
    def is_large(self) -> bool:
        """Whether what was looked at in passing has to be let go of at once."""
        return self._bytes > _RESIDENT

    def ids(self, start: int, stop: int) -> Ids:
        """Ids of samples `[start, stop)`: int64, or object holding str.

        Raises:
            GoldenError: `golden.null_id`, naming file and row.
        """
        column = self._wanted.id_column
        return self._plain(column, self.id_kind, "golden.null_id", start, stop)

    def id_of(self, row: int) -> int | str:
        """Id of one sample."""
        found: int | str = self.ids(row, row + 1).tolist()[0]
        return found

    def input(self, name: str, start: int, stop: int) -> Array:
        """Input tensor of samples `[start, stop)`, which have one shape; see `tensor`."""
        return _one_shape(name, self._tensor(self._columns.inputs[name], start, stop))

    def output(self, name: str, start: int, stop: int, room: Room | None = None) -> Tensor:
        """Recorded output of samples `[start, stop)`; see `tensor`.

        Args:
            name: output.
            start: the first of them.
            stop: end of them.
            room: rows and an array of some of them -> an array for at least so many rows, which is
                written over where they are copied; None: a new one.
        """
        return self._tensor(self._columns.outputs[name], start, stop, room)

    def check_tensors(self, start: int, stop: int) -> None:
        """Read all tensors of samples `[start, stop)`, and note which dims of them vary.

        Raises:
            GoldenError: as `tensor`.
        """
        for column in self._specs:
            if column in self._loose.columns:
                shapes = self._shapes(column, start, stop)
                self._loose.note(column, shapes)
            values = self._tensor(column, start, stop)
            if column not in self._loose.columns:
                self._places.note(column, self._specs[column], start, values)

    def input_shapes(self, name: str, start: int, stop: int) -> npt.NDArray[np.int64]:
        """`(n, dims)` shape of an input of each of the samples `[start, stop)`."""
        column = self._columns.inputs[name]
        spec = self._specs[column]
        if not self._may_vary(column, spec):
            shape = np.array(spec.fixed_shape, np.int64)
            return np.broadcast_to(shape, (stop - start, len(shape)))
        return complete(self._shapes(column, start, stop), spec.shape)

    def tensor(self, name: str, start: int, stop: int) -> Tensor:
        """Tensor `in.<name>` or `out.<name>` of samples `[start, stop)`.

        Returns:
            `(stop - start, *shape)`, read-only, C-contiguous; one array a sample where their
            shapes differ. Within one record batch it is the mapped file itself (bools are
            unpacked); over several, and where many small ones are joined, it is a copy.

        Raises:
            GoldenError: a null (`golden.null_value`) or a list of another length (`golden.shape`),
                naming the id.
        """
        if name.startswith("in."):
            return self._tensor(self._columns.inputs[name.removeprefix("in.")], start, stop)
        return self.output(name.removeprefix("out."), start, stop)

    def take_output(self, name: str, rows: Rows) -> Tensor:
        """Recorded output of these samples; see `take_input`."""
        return self._take(self._columns.outputs[name], rows)

    def take_input(self, name: str, rows: Rows) -> Array:
        """Input of these samples, which have one shape, in the order given.

        Args:
            name: input.
            rows: `(n,)` positions over all files, none negative.

        Returns:
            `(n, *shape)`, read-only; without a copy where the rows are consecutive.
        """
        return _one_shape(name, self._take(self._columns.inputs[name], rows))

    def _take(self, column: str, rows: Rows) -> Tensor:
        if len(rows) == 0:
            return self._tensor(column, 0, 0)
        first, last = int(rows[0]), int(rows[-1])
        if last - first == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
            return self._tensor(column, first, last + 1)
        spec = self._specs[column]
        if self._may_vary(column, spec):
            return self._take_varying(column, spec, rows)
        taken = np.empty((len(rows), *spec.fixed_shape), numpy_dtype(spec.dtype))
        for places, low, high in self._windows(rows, spec.sample_bytes):
            taken[places] = _one_shape(column, self._tensor(column, low, high))[rows[places] - low]
        taken.flags.writeable = False
        return taken

    def _take_varying(self, column: str, spec: ColumnSpec, rows: Rows) -> Tensor:
        taken: list[Array] = [_NOTHING] * len(rows)
        for places, low, high in self._windows(rows, spec.sample_bytes):
            ((array, at),) = self._arrays(column, low, high)
            some = self._read(
                column, at, taken_values, array, rows[places] - low, spec.dtype, spec.shape
            )
            for at, place in enumerate(places.tolist()):
                taken[place] = row_of(some, at)
        return as_tensor(taken)

    def take_ids(self, rows: npt.NDArray[np.int64]) -> Ids:
        """Ids of these samples, in the order given."""
        column = self._wanted.id_column
        taken = np.empty(len(rows), np.int64 if self.id_kind == "int64" else object)
        for places, low, high in self._windows(rows, _ID_BYTES):
            ((array, _),) = self._arrays(column, low, high)
            with reading(self.place(low)[0]):
                ids = array.take(rows[places] - low)
                if ids.null_count:
                    self.ids(low, high)  # tells which
                taken[places] = plain_values(ids, self.id_kind, "golden.null_id")
        return taken

    def labels(self, start: int, stop: int, column: str | None = None) -> Ids:
        """Labels of samples `[start, stop)`: int64, or object holding str.

        Raises:
            GoldenError: `golden.null_label`, naming the id.
        """
        name = column or self._wanted.label_column or ""
        return self._plain(name, self.labels_of[name], "golden.null_label", start, stop)

    def slice_values(self, name: str, start: int, stop: int) -> SliceCodes:
        """Values of a slice column for samples `[start, stop)`; null is "(null)".

        Raises:
            GoldenError: `golden.slice_values`, for a text that is "(null)" itself.
        """
        arrays = [array for array, _ in self._arrays(name, start, stop)]
        try:
            with reading(self.place(start)[0] if arrays else self.files[0].path):
                return slice_codes(arrays)
        except ValueFault as fault:
            path, row = self.place(start + fault.row)
            raise GoldenError(
                f"{path}: slice column {name!r}, row {row}: {fault.found} is what rows without a "
                "value are called; name it otherwise",
                fault.code,
            ) from fault

    def id_texts(self, start: int, stop: int) -> pa.ChunkedArray[Any]:
        """Ids of samples `[start, stop)`, which are strings, as they lie in the file.

        Raises:
            GoldenError: `golden.null_id`, naming file and row.
        """
        column = self._wanted.id_column
        pieces = [
            self._read(column, at, plain_texts, array, "golden.null_id")
            for array, at in self._arrays(column, start, stop)
        ]
        return pa.chunked_array(pieces, pa.large_string())

    def scan_ids(self, *, allow_duplicates: bool = False, like: GoldenPack | None = None) -> IdScan:
        """Read the pack once without its tensors' values, before anything runs.

        Checks ids (null, duplicate), tensors (nulls, list lengths), labels, slice values (at most
        1 000 a column) and the structure of every record batch.

        Args:
            allow_duplicates: report duplicate ids in the result instead of raising.
            like: a pack whose scan found no duplicates; where both hold the same ids in the same
                order, this one has none either, and none of its ids is looked up.

        Raises:
            GoldenError: `golden.duplicate_id`, `golden.null_id`, `golden.null_value`,
                `golden.shape`, `golden.null_label`, `golden.slice_values` or `golden.unreadable`.
        """
        with self._index_lock:
            if self._scan is None:
                self._scan, self._index = scan_ids(self, like)
                self.inputs = self._named(self._columns.inputs)
                self.outputs = self._named(self._columns.outputs)
            scan = self._scan
        if scan.duplicates and not allow_duplicates:
            raise scan.duplicate_error(self)
        return scan

    def index(self) -> IdIndex:
        """Look-up from id to position; made on first use.

        Raises:
            FolderError: no room for the index file in the folder for temporary files.
        """
        scan = self.scan_ids(allow_duplicates=True)
        with self._index_lock:
            if self._index is None:
                self._index = build_index(self, scan.is_ascending)
            return self._index

    def done_until(self, stop: int) -> None:
        """Let go of the mapped memory of the samples before `stop`; they can be read again.

        It goes in pieces of some MiB: letting go stops every thread for a moment.
        """
        step = self.samples * _DROPPED_AT_ONCE // max(1, self._bytes)
        with self._lock:
            stop = min(stop, self.samples)
            start = self._dropped if self._dropped <= stop else 0  # or it is read once more
            if stop - start < step and stop < self.samples:
                self._dropped = start
                return
            self._dropped = stop
        self._drop(start, stop, in_order=True)

    def done_with(self, start: int, stop: int) -> None:
        """Let go of the mapped memory of samples `[start, stop)`; they can be read again."""
        self._drop(start, stop)

    def file_digests(self, cache: bool = True) -> tuple[str, ...]:
        """SHA-256 of each file's bytes, made once; `cache` takes those of files as they were.

        Raises:
            OSError: a file can't be read any more.
        """
        with self._digest_lock:
            if self._digests is None:
                self._digests = tuple(sha256_file(file.path, cache) for file in self.files)
            return self._digests

    def digest(self, cache: bool = True) -> str:
        """SHA-256 over the digests of the files in their order; names and folders don't count."""
        digests = self.file_digests(cache)
        return digest_of({f"{number:08d}": digest for number, digest in enumerate(digests)})

    def place(self, row: int) -> tuple[Path, int]:
        """File of a sample and its row in that file."""
        for file in self.files:
            if row < file.rows:
                return file.path, row
            row -= file.rows
        raise IndexError(f"row {row} past the end of the pack")

    def batch_spans(self, limit: int) -> Iterator[tuple[int, int]]:
        """Consecutive `[start, stop)` within one piece of a file each, of at most `limit`."""
        for _, low, high in self._spans(0, self.samples):
            for start in range(low, high, limit):
                yield start, min(start + limit, high)

    def close(self) -> None:
        """Let go of files and index; arrays that are still in use stay valid."""
        for source in self._sources:
            source.close()
        with self._index_lock:
            index, self._index = self._index, None
        if index is not None:
            index.close()

    def __enter__(self) -> Self:
        """Return the pack itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _named(self, columns: Mapping[str, str]) -> Mapping[str, ColumnSpec]:
        return {name: replace(self._specs[column], name=name) for name, column in columns.items()}

    def _may_vary(self, column: str, spec: ColumnSpec) -> bool:
        """Whether samples differ in shape, or may do so as far as is known before the scan."""
        return not spec.is_fixed or (self._scan is None and column in self._loose.columns)

    def _shapes(self, column: str, start: int, stop: int) -> npt.NDArray[np.int64]:
        dims = len(self._specs[column].shape)
        pieces = [
            self._read(column, at, shapes_of, array)
            for array, at in self._arrays(column, start, stop)
        ]
        return np.concatenate(pieces) if pieces else np.empty((0, dims), np.int64)

    def _tensor(self, column: str, start: int, stop: int, room: Room | None = None) -> Tensor:
        spec = self._specs[column]
        if self._may_vary(column, spec):
            some = [
                self._read(column, at, varying_values, array, spec.dtype, spec.shape)
                for array, at in self._arrays(column, start, stop)
            ]
            empty = np.empty((0, *(dim or 0 for dim in spec.shape)), numpy_dtype(spec.dtype))
            return (
                some[0]
                if len(some) == 1
                else as_tensor([row_of(t, i) for t in some for i in range(len(t))])
                if some
                else empty
            )
        if self._scan is not None:
            placed = self._places.read(column, spec, start, stop, room)
            if placed is not None:
                return placed
        pieces = [
            self._read(column, at, fixed_values, array, spec.dtype, spec.fixed_shape)
            for array, at in self._arrays(column, start, stop)
        ]
        if len(pieces) == 1:
            return pieces[0]
        if not pieces:
            pieces = [np.empty((0, *spec.fixed_shape), numpy_dtype(spec.dtype))]
        into = None if room is None else room(stop - start, pieces[0])[: stop - start]
        joined: Array = np.concatenate(pieces, out=into)
        joined.flags.writeable = False
        return joined

    def _plain(self, column: str, kind: Kind, null_code: str, start: int, stop: int) -> Ids:
        pieces = [
            self._read(column, at, plain_values, array, kind, null_code)
            for array, at in self._arrays(column, start, stop)
        ]
        if len(pieces) == 1:
            return pieces[0]
        dtype = np.int64 if kind == "int64" else object
        joined: Ids = np.concatenate(pieces, dtype=dtype) if pieces else np.empty(0, dtype)
        joined.flags.writeable = False
        return joined

    def _read(self, column: str, at: int, read: Callable[..., _T], *args: object) -> _T:
        """Run a reader of an array that begins at sample `at`; say where it found a fault."""
        try:
            with reading(self.place(at)[0]):
                return read(*args)
        except ValueFault as fault:
            raise self._fault(column, at + fault.row, fault) from fault

    def _fault(self, column: str, row: int, fault: ValueFault) -> GoldenError:
        path, at = self.place(row)
        if column == self._wanted.id_column:
            where, mend = f"row {at}: the id is {fault.found}", "give every sample an id"
        else:
            sample = self.ids(row, row + 1)[0]
            where = f"sample {sample} (row {at}): {fault.found}"
            mend = "fill it or remove the sample"
            if fault.code == "golden.shape":
                mend = (
                    "samples have one shape, unless the plan names the dim that varies: "
                    'inputs.NAME.shape = ["batch", "seq"] and [dims] seq = { min = 1, max = 512 }'
                )
        return GoldenError(f"{path}: column {column!r}, {where}; {mend}", fault.code)

    def _arrays(self, column: str, start: int, stop: int) -> Iterator[tuple[pa.Array[Any], int]]:
        """Arrow arrays that make up a column of samples `[start, stop)`, each with its start."""
        for number, low, high in self._spans(start, stop):
            source, batch = self._parts[number]
            array = self._sources[source].column(batch, column)
            with reading(self._sources[source].path):
                rows = plain(array.slice(low - self._starts[number], high - low))
            yield rows, low

    def _spans(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Numbers of the record batches that hold `[start, stop)`, each with its part of it."""
        if not 0 <= start <= stop <= self.samples:
            raise IndexError(f"samples [{start}, {stop}) of a pack of {self.samples}")
        number = bisect_right(self._starts, start) - 1
        while start < stop:
            end = min(stop, self._starts[number + 1])
            yield number, start, end
            start, number = end, number + 1

    def _windows(
        self, rows: npt.NDArray[np.int64], row_bytes: int
    ) -> Iterator[tuple[npt.NDArray[np.int64], int, int]]:
        """Places in `rows` by rising sample, with the span `[low, high)` that holds their samples.

        A span lies within one record batch and a few MiB. Of a large pack the pages up to a span's
        end are dropped after it: the kernel maps more around each page than is asked for.
        """
        if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= self.samples):
            raise IndexError(f"rows outside of a pack of {self.samples}")
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        step = max(1, _WINDOW // max(1, row_bytes))
        at = 0
        while at < len(rows):
            low = int(ordered[at])
            number = bisect_right(self._starts, low) - 1
            end = int(np.searchsorted(ordered, min(low + step, self._starts[number + 1])))
            yield order[at:end], low, int(ordered[end - 1]) + 1
            if self.is_large:
                before = int(ordered[at - 1]) if at else 0
                after = int(ordered[end]) if end < len(rows) else self.samples
                self._drop(before, after)
            at = end

    def _drop(self, start: int, stop: int, *, in_order: bool = False) -> None:
        starts = self._starts
        at, end = bisect_left(starts, start), bisect_right(starts, stop) - 1
        if at >= end:  # no record batch as a whole
            for number, low, high in self._spans(start, stop):
                self._drop_part(number, low, high, in_order)
            return
        if start < starts[at]:
            self._drop_part(at - 1, start, starts[at], in_order)
        while at < end:
            file, first = self._parts[at]
            while at < end and self._parts[at][0] == file:
                last, at = self._parts[at][1], at + 1
            self._sources[file].drop_all(first, last, in_order)
        if starts[end] < stop:
            self._drop_part(end, starts[end], stop, in_order)

    def _drop_part(self, number: int, start: int, stop: int, in_order: bool) -> None:
        file, batch = self._parts[number]
        first = self._starts[number]
        self._sources[file].drop(batch, start - first, stop - first, in_order)


def _one_shape(name: str, tensor: Tensor) -> Array:
    if isinstance(tensor, Ragged):
        raise ValueError(f"{name}: the samples differ in shape; read one shape at a time")
    return tensor


def _chunks(sources: Sequence[Source]) -> tuple[list[tuple[int, int]], list[int]]:
    """(file, batch) of every record batch with rows, and the first sample of each."""
    parts, starts = [], [0]
    for number, source in enumerate(sources):
        for batch, rows in enumerate(source.batch_rows):
            if rows:
                parts.append((number, batch))
                starts.append(starts[-1] + rows)
    return parts, starts
