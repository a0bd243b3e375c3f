"""`--set path=value`: change a plan before it is validated."""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Sequence
from typing import Any

from paritygate.core.errors import PlanError, Problem


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Set `dotted.path=value` entries; a value is TOML, or else a plain string.

    A stage is addressed by its name or its position, a runner given as a path is made a table.

    Raises:
        PlanError: an entry that isn't `path=value`, or a path that can't be set.
    """
    data = copy.deepcopy(data)
    problems = []
    for entry in overrides:
        path, sign, text = entry.partition("=")
        if not sign or not path.strip():
            problems.append(Problem(entry, "write it as path=value, runners.int8.model=new.onnx"))
            continue
        message = _set_path(data, path.strip().split("."), _toml_value(text.strip()))
        if message:
            problems.append(Problem(path, message))
    if problems:
        raise PlanError(problems, "--set")
    return data


def _toml_value(text: str) -> Any:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return text if isinstance(value, float) and not math.isfinite(value) else value


def _set_path(data: Any, parts: list[str], value: Any) -> str | None:
    """Set one value in place; returns what is wrong, or None."""
    parent: Any = None
    at: Any = data
    for depth, part in enumerate(parts[:-1]):
        parent, key = at, part
        if isinstance(at, list):
            index = _list_index(at, part)
            if index is None:
                return f"no entry {part!r} in {'.'.join(parts[:depth])}"
            at = at[index]
        else:
            at = at.setdefault(part, {})
        if isinstance(at, str) and depth == 1 and parts[0] == "runners":
            at = parent[key] = {"model": at}
        if not isinstance(at, dict | list):
            return f"{'.'.join(parts[: depth + 1])} is a value, not a table"
    if isinstance(at, list):
        index = _list_index(at, parts[-1])
        if index is None:
            return f"no entry {parts[-1]!r} in {'.'.join(parts[:-1])}"
        at[index] = value
    else:
        at[parts[-1]] = value
    return None


def _list_index(items: list[Any], part: str) -> int | None:
    if part.isdigit():
        return int(part) if int(part) < len(items) else None
    for i, item in enumerate(items):
        if isinstance(item, dict) and part in (
            item.get("name"),
            f"{item.get('reference')}-{item.get('candidate')}",
        ):
            return i
    return None
