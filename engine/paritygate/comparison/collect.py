"""From what was found out about a block to its tally and its failing rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paritygate.comparison.elements import SampleDetail
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
from paritygate.core.ragged import row_of
from paritygate.core.verdict import rule_names
from paritygate.tally.stage import FIRST, Hits, SliceTally, StageTally

_NONE = KeptCandidates(np.empty(0), np.empty(0), np.empty(0, np.int64))


def collect(judged: Judged, hint: KeepHint) -> StageResult:
    """Count a judged block, and pick the rows that may be kept whole."""
    return _Collecting(judged).result(hint)


class _Collecting:
    def __init__(self, judged: Judged) -> None:
        self.judged = judged

    @cached_property
    def worst(self) -> _Worst:
        return _Worst.over(self.judged.details, self.judged.samples.count)

    def result(self, hint: KeepHint) -> StageResult:
        """Count, and pick the rows that may be kept whole."""
        failed = self.judged.rules != 0
        picked = np.flatnonzero(failed)
        if not len(picked):
            return StageResult(self._tally(failed), self._failed(picked), _NONE, _NONE)
        self.judged.look_at(picked)
        worst = self.worst
        flip_margin = self._flip_margin()
        ordinals = self.judged.samples.ordinals
        flipped = np.flatnonzero(flip_margin > -np.inf)
        flips = _candidates(flip_margin, worst.excess, ordinals, flipped, hint.limit, hint.flips)
        by_excess = _candidates(worst.excess, worst.error, ordinals, picked, hint.limit, hint.worst)
        rows = self._rows({*flips.ordinals.tolist(), *by_excess.ordinals.tolist()})
        return StageResult(self._tally(failed), self._failed(picked), by_excess, flips, rows)

    def _flip_margin(self) -> Floats:
        margin: Floats = np.full(self.judged.samples.count, -np.inf)
        for detail in self.judged.decided.values():
            defined = np.where(np.isnan(detail.margin), 0.0, detail.margin)
            margin = np.where(detail.flipped, np.maximum(margin, defined), margin)
        return margin

    def _tally(self, failed: Mask) -> StageTally:
        samples = self.judged.samples
        missing = {
            side: self._hits(self.judged.subjects[("sample.missing", side)])
            for side in ("reference", "candidate")
            if ("sample.missing", side) in self.judged.subjects
        }
        errors = {
            side: error
            for side, error in (
                ("reference", self.judged.ref.error(samples.ordinals)),
                ("candidate", self.judged.cand.error(samples.ordinals)),
            )
            if error is not None
        }
        rules = {key: self._hits(mask) for key, mask in self.judged.subjects.items()}
        if samples.rejected.samples:
            rules[("sample.rejected", "")] = samples.rejected
        if samples.not_rejected.samples:
            rules[("contract.not_rejected", "")] = samples.not_rejected
        not_run = samples.rejected.samples + samples.as_expected + samples.not_rejected.samples
        return StageTally(
            seen=samples.count + not_run,
            compared=int(self.judged.both.sum()),
            failed=int(failed.sum()),
            rejected=samples.rejected.samples,
            as_expected=samples.as_expected,
            not_rejected=samples.not_rejected.samples,
            absent=int((self.judged.ref.missing | self.judged.cand.missing).sum()),
            missing=missing,
            errors=errors | self.judged.errors,
            rules=rules,
            layouts=self.judged.layouts,
            undeclared=self.judged.undeclared,
            outputs=self.judged.outputs,
            decisions=self.judged.tallies,
            slices=self._slices(failed),
            constant=self.judged.constant,
        )

    def _hits(self, mask: Mask) -> Hits:
        first = np.flatnonzero(mask)[:FIRST]
        ids = self.judged.samples.ids[first].tolist()
        return Hits(
            int(mask.sum()),
            tuple(zip(self.judged.samples.ordinals[first].tolist(), ids, strict=True)),
        )

    def _slices(self, failed: Mask) -> dict[str, dict[str, SliceTally]]:
        tallies = {}
        for name, (values, codes) in self.judged.samples.slices.items():
            count = len(values)
            compared = np.bincount(codes[self.judged.both], minlength=count)
            fails = np.bincount(codes[failed], minlength=count)
            flips = {
                decision: np.bincount(codes[d.flipped], minlength=count)
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

    def _failed(self, picked: Ints) -> FailedRows:
        return FailedRows(
            self.judged.samples.ordinals[picked],
            self.judged.samples.ids[picked],
            self.judged.rules[picked],
            {
                name: _told(d.tell(i) for i in picked.tolist())
                for name, d in self.judged.decided.items()
            },
        )

    def _rows(self, ordinals: Iterable[int]) -> dict[int, KeptRow]:
        at = np.searchsorted(self.judged.samples.ordinals, np.array(sorted(ordinals), np.int64))
        return {int(self.judged.samples.ordinals[i]): self._row(int(i)) for i in at}

    def _row(self, i: int) -> KeptRow:
        values: dict[str, object] = {
            "sample_id": self.judged.samples.ids[i],
            "row": int(self.judged.samples.ordinals[i]),
            "stage": self.judged.comparer.stage.name,
            "rules": rule_names(int(self.judged.rules[i])),
            "error": self._why_unanswered(i),
            **self._batch(i),
            **self._worst_values(i),
        }
        for name, d in self.judged.decided.items():
            ref, cand = d.tell(i)
            values[f"decision.{name}.ref"] = ref
            values[f"decision.{name}.cand"] = cand
            values[f"decision.{name}.margin"] = float(d.margin[i])
        tensors = {}
        for prefix, side in (("ref", self.judged.ref), ("cand", self.judged.cand)):
            for name, array in side.outputs.items():
                if side.answered[i]:
                    tensors[f"{prefix}.{name}"] = np.array(row_of(array, i))
        return KeptRow(int(self.judged.samples.ordinals[i]), values, tensors)

    def _why_unanswered(self, i: int) -> str | None:
        """What was raised, or how a process ended; the reference's text first."""
        if self.judged.both[i]:
            return None
        sides = (self.judged.ref, self.judged.cand)
        texts = [f.text for side in sides for f in side.failures if i in f.rows]
        return "; ".join(texts) or None

    def _batch(self, i: int) -> dict[str, object]:
        """Batch of the pack and position in it: the candidate's, or the reference's."""
        size = self.judged.cand.batch_size or self.judged.ref.batch_size
        if not size:
            return {"batch": None, "batch_position": None}
        return {
            "batch": -(-self.judged.samples.place // size) + i // size,
            "batch_position": i % size,
        }

    def _worst_values(self, i: int) -> dict[str, object]:
        worst = self.worst
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
        detail = self.judged.details[output]
        ref, cand = (
            row_of(side.outputs[output], i) for side in (self.judged.ref, self.judged.cand)
        )
        row["failing_elements"] = int(detail.failing_elements[i])
        row["elements"] = ref.size
        index = int(detail.worst_index[i])
        if index < 0:
            return row
        dtype = dtype_name(ref.dtype)
        if is_string(dtype):
            row.update(index=index, excess=float(detail.worst_excess[i]))
            return row
        tolerance = self.judged.comparer.tolerance(output, dtype) or Tolerance()
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


def _told(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    both = list(pairs)
    return [ref for ref, _ in both], [cand for _, cand in both]


def _abs_error(ref: np.generic, cand: np.generic) -> float:
    if is_float(dtype_name(ref.dtype)):
        return abs(float(cand) - float(ref))
    return float(abs(int(cand) - int(ref)))


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
