"""The plan: what is run, on what, and what is tolerated.

A plan is TOML, read by the standard library and validated with pydantic. All problems are reported
at once, each with its path and the value found. The canonical plan has every default written out;
its digest identifies the policy.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)

from paritygate.core.bands import Bands, parse_bands
from paritygate.core.errors import PlanError, Problem
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import DTYPES

StrictNumber = Annotated[float, Field(strict=True, allow_inf_nan=False)]
# An integer beyond 2**53 stays one: as a float it would be another.
Bound = StrictInt | StrictNumber
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class ToleranceTable(_Table):
    """`[stages.outputs.NAME]`."""

    atol: Annotated[StrictNumber, Field(ge=0)] | None = None
    rtol: Annotated[StrictNumber, Field(ge=0, lt=1)] | None = None
    nonfinite: Literal["fail", "match"] = "fail"
    max_outlier_fraction: Annotated[StrictNumber, Field(ge=0, lt=1)] = 0.0
    max_abs: Annotated[StrictNumber, Field(ge=0)] | None = None
    candidate_dtype: StrictStr | None = None

    @field_validator("candidate_dtype")
    @classmethod
    def _known_dtype(cls, value: str | None) -> str | None:
        return _check_dtype(value)

    @model_validator(mode="after")
    def _complete(self) -> ToleranceTable:
        if (self.atol is None) != (self.rtol is None):
            raise ValueError("atol and rtol belong together; give both (0 is a value)")
        if self.max_outlier_fraction > 0 and self.max_abs is None:
            raise ValueError(
                "max_outlier_fraction needs max_abs, the error that no outlier may pass"
            )
        return self

    def tolerance(self) -> Tolerance:
        """The same as the judge's value; without atol and rtol: exact."""
        return Tolerance(
            atol=self.atol or 0.0,
            rtol=self.rtol or 0.0,
            nonfinite=self.nonfinite,
            max_outlier_fraction=self.max_outlier_fraction,
            max_abs=self.max_abs,
            candidate_dtype=self.candidate_dtype,
        )


class StageTable(_Table):
    """`[[stages]]`."""

    name: StrictStr | None = None
    reference: StrictStr
    candidate: StrictStr
    outputs: dict[StrictStr, ToleranceTable] = Field(default_factory=dict)
    default: ToleranceTable | None = None
    ignore: list[StrictStr] = Field(default_factory=list)
    flips: dict[StrictStr, Annotated[StrictInt, Field(ge=0)]] = Field(default_factory=dict)
    self_: StrictBool = Field(default=False, alias="self")

    @field_validator("name")
    @classmethod
    def _file_name(cls, value: str | None) -> str | None:
        if value is not None and not NAME.fullmatch(value):
            raise ValueError(
                "use letters, digits, '.', '_' and '-': the name is part of file names"
            )
        return value


class DecisionTable(_Table):
    """`[decisions.NAME]`."""

    output: StrictStr
    bands: StrictStr | None = None
    argmax: StrictBool = False
    axis: StrictInt = -1
    compare_as: Literal["output", "float64"] | None = None
    labels: StrictStr | list[StrictStr] | None = None
    label_column: StrictStr | None = None

    @field_validator("bands")
    @classmethod
    def _parsable(cls, value: str | None) -> str | None:
        if value is not None:
            parse_bands(value)
        return value

    @model_validator(mode="after")
    def _one_rule(self) -> DecisionTable:
        if (self.bands is None) == (not self.argmax):
            raise ValueError("give exactly one of bands = '...' and argmax = true")
        if self.axis != -1:
            raise ValueError("axis: only the last axis (-1) is judged")
        if self.bands is not None and self.labels is not None:
            raise ValueError("labels belong to argmax; bands have names of their own")
        return self


class InputTable(_Table):
    """`[inputs.NAME]`: the contract of an input."""

    column: StrictStr | None = None
    dtype: StrictStr | None = None
    shape: list[StrictInt | StrictStr] | None = None
    axes: list[StrictStr] | None = None
    channels: list[StrictStr] | None = None
    units: list[StrictStr] | StrictStr | None = None
    range: list[Bound] | list[list[Bound]] | None = None
    missing: Literal["reject"] = "reject"

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, value: str | None) -> str | None:
        return _check_dtype(value)

    @field_validator("shape")
    @classmethod
    def _sample_axis_first(cls, value: list[int | str] | None) -> list[int | str] | None:
        return _check_shape(value)

    @field_validator("range")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        pairs = value if value and isinstance(value[0], list) else [value]
        if value is not None and any(len(p) != 2 or p[0] > p[1] for p in pairs):
            raise ValueError("write [minimum, maximum], or one such pair per channel")
        if value is None:
            return None
        exact = [[v if abs(v) > 2**53 else float(v) for v in pair] for pair in pairs]
        return exact if pairs is value else exact[0]


class OutputTable(_Table):
    """`[outputs.NAME]`: the contract of an output."""

    dtype: StrictStr | None = None
    shape: list[StrictInt | StrictStr] | None = None
    meaning: StrictStr | None = None

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, value: str | None) -> str | None:
        return _check_dtype(value)

    @field_validator("shape")
    @classmethod
    def _sample_axis_first(cls, value: list[int | str] | None) -> list[int | str] | None:
        return _check_shape(value)


class ConstantTable(_Table):
    """`[constants]` entries: an input that is the same for all samples."""

    dtype: StrictStr
    value: Any

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, value: str) -> str:
        return _check_dtype(value) or value


class BatchDim(_Table):
    """`batch` in `[dims]`: the approved batch sizes, as a list or as a range."""

    sizes: list[Annotated[StrictInt, Field(ge=1)]] | None = None
    min: Annotated[StrictInt, Field(ge=1)] | None = None
    max: Annotated[StrictInt, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> BatchDim:
        if self.sizes is not None:
            if not self.sizes or self.min is not None or self.max is not None:
                raise ValueError("give either sizes = [...] (not empty) or min and max")
        elif self.min is None or self.max is None or self.min > self.max:
            raise ValueError("give sizes = [...], or min and max with min <= max")
        return self

    @property
    def largest(self) -> int:
        """The largest approved size."""
        return max(self.sizes) if self.sizes else int(self.max or 1)

    def approves(self, size: int) -> bool:
        """Whether a batch may have this size."""
        if self.sizes is not None:
            return size in self.sizes
        return int(self.min or 1) <= size <= int(self.max or 1)

    def padded(self, valid: int, full: int) -> int:
        """Rows that a tail of `valid` samples is padded to, at most `full`."""
        if self.sizes is not None:
            return min((s for s in self.sizes if s >= valid), default=full)
        return min(full, max(valid, int(self.min or 1)))


class DimsTable(_Table):
    """`[dims]`."""

    batch: BatchDim | None = None


class PlanTable(_Table):
    """A whole plan, as written."""

    name: StrictStr | None = None
    golden: StrictStr | list[StrictStr]
    id: StrictStr = "sample_id"
    label: StrictStr | None = None
    outputs_from: Literal["prefix", "all"] = "prefix"
    slices: list[StrictStr] = Field(default_factory=list)
    min_samples: Annotated[StrictInt, Field(ge=1)] = 1
    max_failures: Annotated[StrictInt, Field(ge=0)] = 10_000
    max_failure_bytes: Annotated[StrictInt, Field(ge=0)] = 1 << 30
    dims: DimsTable = Field(default_factory=DimsTable)
    inputs: dict[StrictStr, InputTable] = Field(default_factory=dict)
    constants: dict[StrictStr, ConstantTable] = Field(default_factory=dict)
    outputs: dict[StrictStr, OutputTable] = Field(default_factory=dict)
    runners: dict[StrictStr, Any]
    stages: list[StageTable] = Field(min_length=1)
    decisions: dict[StrictStr, DecisionTable] = Field(default_factory=dict)
    identity: dict[StrictStr, Any] = Field(default_factory=dict)
    operation: dict[StrictStr, Any] = Field(default_factory=dict)
    meta: dict[StrictStr, Any] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _file_name(cls, value: str | None) -> str | None:
        if value is not None and not NAME.fullmatch(value):
            raise ValueError("use letters, digits, '.', '_' and '-': it names the run folder")
        return value

    @field_validator("golden")
    @classmethod
    def _some(cls, value: str | list[str]) -> str | list[str]:
        if not all([value] if isinstance(value, str) else value) or not value:
            raise ValueError("name at least one file or glob")
        return value


ParseRunner = Callable[[str, object, Path], tuple[Any, list[Problem]]]


@dataclass(frozen=True)
class Stage:
    """One comparison: reference, candidate, tolerances, budgets.

    Attributes:
        tolerances: output name -> tolerance.
        default: for float outputs that aren't named (others are then exact); None: such an output
            is `output.undeclared`.
        ignore: outputs that are deliberately not judged; listed with the verdict.
        flips: decision name -> allowed flips.
        is_self: the two sides may be the same thing.
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


@dataclass(frozen=True)
class Plan:
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

    def canonical(self) -> dict[str, Any]:
        """The plan in its long form with every default written out; TOML types only."""
        data = self.table.model_dump(mode="json", by_alias=True, exclude_none=True)
        data["name"] = self.name
        data["golden"] = self.golden
        data["runners"] = {
            name: {"kind": spec.kind, **spec.options.model_dump(mode="json", exclude_none=True)}
            for name, spec in sorted(self.runners.items())
        }
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
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PlanError([Problem("", "no such file; name a plan (TOML)")], str(path)) from None
    except OSError as e:
        raise PlanError([Problem("", f"can't be read: {e.strerror or e}")], str(path)) from None
    except UnicodeDecodeError as e:
        raise PlanError([Problem("", f"isn't UTF-8 text at byte {e.start}")], str(path)) from None
    except tomllib.TOMLDecodeError as e:
        raise PlanError([Problem("", f"isn't valid TOML: {e}")], str(path)) from None


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
    problems: list[Problem] = []
    table: PlanTable | None = None
    try:
        table = PlanTable.model_validate(data)
    except ValidationError as e:
        problems += _once([_describe(error) for error in e.errors()])
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
    problems, names = [], []
    for i, stage in enumerate(stages):
        if not isinstance(stage, Mapping):
            continue
        for side in ("reference", "candidate"):
            ref = stage.get(side)
            if isinstance(ref, str) and ref not in runners:
                problems.append(
                    Problem(
                        f"stages[{i}].{side}", f"no runner is named {ref!r}{_mean(ref, runners)}"
                    )
                )
        for name in stage.get("flips", {}) if isinstance(stage.get("flips"), Mapping) else ():
            if name not in decisions:
                problems.append(
                    Problem(
                        f"stages[{i}].flips.{name}", f"no such decision{_mean(name, decisions)}"
                    )
                )
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
            unstated=frozenset(name for name, t in s.outputs.items() if t.atol is None),
        )
        for s in table.stages
    )
    for i, stage in enumerate(stages):
        for name in set(stage.ignore) & set(stage.tolerances):
            problems.append(Problem(f"stages[{i}].ignore", f"{name!r} also has a tolerance"))
    decisions = tuple(_decision(name, d, folder, problems) for name, d in table.decisions.items())
    for rule in decisions:
        if not any(stage.judges(rule.output) for stage in stages):
            problems.append(
                Problem(
                    f"decisions.{rule.name}.output", f"no stage compares an output {rule.output!r}"
                )
            )
    problems += [
        Problem(f"outputs.{name}", "no stage compares an output of this name")
        for name in table.outputs
        if not any(stage.judges(name) for stage in stages)
    ]
    outputs = {d.name: d.output for d in decisions}
    for i, stage in enumerate(stages):
        for name in stage.flips:
            if not stage.judges(outputs[name]):
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
        return type(spec)(spec.name, spec.kind, options)
    if not batch.approves(size):
        problems.append(
            Problem(f"runners.{spec.name}.batch_size", f"{size} isn't approved by [dims] batch")
        )
    return spec


def _decision(
    name: str, table: DecisionTable, folder: Path, problems: list[Problem]
) -> DecisionRule:
    labels = table.labels
    if isinstance(labels, str):
        try:
            labels = (folder / labels).read_text(encoding="utf-8").split("\n")
            labels = [line.strip() for line in labels if line.strip()]
        except (OSError, UnicodeDecodeError) as e:
            problems.append(Problem(f"decisions.{name}.labels", f"can't be read: {e}"))
            labels = None
    if labels is not None and len(set(labels)) != len(labels):
        problems.append(Problem(f"decisions.{name}.labels", "every class needs a name of its own"))
    bands: Bands | None = parse_bands(table.bands) if table.bands else None
    return DecisionRule(
        name=name,
        output=table.output,
        bands=bands,
        argmax=table.argmax,
        axis=table.axis,
        compare_as=table.compare_as,
        labels=tuple(labels) if labels is not None else None,
        label_column=table.label_column,
    )


def _check_dtype(value: str | None) -> str | None:
    if value is not None and value not in DTYPES:
        raise ValueError(f"isn't a dtype that can be judged; known: {', '.join(DTYPES)}")
    return value


def _check_shape(value: list[int | str] | None) -> list[int | str] | None:
    if value is not None and (not value or value[0] != "batch"):
        raise ValueError('starts with the sample axis, as in ["batch", 10]')
    if value is not None and any(not isinstance(d, int) or d < 0 for d in value[1:]):
        raise ValueError("dims after the sample axis are fixed numbers")
    return value


_TABLES: tuple[tuple[tuple[str | None, ...], type[BaseModel]], ...] = (
    ((), PlanTable),
    (("dims",), DimsTable),
    (("dims", "batch"), BatchDim),
    (("inputs", None), InputTable),
    (("outputs", None), OutputTable),
    (("constants", None), ConstantTable),
    (("stages", None), StageTable),
    (("stages", None, "default"), ToleranceTable),
    (("stages", None, "outputs", None), ToleranceTable),
    (("decisions", None), DecisionTable),
)


_UNION_TAG = re.compile(r"(str|int|bool|list|float|constrained-\w+|nullable)(\[.*\])?")
_WORDS = {
    "string_type": "is a text",
    "float_type": "is a number",
    "int_type": "is a whole number",
    "bool_type": "is true or false",
    "list_type": "is a list",
    "dict_type": "is a table",
    "model_type": "is a table",
    "model_attributes_type": "is a table",
    "too_short": "is empty; give at least one",
}


def _describe(error: Any) -> Problem:
    loc = tuple(error["loc"])
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in _shown(loc)).lstrip(".")
    if error["type"] == "extra_forbidden":
        return Problem(path, f"isn't a known key{_mean(str(loc[-1]), _known_keys(loc[:-1]))}")
    if error["type"] == "missing":
        return Problem(path, "is missing")
    message = _WORDS.get(error["type"])
    if message is None:
        message = error["msg"].removeprefix("Value error, ").replace("Input should be", "should be")
        message = message[0].lower() + message[1:]
    found = error.get("input")
    if not isinstance(found, str | int | float | bool):
        found = {dict: "a table", list: "a list", type(None): "nothing"}.get(type(found))
        return Problem(path, f"{message} (found {found})" if found else message)
    return Problem(path, f"{message} (found {found!r})")


def _shown(loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """A location without the names of the alternatives of a field that takes several types."""
    return tuple(
        part
        for depth, part in enumerate(loc)
        if not (isinstance(part, str) and _UNION_TAG.fullmatch(part) and _is_field(loc[:depth]))
    )


def _is_field(loc: tuple[Any, ...]) -> bool:
    """Whether a location ends at a field of a table, whose further parts aren't keys."""
    field = loc[-1] if loc else None
    if isinstance(field, int) and len(loc) > 1:
        return _is_field(loc[:-1])
    return isinstance(field, str) and field in _known_keys(loc[:-1]) and field not in _MAPS


def _once(problems: Sequence[Problem]) -> list[Problem]:
    """One problem a path: of several alternatives that don't fit, all are told in one line."""
    by_path: dict[str, list[str]] = {}
    for problem in problems:
        by_path.setdefault(problem.path, []).append(problem.message)
    return [
        Problem(path, " or ".join(dict.fromkeys(messages))) for path, messages in by_path.items()
    ]


_MAPS = ("inputs", "constants", "outputs", "runners", "decisions", "flips")


def _known_keys(loc: tuple[Any, ...]) -> list[str]:
    for pattern, table in _TABLES:
        if len(pattern) == len(loc) and all(
            p in (None, q) for p, q in zip(pattern, loc, strict=True)
        ):
            return [f.alias or n for n, f in table.model_fields.items()]
    return []


def _mean(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else _listed(known)


def _listed(known: Any) -> str:
    names = list(known)
    return f"; known: {', '.join(names)}" if 0 < len(names) <= 24 else ""


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
