"""Plans from files, from dicts and from a pair of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paritygate.core.errors import PlanError, Problem
from paritygate.core.overrides import apply_overrides
from paritygate.core.plan import Plan, parse_plan, read_plan
from paritygate.runners.registry import parse_runner

PathLike = str | Path
MAX_DEPTH = 100


def load_plan(
    plan: PathLike | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    folder: PathLike | None = None,
) -> Plan:
    """Read and validate a plan.

    Args:
        plan: a TOML file, or the plan as a dict.
        overrides: `path=value` entries, as with `--set`.
        folder: what relative paths refer to; the file's folder, or the current one for a dict.

    Raises:
        PlanError: with every problem found.
    """
    source = "plan" if isinstance(plan, Mapping) else str(plan)
    try:
        return _load(plan, overrides, folder)
    except RecursionError:
        problem = Problem("", f"is nested too deeply; a plan has at most {MAX_DEPTH} levels")
        raise PlanError([problem], source) from None


def _load(
    plan: PathLike | Mapping[str, Any], overrides: Sequence[str], folder: PathLike | None
) -> Plan:
    if isinstance(plan, Mapping):
        data, source, name = dict(plan), "plan", "plan"
        base = Path(folder or "").absolute()
    else:
        path = Path(plan)
        data, source, name = read_plan(path), str(path), path.stem
        base = Path(folder).absolute() if folder is not None else path.resolve().parent
    if overrides:
        data = apply_overrides(data, overrides)
    _check_depth(data)
    return parse_plan(data, base, source, name, parse_runner)


def _check_depth(data: Mapping[str, Any]) -> None:
    level: list[Any] = [data]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, Mapping) else outer)
            if isinstance(inner, Mapping | list)
        ]
    if level:
        raise RecursionError


def plan_from_models(
    ref: Any,
    cand: Any,
    golden: PathLike | Sequence[PathLike],
    *,
    atol: float | None = None,
    rtol: float | None = None,
    nonfinite: str = "fail",
    tolerances: Mapping[str, Mapping[str, Any]] | None = None,
    bands: Sequence[str] = (),
    argmax: Sequence[str] = (),
    topk: Sequence[str] = (),
    equal: Sequence[str] = (),
    name: str | None = None,
    batch_size: int | None = None,
    id: str = "sample_id",
) -> dict[str, Any]:
    """Write the plan for a pair of runners, as a dict that can be saved with `toml_text`.

    Args:
        ref: a model path, `module:function` or a runner table.
        cand: the same for the candidate.
        golden: golden files or globs.
        atol: for float outputs that `tolerances` doesn't name; others are exact.
        rtol: given together with `atol`.
        nonfinite: "fail" or "match", for outputs that `tolerances` doesn't name.
        tolerances: output -> `{atol, rtol, ...}` as in a plan.
        bands: rules `"OUTPUT: accept < 0.2 <= review"`; each makes a decision.
        argmax: outputs whose class is the index of the row's maximum.
        topk: rules `"OUTPUT:K"`, the set of the K classes with the largest values of a row.
        equal: outputs whose value is the decision itself.
        name: the plan's name.
        batch_size: the only approved batch size.
        id: id column of the pack.

    Raises:
        PlanError: atol without rtol, or a band rule without an output.
    """
    files = [golden] if isinstance(golden, str | Path) else list(golden)
    stage: dict[str, Any] = {
        "name": "comparison",
        "reference": "reference",
        "candidate": "candidate",
        "default": _default(atol, rtol, nonfinite),
    }
    if tolerances:
        stage["outputs"] = as_tables(tolerances)
    plan: dict[str, Any] = {"name": name or "comparison", "golden": [str(f) for f in files]}
    if id != "sample_id":
        plan["id"] = id
    if batch_size is not None:
        plan["dims"] = {"batch": {"sizes": [batch_size]}}
    plan["runners"] = {"reference": _runner(ref), "candidate": _runner(cand)}
    plan["stages"] = [stage]
    decisions = decision_tables(bands, argmax, topk, equal)
    if decisions:
        plan["decisions"] = decisions
    return plan


def decision_tables(
    bands: Sequence[str],
    argmax: Sequence[str],
    topk: Sequence[str] = (),
    equal: Sequence[str] = (),
) -> dict[str, dict[str, Any]]:
    """Decision tables from short rules, named after the output: see `plan_from_models`.

    Raises:
        PlanError: a rule that isn't written so, or two rules for one output.
    """
    tables: dict[str, dict[str, Any]] = {}
    problems = []
    for text in [bands] if isinstance(bands, str) else bands:
        output, colon, rule = text.partition(":")
        if not colon or not output.strip() or not rule.strip():
            message = f"write it as 'OUTPUT: accept < 0.2 <= review' (found {text!r})"
            problems.append(Problem("bands", message))
            continue
        _add(tables, output.strip(), {"output": output.strip(), "bands": rule.strip()}, problems)
    for output in [argmax] if isinstance(argmax, str) else argmax:
        _add(tables, output, {"output": output, "argmax": True}, problems)
    for text in [topk] if isinstance(topk, str) else topk:
        output, colon, places = text.rpartition(":")
        if not colon or not output.strip() or not places.strip().isdecimal():
            problems.append(Problem("topk", f"write it as 'OUTPUT:5' (found {text!r})"))
            continue
        table = {"output": output.strip(), "topk": int(places)}
        _add(tables, output.strip(), table, problems)
    for output in [equal] if isinstance(equal, str) else equal:
        _add(tables, output, {"output": output, "equal": True}, problems)
    if problems:
        raise PlanError(problems, "decisions")
    return tables


def as_tables(given: Mapping[str, Any]) -> dict[str, Any]:
    """Tables as plain dicts; what isn't a table stays as it is, for the plan's check to name."""
    return {k: dict(v) if isinstance(v, Mapping) else v for k, v in given.items()}


def _add(
    tables: dict[str, dict[str, Any]],
    name: str,
    table: dict[str, Any],
    problems: list[Problem],
) -> None:
    if name in tables:
        problems.append(Problem(name, "has two decision rules; use a plan to name each"))
    tables[name] = table


def _default(atol: float | None, rtol: float | None, nonfinite: str) -> dict[str, Any]:
    if (atol is None) != (rtol is None):
        given, missing = ("atol", "rtol") if rtol is None else ("rtol", "atol")
        problem = Problem(missing, f"{given} is given without {missing}; give both (0 is a value)")
        raise PlanError([problem], "tolerance")
    return {"atol": atol or 0.0, "rtol": rtol or 0.0, "nonfinite": nonfinite}


def _runner(given: Any) -> Any:
    return str(given) if isinstance(given, Path) else given


def toml_text(data: Mapping[str, Any]) -> str:
    """A plan dict as TOML."""
    import tomli_w

    return tomli_w.dumps(dict(data))
