"""`replay = "raw"`: the plan's preprocessing written out as two runners and a stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from paritygate.core.errors import Problem
from paritygate.core.tables import PreprocessingTable

PREPARED, PREPROCESSING = "prepared", "preprocessing"
_EXACT = {"atol": 0.0, "rtol": 0.0, "nonfinite": "match"}


def expand_replay(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Problem]]:
    """The plan in its long form, and what is wrong with the short one.

    A plan that doesn't ask for a replay, or whose tables aren't valid by themselves, stays as it
    is.
    """
    if data.get("replay") != "raw":
        return data, []
    if "preprocessing" not in data:
        told = 'is "raw", but no [preprocessing] says how raw records are prepared'
        return data, [Problem("replay", told)]
    try:
        table = PreprocessingTable.model_validate(data["preprocessing"])
    except ValidationError:
        return data, []
    runners, stages = data.get("runners", {}), data.get("stages", [])
    if not isinstance(runners, Mapping) or not isinstance(stages, list):
        return data, []
    problems = [
        Problem(f"runners.{name}", 'is the name of a side that replay = "raw" adds; rename it')
        for name in (PREPARED, PREPROCESSING)
        if name in runners
    ]
    rest = {k: v for k, v in data.items() if k not in ("replay", "preprocessing")}
    added = {PREPARED: _prepared(), PREPROCESSING: _runner(table)}
    plan = {**rest, "runners": {**runners, **added}, "stages": [*stages, _stage(table)]}
    return plan, problems


def _prepared() -> dict[str, Any]:
    return {"kind": "recorded", "outputs_prefix": "in."}


def _runner(table: PreprocessingTable) -> dict[str, Any]:
    options = {
        "kind": "preprocessing",
        "call": table.python,
        "batch": table.batch,
        **({} if table.columns is None else {"columns": list(table.columns)}),
        "outputs": list(table.outputs),
        "thread_safe": table.thread_safe,
    }
    return options if table.batch_size is None else {**options, "batch_size": table.batch_size}


def _stage(table: PreprocessingTable) -> dict[str, Any]:
    return {
        "name": PREPROCESSING,
        "reference": PREPARED,
        "candidate": PREPROCESSING,
        "of": "inputs",
        "outputs": {
            name: tolerance.model_dump(exclude_none=True)
            for name, tolerance in table.inputs.items()
        },
        "default": _EXACT,
        "ignore": list(table.ignore),
    }
