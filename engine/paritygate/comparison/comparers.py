"""Which comparer judges an output: by errors where its values have any, else by equality."""

from __future__ import annotations

from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.texts import TextComparer
from paritygate.core.dtypes import is_string
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Stats

OutputComparer = ElementComparer | TextComparer


def make_comparer(
    tolerance: Tolerance, ref: str, cand: str, shape: tuple[int, ...], stats: Stats
) -> OutputComparer:
    """The comparer for an output of these dtypes, whose samples have this shape.

    Raises:
        ValueError: a tolerance out of its range, or a pair of dtypes that can't be compared.
    """
    kind = TextComparer if is_string(ref) else ElementComparer
    return kind(tolerance, ref, cand, shape, stats)
