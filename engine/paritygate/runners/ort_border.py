"""Answers that are no tensors, as named tensors: sequences, maps and optional values.

Item k of a sequence `s` is the tensor `s.k`. A sequence of maps, one a sample, as ZipMap gives, is
one tensor with a column a key, keys in ascending order: the same keys in every sample, or no
answer. An optional output is the tensor in it; one without a value is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from paritygate.core.dtypes import STRING, numpy_dtype
from paritygate.core.tensors import Array
from paritygate.runners.ort_types import BRIDGED, DTYPE_OF

Form = Literal["tensor", "sequence", "maps"]
Keys = tuple[int | str, ...]

_TENSOR = re.compile(r"tensor\((\w+)\)")
_SEQUENCE = re.compile(r"seq\(tensor\((\w+)\)\)")
_MAPS = re.compile(r"seq\(map\((?:string|int64),tensor\((\w+)\)\)\)")
_OPTIONAL = re.compile(r"optional\((.*)\)")


class BorderError(Exception):
    """An answer that can't be taken apart; the text goes on after the output's name."""


class OutputForm(Struct, frozen=True):
    """What an output is.

    Attributes:
        form: a tensor, a sequence of tensors, or one map a sample.
        dtype: of the elements.
        is_optional: whether it may have no value.
    """

    form: Form
    dtype: str
    is_optional: bool = False

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor in every answer, so that a buffer can be bound to it."""
        return self.form == "tensor" and not self.is_optional


def form_of(kind: str) -> OutputForm | None:
    """The form of an output by its type in ONNX Runtime's words; None: it can't be judged."""
    optional = _OPTIONAL.fullmatch(kind)
    kind = optional.group(1) if optional else kind
    for pattern, form in ((_TENSOR, "tensor"), (_SEQUENCE, "sequence"), (_MAPS, "maps")):
        found = pattern.fullmatch(kind)
        dtype = DTYPE_OF.get(found.group(1)) if found else None
        if dtype is None:
            continue
        made = OutputForm(form, dtype, optional is not None)  # type: ignore[arg-type]
        is_readable = made.is_tensor or dtype not in BRIDGED
        return made if is_readable and (form != "maps" or dtype != STRING) else None
    return None


def take_apart(name: str, value: Any, form: OutputForm) -> tuple[dict[str, Array], Keys | None]:
    """The named tensors of an answer, and the keys of maps in the order of their columns.

    Raises:
        BorderError: no value, or maps with other keys than the first sample's.
    """
    if value is None:
        raise BorderError(
            "has no value in this batch (it is optional); let the model always answer it"
        )
    if form.form == "sequence":
        return {f"{name}.{k}": np.asarray(item) for k, item in enumerate(value)}, None
    if form.form == "maps":
        table, keys = _table(value, form.dtype)
        return {name: table}, keys
    return {name: np.asarray(value)}, None


def _table(rows: list[Mapping[Any, Any]], dtype: str) -> tuple[Array, Keys]:
    if not rows:
        raise BorderError("is a sequence without maps, so that its classes are unknown")
    keys = tuple(sorted(rows[0]))
    table = np.empty((len(rows), len(keys)), numpy_dtype(dtype))
    for i, row in enumerate(rows):
        if len(row) != len(keys) or any(key not in row for key in keys):
            found, first = _told(tuple(sorted(row))), _told(keys)
            raise BorderError(
                f"has the keys {found} in row {i} of the batch, {first} in the first; one column "
                "a key needs the same keys in every sample"
            )
        table[i] = [row[key] for key in keys]
    return table, keys


def _told(keys: Keys) -> str:
    text = ", ".join(map(repr, keys[:8]))
    return text + (f", ... ({len(keys)})" if len(keys) > 8 else "")
