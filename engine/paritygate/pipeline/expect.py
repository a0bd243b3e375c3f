"""Samples that the pack expects to be rejected: the must-fail half of a contract's evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from paritygate.core.errors import GoldenError
from paritygate.core.plan import Plan
from paritygate.core.violation import NOT_REJECTED
from paritygate.golden.pack import GoldenPack
from paritygate.golden.values import NULL
from paritygate.pipeline.reject import Rejected

if TYPE_CHECKING:
    from paritygate.comparison.rows import Ids

EXPECT = "expect"
_REJECT = "reject"
_KNOWN = (_REJECT, "run", "", NULL)  # CSV knows no null


def expect_column(plan: Plan, pack: GoldenPack) -> str | None:
    """The column that says which samples must be rejected; None where there is none.

    Raises:
        GoldenError: `golden.value`, a value that says something else.
    """
    column = plan.table.expect or EXPECT
    is_slice = plan.table.expect is None and column in plan.slices
    if column not in pack.slices or is_slice:
        return None
    check_words(pack, column)
    return column


def check_words(pack: GoldenPack, column: str) -> None:
    """See that a column says nothing but what can be expected.

    Raises:
        GoldenError: `golden.value`, a value that says something else.
    """
    values = pack.scan_ids(allow_duplicates=True).slice_values.get(column, ())
    wrong = [value for value in values if value not in _KNOWN]
    if wrong:
        raise GoldenError(
            f"{pack.files[0].path}: column {column!r} says {wrong[0]!r}; a sample is expected to "
            "'reject' or to 'run' (null is 'run'), so mend the value, or name another column as "
            "expect in the plan",
            "golden.value",
        )


def must_reject(
    pack: GoldenPack,
    column: str,
    start: int,
    stop: int,
    offsets: npt.NDArray[np.uint16] | None = None,
) -> npt.NDArray[np.bool_]:
    """`(n,)` which samples of `[start, stop)` must be rejected; of those at `offsets` alone."""
    coded = pack.slice_values(column, start, stop)
    wanted = np.array([value == _REJECT for value in coded.values], np.bool_)
    codes = coded.codes if offsets is None else coded.codes[offsets]
    must: npt.NDArray[np.bool_] = wanted[codes]
    return must


def hold_to_expected(
    rejected: Sequence[Rejected],
    must: npt.NDArray[np.bool_],
    ordinals: npt.NDArray[np.int64],
    ids: Ids,
) -> list[Rejected]:
    """Rejected samples with what was expected of them, and those that were to be rejected."""
    return sorted(_held(rejected, must, ordinals, ids), key=lambda r: r.ordinal)


def _held(
    rejected: Sequence[Rejected],
    must: npt.NDArray[np.bool_],
    ordinals: npt.NDArray[np.int64],
    ids: Ids,
) -> Iterator[Rejected]:
    expected = set(ordinals[must].tolist())
    for one in rejected:
        yield replace(one, outcome="as_expected") if one.ordinal in expected else one
    broke = {one.ordinal for one in rejected}
    for at in np.flatnonzero(must).tolist():
        if int(ordinals[at]) not in broke:
            sample_id = ids[at : at + 1].tolist()[0]
            yield Rejected(int(ordinals[at]), sample_id, NOT_REJECTED, "not_rejected")
