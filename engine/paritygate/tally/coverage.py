"""What the samples of some blocks exercised: values of inputs, sizes of dims and of batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from paritygate.tally.decision import UNDEFINED, DecisionTally
from paritygate.tally.maps import merge_maps
from paritygate.tally.pairs import Code

Number = int | float


class Span(Struct, frozen=True):
    """The smallest and the largest of some numbers, and of how many samples each is."""

    low: Number
    high: Number
    at_low: int = 1
    at_high: int = 1

    def merge(self, other: Span) -> Span:
        """Both together."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Span(
            low,
            high,
            sum(span.at_low for span in (self, other) if span.low == low),
            sum(span.at_high for span in (self, other) if span.high == high),
        )


class InputCover(Struct, frozen=True):
    """Values of one input.

    Attributes:
        samples: samples looked at.
        zeros: those whose elements are all zero.
        channels: smallest and largest value of each channel, and the samples that have it; None
            where nothing but NaN was seen.
        several: samples whose channels have two elements or more.
        constant: those of them in which all elements of a channel are the same, by channel.
    """

    samples: int
    zeros: int
    channels: tuple[Span | None, ...]
    several: int
    constant: tuple[int, ...]

    def merge(self, other: InputCover) -> InputCover:
        """Both together.

        Raises:
            ValueError: they have other channels.
        """
        pairs = zip(self.channels, other.channels, strict=True)
        return InputCover(
            self.samples + other.samples,
            self.zeros + other.zeros,
            tuple(_both(ours, theirs) for ours, theirs in pairs),
            self.several + other.several,
            tuple(a + b for a, b in zip(self.constant, other.constant, strict=True)),
        )


class Batches(Struct, frozen=True):
    """Batches of one size that ran: whole ones, and tails that were padded to it."""

    whole: int = 0
    padded: int = 0

    def merge(self, other: Batches) -> Batches:
        """Both together."""
        return Batches(self.whole + other.whole, self.padded + other.padded)


class CoverageTally(Struct, frozen=True):
    """What some blocks exercised.

    Attributes:
        inputs: by name, of those that are looked at.
        dims: sizes of each dim that has a name in the plan.
        batches: (runner, rows) -> batches.
        synthetic: samples that ran and are no acceptance evidence.
    """

    inputs: Mapping[str, InputCover] = field(default_factory=dict)
    dims: Mapping[str, Span] = field(default_factory=dict)
    batches: Mapping[tuple[str, int], Batches] = field(default_factory=dict)
    synthetic: int = 0

    def merge(self, other: CoverageTally) -> CoverageTally:
        """Both together."""
        return CoverageTally(
            merge_maps(self.inputs, other.inputs, InputCover.merge),
            merge_maps(self.dims, other.dims, Span.merge),
            merge_maps(self.batches, other.batches, Batches.merge),
            self.synthetic + other.synthetic,
        )

    def to_json(self) -> dict[str, Any]:
        """JSON types only, keys sorted; equal tallies give equal JSON."""
        return {
            "inputs": {
                name: [
                    t.samples,
                    t.zeros,
                    [_span(c) for c in t.channels],
                    t.several,
                    list(t.constant),
                ]
                for name, t in sorted(self.inputs.items())
            },
            "dims": {name: _span(t) for name, t in sorted(self.dims.items())},
            "batches": [[*key, t.whole, t.padded] for key, t in sorted(self.batches.items())],
            "synthetic": self.synthetic,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CoverageTally:
        """The tally that gave this JSON."""
        dims = {name: _read_span(span) for name, span in data["dims"].items()}
        return CoverageTally(
            {
                name: InputCover(
                    samples, zeros, tuple(_read_span(c) for c in channels), several, tuple(constant)
                )
                for name, (samples, zeros, channels, several, constant) in data["inputs"].items()
            },
            {name: span for name, span in dims.items() if span is not None},
            {(runner, rows): Batches(*counts) for runner, rows, *counts in data["batches"]},
            data["synthetic"],
        )


def reference_counts(tally: DecisionTally) -> dict[Code, int]:
    """How often the reference decided each class or value; of top-k, how often it is among them."""
    counts: dict[Code, int] = {}
    for (ref, _), n in tally.matrix.items():
        if ref != UNDEFINED:
            counts[ref] = counts.get(ref, 0) + n
    return counts


def _both(ours: Span | None, theirs: Span | None) -> Span | None:
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return ours.merge(theirs)


def _span(span: Span | None) -> list[Any] | None:
    if span is None:
        return None
    return [_number(span.low), _number(span.high), span.at_low, span.at_high]


def _number(value: Number) -> int | str:
    return value if isinstance(value, int) else value.hex()


def _read_span(data: Sequence[Any] | None) -> Span | None:
    if data is None:
        return None
    low, high = (float.fromhex(v) if isinstance(v, str) else v for v in data[:2])
    return Span(low, high, *data[2:])
