"""What goes into the comparison of a block and what comes out: one row a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from paritygate.comparison.keep import KeptRow
from paritygate.core.ragged import Tensor
from paritygate.core.tensors import Array
from paritygate.tally.stage import FirstError, Hits, StageTally

Ids = npt.NDArray[np.int64] | npt.NDArray[np.object_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


_KEPT = 16  # masks of so many lengths
_FEW = 64  # one sample of so many: their ids are looked up by themselves


class ReadsIds(Protocol):
    """Where ids are read once somebody asks for them."""

    def ids(self, start: int, stop: int) -> Ids:
        """Of the samples `[start, stop)`."""

    def take_ids(self, rows: Ints) -> Ids:
        """Of these samples."""


class SampleRows(Struct, frozen=True, dict=True):
    """The samples of a block that were run, in pack order.

    Attributes:
        place: of the first one among all samples, as batches are counted.
        rows: their rows over all golden files, `(n,)` or a range.
        named: `(n,)` ids, int64 or str objects; or where those of a range are read.
        labels: label column -> `(n,)` values.
        slices: slice -> (values, `(n,)` codes into them).
        rejected: samples of the block that break the contract and were not run.
        as_expected: those of which the pack expects it.
        not_rejected: samples that were to be rejected but break nothing; not run either.
    """

    place: int
    rows: range | Ints
    named: Ids | ReadsIds
    labels: Mapping[str, Array]
    slices: Mapping[str, tuple[list[str], npt.NDArray[np.int32]]]
    rejected: Hits
    as_expected: int = 0
    not_rejected: Hits = field(default_factory=Hits)

    @property
    def count(self) -> int:
        """Samples that were run."""
        return len(self.rows)

    @cached_property
    def ordinals(self) -> Ints:
        """`(n,)` row over all golden files; of a range made when it is asked for."""
        rows = self.rows
        return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows

    @cached_property
    def ids(self) -> Ids:
        """`(n,)` int64 or str objects; read when they are asked for."""
        if isinstance(self.named, np.ndarray):
            return self.named
        return self.named.ids(int(self.rows[0]), int(self.rows[-1]) + 1)

    def ordinals_of(self, at: Ints) -> Ints:
        """Ordinals of the samples at these places of the block."""
        return self.rows.start + at if isinstance(self.rows, range) else self.rows[at]

    def ids_of(self, at: Ints) -> Ids:
        """Ids of the samples at these places of the block."""
        if not len(at):
            return np.empty(0, np.int64)
        if isinstance(self.named, np.ndarray) or _FEW * len(at) > self.count:
            return self.ids[at]
        return self.named.take_ids(self.ordinals_of(at))

    def counted(self) -> tuple[int, Ints]:
        """A first ordinal, and what `(n,)` ascending numbers add to it."""
        if isinstance(self.rows, range):
            return self.rows.start, _count_to(len(self.rows))
        return 0, self.rows


_counts: Ints = np.arange(0)


def _count_to(stop: int) -> Ints:
    """0, 1, ... in memory that all threads share; read-only."""
    global _counts
    counts = _counts
    if len(counts) < stop:
        counts = np.arange(stop)
        counts.flags.writeable = False
        _counts = counts
    return counts[:stop]


@lru_cache(_KEPT)
def all_of(count: int) -> Mask:
    """A mask of all samples, in no memory."""
    return np.broadcast_to(np.True_, count)


@lru_cache(_KEPT)
def none_of(count: int) -> Mask:
    """A mask of no sample, in no memory."""
    return np.broadcast_to(np.False_, count)


def is_all(mask: Mask) -> bool:
    """Whether a mask is of all samples; of one that `all_of` made without looking."""
    return bool(mask[:1].all() if mask.strides == (0,) else mask.all())


class Failure(Struct, frozen=True):
    """Samples of a block that a runner gave no answer for.

    Attributes:
        rows: `(k,)` positions in the block, ascending.
        rule: of `SAMPLE_RULES`.
        text: what was raised, or how it ended.
    """

    rows: Ints
    rule: str
    text: str


class Side(Struct, frozen=True):
    """What one runner answered for a block.

    Attributes:
        outputs: name -> `(n, *shape)`, or one array a sample.
        answered: `(n,)` whether the sample has an answer.
        missing: `(n,)` whether a recording lacks the sample.
        failures: why samples have no answer, other than that a recording lacks them; disjoint.
        batch_size: rows in a batch, for locating a sample; 0 where there are no batches.
    """

    outputs: Mapping[str, Tensor]
    answered: Mask
    missing: Mask
    failures: Sequence[Failure] = ()
    batch_size: int = 0

    def error(self, ordinals: Ints, rule: str = "", among: Mask | None = None) -> FirstError | None:
        """The first failure and the samples that failures cost; None where there are none.

        Args:
            ordinals: of the block's samples.
            rule: only failures by this rule; empty: all.
            among: `(n,)` only these samples; None: all.
        """
        first: FirstError | None = None
        for failure in self.failures:
            rows = failure.rows if among is None else failure.rows[among[failure.rows]]
            if len(rows) and rule in ("", failure.rule):
                error = FirstError(int(ordinals[rows[0]]), failure.text, len(rows))
                first = error if first is None else first.merge(error)
        return first


class FailedRows(Struct, frozen=True):
    """Failing samples of one block and stage, in pack order; never truncated."""

    ordinals: Ints
    ids: Ids
    rules: Ints
    decisions: Mapping[str, tuple[list[str], list[str]]]


class KeptCandidates(Struct, frozen=True):
    """Rows that may enter a bounded set, with the keys of all of them."""

    primary: Floats
    secondary: Floats
    ordinals: Ints


class StageResult(Struct, frozen=True):
    """One stage over one block."""

    tally: StageTally
    failed: FailedRows
    worst: KeptCandidates
    flips: KeptCandidates
    rows: Mapping[int, KeptRow] = field(default_factory=dict)


class KeepHint(Struct, frozen=True):
    """What the bounded sets hold by now: rows below a threshold need not be copied."""

    limit: int
    worst: float = -np.inf
    flips: float = -np.inf
