"""All that can be said of a pack by itself, and of what it shares with another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from paritygate.golden.content import recorded_digest
from paritygate.golden.equal import DigestStore, EqualSamples, repeated, shared
from paritygate.golden.evidence import synthetic_rows
from paritygate.golden.files import find_files
from paritygate.golden.formats import open_file
from paritygate.golden.ids import IdScan
from paritygate.golden.leaves import SampleReader, Wanted
from paritygate.golden.meaning import wrong_meaning
from paritygate.golden.merkle import Tree, close_tree
from paritygate.golden.overlap import IdsOf, Overlap, check_inputs, describe_overlap, store_inputs
from paritygate.golden.pack import GoldenPack, open_pack
from paritygate.golden.plain import plain
from paritygate.golden.schema import missing_column
from paritygate.golden.source import Source, reading
from paritygate.golden.values import NULL

Balance = Mapping[str, int]

_STEP = 65_536
MOST_VALUES = 1_000


class PackUse(Struct, frozen=True):
    """What a pack's columns are.

    Attributes:
        id_column: column of the ids.
        label_column: column of the labels; None: `label`, if there.
        slices: columns by which results are split.
        inputs: input -> its column, besides `in.NAME`.
        outputs_from: "all": where no column is `out.NAME`, every other column is an output.
        outputs_prefix: what stands for `out.`, as in a failure shard.
        slice_if_there: a column of texts that is a slice too, where the files have it.
    """

    id_column: str = "sample_id"
    label_column: str | None = None
    slices: tuple[str, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs_from: Literal["prefix", "all"] = "prefix"
    outputs_prefix: str = "out."
    slice_if_there: str | None = None


class PackFacts(Struct, frozen=True):
    """What was found.

    Attributes:
        files: path, rows and bytes of each.
        samples: rows over all of them.
        id_kind: "int64" or "string".
        scan: ids that occur twice.
        columns: dtype and dims of each tensor, a dim None where it varies.
        labels: label -> samples, the most frequent first; None: no labels, or too many.
        slices: slice column -> value -> samples.
        digest: of the content.
        recorded: the digest that the file says it was written with; "": none.
        equal: samples whose inputs are those of an earlier one; None: the pack has no inputs.
        equal_ids: ids of the first of them, each with that of the earlier one.
        overlap: with the other pack, if one was named.
        synthetic: samples that are marked as no acceptance evidence.
        meanings: columns whose axes, channels or units can't be right, with what is wrong.
    """

    files: tuple[tuple[Path, int, int], ...]
    samples: int
    id_kind: str
    scan: IdScan
    columns: tuple[tuple[str, str, tuple[int | None, ...]], ...]
    labels: Balance | None
    slices: Mapping[str, Balance]
    digest: str
    recorded: str
    equal: EqualSamples | None
    equal_ids: tuple[tuple[int | str, int | str], ...]
    overlap: Overlap | None
    synthetic: int = 0
    meanings: tuple[tuple[str, str], ...] = ()


def open_for_check(patterns: Sequence[str | Path], folder: Path, use: PackUse) -> GoldenPack:
    """Open a pack whose inputs may all differ in shape from sample to sample.

    Raises:
        GoldenError: as `open_pack`.
    """
    names = {
        column[3:]
        for path in find_files(patterns, folder)
        for column in _columns(path, use.id_column)
        if column.startswith("in.")
    }
    return open_pack(
        patterns,
        folder,
        id_column=use.id_column,
        label_column=None,
        slices=use.slices,
        inputs=use.inputs,
        outputs_from=use.outputs_from,
        outputs_prefix=use.outputs_prefix,
        varying=names | set(use.inputs),
        slice_if_there=use.slice_if_there,
    )


def check_pack(
    pack: GoldenPack,
    patterns: Sequence[str | Path],
    folder: Path,
    use: PackUse,
    against: Sequence[str | Path] = (),
) -> PackFacts:
    """Read all of a pack.

    Args:
        pack: as `open_for_check` opened it.
        patterns: the same files.
        folder: where relative patterns start.
        use: what its columns are.
        against: files of a pack that should have no sample in common with it.

    Raises:
        GoldenError: what no run could read: a null, damage, inputs that the other pack lacks.
        FolderError: no room for temporary files.
    """
    scan = pack.scan_ids(allow_duplicates=True)
    with ExitStack() as stack:
        wanted = Wanted(use.id_column, dict(use.inputs), only_inputs=True)
        others = (
            [stack.enter_context(SampleReader(against, folder, wanted))] if len(against) else []
        )
        digest, store = _digests(patterns, folder, use, others)
        stack.callback(store.close)
        ids = IdsOf(patterns, folder, use.id_column)
        overlap = None
        for other in others:
            theirs = store_inputs(other)
            stack.callback(theirs.close)
            their_ids = IdsOf(against, folder, use.id_column)
            overlap = describe_overlap(shared(store, theirs), other, ids, their_ids)
        equal = repeated(store) if pack.inputs else None
    synthetic = synthetic_rows(pack)
    return PackFacts(
        files=tuple((file.path, file.rows, file.bytes) for file in pack.files),
        samples=pack.samples,
        id_kind=pack.id_kind,
        scan=scan,
        columns=tuple(_tensors(pack)),
        labels=_labels(pack, use),
        slices={name: _slice(pack, name) for name in pack.slices},
        digest=digest,
        recorded=recorded_digest([file.path for file in pack.files], use.id_column),
        equal=equal,
        equal_ids=_pairs(equal, ids),
        overlap=overlap,
        synthetic=0 if synthetic is None else int(synthetic.sum()),
        meanings=tuple(_meanings(pack)),
    )


def _digests(
    patterns: Sequence[str | Path],
    folder: Path,
    use: PackUse,
    others: Sequence[SampleReader],
) -> tuple[str, DigestStore]:
    """The content digest, and the digests of the inputs of all samples."""
    tree = Tree()
    with SampleReader(patterns, folder, Wanted(use.id_column)) as reader:

        def both() -> Iterator[tuple[int, list[bytes]]]:
            for found in reader.digests():
                tree.add(found.leaves)
                yield found.start, found.inputs

        if not use.inputs:
            for other in others:
                check_inputs(reader, other)
            store = DigestStore(both())
            return close_tree(tree.leaves, tree.root()), store
        for found in reader.digests():
            tree.add(found.leaves)
    wanted = Wanted(use.id_column, dict(use.inputs), only_inputs=True)
    with SampleReader(patterns, folder, wanted) as reader:
        for other in others:
            check_inputs(reader, other)
        return close_tree(tree.leaves, tree.root()), store_inputs(reader)


def _columns(path: Path, id_column: str) -> list[str]:
    source = open_file(path, id_column)
    names = list(source.fields)
    source.close()
    return names


def _tensors(pack: GoldenPack) -> Iterator[tuple[str, str, tuple[int | None, ...]]]:
    for prefix, specs in (("in.", pack.inputs), ("out.", pack.outputs)):
        for name, spec in specs.items():
            yield prefix + name, spec.dtype, spec.shape


def _meanings(pack: GoldenPack) -> Iterator[tuple[str, str]]:
    for prefix, specs in (("in.", pack.inputs), ("out.", pack.outputs)):
        for name, spec in specs.items():
            told = wrong_meaning(spec.metadata, spec.shape)
            if told:
                yield prefix + name, told


def _labels(pack: GoldenPack, use: PackUse) -> Balance | None:
    """Samples of each label, null among them; None: there are none, or too many to be classes."""
    found: Counter[str] = Counter()
    for file in pack.files:
        source = open_file(file.path, use.id_column)
        try:
            column = use.label_column or "label"
            if column not in source.fields and use.label_column is None:
                return None
            if column not in source.fields:
                raise missing_column(source, column, "label", "golden.missing_column")
            source.select([column])
            for number, rows in enumerate(source.batch_rows):
                found.update(_counted(source, number, column))
                source.drop(number, 0, rows)
                if len(found) > MOST_VALUES:
                    return None
        finally:
            source.close()
    return dict(found.most_common())


def _counted(source: Source, number: int, column: str) -> Iterator[str]:
    with reading(source.path):
        array = plain(source.column(number, column))
        array.validate(full=True)
        values = array.to_pylist()
    for value in values:
        yield NULL if value is None else str(value)


def _slice(pack: GoldenPack, name: str) -> Balance:
    found: Counter[str] = Counter()
    for start, stop in pack.batch_spans(_STEP):
        some = pack.slice_values(name, start, stop)
        codes = Counter(some.codes.tolist())
        found.update({some.values[code]: count for code, count in codes.items()})
        pack.done_until(stop)
    return dict(found.most_common())


def _pairs(equal: EqualSamples | None, ids: IdsOf) -> tuple[tuple[int | str, int | str], ...]:
    if equal is None or not equal.first:
        return ()
    again = ids.take([row for row, _ in equal.first])
    earlier = ids.take([row for _, row in equal.first])
    return tuple(zip(again, earlier, strict=True))
