"""The mergeable statistics of one stage and of a whole run.

Every merge is pure, associative and commutative, bit for bit, so that any split over blocks,
threads, workers and resumed runs gives the same tally.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from paritygate.tally.constant import Constancy
from paritygate.tally.coverage import CoverageTally
from paritygate.tally.decision import DecisionTally
from paritygate.tally.maps import merge_maps as merge_maps
from paritygate.tally.output import OutputTally

FIRST = 5

SampleId = int | str


class Hits(Struct, frozen=True):
    """Samples that a rule caught: how many, and the first few as `(ordinal, id)`."""

    samples: int = 0
    first: tuple[tuple[int, SampleId], ...] = ()

    def merge(self, other: Hits) -> Hits:
        """Both together."""
        first = sorted({*self.first, *other.first})[:FIRST]
        return Hits(self.samples + other.samples, tuple(first))


class SliceTally(Struct, frozen=True):
    """One value of a slice column: samples compared, failed, and flips per decision."""

    samples: int = 0
    failed: int = 0
    flips: Mapping[str, int] = field(default_factory=dict)

    def merge(self, other: SliceTally) -> SliceTally:
        """Both together."""
        flips = merge_maps(self.flips, other.flips, int.__add__)
        return SliceTally(self.samples + other.samples, self.failed + other.failed, flips)


class FirstError(Struct, frozen=True):
    """The earliest text that a runner raised, and the samples that it cost."""

    ordinal: int
    text: str
    samples: int

    def merge(self, other: FirstError) -> FirstError:
        """Both together."""
        ordinal, text = min((self.ordinal, self.text), (other.ordinal, other.text))
        return FirstError(ordinal, text, self.samples + other.samples)


class StageTally(Struct, frozen=True):
    """One stage over some blocks.

    Attributes:
        seen: samples of the blocks, whatever became of them.
        compared: samples for which both sides answered.
        failed: samples that at least one rule caught.
        rejected: samples whose input breaks the contract; never run.
        as_expected: those of which the pack expects it, in no other count but `seen`.
        not_rejected: those of which the pack expects it in vain; never run.
        absent: samples that at least one recorded side doesn't have.
        missing: side -> samples that this recorded side doesn't have.
        errors: side -> what its runner raised.
        rules: (rule, output or decision) -> samples.
        layouts: (output, reference's layout, candidate's layout) -> samples, where they disagree.
        undeclared: (side, output) -> samples with an output that the stage doesn't name.
        outputs, decisions: statistics by name.
        slices: slice -> value -> counts.
        constant: output -> what its answers have in common.
    """

    seen: int = 0
    compared: int = 0
    failed: int = 0
    rejected: int = 0
    as_expected: int = 0
    not_rejected: int = 0
    absent: int = 0
    missing: Mapping[str, Hits] = field(default_factory=dict)
    errors: Mapping[str, FirstError] = field(default_factory=dict)
    rules: Mapping[tuple[str, str], Hits] = field(default_factory=dict)
    layouts: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    undeclared: Mapping[tuple[str, str], int] = field(default_factory=dict)
    outputs: Mapping[str, OutputTally] = field(default_factory=dict)
    decisions: Mapping[str, DecisionTally] = field(default_factory=dict)
    slices: Mapping[str, Mapping[str, SliceTally]] = field(default_factory=dict)
    constant: Mapping[str, Constancy] = field(default_factory=dict)

    @property
    def flips(self) -> int:
        """Flips over all decisions."""
        return sum(d.flips for d in self.decisions.values())

    def merge(self, other: StageTally) -> StageTally:
        """Both together."""
        return StageTally(
            seen=self.seen + other.seen,
            compared=self.compared + other.compared,
            failed=self.failed + other.failed,
            rejected=self.rejected + other.rejected,
            as_expected=self.as_expected + other.as_expected,
            not_rejected=self.not_rejected + other.not_rejected,
            absent=self.absent + other.absent,
            missing=merge_maps(self.missing, other.missing, Hits.merge),
            errors=merge_maps(self.errors, other.errors, FirstError.merge),
            rules=merge_maps(self.rules, other.rules, Hits.merge),
            layouts=merge_maps(self.layouts, other.layouts, int.__add__),
            undeclared=merge_maps(self.undeclared, other.undeclared, int.__add__),
            outputs=merge_maps(self.outputs, other.outputs, OutputTally.merge),
            decisions=merge_maps(self.decisions, other.decisions, DecisionTally.merge),
            slices=merge_maps(
                self.slices, other.slices, lambda a, b: merge_maps(a, b, SliceTally.merge)
            ),
            constant=merge_maps(self.constant, other.constant, Constancy.merge),
        )

    def to_json(self) -> dict[str, Any]:
        """JSON types only, keys sorted; equal tallies give equal JSON."""
        return {
            "seen": self.seen,
            "compared": self.compared,
            "failed": self.failed,
            "rejected": self.rejected,
            "as_expected": self.as_expected,
            "not_rejected": self.not_rejected,
            "absent": self.absent,
            "missing": {s: _hits(h) for s, h in sorted(self.missing.items())},
            "errors": {s: [e.ordinal, e.text, e.samples] for s, e in sorted(self.errors.items())},
            "rules": [[*key, _hits(h)] for key, h in sorted(self.rules.items())],
            "layouts": [[*key, n] for key, n in sorted(self.layouts.items())],
            "undeclared": [[*key, n] for key, n in sorted(self.undeclared.items())],
            "outputs": {n: t.to_json() for n, t in sorted(self.outputs.items())},
            "decisions": {n: t.to_json() for n, t in sorted(self.decisions.items())},
            "slices": {
                name: {
                    value: [t.samples, t.failed, dict(sorted(t.flips.items()))]
                    for value, t in sorted(values.items())
                }
                for name, values in sorted(self.slices.items())
            },
            "constant": {n: t.to_json() for n, t in sorted(self.constant.items())},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> StageTally:
        """The tally that gave this JSON."""
        return StageTally(
            seen=data["seen"],
            compared=data["compared"],
            failed=data["failed"],
            rejected=data["rejected"],
            as_expected=data["as_expected"],
            not_rejected=data["not_rejected"],
            absent=data["absent"],
            missing={s: _read_hits(h) for s, h in data["missing"].items()},
            errors={s: FirstError(*e) for s, e in data["errors"].items()},
            rules={(rule, of): _read_hits(h) for rule, of, h in data["rules"]},
            layouts={(of, ref, cand): n for of, ref, cand, n in data["layouts"]},
            undeclared={(side, of): n for side, of, n in data["undeclared"]},
            outputs={n: OutputTally.from_json(t) for n, t in data["outputs"].items()},
            decisions={n: DecisionTally.from_json(t) for n, t in data["decisions"].items()},
            slices={
                name: {value: SliceTally(*t) for value, t in values.items()}
                for name, values in data["slices"].items()
            },
            constant={n: Constancy.from_json(t) for n, t in data["constant"].items()},
        )


class Tally(Struct, frozen=True):
    """All stages over some blocks, and what their inputs exercised."""

    blocks: int = 0
    samples: int = 0
    stages: Mapping[str, StageTally] = field(default_factory=dict)
    coverage: CoverageTally = field(default_factory=CoverageTally)

    def merge(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            self.blocks + other.blocks,
            self.samples + other.samples,
            merge_maps(self.stages, other.stages, StageTally.merge),
            self.coverage.merge(other.coverage),
        )

    def to_json(self) -> dict[str, Any]:
        """JSON types only; equal tallies give equal JSON."""
        return {
            "blocks": self.blocks,
            "samples": self.samples,
            "stages": {n: t.to_json() for n, t in sorted(self.stages.items())},
            "coverage": self.coverage.to_json(),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Tally:
        """The tally that gave this JSON."""
        stages = {n: StageTally.from_json(t) for n, t in data["stages"].items()}
        coverage = CoverageTally.from_json(data["coverage"])
        return Tally(data["blocks"], data["samples"], stages, coverage)


def _hits(hits: Hits) -> list[Any]:
    return [hits.samples, [list(pair) for pair in hits.first]]


def _read_hits(data: list[Any]) -> Hits:
    return Hits(data[0], tuple((ordinal, sample_id) for ordinal, sample_id in data[1]))
