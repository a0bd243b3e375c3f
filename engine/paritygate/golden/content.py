"""The content digest of a pack: of its samples in their order, however they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paritygate.core.digest import kept_digest
from paritygate.golden.formats import open_file
from paritygate.golden.leaves import SampleReader, Wanted
from paritygate.golden.merkle import Proof, Tree, close_tree, prove

KEY = "paritygate.content"
_KIND = "content 1"


def content_digest(
    patterns: Sequence[str | Path],
    folder: Path,
    *,
    id_column: str = "sample_id",
    cache: bool = True,
) -> str:
    """Digest of all samples of a pack, 64 hex digits.

    The same for the same samples in the same order: files, record batches, formats, compression and
    the storage of tensors don't count. `docs/packs.md` says what is hashed.

    Args:
        patterns: files, folders or globs.
        folder: where relative patterns start.
        id_column: column of the ids.
        cache: take the digest made before, if no file has changed since.

    Raises:
        GoldenError: the pack can't be read, or has a column without a digest.
    """
    with SampleReader(patterns, folder, Wanted(id_column)) as reader:

        def make() -> str:
            tree = Tree()
            for found in reader.digests():
                tree.add(found.leaves)
            return close_tree(tree.leaves, tree.root())

        return kept_digest(f"{_KIND} {id_column}", reader.watched, make) if cache else make()


def recorded_digest(paths: Sequence[Path], id_column: str = "sample_id") -> str:
    """The digest that a pack of one file says it was written with; "": it says none.

    It is that of a pack whose ids are called `sample_id`, and is asked for only of such a one.

    Raises:
        GoldenError: the file can't be read.
    """
    if len(paths) != 1 or id_column != "sample_id":
        return ""
    source = open_file(paths[0], id_column)
    found = (source.schema.metadata or {}).get(KEY.encode(), b"").decode(errors="replace")
    source.close()
    return found


def prove_row(
    patterns: Sequence[str | Path], folder: Path, row: int, *, id_column: str = "sample_id"
) -> tuple[Proof, bytes]:
    """The proof that the sample of a row belongs to a pack, and the sample's leaf.

    Raises:
        GoldenError: as `content_digest`.
        IndexError: the pack has no such row.
    """
    leaf = leaf_of(patterns, folder, row, id_column=id_column)
    with SampleReader(patterns, folder, Wanted(id_column)) as reader:
        proof = prove((found.leaves for found in reader.digests()), row, reader.samples)
    return proof, leaf


def leaf_of(
    patterns: Sequence[str | Path], folder: Path, row: int, *, id_column: str = "sample_id"
) -> bytes:
    """The leaf of one sample, 32 bytes; the same whatever other samples lie beside it.

    Raises:
        GoldenError: as `content_digest`.
        IndexError: the pack has no such row.
    """
    with SampleReader(patterns, folder, Wanted(id_column)) as reader:
        for found in reader.digests():
            if found.start <= row < found.start + len(found.leaves):
                return found.leaves[row - found.start]
        raise IndexError(f"row {row} of a pack of {reader.samples}")
