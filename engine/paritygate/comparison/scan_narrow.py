"""Stretches of clean samples of floats that are widened first, and of those of 8 and 16 bits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from paritygate.comparison import scan
from paritygate.comparison.tiers import FullTier
from paritygate.core.dtypes import dtype_name, float_format, numpy_dtype
from paritygate.core.tensors import Array
from paritygate.kernels import linked, scan_narrow, sums
from paritygate.tally.exact import ExactSum

if TYPE_CHECKING:
    from paritygate.comparison.scans import Work

_CHUNK = 1 << 17  # elements that are widened at once
_TILES = 8
_HALF_BIAS, _HALF_MANTISSA = 15, 10
_UNSIGNED = {1: np.uint8, 2: np.uint16}
_BFLOAT16 = "bfloat16"
_scan_narrow = linked.call(scan_narrow.scan_narrow)


class WidenedScan:
    """Scans floats in a dtype that holds those of both sides."""

    tiles = 1

    def __init__(self, work: Work, full: FullTier | None) -> None:
        self._is_alike = work.ref.dtype == work.cand.dtype
        self._wide = np.float32 if self._is_alike else np.float64
        self._full = full
        self._floats = scan.Scan(work, full)
        self.samples = scan.stretch_of(work.width)
        self.most = max(1, _CHUNK // (self.samples * work.width))  # stretches at once
        self._room = [np.empty(self.most * self.samples * work.width, self._wide) for _ in "rc"]

    def not_clean(self, work: Work, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Count what is clean of the samples `[start, stop)`; first and last of the others."""
        step = self.samples * self.most
        for first in range(start, stop, step):
            yield from self.count(work, first, min(first + step, stop))

    def count(self, work: Work, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The same at once."""
        part = slice(start * work.width, stop * work.width)
        ref, cand = work.ref[part], work.cand[part]
        bits = (_bits(ref), _bits(cand)) if self._is_alike else None
        ref, cand = _widen(ref, self._room[0]), _widen(cand, self._room[1])
        dirty = self._floats.count(work, ref, cand, bits, start)
        if not self._is_alike:
            for first, last in scan.runs(~dirty, self.samples, start, stop):
                own = slice((first - start) * work.width, (last - start) * work.width)
                self._measure(work, ref[own], cand[own], first, last)
        yield from scan.runs(dirty, self.samples, start, stop)

    def _measure(self, work: Work, ref: Array, cand: Array, first: int, last: int) -> None:
        """What only pairs of unlike dtypes have, of finite samples."""
        if work.rule.beyond < math.inf:
            work.found.beyond[0] += np.count_nonzero(np.abs(ref) >= work.rule.beyond)
        if self._full is not None:
            undefined = work.measure_ulp(self._full, ref, cand, first, last)
            self._full.ulp_undefined += undefined

    def sum(self, row: int) -> ExactSum:
        """What was summed in a row of `kernels.scan`."""
        return self._floats.sum(row)

    def at_limits(self) -> list[int]:
        """Floats have no limits that are counted."""
        return [0, 0, 0, 0]


class NarrowScan:
    """Scans floats of 8 or 16 bits in their own dtype; what it can't prove clean is widened."""

    tiles = _TILES

    def __init__(self, work: Work) -> None:
        name = dtype_name(work.cand.dtype)
        self._form = form_of(name)
        self._rest = WidenedScan(work, None)
        self._chunks = np.zeros((2, sums.CHUNKS), np.int64)
        self._state = scan_narrow.State(
            np.full(2, -1.0), np.array([name == _BFLOAT16]), np.zeros(1, np.int64)
        )
        size = self._rest.samples * work.width
        self._room = scan_narrow.Room(np.empty(size), np.empty(size))
        self._name = name

    def not_clean(self, work: Work, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Count what is clean of the samples `[start, stop)`; first and last of the others."""
        part = slice(start * work.width, stop * work.width)
        bits = _as_read(work.ref[part], self._name), _as_read(work.cand[part], self._name)
        samples = self._rest.samples
        stretches = -(-(stop - start) // samples)
        at, left = 0, 1
        while at < stretches:
            found = _scan_narrow(
                *bits, self._form, work.width, start, samples, at,
                work.rule, work.found, self._chunks, self._state, self._room,
            )  # fmt: skip
            left = min(2 * left, self._rest.most) if found == at else 1
            if found < stretches:
                last = min(start + (found + left) * samples, stop)
                yield from self._rest.count(work, start + found * samples, last)
            at = found + left

    def sum(self, row: int) -> ExactSum:
        """What was summed in a row of `kernels.scan`."""
        rest = self._rest.sum(row)
        return rest + ExactSum.from_chunks(self._chunks[row]) if row < len(self._chunks) else rest

    def at_limits(self) -> list[int]:
        """Floats have no limits that are counted."""
        return [0, 0, 0, 0]


def is_bounded(work: Work) -> bool:
    """Whether every finite reference has a finite bound."""
    largest = float_format(dtype_name(work.ref.dtype)).largest
    return work.rule.atol + work.rule.rtol * largest < math.inf


def _bits(values: Array) -> Array:
    return values.view(scan.WHOLE[values.dtype.itemsize])


def _widen(values: Array, room: npt.NDArray[Any]) -> Array:
    """The same numbers in the dtype of `room`, which is written over."""
    into = room[: values.size]
    if values.dtype.itemsize == 1:
        numbers = _numbers(dtype_name(values.dtype), room.dtype)
        np.take(numbers, values.view(np.uint8), out=into, mode="clip")
    elif values.dtype.itemsize == 2 and room.dtype == np.float32:
        name = dtype_name(values.dtype)
        scan_narrow.widen(_as_read(values, name), form_of(name), into)
    else:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            np.copyto(into, values, casting="safe")
    into.setflags(write=False)
    return into


def _as_read(values: Array, name: str) -> Array:
    """Bits in the type that tells the kernel how to read them."""
    return values.view(np.int16 if name == _BFLOAT16 else _UNSIGNED[values.dtype.itemsize])


@cache
def _numbers(name: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """All numbers of a float8, by their bits."""
    return np.arange(256, dtype=np.uint8).view(numpy_dtype(name)).astype(dtype)


@cache
def form_of(name: str) -> scan_narrow.Form:
    """How the kernel is to read a float dtype of 8 or 16 bits."""
    form = float_format(name)
    quantum = form.min_exponent - form.mantissa
    if name == _BFLOAT16:
        return scan_narrow.Form(0x7FFF, 0, -1, 0, np.float32(1.0), form.mantissa, quantum, 2.0**24)
    if name == "float16":
        return scan_narrow.Form(0x7FFF, 0, -1, 0, np.float32(1.0), form.mantissa, quantum, 2.0**21)
    shift, is_unsigned_zero = _HALF_MANTISSA - form.mantissa, name.endswith("uz")
    finite = np.arange(128, dtype=np.uint8)
    finite = finite[np.isfinite(_numbers(name, np.dtype(np.float32))[finite])]
    below = finite[finite.astype(np.int64) << shift < 0x7C00]  # an infinity of float16
    return scan_narrow.Form(
        size=0x7F,
        most=int(below.max()),
        undefined=0x80 if is_unsigned_zero else -1,
        shift=shift,
        scale=np.float32(2.0 ** (_HALF_BIAS - 1 + form.min_exponent)),
        mantissa=form.mantissa,
        quantum=quantum,
        units=2.0**21,
    )
