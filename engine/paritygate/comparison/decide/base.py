"""What the kinds of decisions share: the answer's form, `compare_as`, views for the kernels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from paritygate.core.dtypes import DTYPES, float_format, is_float, is_string, rounded, worked_in
from paritygate.core.policy import DecisionRule
from paritygate.core.tensors import Array
from paritygate.tally.records import EdgeSides

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
CompareAs = Literal["output", "float64"]


class Decided(Struct, frozen=True):
    """What a kind found out about a block: counts, and one row a decision.

    Attributes:
        ref, cand: `(rows,)` codes, or `(rows, k)` of top-k; -1 where undefined.
        margin: `(rows,)` of the reference.
        at_risk, depends: counts; None where they can't be told.
        texts, keys: of free values, the text of each code and the code of each value; else empty.
    """

    ref: Codes
    cand: Codes
    margin: Floats
    at_risk: int | None
    depends: int | None
    tied_ref: int = 0
    tied_cand: int = 0
    edges: tuple[EdgeSides, ...] = ()
    texts: tuple[str, ...] = ()
    keys: Mapping[Hashable, int] = field(default_factory=dict)


def choose_compare_as(rule: DecisionRule, ref_dtype: str, cand_dtype: str, where: str) -> CompareAs:
    """The dtype that a rule compares in.

    Raises:
        ValueError: dtypes that can't be judged, or that differ while the rule says nothing.
    """
    takes_texts = rule.equal or rule.python is not None
    for dtype in (ref_dtype, cand_dtype):
        if dtype not in DTYPES:
            raise ValueError(f"{where}: dtype {dtype} can't be judged; known are {list(DTYPES)}")
        if is_string(dtype) and not takes_texts:
            raise ValueError(
                f"{where}: texts have no order, so no bands and no maximum; say equal = true, or "
                "give a function (python)"
            )
    if is_float(ref_dtype) != is_float(cand_dtype):
        raise ValueError(
            f"{where}: the reference is {ref_dtype} and the candidate {cand_dtype}; floats and "
            "integers share no scale, so compare outputs of one kind"
        )
    if rule.compare_as is None and ref_dtype != cand_dtype:
        raise ValueError(
            f"{where}: the reference is {ref_dtype} and the candidate {cand_dtype}; say "
            'compare_as = "output" (both in the reference\'s dtype) or compare_as = "float64"'
        )
    return rule.compare_as or "output"


def only_on_cpu(rule: DecisionRule) -> str:
    """What of a rule no GPU decides; empty where one does."""
    if rule.equal:
        return "equal"
    if rule.python is not None:
        return "functions"
    return f"scores after {rule.transform}" if rule.transform else ""


def other_than(compare_as: CompareAs) -> CompareAs:
    """The `compare_as` that was not chosen."""
    return "float64" if compare_as == "output" else "output"


def narrows(values: Array, ref_dtype: str) -> bool:
    """Whether `narrowed` may round these values, which are of a dtype that kernels know."""
    if not is_float(ref_dtype) or values.dtype.kind != "f":
        return False
    return not float_format(ref_dtype).holds(float_format(values.dtype.name))


def narrowed(values: Array, ref_dtype: str) -> Array:
    """Values rounded once to the dtype of the reference; a view as `flat` makes it."""
    if not narrows(values, ref_dtype):
        return values
    with np.errstate(invalid="ignore"):  # a NaN with the payload of a signalling one
        return flat(rounded(values, ref_dtype).astype(worked_in(ref_dtype)))


def ranked_as(compare_as: CompareAs, values: Array, ref_dtype: str) -> Array:
    """Values as they are put in order: in the reference's dtype, or as float64."""
    if compare_as == "output":
        return narrowed(values, ref_dtype)
    return flat(values.astype(np.float64)) if widens(values) else values


def order_depends(values: Array, ref_dtype: str) -> bool:
    """Whether the other `compare_as` may put these values in another order."""
    return narrows(values, ref_dtype) or widens(values)


def widens(values: Array) -> bool:
    """Whether float64 may hold other numbers than these integers."""
    return values.dtype.kind in "iu" and values.dtype.itemsize == 8


def flat(values: Array) -> Array:
    """A read-only 1-D view in native byte order, bools as uint8; copied only where it must be."""
    view = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("=")).reshape(-1)
    view = view.view(np.uint8 if view.dtype == np.bool_ else view.dtype)
    view.flags.writeable = False
    return view


def count(flags: Flags) -> int:
    """How many are set."""
    return int(np.count_nonzero(flags))


def differing(ours: tuple[Codes, Codes], theirs: tuple[Codes, Codes]) -> int:
    """Rows that either side decides otherwise."""
    differs = (ours[0] != theirs[0]) | (ours[1] != theirs[1])
    return count(differs if differs.ndim == 1 else differs.any(axis=1))
