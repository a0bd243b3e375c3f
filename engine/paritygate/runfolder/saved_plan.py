"""`plan.toml` of a run folder: the plan as run, valid by itself wherever the folder is moved to."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paritygate.core.errors import GoldenError
from paritygate.core.plan import Plan
from paritygate.core.text import clean
from paritygate.golden.files import find_files

PLAN_FILE = "plan.toml"


def saved_plan(plan: Plan, golden: Sequence[Path]) -> bytes:
    """The canonical plan as TOML: every default written out, every path absolute.

    Args:
        plan: the plan that ran.
        golden: the golden files that it was run on, in the order of their samples.
    """
    import tomli_w

    data = plan.canonical()
    data["golden"] = [str(path.absolute()) for path in golden]
    if plan.calibration:
        files = find_files(plan.calibration, plan.folder)
        data["calibration"] = [str(path.absolute()) for path in files]
    data["runners"] = {
        name: _absolute(table, plan.folder) for name, table in data["runners"].items()
    }
    for name, constant in plan.table.constants.items():
        data["constants"][name]["value"] = constant.value  # an infinity as a number, not as text
    rules = {rule.name: rule for rule in plan.decisions}
    for name, table in data["decisions"].items():
        for key in [key for key, value in table.items() if _names_labels(key, value)]:
            found = getattr(rules[name], key, None)
            table[key] = list(found) if found else str((plan.folder / table[key]).absolute())
    folder = clean(plan.folder.absolute())
    head = (
        "# The plan as it was run: every default written out, paths absolute.\n"
        f"# Functions (module:function) were looked up in {folder} first.\n\n"
    )
    return (head + tomli_w.dumps(_without_none(data))).encode()


def _names_labels(key: str, value: object) -> bool:
    return (key == "labels" or key.endswith("_labels")) and isinstance(value, str)


def _absolute(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A runner's table with its files as absolute paths; those of a pattern one by one."""
    moved = dict(table)
    for key in ("model", "weights"):
        if isinstance(moved.get(key), str):
            moved[key] = str((folder / moved[key]).absolute())
    if moved.get("custom_op_libraries"):
        moved["custom_op_libraries"] = [
            {**library, "path": str((folder / library["path"]).absolute())}
            for library in moved["custom_op_libraries"]
        ]
    isolate = moved.get("isolate")
    if isinstance(isolate, Mapping) and "/" in isolate.get("interpreter", ""):
        moved["isolate"] = {**isolate, "interpreter": _python(isolate["interpreter"], folder)}
    if moved.get("path") is not None:
        paths = [moved["path"]] if isinstance(moved["path"], str) else moved["path"]
        try:
            moved["path"] = [str(path.absolute()) for path in find_files(paths, folder)]
        except GoldenError:  # it didn't load: what was asked for
            moved["path"] = [str(_anchored(path, folder.absolute())) for path in paths]
    return moved


def _python(path: str, folder: Path) -> str:
    return str((folder / Path(path).expanduser()).absolute())


def _anchored(pattern: str, folder: Path) -> Path:
    return (Path(glob.escape(str(folder))) if glob.has_magic(pattern) else folder) / pattern


def _without_none(value: Any) -> Any:
    """TOML has no null: what is None isn't there."""
    if isinstance(value, Mapping):
        return {str(k): _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_none(v) for v in value if v is not None]
    return value
