"""Raw records: the columns `raw.NAME` of a pack, read by the position of their samples."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paritygate.core.errors import GoldenError
from paritygate.core.problems import did_you_mean
from paritygate.core.ragged import row_of
from paritygate.core.tensors import Array
from paritygate.golden.columns import (
    Layout,
    UnsupportedTypeError,
    ValueFault,
    layout_of,
    values_of,
)
from paritygate.golden.formats import open_file
from paritygate.golden.plain import plain, plain_type
from paritygate.golden.source import Source, reading
from paritygate.golden.varying import varying_values

PREFIX = "raw."
_STEP = 4_096
_LARGE = 32 << 20

Rows = npt.NDArray[np.int64]


class RawRecords:
    """Raw columns of the files of a pack, in file order; safe to read from several threads.

    A column of numbers, texts, or lists or tensors of them without a null anywhere in the pack is
    read as arrays; any other as Python values, None for null.

    Attributes:
        types: name, without `raw.`, -> Arrow type.
        samples: rows over all files.
    """

    def __init__(self, files: Sequence[Path], id_column: str, names: Sequence[str]) -> None:
        """Open the files of a pack and read the raw columns once, so that damage shows here.

        Args:
            files: in the order of their samples.
            id_column: column of the ids.
            names: of the columns, without `raw.`; empty: all that there are.

        Raises:
            GoldenError: `golden.missing_column` or `golden.schema`, or `golden.unreadable`.
        """
        self._sources = [open_file(path, id_column) for path in files]
        try:
            self.types = _same_types(self._sources, names)
            for source in self._sources:
                source.select([PREFIX + name for name in self.types])
            self._parts, self._starts = _pieces(self._sources)
            layouts = {name: self._layout(name) for name in self.types}
            self._layouts = {n: one for n, one in layouts.items() if one and self._fits(n, one)}
            for name in self.types:
                if name not in self._layouts:
                    self._check_values(name)
        except BaseException:
            self.close()
            raise

    @property
    def samples(self) -> int:
        """Rows over all files."""
        return self._starts[-1]

    @property
    def watched(self) -> tuple[Any, ...]:
        """The files as they were when they were opened."""
        return tuple(source.watched for source in self._sources)

    def take(self, rows: Rows) -> dict[str, Array]:
        """The records of these samples, in the order given.

        Args:
            rows: `(n,)` positions over all files; at least one.

        Returns:
            Name -> `(n, *shape)` where the type fixes the shape of a sample; else `(n,)` of
            objects: arrays, texts or Python values.

        Raises:
            GoldenError: the file is damaged.
        """
        ends = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        runs = [(int(rows[low]), int(rows[high - 1]) + 1) for low, high in _neighbours(ends)]
        return {
            name: self._joined([self._values(name, *run) for run in runs]) for name in self.types
        }

    def close(self) -> None:
        """Let go of the files; arrays that are still in use stay valid."""
        for source in self._sources:
            source.close()

    def _joined(self, pieces: list[Array]) -> Array:
        joined: Array = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return joined

    def _layout(self, name: str) -> Layout | None:
        field = self._sources[0].fields[PREFIX + name]
        declared = (field.metadata or {}).get(b"paritygate.dtype")
        try:
            return layout_of(plain_type(field.type), declared.decode() if declared else None)
        except (UnsupportedTypeError, UnicodeDecodeError):
            return None

    def _fits(self, name: str, layout: Layout) -> bool:
        """Whether every record is a tensor of this layout; each is looked at."""
        try:
            for path, array in self._arrays(name, 0, self.samples):
                with reading(path):
                    _tensors(array, layout)
        except ValueFault:
            return False
        return True

    def _check_values(self, name: str) -> None:
        for path, array in self._arrays(name, 0, self.samples):
            with reading(path):
                array.validate(full=True)
                array.slice(0, 1).to_pylist()

    def _values(self, name: str, start: int, stop: int) -> Array:
        layout, pieces = self._layouts.get(name), []
        for path, array in self._arrays(name, start, stop):
            with reading(path):
                array.validate(full=True)
                try:
                    made = (
                        _objects(array.to_pylist()) if layout is None else _tensors(array, layout)
                    )
                except ValueFault as fault:
                    raise GoldenError(
                        f"{path}: column {PREFIX + name!r} changed while it was read: {fault.found}"
                    ) from fault
                pieces.append(made)
        return self._joined(pieces)

    def _arrays(self, name: str, start: int, stop: int) -> Iterator[tuple[Path, Any]]:
        """Arrow arrays of a column of samples `[start, stop)`, each with its file."""
        number = bisect_right(self._starts, start) - 1
        while start < stop:
            file, piece = self._parts[number]
            source, first = self._sources[file], self._starts[number]
            end = min(stop, self._starts[number + 1], start + _STEP)
            array = source.column(piece, PREFIX + name)
            with reading(source.path):
                part = plain(array.slice(start - first, end - start))
            yield source.path, part
            if source.size > _LARGE:
                source.drop(piece, start - first, end - first)
            start = end
            number += end == self._starts[number + 1]


def _tensors(array: Any, layout: Layout) -> Array:
    """Records as arrays: together where the type fixes their shape, else one by one.

    Raises:
        ValueFault: a null, or lists that are no tensor.
    """
    array.validate(full=True)
    dims = tuple(dim for dim in layout.dims if dim is not None)
    if len(dims) == len(layout.dims):
        return values_of(array, layout.dtype, dims)
    some = varying_values(array, layout.dtype, layout.dims)
    return _objects([row_of(some, at) for at in range(len(some))])


def _objects(values: Sequence[Any]) -> Array:
    """One object a record, also where they are arrays or lists of one length."""
    made: Array = np.empty(len(values), object)
    for at, value in enumerate(values):
        made[at] = value
    return made


def _neighbours(ends: Sequence[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(ends))


def _pieces(sources: Sequence[Source]) -> tuple[list[tuple[int, int]], list[int]]:
    """(file, piece) of every piece with rows, and the first sample of each."""
    parts, starts = [], [0]
    for number, source in enumerate(sources):
        for piece, rows in enumerate(source.batch_rows):
            if rows:
                parts.append((number, piece))
                starts.append(starts[-1] + rows)
    return parts, starts


def _same_types(sources: Sequence[Source], names: Sequence[str]) -> dict[str, pa.DataType]:
    """The raw columns, which all files have alike."""
    found = [
        {n.removeprefix(PREFIX): f.type for n, f in s.fields.items() if n.startswith(PREFIX)}
        for s in sources
    ]
    for source, types in zip(sources, found, strict=True):
        for name in names or found[0]:
            if name not in types:
                raise GoldenError(
                    f"{source.path}: no raw column {PREFIX + name!r}"
                    f"{did_you_mean(name, types)}; it has "
                    f"{', '.join(PREFIX + n for n in types) or 'no raw column at all'}",
                    "golden.missing_column",
                )
            if types[name] != found[0][name]:
                raise GoldenError(
                    f"{source.path}: column {PREFIX + name!r} is {types[name]}, {sources[0].path} "
                    f"has {found[0][name]}; all files of a pack have the same columns",
                    "golden.schema",
                )
    if not found[0]:
        raise GoldenError(
            f"{sources[0].path}: no column is named {PREFIX}NAME, so that there is no raw record "
            "to prepare; keep the raw records in the pack, or leave out replay",
            "golden.missing_column",
        )
    return {name: found[0][name] for name in names or found[0]}
