"""The output's value is the decision itself: a class id, a text, a truth value."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from paritygate.comparison.decide.base import CompareAs, Decided, other_than, widens
from paritygate.comparison.decide.values import Keyed, code_sides, distinct, tell
from paritygate.core.policy import DecisionRule
from paritygate.core.tensors import Array, is_float
from paritygate.tally.decision import Kind

# From here on neighbouring integers share a float64.
EXACT_INTEGERS = 2**53
_WHERE = (" in ref_labels", " in cand_labels")


class EqualJudge:
    """Takes each value as it is, or by its name where the plan gives labels.

    A value without a name agrees with nothing where each side has labels of its own.
    """

    kind: ClassVar[Kind] = "equal"

    def __init__(
        self, rule: DecisionRule, ref_dtype: str, cand_dtype: str, compare_as: CompareAs, where: str
    ) -> None:
        _check_dtypes(rule, ref_dtype, cand_dtype, where)
        self._labels = rule.labels
        self._is_text = ref_dtype == "string"
        self._own = (
            (rule.ref_labels, rule.cand_labels)
            if rule.ref_labels is not None and rule.cand_labels is not None
            else None
        )
        self._compare_as = compare_as

    def __call__(self, ref: Array, cand: Array, samples: int) -> Decided:
        """Decide both sides of a block, each element a decision."""
        sides = ref.reshape(-1), cand.reshape(-1)
        ref_codes, cand_codes, keys, texts = self._codes(sides, self._compare_as)
        margin = np.full(samples, np.nan)
        depends = 0
        if any(widens(side) and _is_wide(side) for side in sides):
            others = self._codes(sides, other_than(self._compare_as))
            depends = int(np.count_nonzero((ref_codes != cand_codes) != (others[0] != others[1])))
        return Decided(ref_codes, cand_codes, margin, None, depends, texts=texts, keys=keys)

    def truth_key(self, value: Any) -> Hashable | None:
        """The key of a label: a text is a name, or the value itself; a number is a value."""
        names = self._labels or (self._own[0] if self._own else None)
        if isinstance(value, str) and names is not None:
            value = names.index(value) if value in names else None
        if isinstance(value, str) != self._is_text:
            return None
        if value is None or self._own is None:
            return cast(Hashable, value)
        return self._own[0][value] if 0 <= value < len(self._own[0]) else None

    def knows_label(self, decided: Decided) -> Callable[[Hashable], bool]:
        """Whether there is a label; `truth_key` has told which it can be compared with."""
        del decided
        return lambda key: key is not None

    def _codes(self, sides: tuple[Array, Array], compare_as: CompareAs) -> Any:
        return code_sides(*(self._keyed(side, at, compare_as) for at, side in enumerate(sides)))

    def _keyed(self, values: Array, side: int, compare_as: CompareAs) -> Keyed:
        names = self._own[side] if self._own is not None else self._labels

        def key(value: Any) -> Hashable:
            if self._own is not None:
                return names[value] if names and 0 <= value < len(names) else (side, value)
            wide = compare_as == "float64" and type(value) is int
            return float(value) if wide else value

        def text(value: Any) -> str:
            if names is None:
                return tell(value)
            if 0 <= value < len(names):
                return str(names[value])
            return f"{value} (no name{_WHERE[side] if self._own is not None else ''})"

        return distinct(values, key, text)


def _check_dtypes(rule: DecisionRule, ref: str, cand: str, where: str) -> None:
    if is_float(ref) or is_float(cand):
        raise ValueError(
            f"{where}: equal is for class ids, texts and truth values, but the output is {ref}; a "
            "float is decided by bands, or compared within its tolerance"
        )
    has_labels = rule.labels is not None or rule.ref_labels is not None
    if has_labels and not all("int" in dtype for dtype in (ref, cand)):
        raise ValueError(f"{where}: labels name class ids, but the output is {ref}; remove labels")
    if ("int" in ref or ref == "bool") != ("int" in cand or cand == "bool"):
        raise ValueError(
            f"{where}: the reference is {ref} and the candidate {cand}, which have no value in "
            "common; make both of one kind"
        )


def _is_wide(values: npt.NDArray[Any]) -> bool:
    return values.size > 0 and bool(
        int(values.max()) > EXACT_INTEGERS or int(values.min()) < -EXACT_INTEGERS
    )
