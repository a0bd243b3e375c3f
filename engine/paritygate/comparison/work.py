"""The state of one comparison of elements, from arrays to its tally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from paritygate.comparison.arrays import frozen, number_at, widest
from paritygate.comparison.details import Bits, SampleDetail, Worst
from paritygate.comparison.found import FailingSamples
from paritygate.comparison.left import Left
from paritygate.comparison.scans import Scanner
from paritygate.comparison.tiers import Chunks, FullTier
from paritygate.core.dtypes import FloatFormat
from paritygate.core.tensors import Array
from paritygate.kernels import elements, narrow, rank, scan, sums
from paritygate.tally.exact import ExactSum
from paritygate.tally.extremes import Extreme, Number
from paritygate.tally.output import MIN_RANKED_WIDTH, RULE_BITS, OutputTally

if TYPE_CHECKING:
    from paritygate.comparison.elements import ElementComparer

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


class Work:
    """The state of one `compare` call."""

    def __init__(
        self,
        comparer: ElementComparer,
        ref: Array,
        cand: Array,
        ordinals: Ints,
        rule: elements.Rule,
        *,
        is_lazy: bool,
    ) -> None:
        samples, self.width = len(ordinals), comparer.width
        self.ref, self.cand, self.ordinals, self.rule = ref, cand, ordinals, rule
        self.stats, self.integer = comparer.stats, comparer.integer
        self.single = comparer.dtypes[1] == np.float32
        self.narrow_format = comparer.narrow_format
        self.limits = comparer.limits
        self.at_limits = [0, 0, 0, 0]
        self.failing = FailingSamples()
        self.left = Left(self.width)
        self.per_sample = None if is_lazy else _room(samples)
        self._tile: elements.Detail | None = None
        self.found = elements.Found(
            classes=np.zeros((4, 4), np.int64),
            beyond=np.zeros(1, np.int64),
            best_at=np.full((2, 2), -1, np.int64),
            best_error=np.zeros(2, np.uint64 if self.integer else np.float64),
            best_excess=np.zeros(1),
        )
        self.sums = {name: Chunks() for name in ("e", "ee", "rr", "re")}
        self.full = FullTier() if self.stats == "full" else None
        self.scan: Scanner | None = None

    def add(self, start: int, stop: int) -> None:
        """Judge and measure the samples `[start, stop)`."""
        if self.scan is None:
            self.judge(start, stop)
            return
        for first, last in self.scan.not_clean(self, start, stop):
            self.left.add(first, last)

    def judge(self, start: int, stop: int) -> None:
        """Judge and measure the samples `[start, stop)` one by one."""
        errors = np.empty((stop - start) * self.width)
        part = slice(start * self.width, stop * self.width)
        ref, cand = (frozen(widest(side[part])) for side in (self.ref, self.cand))
        own = self._own(start, stop)
        judge = elements.judge_integers if self.integer else elements.judge_floats
        judge(
            ref, cand, self.width, start, stop, self.ordinals,
            self.rule, own, self.found, errors,
        )  # fmt: skip
        self.failing.add_all(start, own.rules, own.failing)
        if self.integer:
            self._count_limits(ref, cand)
        self.sums["e"].overflowed += sums.sum_errors(errors, self.sums["e"].chunks)
        if self.full is None:
            return
        elements.count_errors(errors, self.full.histogram)
        if self.integer:
            self._add_products("ee", errors, errors, errors)
        else:
            full = self.full
            full.ulp_undefined += self.measure_ulp(full, ref, cand, start, stop)
            self._measure_energy(full, ref, start, errors)

    def _own(self, start: int, stop: int) -> elements.Detail:
        room, part = self.per_sample, slice(start, stop)
        if room is None:
            part = slice(0, stop - start)
            if self._tile is None or len(self._tile.rules) < part.stop:
                self._tile = _room(part.stop)
            room = self._tile
        rules, failing, at, excess, error = room
        return elements.Detail(rules[part], failing[part], at[part], excess[part], error[part])

    def _count_limits(self, ref: Array, cand: Array) -> None:
        for side, (values, limits) in enumerate(zip((ref, cand), self.limits, strict=True)):
            for place, limit in enumerate(limits):
                self.at_limits[2 * side + place] += int(np.count_nonzero(values == limit))

    def measure_ulp(self, full: FullTier, ref: Array, cand: Array, start: int, stop: int) -> int:
        """Steps of the samples `[start, stop)`, whose values are given; how many have none."""
        form: FloatFormat | None = self.narrow_format
        if form is None:
            return elements.measure_ulp(
                ref, cand, self.width, start, stop, self.ordinals,
                self.single, self.rule.atol, full.ulp_at, full.ulp,
            )  # fmt: skip
        return narrow.measure_narrow_ulp(
            ref, cand, self.width, start, stop, self.ordinals,
            form.mantissa, form.min_exponent, form.largest,
            self.rule.atol, full.ulp_at, full.ulp,
        )  # fmt: skip

    def _measure_energy(self, full: FullTier, ref: Doubles, start: int, errors: Doubles) -> None:
        if self.width < MIN_RANKED_WIDTH:
            self._add_products("rr", ref, ref, errors)
            self._add_products("ee", errors, errors, errors)
            self._add_products("re", ref, errors, errors)
            return
        energies = np.empty((3, errors.size // self.width))
        rank.sum_samples(ref, errors, self.width, energies)
        rank.rank_samples(
            energies, 0, energies.shape[1], start, self.ordinals,
            full.rank_undefined, full.rank_at, full.rank,
        )  # fmt: skip
        for name, of_samples in zip(("ee", "rr", "re"), energies, strict=True):
            into = self.sums[name]
            into.overflowed += int(np.count_nonzero(~np.isfinite(of_samples)))
            sums.sum_errors(of_samples, into.chunks)

    def _add_products(self, name: str, left: Doubles, right: Doubles, errors: Doubles) -> None:
        into = self.sums[name]
        into.overflowed += sums.sum_products(left, right, errors, into.chunks)

    def _sum(self, row: int) -> ExactSum:
        """What the scan has summed; rows of `kernels.scan`."""
        return ExactSum() if self.scan is None else self.scan.sum(row)

    def _at_limits(self) -> tuple[int, ...]:
        scanned = [0, 0, 0, 0] if self.scan is None else self.scan.at_limits()
        return tuple(map(sum, zip(self.at_limits, scanned, strict=True)))

    def detail(self) -> SampleDetail:
        """The result of each sample."""
        detail = SampleDetail(len(self.ordinals), *self.failing.take())
        if self.per_sample is not None:
            _, _, index, excess, error = self.per_sample
            detail.looked_at(Worst(np.arange(detail.samples), index, excess, error))
        return detail

    def tally(self, detail: SampleDetail) -> OutputTally:
        """The statistics of all samples."""
        samples, rules = detail.samples - self.left.samples, detail.bits
        above, below = self.sums["e"].split()
        at, error = self.found.best_at, self.found.best_error.tolist()
        return OutputTally(
            tier="gate" if self.full is None else "full",
            integer=self.integer,
            samples=samples,
            failing_samples=int(np.count_nonzero(rules)),
            empty_samples=samples if self.width == 0 else 0,
            rule_samples=samples_by_rule(rules),
            classes=tuple(self.found.classes.reshape(-1).tolist()),
            at_limits=self._at_limits(),
            failing_elements=len(rules) if self.width == 1 else int(detail.counts.sum()),
            ref_beyond_cand_range=int(self.found.beyond[0]),
            max_abs_error=self._extreme(at[0], error[0]),
            max_excess=self._extreme(at[1], float(self.found.best_excess[0]), error[1]),
            abs_errors=above + below + self._sum(scan.ABS_E),
            errors=ExactSum(above.units - below.units, above.overflowed) + self._sum(scan.E),
            **({} if self.full is None else self._full_tier(self.full, samples)),
        )

    def _full_tier(self, full: FullTier, samples: int) -> dict[str, Any]:
        data: dict[str, Any] = {
            "squared_errors": self.sums["ee"].total() + self._sum(scan.EE),
            "histogram": full.take_histogram(),
        }
        if self.integer:
            return data
        steps = full.ulp.tolist()
        return data | {
            "squared_refs": self.sums["rr"].total() + self._sum(scan.RR),
            "ref_errors": self.sums["re"].total() + self._sum(scan.RE),
            "max_ulp": self._extreme(full.ulp_at[0], steps[0]),
            "max_ulp_above_atol": self._extreme(full.ulp_at[1], steps[1]),
            "ulp_undefined": full.ulp_undefined,
            "ranked_samples": samples if self.width >= MIN_RANKED_WIDTH else 0,
            "worst_sqnr": self._worst_sample(full, 0),
            "worst_cosine": self._worst_sample(full, 1),
            "sqnr_undefined": int(full.rank_undefined[0]),
            "cosine_undefined": int(full.rank_undefined[1]),
        }

    def _extreme(self, at: Ints, *keys: Number) -> Extreme | None:
        sample, index = at.tolist()
        if sample < 0:
            return None
        place = sample * self.width + index
        ref, cand = number_at(self.ref, place), number_at(self.cand, place)
        return Extreme(keys, int(self.ordinals[sample]), index, ref, cand)

    def _worst_sample(self, full: FullTier, row: int) -> Extreme | None:
        sample = int(full.rank_at[row])
        if sample < 0:
            return None
        figure, signal, noise = full.rank[row].tolist()
        return Extreme((figure,), int(self.ordinals[sample]), -1, signal, noise)


def _room(samples: int) -> elements.Detail:
    return elements.Detail(
        rules=np.empty(samples, np.int64),
        failing=np.empty(samples, np.int64),
        worst_at=np.empty(samples, np.int64),
        worst_excess=np.empty(samples),
        worst_error=np.empty(samples),
    )


def samples_by_rule(rules: Bits) -> tuple[int, ...]:
    """How many samples broke each of `RULES`, of the rules of each."""
    if not len(rules):
        return (0,) * len(RULE_BITS)
    some, every = (int(of.reduce(rules)) for of in (np.bitwise_or, np.bitwise_and))
    return tuple(
        len(rules)
        if every & bit
        else int(np.count_nonzero(rules & np.uint8(bit)))
        if some & bit
        else 0
        for bit in RULE_BITS
    )
