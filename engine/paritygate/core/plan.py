"""The plan: what is run, on what, and what is tolerated.

A plan is TOML, read by the standard library and validated with pydantic. All problems are reported
at once, each with its path and the value found. The canonical plan has every default written out;
its digest identifies the policy.
"""

from __future__ import annotations

import hashlib
import json
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from paritygate.core.coverage import coverage_problems
from paritygate.core.decisions import make_rule
from paritygate.core.errors import PlanError, Problem
from paritygate.core.forms import NAME
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.preprocessing import expand_replay
from paritygate.core.problems import did_you_mean
from paritygate.core.shapes import dim_problems
from paritygate.core.tables import BatchDim, PlanTable, describe_problems

ParseRunner = Callable[[str, object, Path], tuple[Any, list[Problem]]]


class Stage(Struct, frozen=True):
    """One comparison: reference, candidate, tolerances, budgets.

    Attributes:
        tolerances: output name -> tolerance.
        default: for float outputs that aren't named (others are then exact); None: such an output
            is `output.undeclared`.
        ignore: outputs that are deliberately not judged; listed with the verdict.
        flips: decision name -> allowed flips.
        is_self: the two sides may be the same thing.
        of_inputs: what is compared are prepared inputs, which no decision is made of.
        unstated: outputs whose entry gives no atol and rtol, which a float output needs.
    """

    name: str
    reference: str
    candidate: str
    tolerances: Mapping[str, Tolerance]
    default: Tolerance | None
    ignore: tuple[str, ...]
    flips: Mapping[str, int]
    is_self: bool
    of_inputs: bool = False
    unstated: frozenset[str] = frozenset()

    def tolerance(self, output: str, *, is_float: bool) -> Tolerance | None:
        """How an output is judged; None: the stage doesn't say."""
        if output in self.tolerances or self.default is None:
            return self.tolerances.get(output)
        return self.default if is_float else Tolerance(nonfinite=self.default.nonfinite)

    def judges(self, output: str) -> bool:
        """Whether an output of this name is compared, if both sides have it."""
        named = output in self.tolerances or self.default is not None
        return named and output not in self.ignore

    def decides(self, output: str) -> bool:
        """Whether decisions and `[outputs]` of this name are about what is compared here."""
        return not self.of_inputs and self.judges(output)


class Plan(Struct, frozen=True):
    """A validated plan.

    Attributes:
        name: names the run folder.
        folder: what relative paths refer to.
        source: where it was read from, for messages.
        table: the plan as validated.
        runners: name -> runner specification.
        stages: in plan order.
        decisions: in plan order.
    """

    name: str
    folder: Path
    source: str
    table: PlanTable
    runners: Mapping[str, Any]
    stages: tuple[Stage, ...]
    decisions: tuple[DecisionRule, ...]
    slices: tuple[str, ...] = field(default=())

    @property
    def golden(self) -> list[str]:
        """Golden patterns, as written."""
        golden = self.table.golden
        return [golden] if isinstance(golden, str) else list(golden)

    @property
    def calibration(self) -> list[str]:
        """Patterns of the calibration pack, as written; none where no pack is named."""
        named = self.table.calibration or []
        return [named] if isinstance(named, str) else list(named)

    def canonical(self) -> dict[str, Any]:
        """The plan in its long form with every default written out; TOML types only."""
        data = self.table.model_dump(mode="json", by_alias=True, exclude_none=True)
        data["name"] = self.name
        data["golden"] = self.golden
        data["runners"] = {name: spec.to_plan() for name, spec in sorted(self.runners.items())}
        for table, stage in zip(data["stages"], self.stages, strict=True):
            table["name"] = stage.name
        return data

    def digest(self) -> str:
        """SHA-256 of the canonical plan, hex."""
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def read_plan(path: Path) -> dict[str, Any]:
    """Read a TOML plan into a dict.

    Raises:
        PlanError: the file can't be read or isn't TOML.
    """
    try:
        return _read_toml(path)
    except FileNotFoundError:
        problem = "no such file; name a plan (TOML)"
    except OSError as e:
        problem = f"can't be read: {e.strerror or e}"
    except UnicodeDecodeError as e:
        problem = f"is no plan (TOML): it isn't UTF-8 text at byte {e.start}"
    except tomllib.TOMLDecodeError as e:
        problem = f"isn't valid TOML: {e}"
    except ValueError:  # what int() makes of more digits than it reads
        problem = "isn't a plan: a number in it has too many digits"
    raise PlanError([Problem("", problem)], str(path))


def _read_toml(path: Path) -> dict[str, Any]:
    """Read a regular file: a pipe may never end, and a device has no end."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError("it isn't a regular file; name a plan (TOML)")
    return tomllib.loads(path.read_text(encoding="utf-8-sig"))


def parse_plan(
    data: Mapping[str, Any], folder: Path, source: str, name: str, parse_runner: ParseRunner
) -> Plan:
    """Validate a plan, reporting all problems at once.

    Args:
        data: the plan as read from TOML.
        folder: what its relative paths refer to.
        source: named in messages.
        name: the plan's name where it doesn't give one.
        parse_runner: validates one runner table by its kind.

    Raises:
        PlanError: with every problem found.
    """
    data, problems = expand_replay(data)
    table: PlanTable | None = None
    try:
        table = PlanTable.model_validate(data)
    except ValidationError as e:
        problems += describe_problems(e)
    specs, runner_problems = _parse_runners(data, folder, parse_runner)
    problems += runner_problems
    problems += _cross_check(data, specs)
    if table is None or problems:
        raise PlanError(problems, source)
    specs, stages, decisions = _finish(table, specs, folder, problems)
    if problems:
        raise PlanError(problems, source)
    return Plan(
        name=table.name or name,
        folder=folder,
        source=source,
        table=table,
        runners=specs,
        stages=stages,
        decisions=decisions,
        slices=tuple(table.slices),
    )


def _parse_runners(
    data: Mapping[str, Any], folder: Path, parse_runner: ParseRunner
) -> tuple[dict[str, Any], list[Problem]]:
    tables = data.get("runners")
    if not isinstance(tables, Mapping):
        return {}, []
    if not tables:
        return {}, [Problem("runners", "is empty; name at least a reference and a candidate")]
    specs, problems = {}, []
    for name, table in tables.items():
        spec, found = parse_runner(name, table, folder)
        problems += found
        if spec is not None:
            specs[name] = spec
    return specs, problems


def _cross_check(data: Mapping[str, Any], specs: Mapping[str, Any]) -> list[Problem]:
    """Names that must refer to something that the plan defines."""
    runners, decisions = data.get("runners"), data.get("decisions", {})
    stages = data.get("stages")
    if not isinstance(runners, Mapping) or not isinstance(stages, list):
        return []
    budgets = data.get("batch_coupling")
    problems = [
        Problem(
            f"batch_coupling.{name}", f"no runner is named {name!r}{did_you_mean(name, runners)}"
        )
        for name in (budgets if isinstance(budgets, Mapping) else ())
        if name not in runners
    ]
    target = data.get("target")
    named = target.get("runners") if isinstance(target, Mapping) else None
    problems += [
        Problem(f"target.runners[{i}]", f"no runner is named {n!r}{did_you_mean(n, runners)}")
        for i, n in enumerate(named if isinstance(named, list) else ())
        if isinstance(n, str) and n not in runners
    ]
    names = []
    for i, stage in enumerate(stages):
        if not isinstance(stage, Mapping):
            continue
        path = f"stages[{i}]"
        for side in ("reference", "candidate"):
            ref = stage.get(side)
            if isinstance(ref, str) and ref not in runners:
                message = f"no runner is named {ref!r}{did_you_mean(ref, runners)}"
                problems.append(Problem(f"{path}.{side}", message))
        flips = stage.get("flips")
        for name in flips if isinstance(flips, Mapping) else ():
            if name not in decisions:
                message = f"no such decision{did_you_mean(name, decisions)}"
                problems.append(Problem(f"{path}.flips.{name}", message))
        if not stage.get("outputs") and not stage.get("default"):
            problems.append(
                Problem(
                    f"stages[{i}]",
                    "has no tolerance; give outputs.NAME = { atol = ..., rtol = ... }",
                )
            )
        name = stage.get("name") or f"{stage.get('reference')}-{stage.get('candidate')}"
        if stage.get("name") is None and not NAME.fullmatch(name):
            problems.append(Problem(f"stages[{i}]", f"{name!r} can't name files; give it a name"))
        names.append(name)
    problems += [
        Problem("stages", f"two stages are named {n!r}; give each a name of its own")
        for n in sorted({n for n in names if names.count(n) > 1})
    ]
    return problems


def _finish(
    table: PlanTable, specs: dict[str, Any], folder: Path, problems: list[Problem]
) -> tuple[dict[str, Any], tuple[Stage, ...], tuple[DecisionRule, ...]]:
    specs = {
        name: _with_batch_size(spec, table.dims.batch, problems) for name, spec in specs.items()
    }
    stages = tuple(
        Stage(
            name=s.name or f"{s.reference}-{s.candidate}",
            reference=s.reference,
            candidate=s.candidate,
            tolerances={name: t.tolerance() for name, t in s.outputs.items()},
            default=s.default.tolerance() if s.default else None,
            ignore=tuple(s.ignore),
            flips=dict(s.flips),
            is_self=s.self_,
            of_inputs=s.of == "inputs",
            unstated=frozenset(name for name, t in s.outputs.items() if t.atol is None),
        )
        for s in table.stages
    )
    for i, stage in enumerate(stages):
        for name in set(stage.ignore) & set(stage.tolerances):
            problems.append(Problem(f"stages[{i}].ignore", f"{name!r} also has a tolerance"))
    decisions = tuple(make_rule(name, d, folder, problems) for name, d in table.decisions.items())
    for rule in decisions:
        if not any(stage.decides(rule.output) for stage in stages):
            problems.append(
                Problem(
                    f"decisions.{rule.name}.output", f"no stage compares an output {rule.output!r}"
                )
            )
    problems += [
        Problem(f"outputs.{name}", "no stage compares an output of this name")
        for name in table.outputs
        if not any(stage.decides(name) for stage in stages)
    ]
    shapes = {f"inputs.{name}.shape": t.shape for name, t in table.inputs.items()}
    shapes |= {f"outputs.{name}.shape": t.shape for name, t in table.outputs.items()}
    problems += dim_problems(shapes, table.dims.bounds())
    problems += coverage_problems(table, decisions)
    outputs = {d.name: d.output for d in decisions}
    for i, stage in enumerate(stages):
        for name in stage.flips:
            if not stage.decides(outputs[name]):
                problems.append(
                    Problem(f"stages[{i}].flips.{name}", "this stage doesn't compare its output")
                )
    return specs, stages, decisions


def _with_batch_size(spec: Any, batch: BatchDim | None, problems: list[Problem]) -> Any:
    """Give a runner that says no batch size the largest approved one; refuse an unapproved one."""
    if batch is None or "batch_size" not in type(spec.options).model_fields:
        return spec
    size = spec.options.batch_size
    if size is None:
        options = spec.options.model_copy(update={"batch_size": batch.largest})
        return replace(spec, options=options)
    if not batch.approves(size):
        problems.append(
            Problem(f"runners.{spec.name}.batch_size", f"{size} isn't approved by [dims] batch")
        )
    return spec
