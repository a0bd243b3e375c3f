"""From what was found out about a block to its tally and its failing rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
from msgspec import Struct

from paritygate.comparison.decide.detail import Told
from paritygate.comparison.details import SampleDetail
from paritygate.comparison.judged import Judged
from paritygate.comparison.keep import KeptRow, rank
from paritygate.comparison.rows import (
    FailedRows,
    Floats,
    Ints,
    KeepHint,
    KeptCandidates,
    Mask,
    StageResult,
)
from paritygate.core.dtypes import dtype_name, is_float, is_string
from paritygate.core.policy import Tolerance
from paritygate.core.verdict import rule_names
from paritygate.gpu.tensor import lying, sample_of
from paritygate.tally.stage import FIRST, Hits, SliceTally, StageTally

_NONE = KeptCandidates(np.empty(0), np.empty(0), np.empty(0, np.int64))


def collect(judged: Judged, hint: KeepHint) -> StageResult:
    """Count a judged block, and pick the rows that may be kept whole."""
    return _Collecting(judged).result(hint)


class _Collecting:
    def __init__(self, judged: Judged) -> None:
        self.judged = judged
        self.picked, self.rules = judged.marks.failed()

    @cached_property
    def worst(self) -> _Worst:
        return _Worst.over(self.judged.details, self.picked)

    @cached_property
    def raised(self) -> dict[int, list[str]]:
        """Samples without an answer -> why, by side."""
        found: dict[int, list[str]] = {}
        for side in (self.judged.ref, self.judged.cand):
            for failure in side.failures:
                for row in failure.rows.tolist():
                    found.setdefault(row, []).append(failure.text)
        return found

    @cached_property
    def told(self) -> dict[str, Told]:
        """What was decided of the failing samples."""
        return {name: d.told(self.picked) for name, d in self.judged.decided.items()}

    def result(self, hint: KeepHint) -> StageResult:
        """Count, and pick the rows that may be kept whole."""
        picked = self.picked
        if not len(picked):
            return StageResult(self._tally(), self._failed(), _NONE, _NONE)
        self.judged.look_at(picked)
        worst = self.worst
        flip_margin = self._flip_margin()
        ordinals = self.judged.samples.ordinals_of(picked)
        is_flip = flip_margin > -np.inf
        flips = _candidates(flip_margin, worst.excess, ordinals, is_flip, hint.limit, hint.flips)
        everyone = np.True_
        by_excess = _candidates(
            worst.excess, worst.error, ordinals, everyone, hint.limit, hint.worst
        )
        rows = self._kept({*flips.ordinals.tolist(), *by_excess.ordinals.tolist()})
        return StageResult(self._tally(), self._failed(), by_excess, flips, rows)

    def _flip_margin(self) -> Floats:
        """Of the failing samples; -inf where none of their decisions flipped."""
        widest: Floats = np.full(len(self.picked), -np.inf)
        for decided in self.judged.decided.values():
            rows, margins = decided.flips
            at = np.searchsorted(self.picked, rows)
            widest[at] = np.maximum(widest[at], np.where(np.isnan(margins), 0.0, margins))
        return widest

    def _tally(self) -> StageTally:
        samples = self.judged.samples
        missing = {
            side: self._hits(self.judged.marks.subjects[("sample.missing", side)])
            for side in ("reference", "candidate")
            if ("sample.missing", side) in self.judged.marks.subjects
        }
        errors = {
            name: error
            for name, side in (
                ("reference", self.judged.ref),
                ("candidate", self.judged.cand),
            )
            if side.failures and (error := side.error(samples.ordinals)) is not None
        }
        rules = {key: self._hits(rows) for key, rows in self.judged.marks.subjects.items()}
        if samples.rejected.samples:
            rules[("sample.rejected", "")] = samples.rejected
        if samples.not_rejected.samples:
            rules[("contract.not_rejected", "")] = samples.not_rejected
        not_run = samples.rejected.samples + samples.as_expected + samples.not_rejected.samples
        return StageTally(
            seen=samples.count + not_run,
            compared=self.judged.compared,
            failed=len(self.picked),
            rejected=samples.rejected.samples,
            as_expected=samples.as_expected,
            not_rejected=samples.not_rejected.samples,
            absent=self._absent(),
            missing=missing,
            errors=errors | self.judged.errors,
            rules=rules,
            layouts=self.judged.layouts,
            undeclared=self.judged.undeclared,
            outputs=self.judged.outputs,
            decisions=self.judged.tallies,
            slices=self._slices(),
            constant=self.judged.constant,
        )

    def _absent(self) -> int:
        if self.judged.is_whole:
            return 0
        return int(np.count_nonzero(self.judged.ref.missing | self.judged.cand.missing))

    def _hits(self, rows: Ints) -> Hits:
        first, samples = rows[:FIRST], self.judged.samples
        ids = samples.ids_of(first).tolist()
        return Hits(len(rows), tuple(zip(samples.ordinals_of(first).tolist(), ids, strict=True)))

    def _slices(self) -> dict[str, dict[str, SliceTally]]:
        tallies = {}
        for name, (values, codes) in self.judged.samples.slices.items():
            count = len(values)
            compared = np.bincount(codes[self.judged.both], minlength=count)
            fails = np.bincount(codes[self.picked], minlength=count)
            flips = {
                decision: np.bincount(codes[d.flips[0]], minlength=count)
                for decision, d in self.judged.decided.items()
            }
            tallies[name] = {
                value: SliceTally(
                    int(compared[i]), int(fails[i]), {d: int(n[i]) for d, n in flips.items()}
                )
                for i, value in enumerate(values)
                if compared[i] or fails[i]
            }
        return tallies

    def _failed(self) -> FailedRows:
        return FailedRows(
            self.judged.samples.ordinals_of(self.picked),
            self.judged.samples.ids_of(self.picked),
            self.rules,
            {name: (told.ref, told.cand) for name, told in self.told.items()},
        )

    def _kept(self, ordinals: Iterable[int]) -> dict[int, KeptRow]:
        wanted = np.array(sorted(ordinals), np.int64)
        places = np.searchsorted(self.judged.samples.ordinals_of(self.picked), wanted)
        at = self.picked[places]
        self.judged.fetch(at)
        ids = self.judged.samples.ids_of(at)
        each = zip(at.tolist(), places.tolist(), wanted.tolist(), ids, strict=True)
        return {ordinal: self._row(i, place, ordinal, id_) for i, place, ordinal, id_ in each}

    def _row(self, i: int, place: int, ordinal: int, sample_id: object) -> KeptRow:
        """A sample of the block, the `place`-th of those that failed."""
        values: dict[str, object] = {
            "sample_id": sample_id,
            "row": ordinal,
            "stage": self.judged.comparer.stage.name,
            "rules": rule_names(int(self.rules[place])),
            "error": self._why_unanswered(i),
            **self._batch(i),
            **self._worst_values(i, place),
        }
        for name, told in self.told.items():
            values[f"decision.{name}.ref"] = told.ref[place]
            values[f"decision.{name}.cand"] = told.cand[place]
            values[f"decision.{name}.margin"] = float(told.margin[place])
        tensors = {}
        for prefix, side in (("ref", self.judged.ref), ("cand", self.judged.cand)):
            for name, tensor in lying(side.outputs).items():
                if side.answered[i]:
                    tensors[f"{prefix}.{name}"] = np.array(sample_of(tensor, i))
        return KeptRow(ordinal, values, tensors)

    def _why_unanswered(self, i: int) -> str | None:
        """What was raised, or how a process ended; the reference's text first."""
        if self.judged.both[i]:
            return None
        return "; ".join(self.raised.get(i, ())) or None

    def _batch(self, i: int) -> dict[str, object]:
        """Batch of the pack and position in it: the candidate's, or the reference's."""
        size = self.judged.cand.batch_size or self.judged.ref.batch_size
        if not size:
            return {"batch": None, "batch_position": None}
        return {
            "batch": -(-self.judged.samples.place // size) + i // size,
            "batch_position": i % size,
        }

    def _worst_values(self, i: int, at: int) -> dict[str, object]:
        """Of a sample, the `at`-th of those that failed."""
        worst = self.worst
        output = worst.outputs[worst.output[at]] if worst.output[at] >= 0 else None
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
        detail = self.judged.details[output]
        ref, cand = (
            sample_of(lying(side.outputs)[output], i)
            for side in (self.judged.ref, self.judged.cand)
        )
        row["failing_elements"] = detail.failing_of(i)
        row["elements"] = ref.size
        index = int(worst.index[at])
        if index < 0:
            return row
        dtype = dtype_name(ref.dtype)
        if is_string(dtype):
            row.update(index=index, excess=float(worst.excess[at]))
            return row
        tolerance = self.judged.comparer.tolerance(output, dtype) or Tolerance()
        ref_value, cand_value = ref.reshape(-1)[index], cand.reshape(-1)[index]
        row.update(
            index=index,
            ref_value=float(ref_value),
            cand_value=float(cand_value),
            abs_error=_abs_error(ref_value, cand_value),
            allowed=tolerance.atol + tolerance.rtol * abs(float(ref_value)),
            excess=float(worst.excess[at]),
        )
        return row


class _Worst(Struct, frozen=True):
    """For each of some samples the output with the worst element, its keys and its index."""

    outputs: list[str]
    output: Ints
    excess: Floats
    error: Floats
    index: Ints

    @staticmethod
    def over(details: Mapping[str, SampleDetail], rows: Ints) -> _Worst:
        output: Ints = np.full(len(rows), -1, np.int64)
        excess: Floats = np.full(len(rows), -np.inf)
        error: Floats = np.full(len(rows), -np.inf)
        index: Ints = np.full(len(rows), -1, np.int64)
        for number, detail in enumerate(details.values()):
            own = detail.worst.of(rows)
            better = (own.index >= 0) & (
                (own.excess > excess) | ((own.excess == excess) & (own.error > error))
            )
            output = np.where(better, number, output)
            excess = np.where(better, own.excess, excess)
            error = np.where(better, own.error, error)
            index = np.where(better, own.index, index)
        return _Worst(list(details), output, excess, error, index)


def _abs_error(ref: np.generic, cand: np.generic) -> float:
    if is_float(dtype_name(ref.dtype)):
        return abs(float(cand) - float(ref))
    return float(abs(int(cand) - int(ref)))


def _candidates(
    primary: Floats,
    secondary: Floats,
    ordinals: Ints,
    among: Mask | np.bool_,
    limit: int,
    threshold: float,
) -> KeptCandidates:
    hopeful = np.flatnonzero((primary >= threshold) & among)
    order = rank(primary[hopeful], secondary[hopeful], ordinals[hopeful])[:limit]
    rows = hopeful[order]
    return KeptCandidates(primary[rows], secondary[rows], ordinals[rows])
