"""`[require_coverage]`: what the golden samples have to exercise, and what such a demand needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from paritygate.core.errors import Problem
from paritygate.core.policy import DecisionRule
from paritygate.core.problems import did_you_mean
from paritygate.core.shapes import sample_dims

if TYPE_CHECKING:
    from paritygate.core.tables import InputTable, PlanTable

Count = Annotated[StrictInt, Field(ge=1)]
Distance = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


class DecisionCoverage(BaseModel):
    """`[require_coverage.decisions.NAME]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    each_side: Count | None = None
    within: Distance | None = None
    ties: Count | None = None
    each_class: Count | None = None
    values: Count | None = None

    @model_validator(mode="after")
    def _something(self) -> DecisionCoverage:
        if not self.model_dump(exclude_none=True):
            keys = ", ".join(type(self).model_fields)
            raise ValueError(f"demands nothing; give at least one of {keys}")
        return self


class CoverageTable(BaseModel):
    """`[require_coverage]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decisions: dict[StrictStr, DecisionCoverage] = Field(default={})
    batch_sizes: StrictBool = False
    dims: StrictBool = False
    ranges: StrictBool = False
    zeros: StrictBool = False
    constant_channels: StrictBool = False

    @model_validator(mode="after")
    def _something(self) -> CoverageTable:
        if not self.decisions and not any(value is True for _, value in self):
            keys = ", ".join(type(self).model_fields)
            raise ValueError(f"demands nothing; give at least one of {keys}")
        return self

    @property
    def looks_at_inputs(self) -> bool:
        """Whether the values of inputs are looked at, those without a range too."""
        return self.zeros or self.constant_channels


def classes_of(rule: DecisionRule) -> tuple[str, ...] | None:
    """Names of a decision's classes as the plan gives them; None: it gives none."""
    return rule.labels or rule.ref_labels


def coverage_problems(table: PlanTable, decisions: Sequence[DecisionRule]) -> Iterator[Problem]:
    """Demands that nothing could meet: of decisions and bounds that the plan doesn't have."""
    wanted = table.require_coverage
    if wanted is None:
        return
    rules = {rule.name: rule for rule in decisions}
    for name, demand in wanted.decisions.items():
        path = f"require_coverage.decisions.{name}"
        if name not in rules:
            yield Problem(path, f"no such decision{did_you_mean(name, rules)}")
            continue
        yield from _of_decision(path, demand, rules[name])
    if wanted.batch_sizes and table.dims.batch is None:
        message = "the plan approves no batch sizes; say batch = { sizes = [1, 32] } in [dims]"
        yield Problem("require_coverage.batch_sizes", message)
    if wanted.dims and not dims_of(table.inputs):
        message = "no shape of [inputs] has a dim with a name"
        yield Problem("require_coverage.dims", message)
    if wanted.ranges and all(t.range is None for t in table.inputs.values()):
        yield Problem("require_coverage.ranges", "no input of [inputs] has a range")


def dims_of(inputs: Mapping[str, InputTable]) -> list[str]:
    """Names of dims of a sample, in the order of the inputs that have them."""
    shapes = [sample_dims(table.shape or ()) for table in inputs.values()]
    return list(dict.fromkeys(dim for dims in shapes for dim in dims if isinstance(dim, str)))


def _of_decision(path: str, demand: DecisionCoverage, rule: DecisionRule) -> Iterator[Problem]:
    is_ranking = rule.argmax or rule.topk is not None
    is_free = rule.equal or rule.python is not None
    for key, fits, of in (
        ("each_side", rule.bands is not None, "bands"),
        ("within", rule.bands is not None, "bands"),
        ("ties", not is_free, "bands, argmax and topk"),
        ("each_class", is_ranking or classes_of(rule) is not None, "classes: argmax, topk, labels"),
        ("values", is_free, "equal and python"),
    ):
        if getattr(demand, key) is not None and not fits:
            yield Problem(f"{path}.{key}", f"belongs to a decision of {of}")
