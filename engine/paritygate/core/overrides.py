"""`--set path=value`: change a plan before it is validated."""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paritygate.core.errors import PlanError, Problem
from paritygate.core.problems import did_you_mean


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Set `dotted.path=value` entries; a value is TOML, or else a plain string.

    A stage is addressed by its name or its position, a runner given as a path is made a table.

    Raises:
        PlanError: an entry that isn't `path=value`, or a path that can't be set.
    """
    known = _runners_of(data)
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
    problems += _in_vain(data, overrides, known)
    if problems:
        raise PlanError(problems, "--set")
    return data


def _in_vain(
    data: Mapping[str, Any], overrides: Sequence[str], known: Sequence[str]
) -> Iterator[Problem]:
    """Runners that were added and that no stage compares: misspelt, so nothing would change."""
    stages = data.get("stages")
    if not known or not isinstance(stages, list):
        return
    tables = [stage for stage in stages if isinstance(stage, dict)]
    compared = [stage.get(side) for stage in tables for side in ("reference", "candidate")]
    for path in dict.fromkeys(entry.partition("=")[0].strip() for entry in overrides):
        room, _, rest = path.partition(".")
        name = rest.partition(".")[0]
        if room == "runners" and name and name not in known and name not in compared:
            hint = did_you_mean(name, known)
            yield Problem(path, f"no stage compares a runner named {name!r}{hint}")


def _runners_of(data: Mapping[str, Any]) -> list[str]:
    runners = data.get("runners")
    return list(runners) if isinstance(runners, dict) else []


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
