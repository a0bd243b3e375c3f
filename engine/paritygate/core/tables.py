"""The tables of a plan as written: keys, types, and what each table demands of itself."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from paritygate.core.bands import parse_bands
from paritygate.core.coverage import CoverageTable, DecisionCoverage
from paritygate.core.decisions import check_decision
from paritygate.core.errors import Problem
from paritygate.core.forms import CALL, NAME, NO_COLUMNS
from paritygate.core.policy import Tolerance
from paritygate.core.probes import ProbeName
from paritygate.core.problems import describe_error, join_path, merge_by_path
from paritygate.core.ranges import check_range
from paritygate.core.shapes import check_shape
from paritygate.core.tensors import DTYPES, CompareOn
from paritygate.core.versions import Target

StrictNumber = Annotated[float, Field(strict=True, allow_inf_nan=False)]
# An integer beyond 2**53 stays one: as a float it would be another.
Bound = StrictInt | StrictNumber
NoiseCause = Literal["repetition", "batch_size", "position", "threads"]


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
    outputs: dict[StrictStr, ToleranceTable] = Field(default={})
    default: ToleranceTable | None = None
    ignore: list[StrictStr] = Field(default=[])
    flips: dict[StrictStr, Annotated[StrictInt, Field(ge=0)]] = Field(default={})
    of: Literal["outputs", "inputs"] = "outputs"
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
    topk: Annotated[StrictInt, Field(ge=1)] | None = None
    order: Literal["set", "ranked"] = "set"
    equal: StrictBool = False
    python: StrictStr | None = None
    elementwise: StrictBool = False
    axis: StrictInt = -1
    transform: Literal["softmax", "sigmoid"] | None = None
    compare_as: Literal["output", "float64"] | None = None
    labels: StrictStr | list[StrictStr] | None = None
    ref_labels: StrictStr | list[StrictStr] | None = None
    cand_labels: StrictStr | list[StrictStr] | None = None
    label_column: StrictStr | None = None

    @field_validator("bands")
    @classmethod
    def _parsable(cls, value: str | None) -> str | None:
        if value is not None:
            parse_bands(value)
        return value

    @field_validator("python")
    @classmethod
    def _module_and_function(cls, value: str | None) -> str | None:
        if value is not None and not CALL.fullmatch(value):
            raise ValueError("write it as 'module:function'")
        return value

    @model_validator(mode="after")
    def _one_rule(self) -> DecisionTable:
        check_decision(self)
        return self


class ImputeTable(_Table):
    """`missing` of an input, where it is no text: what NaN is replaced by, and who says so."""

    impute: StrictStr
    value: Bound | list[Bound] | None = None
    digest: Annotated[StrictStr, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    approved_by: Annotated[StrictStr, Field(min_length=1)]

    @model_validator(mode="after")
    def _one_rule(self) -> ImputeTable:
        if self.impute == "constant":
            if self.value is None or self.value == [] or self.digest is not None:
                raise ValueError("impute = 'constant' needs value, a number or one a channel")
        elif not CALL.fullmatch(self.impute):
            raise ValueError("impute is 'constant' or 'module:function'")
        elif self.digest is None or self.value is not None:
            raise ValueError(
                "a function needs digest = 'sha256:...' of its module's file, and no value"
            )
        return self


def _form_of_missing(value: Any) -> str:
    return "table" if isinstance(value, dict | ImputeTable) else "str"


class InputTable(_Table):
    """`[inputs.NAME]`: the contract of an input."""

    column: StrictStr | None = None
    dtype: StrictStr | None = None
    shape: list[StrictInt | StrictStr] | None = None
    axes: list[StrictStr] | None = None
    channels: list[StrictStr] | None = None
    units: list[StrictStr] | StrictStr | None = None
    range: list[Bound] | list[list[Bound]] | None = None
    missing: Annotated[
        Annotated[Literal["reject"], Tag("str")] | Annotated[ImputeTable, Tag("table")],
        Discriminator(_form_of_missing),
    ] = "reject"

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, value: str | None) -> str | None:
        return _check_dtype(value)

    @field_validator("shape")
    @classmethod
    def _one_sample_axis(cls, value: list[int | str] | None) -> list[int | str] | None:
        return check_shape(value)

    @field_validator("range", mode="before")
    @classmethod
    def _of_pairs(cls, value: Any) -> Any:
        return check_range(value)

    @field_validator("range")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        if value is None:
            return None
        pairs = value if isinstance(value[0], list) else [value]
        exact = [[v if abs(v) > 2**53 else float(v) for v in pair] for pair in pairs]
        return exact if pairs is value else exact[0]


class OutputTable(_Table):
    """`[outputs.NAME]`: the contract of an output."""

    dtype: StrictStr | None = None
    shape: list[StrictInt | StrictStr] | None = None
    axes: list[StrictStr] | None = None
    channels: list[StrictStr] | None = None
    units: list[StrictStr] | StrictStr | None = None
    meaning: StrictStr | None = None

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, value: str | None) -> str | None:
        return _check_dtype(value)

    @field_validator("shape")
    @classmethod
    def _one_sample_axis(cls, value: list[int | str] | None) -> list[int | str] | None:
        return check_shape(value)


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
    check_samples: Annotated[StrictInt, Field(ge=0)] = 1_024

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

    def besides(self, size: int) -> list[int]:
        """Approved sizes besides this one; of a range its ends."""
        sizes = self.sizes or [int(self.min or 1), int(self.max or 1)]
        return sorted(set(sizes) - {size})

    def padded(self, valid: int, full: int) -> int:
        """Rows that a tail of `valid` samples is padded to, at most `full`."""
        if self.sizes is not None:
            return min((s for s in self.sizes if s >= valid), default=full)
        return min(full, max(valid, int(self.min or 1)))


class BudgetTable(_Table):
    """`[batch_coupling.RUNNER] OUTPUT`: how far answers at two batch sizes may differ."""

    atol: Annotated[StrictNumber, Field(ge=0)]
    rtol: Annotated[StrictNumber, Field(ge=0, lt=1)]


class NoiseTable(_Table):
    """`[noise]`: the references against themselves over a part of the pack."""

    samples: Annotated[StrictInt, Field(ge=1)] = 2_048
    repeat: Annotated[StrictInt, Field(ge=2)] = 3
    vary: list[NoiseCause] = Field(default=["repetition", "batch_size", "position", "threads"])

    @field_validator("vary")
    @classmethod
    def _some_once(cls, value: list[NoiseCause]) -> list[NoiseCause]:
        if not value or len(set(value)) < len(value):
            raise ValueError("name at least one cause, each once")
        return value


class ProbesTable(_Table):
    """`[probes]`: what can't be a row of a pack, tried against contract and runners."""

    refuse: list[ProbeName] = Field(default=[])
    timeout_s: Annotated[StrictNumber, Field(gt=0)] = 60.0


class PreprocessingTable(_Table):
    """`[preprocessing]`: how raw records become inputs."""

    python: StrictStr
    batch: StrictBool = True
    batch_size: Annotated[StrictInt, Field(ge=1)] | None = None
    columns: list[StrictStr] | None = None
    outputs: list[StrictStr] = Field(default=[])
    inputs: dict[StrictStr, ToleranceTable] = Field(default={})
    ignore: list[StrictStr] = Field(default=[])
    thread_safe: StrictBool = False

    @field_validator("python")
    @classmethod
    def _module_and_function(cls, value: str) -> str:
        if not CALL.fullmatch(value):
            raise ValueError("write it as 'module:function'")
        return value

    @field_validator("columns")
    @classmethod
    def _some(cls, value: list[str] | None) -> list[str] | None:
        if value == []:
            raise ValueError(NO_COLUMNS)
        return value

    @model_validator(mode="after")
    def _one_size(self) -> PreprocessingTable:
        if not self.batch and self.batch_size is not None:
            raise ValueError("batch_size belongs to batch = true; keep one of the two")
        return self


class TargetTable(_Table):
    """`[target]`: a runtime that isn't here, on which candidates are to run."""

    onnxruntime: StrictStr | None = None
    max_opset: Annotated[StrictInt, Field(ge=1)] | None = None
    max_ir: Annotated[StrictInt, Field(ge=1)] | None = None
    runners: list[StrictStr] | None = None

    @field_validator("runners")
    @classmethod
    def _some(cls, value: list[str] | None) -> list[str] | None:
        if value == []:
            raise ValueError("is empty; name runners, or leave it out for every candidate")
        return value

    @model_validator(mode="after")
    def _known(self) -> TargetTable:
        self.target()
        return self

    def target(self) -> Target:
        """The same as limits."""
        return Target.of(self.onnxruntime, self.max_opset, self.max_ir)


class DimRange(_Table):
    """Any other name in `[dims]`: the sizes that a dim of a sample may have."""

    min: Annotated[StrictInt, Field(ge=0)]
    max: Annotated[StrictInt, Field(ge=0)]

    @model_validator(mode="before")
    @classmethod
    def _not_the_batch(cls, value: Any) -> Any:
        if isinstance(value, dict) and "sizes" in value:
            raise ValueError("only batch has sizes; any other dim has min and max")
        return value

    @model_validator(mode="after")
    def _ordered(self) -> DimRange:
        if self.min > self.max:
            raise ValueError("give min and max with min <= max")
        return self


class DimsTable(_Table):
    """`[dims]`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, DimRange]

    batch: BatchDim | None = None

    def bounds(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest size of each named dim."""
        return {name: (dim.min, dim.max) for name, dim in self.__pydantic_extra__.items()}


def _no_dims() -> DimsTable:
    return DimsTable.model_validate({})


class PlanTable(_Table):
    """A whole plan, as written."""

    name: StrictStr | None = None
    golden: StrictStr | list[StrictStr]
    calibration: StrictStr | list[StrictStr] | None = None
    id: StrictStr = "sample_id"
    label: StrictStr | None = None
    expect: StrictStr | None = None
    outputs_from: Literal["prefix", "all"] = "prefix"
    slices: list[StrictStr] = Field(default=[])
    min_samples: Annotated[StrictInt, Field(ge=1)] = 1
    max_rejected: Annotated[StrictInt, Field(ge=0)] = 0
    max_failures: Annotated[StrictInt, Field(ge=0)] = 10_000
    max_failure_bytes: Annotated[StrictInt, Field(ge=0)] = 1 << 30
    threads: Annotated[StrictInt, Field(ge=1)] | None = None
    compare_on: CompareOn | None = None
    dims: DimsTable = Field(default_factory=_no_dims)
    inputs: dict[StrictStr, InputTable] = Field(default={})
    constants: dict[StrictStr, ConstantTable] = Field(default={})
    outputs: dict[StrictStr, OutputTable] = Field(default={})
    runners: dict[StrictStr, Any]
    stages: list[StageTable] = Field(min_length=1)
    decisions: dict[StrictStr, DecisionTable] = Field(default={})
    batch_coupling: dict[StrictStr, dict[StrictStr, BudgetTable]] = Field(default={})
    noise: NoiseTable | None = None
    require_coverage: CoverageTable | None = None
    preprocessing: PreprocessingTable | None = None
    probes: ProbesTable | None = None
    replay: Literal["raw"] | None = None
    target: TargetTable | None = None
    identity: dict[StrictStr, Any] = Field(default={})
    operation: dict[StrictStr, Any] = Field(default={})
    meta: dict[StrictStr, Any] = Field(default={})

    @field_validator("name")
    @classmethod
    def _file_name(cls, value: str | None) -> str | None:
        if value is not None and not NAME.fullmatch(value):
            raise ValueError("use letters, digits, '.', '_' and '-': it names the run folder")
        return value

    @field_validator("golden", "calibration")
    @classmethod
    def _some(cls, value: str | list[str] | None) -> str | list[str] | None:
        if value is None:
            return None
        if not all([value] if isinstance(value, str) else value) or not value:
            raise ValueError("name at least one file or glob")
        return value


def describe_problems(error: ValidationError) -> list[Problem]:
    """What is wrong with a plan, one problem a field."""
    return merge_by_path([_describe(e) for e in error.errors()])


def _describe(error: Any) -> Problem:
    loc = tuple(error["loc"])
    return describe_error(join_path(_shown(loc)), error, _known_keys(loc[:-1]))


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


def _known_keys(loc: tuple[Any, ...]) -> list[str]:
    for pattern, table in _TABLES:
        if len(pattern) == len(loc) and all(
            p in (None, q) for p, q in zip(pattern, loc, strict=True)
        ):
            return [f.alias or n for n, f in table.model_fields.items()]
    return []


def _check_dtype(value: str | None) -> str | None:
    if value is not None and value not in DTYPES:
        raise ValueError(f"isn't a dtype that can be judged; known: {', '.join(DTYPES)}")
    return value


_TABLES: tuple[tuple[tuple[str | None, ...], type[BaseModel]], ...] = (
    ((), PlanTable),
    (("dims",), DimsTable),
    (("dims", "batch"), BatchDim),
    (("dims", None), DimRange),
    (("inputs", None), InputTable),
    (("inputs", None, "missing", "table"), ImputeTable),
    (("outputs", None), OutputTable),
    (("constants", None), ConstantTable),
    (("stages", None), StageTable),
    (("stages", None, "default"), ToleranceTable),
    (("stages", None, "outputs", None), ToleranceTable),
    (("decisions", None), DecisionTable),
    (("batch_coupling", None, None), BudgetTable),
    (("noise",), NoiseTable),
    (("require_coverage",), CoverageTable),
    (("require_coverage", "decisions", None), DecisionCoverage),
    (("probes",), ProbesTable),
    (("preprocessing",), PreprocessingTable),
    (("preprocessing", "inputs", None), ToleranceTable),
    (("target",), TargetTable),
)
_UNION_TAG = re.compile(r"(str|int|bool|list|float|table|constrained-\w+|nullable)(\[.*\])?")
_MAPS = (
    "dims",
    "inputs",
    "constants",
    "outputs",
    "runners",
    "decisions",
    "flips",
    "batch_coupling",
)
