"""A function of the user's maps an output to one decision a sample."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from msgspec import Struct

from paritygate.comparison.decide.base import CompareAs, Decided
from paritygate.comparison.decide.values import Keyed, code_sides, distinct, tell
from paritygate.core.dtypes import is_float, numpy_dtype, rounded
from paritygate.core.errors import RunnerLoadError
from paritygate.core.policy import DecisionRule
from paritygate.core.tensors import Array
from paritygate.runners.python_identity import digest_of_module
from paritygate.runners.python_import import ONE_AT_A_TIME, find_function, is_interrupt, tell_error
from paritygate.tally.decision import Kind

_KINDS: Mapping[type, str] = {bool: "bool", int: "int", str: "str"}


class DecisionError(Exception):
    """A decision that could not be made; the samples of its block fail."""


class Function(Struct, frozen=True):
    """A function that decides, and what is recorded of it."""

    name: str
    call: Callable[[Array], object]
    facts: Mapping[str, object]


def load_function(rule: DecisionRule, folder: Path) -> Function:
    """Look up a rule's function, in the plan's folder first.

    Raises:
        ValueError: there is none, or importing it raised.
    """
    where = f"decisions.{rule.name}.python"
    call = str(rule.python)
    try:
        found = find_function(rule.name, where, call, folder)
    except RunnerLoadError as e:
        raise ValueError(str(e).removeprefix(f"{where}: ")) from None
    facts = {"call": call, "source_sha256": digest_of_module(found.module)}
    return Function(call, found.function, facts)


class FunctionJudge:
    """Calls the function once a side with a block's output, and compares what it answers."""

    kind: ClassVar[Kind] = "python"

    def __init__(
        self, rule: DecisionRule, function: Function, ref_dtype: str, compare_as: CompareAs
    ) -> None:
        self._name = rule.name
        self._function = function
        self._ref_dtype = ref_dtype
        self._compare_as = compare_as

    def __call__(self, ref: Array, cand: Array, samples: int) -> Decided:
        """Decide both sides of a block.

        Raises:
            DecisionError: the function raised, or didn't answer one value a sample.
        """
        answers = [
            self._answer(side, values) for side, values in (("reference", ref), ("candidate", cand))
        ]
        kinds = [_kind(answer) for answer in answers]
        if kinds[0] != kinds[1]:
            raise DecisionError(
                f"{self._function.name} answers {kinds[0]} for the reference and {kinds[1]} for "
                "the candidate; answer values of one type"
            )
        ref_codes, cand_codes, keys, texts = code_sides(*(_keyed(a) for a in answers))
        margin = np.full(samples, np.nan)
        return Decided(ref_codes, cand_codes, margin, None, None, texts=texts, keys=keys)

    def truth_key(self, value: Any) -> Hashable | None:
        """The key of a label: the value itself."""
        return cast(Hashable, value)

    def knows_label(self, decided: Decided) -> Callable[[Hashable], bool]:
        """Whether a label can be compared with what was answered: texts with texts only."""
        is_text = any(isinstance(key, str) for key in decided.keys)
        return lambda key: key is not None and isinstance(key, str) == is_text

    def _answer(self, side: str, values: Array) -> list[Any]:
        try:
            with ONE_AT_A_TIME:
                answer = self._function.call(self._given(values))
                plain: Any = answer.tolist() if isinstance(answer, np.ndarray) else answer
        except BaseException as e:  # whatever a user's function raises
            if is_interrupt(e):
                raise
            raise DecisionError(f"{self._function.name}, {side}: {tell_error(e)}") from None
        problem = _unusable(plain, len(values))
        if problem:
            raise DecisionError(f"{self._function.name}, {side}: {problem}")
        return [_plain(value) for value in plain]

    def _given(self, values: Array) -> Array:
        """A read-only copy in the dtype to compare in."""
        given: Array = np.array(values, order="C", copy=True)
        if is_float(self._ref_dtype):
            dtype = "float64" if self._compare_as == "float64" else self._ref_dtype
            given = rounded(values, dtype).astype(numpy_dtype(dtype))
        given.flags.writeable = False
        return given


def _unusable(answer: Any, samples: int) -> str | None:
    if not isinstance(answer, list | tuple):
        return f"answered a {type(answer).__name__}; return one int, str or bool a sample"
    if len(answer) != samples:
        return f"answered {len(answer)} values for {samples} samples; return one a sample"
    for at, value in enumerate(answer):
        if type(_plain(value)) not in _KINDS:
            told = type(value).__name__
            return f"answered a {told} for sample {at} of the block; return int, str or bool"
    kinds = {_kind([value]) for value in answer}
    if len(kinds) > 1:
        return f"answered {' and '.join(sorted(kinds))} in one block; return values of one type"
    return None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _kind(answer: list[Any]) -> str:
    return _KINDS[type(_plain(answer[0]))] if answer else ""


def _keyed(answer: list[Any]) -> Keyed:
    values = np.empty(len(answer), np.object_)
    values[:] = answer
    return distinct(values, lambda value: cast(Hashable, value), tell)
