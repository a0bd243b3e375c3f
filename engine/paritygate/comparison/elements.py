"""Elements: two arrays of one output in, its tally and each sample's result out."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from paritygate.comparison.arrays import frozen, number_at, widest
from paritygate.comparison.details import NOT_LOOKED, Bits, SampleDetail, Worst
from paritygate.comparison.found import FailingSamples
from paritygate.comparison.left import Left, picked
from paritygate.comparison.looks import worst_floats
from paritygate.comparison.pairs import check_dtypes, check_exact, check_tolerance
from paritygate.comparison.scans import Scanner, scan_of
from paritygate.comparison.tiers import Chunks, FullTier
from paritygate.core.dtypes import (
    INTEGERS,
    NARROW_FLOATS,
    FloatFormat,
    float_format,
    is_float,
    is_string,
    limits_of,
    numpy_dtype,
)
from paritygate.core.errors import DenormalError
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Array
from paritygate.kernels import elements, narrow, rank, scan, sums
from paritygate.tally.exact import ExactSum
from paritygate.tally.extremes import Extreme, Number
from paritygate.tally.output import MIN_RANKED_WIDTH, RULE_BITS, OutputTally

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

_TILE = 1 << 17  # elements handled at once, so that their errors stay in the processor's cache
_SINGLE_DENORMAL = np.array([1e-40], np.float32)
_NARROW_BYTES = 2
_DOUBLE_DENORMAL = np.array([1e-310], np.float64)


class ElementComparer:
    """Compares one output element by element; stateless, so that threads may share it.

    Args:
        tolerance: what is tolerated.
        ref_dtype: dtype name of the reference.
        cand_dtype: dtype name of the candidate.
        sample_shape: shape of one sample.
        stats: "gate", or "full" for all statistics.

    Raises:
        ValueError: a tolerance out of its range, or a pair of dtypes that can't be compared.
    """

    def __init__(
        self,
        tolerance: Tolerance,
        ref_dtype: str,
        cand_dtype: str,
        sample_shape: tuple[int, ...],
        stats: Literal["gate", "full"],
    ) -> None:
        check_tolerance(tolerance)
        check_dtypes(ref_dtype, cand_dtype)
        check_exact(tolerance, ref_dtype)
        if is_string(ref_dtype):
            raise ValueError("texts have no errors to measure; compare them with TextComparer")
        if stats not in ("gate", "full"):
            raise ValueError(f"stats: found {stats!r}, allowed are 'gate' and 'full'")
        self.tolerance = tolerance
        self.dtypes = (numpy_dtype(ref_dtype), numpy_dtype(cand_dtype))
        self.sample_shape = sample_shape
        self.width = math.prod(sample_shape)
        self.stats = stats
        self.integer = not is_float(ref_dtype)
        self.narrow_format = float_format(cand_dtype) if cand_dtype in NARROW_FLOATS else None
        self.limits = tuple(_limits(dtype) for dtype in (ref_dtype, cand_dtype))
        self._rule = self._make_rule(ref_dtype, cand_dtype)

    def _make_rule(self, ref_dtype: str, cand_dtype: str) -> elements.Rule:
        beyond = math.inf
        if not self.integer:
            overflow = float_format(cand_dtype).overflow
            beyond = overflow if float_format(ref_dtype).largest >= overflow else math.inf
        exceeded, hard_cap, candidate, reference, mismatch = RULE_BITS
        return elements.Rule(
            atol=float(self.tolerance.atol),
            rtol=float(self.tolerance.rtol),
            cap=math.inf if self.tolerance.max_abs is None else float(self.tolerance.max_abs),
            outliers=self.tolerance.outliers_allowed(self.width),
            match=self.tolerance.nonfinite == "match",
            beyond=beyond,
            bits=(exceeded, hard_cap, candidate, reference, mismatch),
        )

    def compare(
        self,
        ref: Array,
        cand: Array,
        ordinals: Ints,
        *,
        is_lazy: bool = False,
        in_order: bool = False,
    ) -> tuple[OutputTally, SampleDetail]:
        """Compare samples.

        Args:
            ref: `(samples, *sample_shape)` of the reference.
            cand: the same of the candidate.
            ordinals: `(samples,)` int64, row of each sample over all golden files.
            is_lazy: good samples may be left without their worst element, which is faster; see
                `look_at`.
            in_order: ordinals are known to ascend.

        Raises:
            ValueError: an array of another dtype or shape than declared.
            DenormalError: this thread flushes denormals to zero.
        """
        _check_denormals()
        samples = len(ordinals)
        return self._judge(
            self._flat("reference", ref, self.dtypes[0], samples),
            self._flat("candidate", cand, self.dtypes[1], samples),
            frozen(np.asarray(ordinals, dtype=np.int64)),
            is_lazy=is_lazy,
            in_order=in_order,
        )

    def _judge(
        self,
        ref: Array,
        cand: Array,
        ordinals: Ints,
        *,
        is_lazy: bool,
        in_order: bool,
        may_scan: bool = True,
        is_part: bool = False,
    ) -> tuple[OutputTally, SampleDetail]:
        work = _Work(self, ref, cand, ordinals, self._rule, is_lazy=is_lazy)
        if is_lazy and may_scan:
            work.scan = scan_of(work, work.full, in_order=in_order)
        samples = len(ordinals)
        tile = _TILE if work.scan is None else _TILE * work.scan.tiles
        for start in range(0, samples, step := max(1, tile // max(1, self.width))):
            work.add(start, min(start + step, samples))
        detail = work.detail()
        tally = work.tally(detail)
        if work.left.samples:
            tally, detail = self._judge_left(work, tally, detail, can_split=not is_part)
        return tally, detail

    def _judge_left(
        self, work: _Work, tally: OutputTally, detail: SampleDetail, *, can_split: bool
    ) -> tuple[OutputTally, SampleDetail]:
        """Judge what the scan left: first whatever can be scanned without its neighbours."""
        left = work.left
        parts = left.split(work.ref, work.cand, self._rule) if can_split else left.whole()
        for rows, may_scan in parts:
            part, found = self._judge(
                picked(work.ref, rows, self.width),
                picked(work.cand, rows, self.width),
                frozen(work.ordinals[rows]),
                is_lazy=True,
                in_order=True,
                may_scan=may_scan,
                is_part=True,
            )
            tally, detail = tally.merge(part), detail.beside(rows, found)
        return tally, detail

    def look_at(self, detail: SampleDetail, rows: Ints, ref: Array, cand: Array) -> None:
        """Look for the worst elements of samples that were left without.

        Args:
            detail: of all samples; completed.
            rows: samples that may be wanted.
            ref: as given to `compare`.
            cand: as given to `compare`.
        """
        left = rows
        if detail.worst.rows.size:
            left = rows[detail.worst.of(rows).index == NOT_LOOKED]
        if left.size:
            detail.looked_at(self._worst_of(left, ref, cand))

    def _worst_of(self, rows: Ints, ref: Array, cand: Array) -> Worst:
        if self.width and not self.integer:
            return worst_floats(rows, ref, cand, self._rule)
        _, found = self.compare(ref[rows], cand[rows], rows)
        return Worst(rows, found.worst.index, found.worst.excess, found.worst.error)

    def _flat(self, side: str, array: Array, dtype: np.dtype[Any], samples: int) -> Array:
        shape = (samples, *self.sample_shape)
        if array.dtype.newbyteorder("=") != dtype or array.shape != shape:
            raise ValueError(
                f"{side}: found {array.dtype.name}{list(array.shape)}, this comparison is of "
                f"{dtype.name}{list(shape)}; pass arrays as they were declared"
            )
        if dtype == np.bool_:
            return frozen((array.view(np.uint8) != 0).view(np.uint8))
        return frozen(np.asarray(array, dtype=dtype))


class _Work:
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
            rule_samples=_samples_by_rule(rules),
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


def _samples_by_rule(rules: Bits) -> tuple[int, ...]:
    some, every = (int(of.reduce(rules)) for of in (np.bitwise_or, np.bitwise_and))
    return tuple(
        len(rules)
        if every & bit
        else int(np.count_nonzero(rules & np.uint8(bit)))
        if some & bit
        else 0
        for bit in RULE_BITS
    )


def _limits(dtype: str) -> tuple[int, ...]:
    """Smallest and largest number of a dtype that quantised values come in; else nothing."""
    is_narrow = dtype in INTEGERS and numpy_dtype(dtype).itemsize <= _NARROW_BYTES
    return limits_of(dtype) if is_narrow else ()


def _check_denormals() -> None:
    if not elements.denormals_survive(_SINGLE_DENORMAL, _DOUBLE_DENORMAL):
        raise DenormalError(
            "this thread flushes denormal numbers to zero, so that 1e-40 and 2e-40 would compare "
            "equal; a runtime option such as 'set_denormal_as_zero' or a library built with fast "
            "math switched it on: turn the option off, or run that runner in its own process"
        )
