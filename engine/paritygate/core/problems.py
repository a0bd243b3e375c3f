"""Validation errors as problems in the words of a plan, all at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from paritygate.core.errors import Problem

_WORDS = {
    "string_type": "is a text",
    "float_type": "is a number",
    "int_type": "is a whole number",
    "bool_type": "is true or false",
    "list_type": "is a list",
    "tuple_type": "is a list",
    "dict_type": "is a table",
    "model_type": "is a table",
    "model_attributes_type": "is a table",
    "too_short": "is empty; give at least one",
}
# How a table is written that newcomers give as a value, by the name of its model.
_FORMS = {
    "BatchDim": "batch = { sizes = [1, 32] }",
    "DimRange": "seq = { min = 1, max = 512 }",
    "ConstantTable": 'sr = { dtype = "int64", value = 16000 }',
    "ToleranceTable": "score = { atol = 1e-3, rtol = 1e-3 }",
    "BudgetTable": "score = { atol = 1e-6, rtol = 0.0 }",
}
_FOUND = {dict: "a table", list: "a list", type(None): "nothing"}


def join_path(parts: Sequence[str | int]) -> str:
    """The dotted path of a field: `stages[0].outputs.score`."""
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts)
    return path.removeprefix(".")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: the closest known one, or all of a few."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.7)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}" if 0 < len(names) <= 24 else ""


def describe_error(path: str, error: Any, known: Iterable[str], of: str = "") -> Problem:
    """One error of pydantic as a problem.

    Args:
        path: of the field, as the user writes it.
        error: from `ValidationError.errors()`.
        known: keys of the table that the field is in.
        of: what an unknown key would have to belong to, such as ` of a runner of kind 'null'`.
    """
    kind = error["type"]
    if kind == "extra_forbidden":
        return Problem(path, f"isn't a known key{of}{did_you_mean(str(error['loc'][-1]), known)}")
    if kind == "missing":
        return Problem(path, "is missing")
    message = _WORDS.get(kind)
    if message is None:
        message = re.sub("^(Value error, |Input )", "", error["msg"])
        message = message if kind == "value_error" else message[:1].lower() + message[1:]
    found = error.get("input")
    told = repr(found) if isinstance(found, str | int | float | bool) else _FOUND.get(type(found))
    message = f"{message} (found {told})" if told and told not in message else message
    form = _FORMS.get(str((error.get("ctx") or {}).get("class_name")))
    return Problem(path, message if form is None else f"{message}; write it as in {form}")


def merge_by_path(problems: Sequence[Problem]) -> list[Problem]:
    """One problem a path: of several alternatives that don't fit, all are told in one line."""
    by_path: dict[str, list[str]] = {}
    for problem in problems:
        by_path.setdefault(problem.path, []).append(problem.message)
    return [
        Problem(path, " or ".join(dict.fromkeys(messages))) for path, messages in by_path.items()
    ]
