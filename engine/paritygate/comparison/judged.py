"""Judge one block of one stage: align both sides, compare each output, derive each decision."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from paritygate.comparison.decide.function import DecisionError
from paritygate.comparison.decisions import DecisionComparer, DecisionDetail
from paritygate.comparison.elements import SampleDetail
from paritygate.comparison.rows import Ints, Mask, SampleRows, Side
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.shapes import sample_dims
from paritygate.core.tensors import Array
from paritygate.core.verdict import SAMPLE_RULES, rule_names
from paritygate.tally.constant import Constancy
from paritygate.tally.decision import DecisionTally
from paritygate.tally.output import OutputTally
from paritygate.tally.stage import FirstError

if TYPE_CHECKING:
    from paritygate.comparison.stage import StageComparer

Scalar = TypeVar("Scalar", bound=np.generic)


class Judged:
    """What has been found out about a block so far: one row a sample that was run."""

    def __init__(self, comparer: StageComparer, samples: SampleRows, ref: Side, cand: Side) -> None:
        self.comparer = comparer
        self.samples = samples
        self.ref = ref
        self.cand = cand
        n = samples.count
        self.rules: Ints = np.zeros(n, np.int64)
        self.subjects: dict[tuple[str, str], Mask] = {}
        self.outputs: dict[str, OutputTally] = {}
        self.details: dict[str, SampleDetail] = {}
        self.constant: dict[str, Constancy] = {}
        self.tallies: dict[str, DecisionTally] = {}
        self.decided: dict[str, DecisionDetail] = {}
        self.errors: dict[str, FirstError] = {}
        self.undeclared: dict[tuple[str, str], int] = {}
        self.layouts: dict[tuple[str, str, str], int] = {}
        self.both: Mask = np.ones(n, np.bool_)
        self.is_whole = True

    def align(self) -> None:
        """Find the samples that both sides answered; the others fail by themselves."""
        for name, side in (("reference", self.ref), ("candidate", self.cand)):
            if not side.answered.all():
                self._mark("sample.missing", name, side.missing)
                self._mark("runner.error", name, ~side.answered & ~side.missing)
                self.is_whole = False
        self.both = self.ref.answered & self.cand.answered

    def _mark(self, rule: str, subject: str, mask: Mask) -> None:
        if mask.any():
            self.rules |= np.where(mask, SAMPLE_RULES[rule], 0)
            key = (rule, subject)
            self.subjects[key] = self.subjects.get(key, np.zeros_like(mask)) | mask

    def judge_output(self, output: str) -> None:
        """Judge one output of the samples that both sides answered."""
        if not self.both.any():
            return
        sides = {
            "reference": self.ref.outputs.get(output),
            "candidate": self.cand.outputs.get(output),
        }
        dtype = next((_name(a.dtype) for a in sides.values() if a is not None), "float64")
        tolerance = self.comparer.tolerance(output, dtype)
        if tolerance is None:
            for side, array in sides.items():
                if array is not None:
                    self.undeclared[(side, output)] = int(self.both.sum())
            return
        ref, cand = sides["reference"], sides["candidate"]
        if ref is None or cand is None:
            for side, array in sides.items():
                if array is None:
                    self._mark("output.missing", f"{side}:{output}", self.both)
            return
        rule = self._structure_rule(output, tolerance, ref, cand)
        if rule:
            self._mark(rule, output, self.both)
            self.layouts[(output, _layout(ref), _layout(cand))] = int(self.both.sum())
            return
        self._judge_pair(output, tolerance, self._aligned(ref), self._aligned(cand))

    def _structure_rule(
        self, output: str, tolerance: Tolerance, ref: Array, cand: Array
    ) -> str | None:
        contract = self.comparer.plan.table.outputs.get(output)
        if contract is not None:
            if contract.dtype is not None and _name(ref.dtype) != contract.dtype:
                return "dtype.mismatch"
            if contract.shape is not None and list(ref.shape[1:]) != sample_dims(contract.shape):
                return "shape.mismatch"
        if dtypes_disagree(tolerance, _name(ref.dtype), _name(cand.dtype)):
            return "dtype.mismatch"
        return "shape.mismatch" if ref.shape[1:] != cand.shape[1:] else None

    def _aligned(self, array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        return array if self.is_whole else array[self.both]

    def _judge_pair(self, output: str, tolerance: Tolerance, ref: Array, cand: Array) -> None:
        ordinals = self._aligned(self.samples.ordinals)
        dtypes = _name(ref.dtype), _name(cand.dtype)
        shape = tuple(ref.shape[1:])
        elements = self.comparer.element_comparer(output, tolerance, *dtypes, shape)
        self.outputs[output], detail = elements.compare(ref, cand, ordinals)
        if not self.is_whole:
            detail = _spread_detail(detail, self.both)
        self.details[output] = detail
        self.constant[output] = Constancy.of(ref, cand)
        for rule in rule_names(int(np.bitwise_or.reduce(detail.rules))):
            self._mark(rule, output, (detail.rules & SAMPLE_RULES[rule]) != 0)
        for policy in self.comparer.rules_of(output):
            decision = self.comparer.decision_comparer(policy, tolerance, *dtypes, shape)
            truth = self._truth(policy, decision)
            try:
                tally, decided = decision.compare(ref, cand, ordinals, truth)
            except DecisionError as e:
                self._mark("decision.error", policy.name, self.both)
                error = FirstError(int(ordinals[0]), str(e), len(ordinals))
                self.errors[f"decision {policy.name}"] = error
                continue
            if not self.is_whole:
                decided = _spread_decided(decided, self.both)
            self.tallies[policy.name] = tally
            self.decided[policy.name] = decided
            self._mark("decision.flip", policy.name, decided.flipped)

    def _truth(self, rule: DecisionRule, comparer: DecisionComparer) -> Ints | None:
        labels = self.samples.labels.get(rule.label_column or "")
        return None if labels is None else comparer.truth_codes(self._aligned(labels))


def _layout(array: Array) -> str:
    return f"{array.dtype}[{', '.join(map(str, ('batch', *array.shape[1:])))}]"


@cache
def _name(dtype: np.dtype[Any]) -> str:
    return str(dtype)


def dtypes_disagree(tolerance: Tolerance, ref: str, cand: str) -> bool:
    """Whether the dtypes disagree in a way that the plan doesn't declare."""
    return cand != (tolerance.candidate_dtype or ref)


def _spread_detail(detail: SampleDetail, both: Mask) -> SampleDetail:
    """One row a sample of the block; rows without an answer hold neutral values."""
    return SampleDetail(
        rules=_spread(detail.rules, both, 0),
        failing_elements=_spread(detail.failing_elements, both, 0),
        worst_index=_spread(detail.worst_index, both, -1),
        worst_excess=_spread(detail.worst_excess, both, -np.inf),
        worst_error=_spread(detail.worst_error, both, -np.inf),
    )


def _spread_decided(detail: DecisionDetail, both: Mask) -> DecisionDetail:
    rows = np.cumsum(both) - 1
    return DecisionDetail(
        ref=_spread(detail.ref, both, -2),
        cand=_spread(detail.cand, both, -2),
        margin=_spread(detail.margin, both, np.nan),
        flipped=_spread(detail.flipped, both, False),
        tell=lambda at: detail.tell(int(rows[at])) if both[at] else ("", ""),
    )


def _spread(values: npt.NDArray[Scalar], both: Mask, fill: float) -> npt.NDArray[Scalar]:
    spread = np.full((len(both), *values.shape[1:]), fill, values.dtype)
    spread[both] = values
    return spread
