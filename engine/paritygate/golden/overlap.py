"""Samples of a pack that are also in another: by their inputs, whatever they are called there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from msgspec import Struct

from paritygate.core.errors import GoldenError
from paritygate.golden.equal import DigestStore, EqualSamples, shared
from paritygate.golden.leaves import SampleReader, Wanted
from paritygate.golden.pack import open_pack

SampleId = int | str


class Overlap(Struct, frozen=True):
    """What two packs have in common.

    Attributes:
        files: of the other pack.
        samples: of the other pack.
        count: samples of the first pack whose inputs are those of a sample of the other.
        first: ids of the first ten, each with the id of its equal there, or its row: `row 3`.
    """

    files: tuple[Path, ...]
    samples: int
    count: int
    first: tuple[tuple[SampleId, SampleId], ...]


class OverlapCheck:
    """Two packs that stand ready to be compared.

    Attributes:
        watched: files of the other pack, as they were when they were opened.
        samples: of the other pack.
    """

    def __init__(
        self,
        pack: Sequence[str | Path],
        other: Sequence[str | Path],
        folder: Path,
        *,
        id_column: str = "sample_id",
        inputs: Mapping[str, str] | None = None,
    ) -> None:
        """Open both.

        Args:
            pack: files or globs of the pack.
            other: those of the other one.
            folder: where relative patterns start.
            id_column: column of the ids; the other pack may lack it.
            inputs: input -> its column, besides `in.NAME`, in both packs.

        Raises:
            GoldenError: one can't be read; `golden.schema` where their inputs differ in name,
                dtype or axes, so that no sample of one could be equal to one of the other;
                `golden.empty` where the other pack has no samples.
        """
        self._pack, self._other, self._folder = pack, other, folder
        self._id_column = id_column
        wanted = Wanted(id_column, dict(inputs or {}), only_inputs=True)
        with ExitStack() as stack:
            self._readers = [
                stack.enter_context(SampleReader(patterns, folder, wanted))
                for patterns in (pack, other)
            ]
            check_inputs(*self._readers)
            self._opened = stack.pop_all()
        self.watched = self._readers[1].watched
        self.samples = self._readers[1].samples

    def run(self) -> Overlap:
        """Read the inputs of both packs and compare them.

        Raises:
            GoldenError: a value that can't be read.
            FolderError: no room in the folder for temporary files.
        """
        with ExitStack() as stack:
            stores = []
            for reader in self._readers:
                stores.append(store_inputs(reader))
                stack.callback(stores[-1].close)
            return describe_overlap(
                shared(*stores),
                self._readers[1],
                self._ids(self._pack),
                self._ids(self._other),
            )

    def close(self) -> None:
        """Let go of the files."""
        self._opened.close()

    def _ids(self, patterns: Sequence[str | Path]) -> IdsOf:
        return IdsOf(patterns, self._folder, self._id_column)


class IdsOf(Struct, frozen=True):
    """Ids of some rows of a pack, which is opened for them alone."""

    patterns: Sequence[str | Path]
    folder: Path
    id_column: str

    def take(self, rows: Sequence[int]) -> list[SampleId]:
        """Their ids, or `row N` where the pack has none."""
        try:
            pack = open_pack(
                self.patterns, self.folder, id_column=self.id_column, label_column=None
            )
        except GoldenError as error:
            if error.code != "golden.missing_column":
                raise
            return [f"row {row}" for row in rows]
        with pack:
            ids: list[SampleId] = pack.take_ids(np.array(rows, np.int64)).tolist()
            return ids


def store_inputs(reader: SampleReader) -> DigestStore:
    """The digests of the inputs of all samples."""
    return DigestStore((found.start, found.inputs) for found in reader.digests())


def describe_overlap(
    found: EqualSamples, other: SampleReader, ids: IdsOf, other_ids: IdsOf
) -> Overlap:
    """What was found, with ids."""
    pairs: list[tuple[SampleId, SampleId]] = []
    if found.first:
        here = ids.take([row for row, _ in found.first])
        there = other_ids.take([row for _, row in found.first])
        pairs = list(zip(here, there, strict=True))
    return Overlap(other.paths, other.samples, found.count, tuple(pairs))


def check_inputs(pack: SampleReader, other: SampleReader) -> None:
    """Check that samples of one pack can be equal to samples of the other.

    Raises:
        GoldenError: `golden.missing_column`, `golden.empty` or `golden.schema`.
    """
    ours, theirs = pack.input_types, other.input_types
    if not ours:
        told = f"{pack.paths[0]}: no column in.NAME, so that no sample can be found in another pack"
        raise GoldenError(told, "golden.missing_column")
    if not other.samples:
        told = f"{other.paths[0]}: has no samples, so that nothing can be found in it"
        raise GoldenError(told, "golden.empty")
    if ours != theirs:
        raise GoldenError(
            f"{other.paths[0]}: its inputs are {_listed(theirs)}, those of {pack.paths[0]} are "
            f"{_listed(ours)}; equal samples are found by all of their inputs, so write both packs "
            "with the same ones",
            "golden.schema",
        )


def _listed(types: Mapping[str, tuple[str, int]]) -> str:
    told = [f"{name} ({dtype}, {axes} axes)" for name, (dtype, axes) in types.items()]
    return ", ".join(told) or "none"
