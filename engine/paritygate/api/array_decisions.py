"""Decisions on two arrays, for `assert_parity`: which samples changed, and how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from paritygate.core.decisions import make_rule
from paritygate.core.dtypes import dtype_name
from paritygate.core.errors import Problem
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tables import DecisionTable
from paritygate.core.tensors import Array

SHOWN = 5
ONLY = "array"


def read_decisions(tables: Mapping[str, Mapping[str, Any]]) -> list[DecisionRule]:
    """Rules of tables as in a plan; without an output they are about the only array.

    Raises:
        ValueError: with everything that is wrong.
    """
    problems: list[Problem] = []
    rules = []
    for name, given in tables.items():
        try:
            table = DecisionTable.model_validate({"output": ONLY, **dict(given)})
        except (ValidationError, TypeError, ValueError) as e:
            problems += _problems(name, e)
            continue
        rules.append(make_rule(name, table, Path.cwd(), problems))
    if problems:
        raise ValueError("; ".join(map(str, problems)))
    return rules


def _problems(name: str, error: Exception) -> list[Problem]:
    from paritygate.core.problems import describe_error, join_path

    where = f"decisions.{name}"
    if not isinstance(error, ValidationError):
        return [Problem(where, "is a table of keys, as in a plan")]
    return [
        describe_error(join_path((where, *e["loc"])), e, DecisionTable.model_fields)
        for e in error.errors()
    ]


def describe_flips(ref: Array, cand: Array, tolerance: Tolerance, rule: DecisionRule) -> str | None:
    """What changed, or None.

    Args:
        ref: `(batch, ...)`; the first axis is the samples.
        cand: the same for the candidate.
        tolerance: says whether a decision that is undefined on both sides agrees.
        rule: exactly one kind of rule.

    Raises:
        ValueError: the rule can't be applied to such an array.
    """
    from paritygate.comparison.decide.function import DecisionError, load_function
    from paritygate.comparison.decisions import DecisionComparer

    if ref.ndim == 0:
        raise ValueError(f"decision {rule.name!r}: a scalar has no samples; give (batch, ...)")
    function = load_function(rule, Path.cwd()) if rule.python is not None else None
    names = dtype_name(ref.dtype), dtype_name(cand.dtype)
    comparer = DecisionComparer(rule, tolerance, *names, ref.shape[1:], "full", function)
    try:
        tally, detail = comparer.compare(ref, cand, np.arange(len(ref)))
    except DecisionError as e:
        return f"decision {rule.name!r} could not be made: {e}"
    if not tally.flips and tally.is_never_defined:
        return f"decision {rule.name!r} is undefined on both sides for all {tally.samples} samples"
    if not tally.flips:
        return None
    places = ""
    if tally.is_positioned:
        places = f" in {tally.position_flips} of {tally.positions} places"
    lines = [f"decision {rule.name!r}: {tally.flips} of {tally.samples} samples changed{places}"]
    for at in np.flatnonzero(detail.flipped)[:SHOWN].tolist():
        before, after = detail.tell(at)
        margin = detail.margin[at]
        by = "" if np.isnan(margin) else f", margin {margin:.6g} on the reference side"
        lines.append(f"  sample {at}: {before} -> {after}{by}")
    return "\n".join(lines)
