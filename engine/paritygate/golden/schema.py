"""Which columns of a file are ids, labels, slices, inputs and outputs."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from paritygate.core.errors import GoldenError
from paritygate.core.tensors import ColumnSpec
from paritygate.golden.columns import (
    UnsupportedTypeError,
    ValueFault,
    fix_dims,
    is_variable_tensor,
    layout_of,
)
from paritygate.golden.plain import plain, plain_type
from paritygate.golden.source import Source, reading

Kind = Literal["int64", "string"]
_INPUT, _OUTPUT, _RAW = "in.", "out.", "raw."
# What pandas writes of an index without a name, such as after a filter or a shuffle.
EVIDENCE = "paritygate.evidence"
RECORDING = b"paritygate.recording"  # in the metadata of a file of recorded outputs
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_PERMUTATION = re.compile(r'permutation"?\s*[=:]\s*\[([\d,\s]+)\]')


class Selection(Struct, frozen=True):
    """What to look for in the files of a pack.

    Attributes:
        id_column: column of the sample ids.
        label_column: column of the labels; the default name may be absent, and is an output like
            any other column where every column is one.
        slices: columns by which results are split.
        inputs: tensor name -> column, besides `in.*`.
        outputs: tensor name -> column, besides `out.*`.
        outputs_from: "all": where no column has the prefix `out.`, every other column is one.
        extra_labels: further label columns.
        not_outputs: columns that are no outputs though "all" are.
        outputs_prefix: what the names of output columns begin with.
        varying: inputs whose samples may differ in shape; recorded outputs always may.
    """

    id_column: str = "sample_id"
    label_column: str | None = "label"
    slices: tuple[str, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    outputs_from: Literal["prefix", "all"] = "prefix"
    extra_labels: tuple[str, ...] = ()
    not_outputs: tuple[str, ...] = ()
    outputs_prefix: str = _OUTPUT
    varying: frozenset[str] = frozenset()


class PackColumns(Struct, frozen=True):
    """The columns of one file that are used.

    Attributes:
        id_kind: "int64" or "string".
        tensors: column -> spec, named after the column.
        inputs: tensor name -> column.
        outputs: tensor name -> column.
        skipped: with `outputs_from` "all", columns that are nothing of all this.
        labels: label column -> kind.
        label_note: why the label column isn't used, where it is there; else "".
        is_empty: whether the file has no rows, so that dims of lists are unknown (0).
        loose: columns whose samples may differ in shape: their dims are those of the first sample.
    """

    id_kind: Kind
    tensors: Mapping[str, ColumnSpec]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    labels: Mapping[str, Kind]
    label_note: str
    is_empty: bool
    skipped: tuple[str, ...] = ()
    loose: frozenset[str] = frozenset()


def resolve(source: Source, wanted: Selection) -> PackColumns:
    """Find the columns of one file.

    Raises:
        GoldenError: `golden.missing_column`, `golden.id_type`, `golden.column_type`,
            `golden.label_type`, `golden.slice_type`, `golden.schema` or `golden.null_value`.
    """
    check_unique(source)
    id_kind = id_kind_of(source, wanted.id_column)
    labels, note = _labels(source, wanted)
    for name in wanted.slices:
        _check_slice(source, name)
    inputs = _prefixed(source, _INPUT) | dict(wanted.inputs)
    outputs = _outputs(source, wanted, set(inputs.values()))
    tensors = {}
    for prefix, names in ((_INPUT, inputs), (_OUTPUT, outputs)):
        for column in names.values():
            tensors[column] = _tensor(source, column, prefix)
    is_empty = sum(source.batch_rows) == 0
    skipped = _skipped(source, wanted, {*outputs.values(), *labels})
    loose = _loose(source, wanted, inputs, outputs)
    return PackColumns(id_kind, tensors, inputs, outputs, labels, note, is_empty, skipped, loose)


def _loose(
    source: Source, wanted: Selection, inputs: Mapping[str, str], outputs: Mapping[str, str]
) -> frozenset[str]:
    may = {*outputs.values(), *(inputs[name] for name in wanted.varying if name in inputs)}
    types = {column: source.schema.field(column).type for column in may}
    return frozenset(
        column for column, kind in types.items() if None in layout_of(plain_type(kind)).dims
    )


def check_same(first: Path, columns: PackColumns, other: Path, others: PackColumns) -> None:
    """Check that two files of a pack have the same columns.

    Raises:
        GoldenError: `golden.schema` or `golden.id_type`, naming file and field.
    """
    if columns.id_kind != others.id_kind:
        raise GoldenError(
            f"{other}: ids are {others.id_kind}, those of {first} are {columns.id_kind}; "
            "one pack has ids of one type",
            "golden.id_type",
        )
    for column in [*columns.tensors, *columns.labels]:
        if column not in others.tensors and column not in others.labels:
            raise _differs(other, column, "isn't there", first, "has it")
    for column in [*others.tensors, *others.labels]:
        if column not in columns.tensors and column not in columns.labels:
            raise _differs(other, column, "is there", first, "doesn't have it")
    for column, kind in columns.labels.items():
        if others.labels.get(column) != kind:
            raise _differs(other, column, f"is {others.labels.get(column)}", first, f"has {kind}")
    for column, spec in columns.tensors.items():
        found = others.tensors[column]
        if column in columns.loose & others.loose and len(found.shape) == len(spec.shape):
            found = replace(found, shape=spec.shape)
        _check_same_tensor(first, spec, other, found, column)


def missing_column(source: Source, column: str, what: str, code: str) -> GoldenError:
    """The error for a column that isn't in a file: what there is, and what may have been meant."""
    names = list(source.fields)
    near = difflib.get_close_matches(column, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    have = ", ".join(names[:30]) + (", ..." if len(names) > 30 else "") if names else "none"
    return GoldenError(
        f"{source.path}: no {what} column {column!r}; the columns are: {have}{hint}", code
    )


def check_unique(source: Source) -> None:
    """Check that no two columns have one name.

    Raises:
        GoldenError: `golden.schema`.
    """
    if len(source.fields) == len(source.schema):
        return
    name, _ = Counter(source.schema.names).most_common(1)[0]
    raise GoldenError(
        f"{source.path}: column {name!r} occurs twice; give every column its own name",
        "golden.schema",
    )


def id_kind_of(source: Source, column: str) -> Kind:
    """Kind of the ids of a file.

    Raises:
        GoldenError: `golden.missing_column` or `golden.id_type`.
    """
    if column not in source.fields:
        raise missing_column(source, column, "id", "golden.missing_column")
    found = source.fields[column].type
    kind = _kind(found)
    if kind is None or pa.types.is_boolean(found):
        raise GoldenError(
            f"{source.path}: id column {column!r} is {found}; ids are int64 or string, so cast it "
            "or name another column as id",
            "golden.id_type",
        )
    return kind


def has_texts(source: Source, column: str) -> bool:
    """Whether a file has a column of this name that holds texts."""
    return column in source.fields and _kind(source.fields[column].type) == "string"


def _labels(source: Source, wanted: Selection) -> tuple[dict[str, Kind], str]:
    labels: dict[str, Kind] = {}
    named = [*([wanted.label_column] if wanted.label_column else []), *wanted.extra_labels]
    for column in dict.fromkeys(named):
        is_optional = _is_default_label(wanted, column)
        if is_optional and _is_every_column(source, wanted):
            continue
        if column not in source.fields:
            if is_optional:
                continue
            raise missing_column(source, column, "label", "golden.missing_column")
        found = source.fields[column].type
        kind = _kind(found)
        if kind is not None:
            labels[column] = kind
        elif is_optional:
            return labels, f"column 'label' is {found}; labels are ints or strings"
        else:
            raise GoldenError(
                f"{source.path}: label column {column!r} is {found}; labels are ints or strings, "
                "so cast it or name another column",
                "golden.label_type",
            )
    return labels, _idle_label(source, wanted)


def _idle_label(source: Source, wanted: Selection) -> str:
    """A note where the default label column is there and nobody asks for it."""
    if wanted.label_column is not None or _is_every_column(source, wanted):
        return ""
    taken = {*_named(wanted), *wanted.inputs.values(), *wanted.outputs.values()}
    is_idle = "label" in source.schema.names and "label" not in taken
    return "no decision uses the column 'label'" if is_idle else ""


def _check_slice(source: Source, column: str) -> None:
    if column not in source.fields:
        raise missing_column(source, column, "slice", "golden.missing_column")
    found = source.fields[column].type
    if _kind(found) is None and not pa.types.is_date(found):
        raise GoldenError(
            f"{source.path}: slice column {column!r} is {found}; slices are strings, ints, bools "
            "or dates, so cast it (bin a float) or leave it out of the slices",
            "golden.slice_type",
        )


def _kind(found: pa.DataType) -> Kind | None:
    """Kind of an id, label or slice value: ints that int64 holds, strings, dictionaries of both."""
    if isinstance(found, pa.DictionaryType):
        found = found.value_type
    if pa.types.is_integer(found) and found != pa.uint64():
        return "int64"
    if pa.types.is_boolean(found):
        return "int64"
    strings = (pa.string(), pa.large_string(), pa.string_view())
    return "string" if found in strings else None


def _prefixed(source: Source, prefix: str) -> dict[str, str]:
    return {
        name[len(prefix) :]: name
        for name in source.fields
        if name.startswith(prefix) and len(name) > len(prefix)
    }


def _is_default_label(wanted: Selection, column: str) -> bool:
    return column == "label" and column not in wanted.extra_labels


def _is_every_column(source: Source, wanted: Selection) -> bool:
    """Whether every column is an output that isn't something else."""
    return wanted.outputs_from == "all" and not _prefixed(source, wanted.outputs_prefix)


def _named(wanted: Selection) -> set[str]:
    """Columns that are spoken for whatever else the file holds."""
    named = {wanted.id_column, *wanted.slices, *wanted.extra_labels, *wanted.not_outputs}
    label = wanted.label_column
    return named if label is None or _is_default_label(wanted, label) else named | {label}


def _skipped(source: Source, wanted: Selection, used: set[str]) -> tuple[str, ...]:
    if wanted.outputs_from != "all":
        return ()
    named = _named(wanted) - set(wanted.not_outputs)
    return tuple(name for name in source.fields if name not in used | named)


def _outputs(source: Source, wanted: Selection, inputs: set[str]) -> dict[str, str]:
    outputs = _prefixed(source, wanted.outputs_prefix)
    if _is_every_column(source, wanted):
        taken = _named(wanted)
        outputs = {
            name: name
            for name in source.fields
            if name not in taken | inputs
            and not name.startswith((_INPUT, _RAW))
            and not PANDAS_INDEX.fullmatch(name)
            and name != EVIDENCE
        }
    return outputs | dict(wanted.outputs)


def _tensor(source: Source, column: str, prefix: str) -> ColumnSpec:
    side = "input" if prefix == _INPUT else "output"
    if column not in source.fields:
        raise missing_column(source, column, side, "golden.missing_column")
    found = source.fields[column]
    metadata = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (found.metadata or {}).items()
        if not key.startswith((b"ARROW:", b"PARQUET:"))
    }
    if is_variable_tensor(found.type) and _is_permuted(found):
        raise GoldenError(
            f"{source.path}: {side} column {column!r}: a tensor stored with a permutation; store "
            "it in row-major order",
            "golden.column_type",
        )
    try:
        layout = layout_of(plain_type(found.type), metadata.get("paritygate.dtype"))
        with reading(source.path):
            shape = fix_dims(layout, plain(source.head(column).slice(0, 1)))
    except UnsupportedTypeError as error:
        hint = "" if column.startswith(prefix) else "; or store the outputs as 'out.<name>'"
        raise GoldenError(
            f"{source.path}: {side} column {column!r}: {error}{hint}", "golden.column_type"
        ) from error
    except ValueFault as fault:
        raise GoldenError(
            f"{source.path}: {side} column {column!r}: {fault.found} in the first sample, which "
            "gives the shape; fill it or remove the sample",
            fault.code,
        ) from fault
    return ColumnSpec(column, layout.dtype, shape, metadata)


def _is_permuted(found: pa.Field[Any]) -> bool:
    """Whether `arrow.variable_shape_tensor` says that its elements lie in another order."""
    stated = (found.metadata or {}).get(b"ARROW:extension:metadata", b"").decode(errors="replace")
    said = _PERMUTATION.search(f"{stated} {found.type}")
    order = [int(axis) for axis in said[1].split(",")] if said else []
    return order != sorted(order)


def _check_same_tensor(
    first: Path, spec: ColumnSpec, other: Path, found: ColumnSpec, column: str
) -> None:
    if (found.dtype, found.shape) != (spec.dtype, spec.shape):
        raise _differs(other, column, f"is {_text(found)}", first, f"has {_text(spec)}")
    if dict(found.metadata) != dict(spec.metadata):
        raise _differs(
            other,
            column,
            f"has the field metadata {dict(found.metadata)}",
            first,
            f"has {dict(spec.metadata)}",
        )


def _text(spec: ColumnSpec) -> str:
    return str(spec).removeprefix(f"{spec.name}: ")


def _differs(other: Path, column: str, is_so: str, first: Path, has: str) -> GoldenError:
    return GoldenError(
        f"{other}: column {column!r} {is_so}, {first} {has}; all files of a pack have the same "
        "columns",
        "golden.schema",
    )


def used_columns(wanted: Selection, columns: PackColumns) -> Sequence[str]:
    """Names of all columns that will be read, each once."""
    named = [wanted.id_column, *columns.tensors, *columns.labels, *wanted.slices]
    return list(dict.fromkeys(named))
