"""Decisions of arrays that lie on a GPU: the same rules and tallies as of `decisions`."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from paritygate.comparison.decide.bands import BandJudge
from paritygate.comparison.decide.base import Codes, choose_compare_as, only_on_cpu
from paritygate.comparison.decide.counts import Rows
from paritygate.comparison.decide.detail import DecisionDetail, LazyDetail
from paritygate.comparison.decide.device_counts import (
    Flipped,
    edge_sides,
    flipped_samples,
    tally_of,
)
from paritygate.comparison.decide.device_sides import Room, SideMaker, bits_of, make_sides
from paritygate.comparison.decide.topk import TopkJudge
from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.decisions_add_up import what_is_wrongly_listed
from paritygate.comparison.device_sides import side_of
from paritygate.comparison.on_device import on_device
from paritygate.core.dtypes import dtype_name, element_bytes, numpy_dtype
from paritygate.core.errors import DeviceError
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array
from paritygate.gpu import kinds
from paritygate.gpu.decided import Counted, DecisionsTally
from paritygate.gpu.tally import MOST
from paritygate.gpu.tensor import DeviceTensor
from paritygate.tally.decision import DecisionTally


class DeviceDecisions(DecisionComparer):
    """Derives bands, argmax and top-k from both sides of an output on the current device.

    Args:
        rule: of bands, argmax or top-k, without a transform.
        tolerance: of the output.
        ref_dtype: dtype name of the reference.
        cand_dtype: dtype name of the candidate.
        sample_shape: shape of one sample.
        stats: "full" adds the histogram of all margins.

    Raises:
        ValueError: as of `DecisionComparer`, or what isn't decided on a device.
    """

    def __init__(
        self,
        rule: DecisionRule,
        tolerance: Tolerance,
        ref_dtype: str,
        cand_dtype: str,
        sample_shape: tuple[int, ...],
        stats: Literal["gate", "full"],
    ) -> None:
        where = f"decision {rule.name!r} of output {rule.output!r}"
        kind = only_on_cpu(rule)
        if kind:
            raise ValueError(
                f"{where}: a GPU decides bands, argmax and topk of scores as they are, not {kind}; "
                "decide it on the CPU"
            )
        super().__init__(rule, tolerance, ref_dtype, cand_dtype, sample_shape, stats)
        self._compare_as = choose_compare_as(rule, ref_dtype, cand_dtype, where)
        is_ranked = rule.bands is None
        self._makers = (
            SideMaker(ref_dtype, ref_dtype, is_ranked=is_ranked),
            SideMaker(cand_dtype, ref_dtype, is_ranked=is_ranked),
        )
        self._has_other = any(maker.has_other for maker in self._makers)
        if isinstance(self._ranked, BandJudge):
            main, other, _ = self._ranked.edges
            self._has_other |= not np.array_equal(main, other)

    def begin(self) -> Deciding:
        """Decisions of batches, whose tally stays on the device until it is asked for."""
        return Deciding(self)

    def compare_lazily(
        self, ref: Any, cand: Any, ordinals: Codes | range, truth: Codes | None = None
    ) -> tuple[DecisionTally, LazyDetail]:
        """Decide samples; as `begin`, one batch and `finish`.

        Both arrays stay as they are while the detail is asked.

        Raises:
            ValueError: as of `Deciding.add`.
        """
        deciding = self.begin()
        deciding.add(ref, cand, ordinals, truth)
        tally, flipped = deciding.finish()
        return tally, self.detail(flipped, ref, cand)

    def detail(self, flipped: Flipped, ref: Any, cand: Any) -> LazyDetail:
        """Decisions of samples of arrays, which stay as they are while they are asked for."""

        def look(rows: Codes) -> DecisionDetail:
            return self.look_at(rows, ref, cand)

        return LazyDetail(flipped.rows, flipped.margins, look)

    def look_at(self, rows: Codes, ref: Any, cand: Any) -> DecisionDetail:
        """What was decided of some samples, whose values come to the host.

        Args:
            rows: samples of the arrays.
            ref: as given to `Deciding.add`.
            cand: the same.
        """
        ours, theirs = (
            _picked(side, rows, dtype)
            for side, dtype in zip((ref, cand), self._dtypes, strict=True)
        )
        return self.compare(ours, theirs, np.arange(rows.size))[1]

    def _flat(self, side: str, array: Any, dtype: str, samples: int) -> Any:
        """Flat values on the device of an array there or of the host.

        Raises:
            ValueError: another dtype or shape than announced, not C-contiguous, or too large.
        """
        if isinstance(array, np.ndarray):
            self._check_array(side, array, dtype, samples)
            native = array.astype(array.dtype.newbyteorder("="), copy=False)
            array = bits_of(np.ascontiguousarray(native), dtype)
        found = on_device(array)
        shape = (samples, *self._shape)
        size = element_bytes(dtype)
        known = numpy_dtype(dtype), np.dtype(f"u{size}"), side_of(dtype).stored
        if tuple(found.shape) != shape or found.dtype not in known:
            raise ValueError(
                f"decision {self._rule.name!r}: {side} is "
                f"{dtype_name(found.dtype)}{list(found.shape)}, announced was {dtype}{list(shape)}"
            )
        if found.size > MOST:
            raise ValueError(
                f"decision {self._rule.name!r}: {side} has {found.size:,} elements, at most "
                f"{MOST:,} are decided at once; cut the batch into smaller ones"
            )
        if not found.size:
            return found
        if not found.is_c_contiguous():
            raise ValueError(
                f"decision {self._rule.name!r}: {side} isn't C-contiguous; copy it first"
            )
        return bits_of(found.reshape(found.size), dtype)

    def kind(self) -> kinds.AnyKind:
        """What the rule's kernel keeps on the device."""
        if isinstance(self._ranked, BandJudge):
            main, other, tie_up = self._ranked.edges
            return kinds.Bands(np.stack((main, other)), tie_up)
        layout = self._layout
        assert layout.axis is not None
        stride = math.prod(self._shape[layout.axis :])
        renamed = np.empty(0, np.int64) if self._cand_codes is None else self._cand_codes[:-1]
        if isinstance(self._ranked, TopkJudge):
            k, is_ranked = self._ranked.k, self._ranked.is_ranked
            return kinds.Topk(layout.classes, stride, renamed, k, is_ranked=is_ranked)
        return kinds.Argmax(layout.classes, stride, renamed)

    def counter(self, kind: kinds.AnyKind) -> DecisionsTally:
        """What counts batches."""
        return DecisionsTally(
            kind,
            self._layout.each,
            match=self._tolerance.nonfinite == "match",
            atol=self._tolerance.atol,
            rtol=self._tolerance.rtol,
            is_full=self._stats == "full",
        )

    def sides(
        self, ref: Any, cand: Any, samples: int, truth: Any, rooms: tuple[Room, Room]
    ) -> kinds.Sides | None:
        """A batch as it is decided, converted in such room; None if there is nothing to decide."""
        values = (
            self._flat("ref", ref, self._dtypes[0], samples),
            self._flat("cand", cand, self._dtypes[1], samples),
        )
        if truth is not None and tuple(truth.shape) != (samples,):
            raise ValueError(
                f"decision {self._rule.name!r}: {truth.size} labels for {samples} samples"
            )
        if not values[0].size:
            return None
        return make_sides(self._makers, values, self._compare_as, rooms, has_other=self._has_other)

    def finish(
        self, counted: Counted, kind: kinds.AnyKind, batches: Batches, *, is_labelled: bool
    ) -> tuple[DecisionTally, Flipped]:
        """The tally of all batches, and the samples that flipped.

        Raises:
            DeviceError: what is listed as flipped can't be.
        """
        each = self._layout.each
        problem = what_is_wrongly_listed(
            counted.rows,
            counted.margins,
            counted.pairs,
            batches.samples * each,
            kind.codes,
            judge=self._ranked,
            match=self._tolerance.nonfinite == "match",
        )
        if problem:
            raise DeviceError(problem)
        flipped = flipped_samples(counted, each)
        sample, position = np.divmod(counted.rows, max(1, each))
        rows = Rows(
            batches.of(flipped.rows),
            each,
            self._layout.positions is not None,
            np.searchsorted(flipped.rows, sample) * each + position,
        )
        total = batches.samples * each
        tally = tally_of(counted, self._counting, rows, total, is_labelled=is_labelled)
        if isinstance(self._ranked, BandJudge) and counted.of_kind is not None:
            main, _, tie_up = self._ranked.edges
            tally = replace(tally, edges=edge_sides(tally, main, tie_up, *counted.of_kind))
        return replace(tally, samples=batches.samples, flips=flipped.rows.size), flipped


class Batches:
    """Ordinals of the samples of all batches."""

    def __init__(self) -> None:
        self.samples = 0
        self._starts: list[int] = []
        self._ordinals: list[Codes | range] = []

    def add(self, ordinals: Codes | range) -> None:
        """Take in those of a batch."""
        self._starts.append(self.samples)
        self._ordinals.append(ordinals)
        self.samples += len(ordinals)

    def of(self, rows: Codes) -> Codes:
        """Those of some samples, ascending numbers as they were added."""
        found: list[Codes] = [np.empty(0, np.int64)]
        bounds = np.searchsorted(rows, [*self._starts, self.samples]).tolist()
        for start, (low, high), own in zip(
            self._starts, pairwise(bounds), self._ordinals, strict=True
        ):
            numbers = rows[low:high] - start
            found.append(numbers + own.start if isinstance(own, range) else own[numbers])
        return np.concatenate(found)


class Deciding:
    """Batches that are decided on a device."""

    def __init__(self, comparer: DeviceDecisions) -> None:
        self._comparer, self._kind = comparer, comparer.kind()
        self._counter = comparer.counter(self._kind)
        self._batches = Batches()
        self._rooms: tuple[Room, Room] = ({}, {})
        self._is_labelled = False

    def add(self, ref: Any, cand: Any, ordinals: Codes | range, truth: Any = None) -> None:
        """Decide a batch; nothing is waited for.

        Args:
            ref: `(samples, *sample_shape)` of the reference: what has `__cuda_array_interface__`,
                not to be changed until the device is done, in the announced dtype or, of at most
                two bytes an element, as uint8 or uint16; or a NumPy array, which is copied.
            cand: the same of the candidate.
            ordinals: `(samples,)` int64, row of each sample over all golden files; or a range of
                step 1.
            truth: `(samples,)` as of `DecisionComparer.truth_codes`, on the host or on the device;
                or None without labels.

        Raises:
            ValueError: arrays that aren't what was announced, not C-contiguous or too large; or a
                range of another step.
        """
        if isinstance(ordinals, range) and ordinals.step != 1:
            raise ValueError(f"ordinals: found {ordinals}, allowed is a range of step 1")
        if not isinstance(ordinals, range):
            ordinals = np.ascontiguousarray(ordinals, np.int64)
        sides = self._comparer.sides(ref, cand, len(ordinals), truth, self._rooms)
        self._batches.add(ordinals)
        self._is_labelled |= truth is not None
        if sides is not None:
            self._counter.add(sides, ordinals, truth)

    def clear(self) -> None:
        """Decide anew, in the same memory; nothing is waited for."""
        self._batches, self._is_labelled = Batches(), False
        self._counter.clear()

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes, beside the batches."""
        rooms = [array for room in self._rooms for array in room.values()]
        own = sum(int(array.nbytes) for array in rooms)
        return self._counter.bytes_held + self._kind.bytes_held + own

    def finish(self) -> tuple[DecisionTally, Flipped]:
        """The tally of all batches, and the samples that flipped, numbered as they were added."""
        return self._comparer.finish(
            self._counter.read(), self._kind, self._batches, is_labelled=self._is_labelled
        )


def _picked(array: Any, rows: Codes, dtype: str) -> Array:
    """Some samples of an array as one of the host."""
    if isinstance(array, np.ndarray):
        return array[rows]
    if not rows.size:
        return np.empty((0, *array.shape[1:]), numpy_dtype(dtype))
    if isinstance(array, DeviceTensor):
        found = array.picked(rows)
    else:
        found = DeviceTensor([on_device(array)]).picked(rows)
    return found.view(numpy_dtype(dtype))
