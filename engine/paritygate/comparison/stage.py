"""One stage over one block: align both sides, judge elements, decide, collect the failing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from paritygate.comparison.decisions import DecisionComparer, DecisionDetail
from paritygate.comparison.elements import ElementComparer, SampleDetail
from paritygate.comparison.keep import KeptRow, rank
from paritygate.core.errors import PlanError, Problem
from paritygate.core.plan import Plan, Stage
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array, Stats, is_float
from paritygate.core.verdict import SAMPLE_RULES, rule_names
from paritygate.tally.decision import DecisionTally
from paritygate.tally.output import OutputTally
from paritygate.tally.stage import FIRST, FirstError, Hits, SliceTally, StageTally

Ids = npt.NDArray[np.int64] | npt.NDArray[np.object_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True)
class SampleRows:
    """The samples of a block that were run, in pack order.

    Attributes:
        block: the block's number.
        ordinals: `(n,)` row over all golden files.
        ids: `(n,)` int64 or str objects.
        labels: label column -> `(n,)` values.
        slices: slice -> (values, `(n,)` codes into them).
        rejected: samples of the block that were not run.
    """

    block: int
    ordinals: Ints
    ids: Ids
    labels: Mapping[str, Array]
    slices: Mapping[str, tuple[list[str], npt.NDArray[np.int32]]]
    rejected: Hits

    @property
    def count(self) -> int:
        """Samples that were run."""
        return len(self.ordinals)


@dataclass(frozen=True)
class Side:
    """What one runner answered for a block.

    Attributes:
        outputs: name -> `(n, *shape)`.
        answered: `(n,)` whether the sample has an answer.
        missing: `(n,)` whether a recording lacks the sample.
        error: the first thing raised, with the samples that it cost.
        batch_size: rows in a batch, for locating a sample; 0 where there are no batches.
    """

    outputs: Mapping[str, Array]
    answered: Mask
    missing: Mask
    error: FirstError | None = None
    batch_size: int = 0


@dataclass(frozen=True)
class FailedRows:
    """Failing samples of one block and stage, in pack order; never truncated."""

    ordinals: Ints
    ids: Ids
    rules: Ints
    decisions: Mapping[str, tuple[list[str], list[str]]]


@dataclass(frozen=True)
class KeptCandidates:
    """Rows that may enter a bounded set, with the keys of all of them."""

    primary: Floats
    secondary: Floats
    ordinals: Ints


@dataclass(frozen=True)
class StageResult:
    """One stage over one block."""

    tally: StageTally
    failed: FailedRows
    worst: KeptCandidates
    flips: KeptCandidates
    rows: Mapping[int, KeptRow] = field(default_factory=dict)


@dataclass(frozen=True)
class KeepHint:
    """What the bounded sets hold by now: rows below a threshold need not be copied."""

    limit: int
    worst: float = -np.inf
    flips: float = -np.inf


class StageComparer:
    """Compares both sides of one stage, block by block; safe for several threads."""

    def __init__(self, plan: Plan, stage: Stage, stats: Stats, block_samples: int) -> None:
        self.stage = stage
        self._plan = plan
        self._stats = stats
        self.block_samples = block_samples
        self._elements: dict[tuple[object, ...], ElementComparer] = {}
        self._decisions: dict[tuple[object, ...], DecisionComparer] = {}
        self._rules = {
            output: [r for r in plan.decisions if r.output == output]
            for output in {r.output for r in plan.decisions}
        }
        self.names: dict[str, tuple[str, ...]] = {}

    def tolerance(self, output: str, dtype: str) -> Tolerance | None:
        """The output's tolerance; None: the stage doesn't say how to judge it."""
        if output in self.stage.tolerances:
            return self.stage.tolerances[output]
        if self.stage.default is None:
            return None
        return self.stage.default if is_float(dtype) else Tolerance()

    def judges(self, output: str) -> bool:
        """Whether the stage compares an output of this name, if both sides have it."""
        named = output in self.stage.tolerances or self.stage.default is not None
        return named and output not in self.stage.ignore

    def bind(
        self, output: str, ref: tuple[str, tuple[int, ...]], cand: tuple[str, tuple[int, ...]]
    ) -> None:
        """Make the comparers of an output ahead of the run, so that a plan's faults show early.

        Raises:
            PlanError: a rule that can't be applied to these dtypes and shapes.
        """
        tolerance = self.tolerance(output, ref[0])
        if tolerance is None or _dtype_rule(tolerance, ref[0], cand[0]) or ref[1] != cand[1]:
            return
        self._element_comparer(output, tolerance, ref[0], cand[0], ref[1])
        for rule in self._rules.get(output, ()):
            self._decision_comparer(rule, tolerance, ref[0], cand[0], ref[1])

    def compare(self, samples: SampleRows, ref: Side, cand: Side, hint: KeepHint) -> StageResult:
        """Judge one block."""
        work = _Work(self, samples, ref, cand)
        work.align()
        for output in self._output_names(ref, cand):
            work.judge_output(output)
        return work.collect(hint)

    def _output_names(self, ref: Side, cand: Side) -> list[str]:
        decided = [output for output in self._rules if self.judges(output)]
        names = dict.fromkeys([*self.stage.tolerances, *decided, *ref.outputs, *cand.outputs])
        return [n for n in names if n not in self.stage.ignore]

    def rules_of(self, output: str) -> list[DecisionRule]:
        """The decisions that derive from an output."""
        return self._rules.get(output, [])

    def _element_comparer(
        self, output: str, tolerance: Tolerance, ref: str, cand: str, shape: tuple[int, ...]
    ) -> ElementComparer:
        key = (output, ref, cand, shape)
        if key not in self._elements:
            try:
                made = ElementComparer(tolerance, ref, cand, shape, self._stats)
            except ValueError as e:
                path = f"stages.{self.stage.name}.outputs.{output}"
                raise PlanError([Problem(path, str(e))], self._plan.source) from None
            self._elements[key] = made
        return self._elements[key]

    def _decision_comparer(
        self, rule: DecisionRule, tolerance: Tolerance, ref: str, cand: str, shape: tuple[int, ...]
    ) -> DecisionComparer:
        key = (rule.name, ref, cand, shape)
        if key not in self._decisions:
            try:
                made = DecisionComparer(rule, tolerance, ref, cand, shape, self._stats)
            except ValueError as e:
                path = f"decisions.{rule.name}"
                raise PlanError([Problem(path, str(e))], self._plan.source) from None
            self._decisions[key] = made
            self.names[rule.name] = made.names
        return self._decisions[key]


class _Work:
    """The state of one `compare` call: one row a sample of the block that was run."""

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
        self.tallies: dict[str, DecisionTally] = {}
        self.decided: dict[str, DecisionDetail] = {}
        self.undeclared: dict[tuple[str, str], int] = {}
        self.both: Mask = np.ones(n, np.bool_)

    def align(self) -> None:
        """Find the samples that both sides answered; the others fail by themselves."""
        for name, side in (("reference", self.ref), ("candidate", self.cand)):
            self._mark("sample.missing", name, side.missing)
            self._mark("runner.error", name, ~side.answered & ~side.missing)
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
        dtype = next((str(a.dtype) for a in sides.values() if a is not None), "float64")
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
                    self._mark("output.missing", f"{output} ({side})", self.both)
            return
        rule = self._structure_rule(output, tolerance, ref, cand)
        if rule:
            self._mark(rule, output, self.both)
            return
        self._judge_pair(output, tolerance, self._aligned(ref), self._aligned(cand))

    def _structure_rule(
        self, output: str, tolerance: Tolerance, ref: Array, cand: Array
    ) -> str | None:
        contract = self.comparer._plan.table.outputs.get(output)
        if contract is not None:
            if contract.dtype is not None and str(ref.dtype) != contract.dtype:
                return "dtype.mismatch"
            if contract.shape is not None and list(ref.shape[1:]) != contract.shape[1:]:
                return "shape.mismatch"
        if _dtype_rule(tolerance, str(ref.dtype), str(cand.dtype)):
            return "dtype.mismatch"
        return "shape.mismatch" if ref.shape[1:] != cand.shape[1:] else None

    def _aligned(self, array: Array) -> Array:
        return array if self.both.all() else array[self.both]

    def _judge_pair(self, output: str, tolerance: Tolerance, ref: Array, cand: Array) -> None:
        ordinals = self.samples.ordinals[self.both]
        dtypes = str(ref.dtype), str(cand.dtype)
        shape = tuple(ref.shape[1:])
        elements = self.comparer._element_comparer(output, tolerance, *dtypes, shape)
        self.outputs[output], detail = elements.compare(ref, cand, ordinals)
        self.details[output] = detail = _spread_detail(detail, self.both)
        for bits in np.unique(detail.rules):
            for rule in rule_names(int(bits)):
                self._mark(rule, output, (detail.rules & SAMPLE_RULES[rule]) != 0)
        for rule_ in self.comparer.rules_of(output):
            decision = self.comparer._decision_comparer(rule_, tolerance, *dtypes, shape)
            truth = self._truth(rule_, decision)
            tally, decided = decision.compare(ref, cand, ordinals, truth)
            self.tallies[rule_.name] = tally
            self.decided[rule_.name] = decided = _spread_decided(decided, self.both)
            self._mark("decision.flip", rule_.name, decided.flipped)

    def _truth(self, rule: DecisionRule, comparer: DecisionComparer) -> Ints | None:
        labels = self.samples.labels.get(rule.label_column or "")
        return None if labels is None else comparer.truth_codes(labels[self.both])

    def collect(self, hint: KeepHint) -> StageResult:
        """Count, and pick the rows that may be kept whole."""
        failed = self.rules != 0
        picked = np.flatnonzero(failed)
        worst = _Worst.over(self.details, self.samples.count)
        flip_margin = self._flip_margin()
        ordinals = self.samples.ordinals
        flipped = np.flatnonzero(flip_margin > -np.inf)
        flips = _candidates(flip_margin, worst.excess, ordinals, flipped, hint.limit, hint.flips)
        by_excess = _candidates(worst.excess, worst.error, ordinals, picked, hint.limit, hint.worst)
        rows = self._rows({*flips.ordinals.tolist(), *by_excess.ordinals.tolist()}, worst)
        return StageResult(self._tally(failed), self._failed(picked), by_excess, flips, rows)

    def _flip_margin(self) -> Floats:
        margin: Floats = np.full(self.samples.count, -np.inf)
        for detail in self.decided.values():
            defined = np.where(np.isnan(detail.margin), 0.0, detail.margin)
            margin = np.where(detail.flipped, np.maximum(margin, defined), margin)
        return margin

    def _tally(self, failed: Mask) -> StageTally:
        samples = self.samples
        missing = {
            side: self._hits(self.subjects[("sample.missing", side)])
            for side in ("reference", "candidate")
            if ("sample.missing", side) in self.subjects
        }
        errors = {
            side: error
            for side, error in (("reference", self.ref.error), ("candidate", self.cand.error))
            if error is not None
        }
        rules = {key: self._hits(mask) for key, mask in self.subjects.items()}
        if samples.rejected.samples:
            rules[("sample.rejected", "")] = samples.rejected
        return StageTally(
            seen=samples.count + samples.rejected.samples,
            compared=int(self.both.sum()),
            failed=int(failed.sum()),
            rejected=samples.rejected.samples,
            absent=int((self.ref.missing | self.cand.missing).sum()),
            missing=missing,
            errors=errors,
            rules=rules,
            undeclared=self.undeclared,
            outputs=self.outputs,
            decisions=self.tallies,
            slices=self._slices(failed),
        )

    def _hits(self, mask: Mask) -> Hits:
        first = np.flatnonzero(mask)[:FIRST]
        ids = self.samples.ids[first].tolist()
        return Hits(
            int(mask.sum()), tuple(zip(self.samples.ordinals[first].tolist(), ids, strict=True))
        )

    def _slices(self, failed: Mask) -> dict[str, dict[str, SliceTally]]:
        tallies = {}
        for name, (values, codes) in self.samples.slices.items():
            count = len(values)
            compared = np.bincount(codes[self.both], minlength=count)
            fails = np.bincount(codes[failed], minlength=count)
            flips = {
                decision: np.bincount(codes[d.flipped], minlength=count)
                for decision, d in self.decided.items()
            }
            tallies[name] = {
                value: SliceTally(
                    int(compared[i]), int(fails[i]), {d: int(n[i]) for d, n in flips.items()}
                )
                for i, value in enumerate(values)
                if compared[i] or fails[i]
            }
        return tallies

    def _failed(self, picked: Ints) -> FailedRows:
        return FailedRows(
            self.samples.ordinals[picked],
            self.samples.ids[picked],
            self.rules[picked],
            {
                name: (
                    self._labels(name, d.ref[picked]),
                    self._labels(name, d.cand[picked]),
                )
                for name, d in self.decided.items()
            },
        )

    def _labels(self, decision: str, codes: Ints) -> list[str]:
        names = self.comparer.names[decision]
        return [names[c] if c >= 0 else "undefined" if c == -1 else "" for c in codes.tolist()]

    def _rows(self, ordinals: Iterable[int], worst: _Worst) -> dict[int, KeptRow]:
        at = np.searchsorted(self.samples.ordinals, np.array(sorted(ordinals), np.int64))
        return {int(self.samples.ordinals[i]): self._row(int(i), worst) for i in at}

    def _row(self, i: int, worst: _Worst) -> KeptRow:
        values: dict[str, object] = {
            "sample_id": self.samples.ids[i],
            "row": int(self.samples.ordinals[i]),
            "stage": self.comparer.stage.name,
            "rules": rule_names(int(self.rules[i])),
            **self._batch(i),
            **self._worst_values(i, worst),
        }
        for name, d in self.decided.items():
            codes = np.array([d.ref[i], d.cand[i]])
            ref, cand = self._labels(name, codes)
            values[f"decision.{name}.ref"] = ref
            values[f"decision.{name}.cand"] = cand
            values[f"decision.{name}.margin"] = float(d.margin[i])
        tensors = {}
        for prefix, side in (("ref", self.ref), ("cand", self.cand)):
            for name, array in side.outputs.items():
                if side.answered[i]:
                    tensors[f"{prefix}.{name}"] = np.array(array[i])
        return KeptRow(int(self.samples.ordinals[i]), values, tensors)

    def _batch(self, i: int) -> dict[str, object]:
        """Batch of the pack and position in it: the candidate's, or the reference's."""
        size = self.cand.batch_size or self.ref.batch_size
        if not size:
            return {"batch": None, "batch_position": None}
        per_block = -(-self.comparer.block_samples // size)
        return {"batch": self.samples.block * per_block + i // size, "batch_position": i % size}

    def _worst_values(self, i: int, worst: _Worst) -> dict[str, object]:
        output = worst.outputs[worst.output[i]] if worst.output[i] >= 0 else None
        row: dict[str, object] = {
            "output": output,
            "index": None,
            "ref_value": None,
            "cand_value": None,
            "abs_error": None,
            "allowed": None,
            "excess": None,
            "failing_elements": 0,
            "elements": 0,
        }
        if output is None:
            return row
        detail = self.details[output]
        ref, cand = self.ref.outputs[output][i], self.cand.outputs[output][i]
        row["failing_elements"] = int(detail.failing_elements[i])
        row["elements"] = ref.size
        index = int(detail.worst_index[i])
        if index < 0:
            return row
        tolerance = self.comparer.tolerance(output, str(ref.dtype)) or Tolerance()
        ref_value, cand_value = ref.reshape(-1)[index], cand.reshape(-1)[index]
        row.update(
            index=index,
            ref_value=float(ref_value),
            cand_value=float(cand_value),
            abs_error=_abs_error(ref_value, cand_value),
            allowed=tolerance.atol + tolerance.rtol * abs(float(ref_value)),
            excess=float(detail.worst_excess[i]),
        )
        return row


@dataclass(frozen=True)
class _Worst:
    """For each sample the output with the worst element, and its keys."""

    outputs: list[str]
    output: Ints
    excess: Floats
    error: Floats

    @staticmethod
    def over(details: Mapping[str, SampleDetail], samples: int) -> _Worst:
        output: Ints = np.full(samples, -1, np.int64)
        excess: Floats = np.full(samples, -np.inf)
        error: Floats = np.full(samples, -np.inf)
        for number, detail in enumerate(details.values()):
            has = detail.worst_index >= 0
            better = has & (
                (detail.worst_excess > excess)
                | ((detail.worst_excess == excess) & (detail.worst_error > error))
            )
            output = np.where(better, number, output)
            excess = np.where(better, detail.worst_excess, excess)
            error = np.where(better, detail.worst_error, error)
        return _Worst(list(details), output, excess, error)


def _abs_error(ref: np.generic, cand: np.generic) -> float:
    if np.issubdtype(ref.dtype, np.floating):
        with np.errstate(invalid="ignore", over="ignore"):
            return float(abs(np.float64(cand) - np.float64(ref)))
    return float(abs(int(cand) - int(ref)))


def _dtype_rule(tolerance: Tolerance, ref: str, cand: str) -> bool:
    """Whether the dtypes disagree in a way that the plan doesn't declare."""
    return cand != (tolerance.candidate_dtype or ref)


def _candidates(
    primary: Floats,
    secondary: Floats,
    ordinals: Ints,
    picked: Ints,
    limit: int,
    threshold: float,
) -> KeptCandidates:
    hopeful = picked[primary[picked] >= threshold]
    order = rank(primary[hopeful], secondary[hopeful], ordinals[hopeful])[:limit]
    rows = hopeful[order]
    return KeptCandidates(primary[rows], secondary[rows], ordinals[rows])


def _spread_detail(detail: SampleDetail, both: Mask) -> SampleDetail:
    """One row a sample of the block; rows without an answer hold neutral values."""
    if both.all():
        return detail
    return SampleDetail(
        rules=_spread(detail.rules, both, 0),
        failing_elements=_spread(detail.failing_elements, both, 0),
        worst_index=_spread(detail.worst_index, both, -1),
        worst_excess=_spread(detail.worst_excess, both, -np.inf),
        worst_error=_spread(detail.worst_error, both, -np.inf),
    )


def _spread_decided(detail: DecisionDetail, both: Mask) -> DecisionDetail:
    if both.all():
        return detail
    return DecisionDetail(
        ref=_spread(detail.ref, both, -2),
        cand=_spread(detail.cand, both, -2),
        margin=_spread(detail.margin, both, np.nan),
        flipped=_spread(detail.flipped, both, False),
    )


def _spread(values: npt.NDArray[Scalar], both: Mask, fill: float) -> npt.NDArray[Scalar]:
    spread = np.full(len(both), fill, values.dtype)
    spread[both] = values
    return spread
