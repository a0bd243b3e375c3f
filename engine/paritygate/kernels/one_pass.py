"""A piece of pairs of floats, read once: extremes, sums of all kinds, steps and histogram.

LLVM vectorises no loop that counts into bins, and a loop over bins alone leaves the units for
floats idle. So the loop is emitted in vectors of eight, with the bins counted beside. Its sums are
of terms on grids, which no order rounds as long as the bounds that `scan_full` checks hold. None of
its instructions may be fused or reordered.
"""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from paritygate.kernels._cache import config
from paritygate.kernels.vectors import (
    HALF,
    LANES,
    SHORT,
    SINGLE,
    WORD,
    PairLoop,
    index,
    splat,
    vector_of,
)

BIN = 49  # bits of a float64 below those that number a bin

Numbers = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]

_COLUMNS = 4  # of a bin's counts, so that equal neighbours don't wait for each other
_WIDE = 8  # bytes of a float64


class Bounds(NamedTuple):
    """What a pass is told.

    Attributes:
        least, slope: an error is flagged if it is not below `least + slope * |ref|`.
        floor: bits of the smallest |ref| of the second kind of steps.
        anchor: of the grid that e and |e| are split on, where they are float64.
    """

    least: float
    slope: float
    floor: int
    anchor: float


class Grids(NamedTuple):
    """Anchors of the grids that e^2, r^2 and r*e are split on."""

    ee: float
    rr: float
    re: float


class Passed(NamedTuple):
    """What a pass found.

    Attributes:
        top: bits of the largest |e| as a float64; any that isn't finite is larger than all others.
        flagged: 1 if any error is flagged, else 0.
        units, size_units: units of e and |e|, of float64, rounded to the grid of the anchor.
        errors, magnitudes: sums of e and |e|; of float64 of what is left of them.
        ref: bits of the largest |ref|.
        low: bits, less one, of the smallest |ref| or |cand| that isn't zero, without a sign.
        steps, above: largest distance in steps, or one more, over all and where |ref| reaches the
            floor; without a sign.
        ee, rr, re: units of e^2, r^2 and r*e, rounded to the grid of the anchor.
        ee_rest, rr_rest, re_rest: sums of what is left of them; all of them 0 without grids, and
            of float64.
    """

    top: int
    flagged: int
    units: int
    size_units: int
    errors: float
    magnitudes: float
    ref: int
    low: int
    steps: int
    above: int
    ee: int
    rr: int
    re: int
    ee_rest: float
    rr_rest: float
    re_rest: float


def _plain(
    ref: Numbers, cand: Numbers, bounds: Bounds, grids: Grids | None, counts: Counts
) -> Passed:
    pad = -ref.size % LANES
    ref, cand = (np.concatenate([side, np.zeros(pad, side.dtype)]) for side in (ref, cand))
    with np.errstate(all="ignore"):
        r, c = ref.astype(np.float64), cand.astype(np.float64)
        e = c - r
        error = abs(e)
        limit = bounds.least + bounds.slope * abs(r)
        columns = np.arange(e.size) % _COLUMNS
        np.add.at(counts, (error.view(np.int64) >> BIN) * _COLUMNS + columns, 1)
        signed, free = np.dtype(f"i{ref.itemsize}"), np.dtype(f"u{ref.itemsize}")
        bits, most = [side.view(signed) for side in (ref, cand)], np.iinfo(signed).max
        size, other = (own & most for own in bits)
        low = min((own.view(free) - free.type(1)).min() for own in (size, other))
        places = [own ^ (own >> 8 * ref.itemsize - 1 & most) for own in bits]
        steps = np.maximum(*places).view(free) - np.minimum(*places).view(free)
        sums = []
        for t, anchor in zip((e, error), (bounds.anchor,) * 2, strict=True):
            sums.append(_plain_split(t, anchor) if ref.itemsize == _WIDE else (0, float(t.sum())))
        is_split = grids is not None and ref.itemsize != _WIDE
        for t, name in ((e * e, "ee"), (r * r, "rr"), (r * e, "re")):
            sums.append(_plain_split(t, getattr(grids, name)) if is_split else (0, 0.0))
        (units, rest), (sizes, size_rest), *products = sums
        (ee, ee_rest), (rr, rr_rest), (re, re_rest) = products
        return Passed(
            int(error.view(np.int64).max()), int((~(error < limit)).any()), units, sizes,
            rest, size_rest, int(size.max()), int(low.astype(np.int64)), int(steps.max()),
            int(steps[size >= bounds.floor].max(initial=0)), ee, rr, re,
            ee_rest, rr_rest, re_rest,
        )  # fmt: skip


def _plain_split(terms: Any, anchor: float) -> tuple[int, float]:
    near = terms + anchor
    units = near.view(np.int64) - np.float64(anchor).view(np.int64)
    return int(units.sum()), float((terms - (near - anchor)).sum())


_NUMBERS = types.NamedTuple(
    [types.float64 if kind is float else types.int64 for kind in get_type_hints(Passed).values()],
    Passed,
)


@intrinsic
def _vectors(
    typing: Any, ref: Any, cand: Any, bounds: Any, grids: Any, counts: Any
) -> tuple[Any, Any]:
    del typing
    return _NUMBERS(ref, cand, bounds, grids, counts), _emit


def _emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    ref, cand, counts = (
        context.make_array(signature.args[at])(context, builder, arguments[at]) for at in (0, 1, 4)
    )
    size = builder.extract_value(ref.shape, 0)
    least, slope, floor, anchor = cgutils.unpack_tuple(builder, arguments[2])
    loop = PairLoop(builder, size, ref.data, cand.data)
    if loop.kind == SINGLE:
        floor = builder.trunc(floor, SHORT)
    errors = _judge(loop, *map(loop.all, (least, slope, floor)))
    _sum(loop, errors, loop.all(anchor))
    _count(loop, errors, counts.data)
    is_split = signature.args[3] != types.none and loop.kind == SINGLE
    anchors = cgutils.unpack_tuple(builder, arguments[3]) if is_split else []
    _split(loop, [loop.all(anchor) for anchor in anchors])
    found = loop.end()
    of_grids = zip(Grids._fields, anchors, strict=False)
    for name, own in (("units", anchor), ("size_units", anchor), *of_grids):
        if name in found:
            bits = builder.mul(loop.terms, builder.bitcast(own, WORD))
            found[name] = builder.sub(found[name], bits)
    kinds = (context.get_value_type(kind) for kind in signature.return_type)
    values = [
        found.get(name, ir.Constant(kind, 0))
        for name, kind in zip(Passed._fields, kinds, strict=True)
    ]
    return context.make_tuple(builder, signature.return_type, values)


def _judge(loop: PairLoop, least: Any, slope: Any, floor: Any) -> Any:
    """What is found of eight pairs; the bits of their |e|."""
    b = loop.builder
    ref_bits, cand_bits = loop.bits(loop.ref), loop.bits(loop.cand)
    ref_size, cand_size = loop.magnitude(ref_bits), loop.magnitude(cand_bits)
    r, e = loop.wide, loop.errors
    error_bits = loop.magnitude(loop.bits(e))
    error, size = loop.number(error_bits), loop.number(loop.magnitude(loop.bits(r)))
    limit = b.fadd(least, b.fmul(slope, size))
    loop.keep("top", error_bits, loop.larger)
    loop.keep("flagged", b.fcmp_unordered(">=", error, limit), b.or_)
    loop.keep("ref", ref_size, loop.larger)
    whole = ref_size.type.element
    below = (b.sub(own, splat(whole, 1)) for own in (ref_size, cand_size))
    loop.keep("low", loop.lower(*below), loop.lower, (1 << whole.width) - 1)
    places = loop.place(ref_bits), loop.place(cand_bits)
    steps = b.sub(loop.chosen(">", *places), loop.chosen("<", *places))
    is_above = b.icmp_unsigned(">=", ref_size, floor)
    loop.keep("steps", steps, loop.larger)
    loop.keep("above", b.select(is_above, steps, splat(whole, 0)), loop.larger)
    return error_bits


def _sum(loop: PairLoop, error_bits: Any, anchor: Any) -> None:
    """Sum e and |e| of eight pairs; float64 are split on a grid, of which float32 need none."""
    b, error = loop.builder, loop.number(error_bits)
    if loop.kind == SINGLE:
        loop.keep("errors", loop.errors, b.fadd)
        loop.keep("magnitudes", error, b.fadd)
        return
    for units, rest, t in (("units", "errors", loop.errors), ("size_units", "magnitudes", error)):
        near = b.fadd(t, anchor)
        loop.keep(units, loop.bits(near), b.add)
        loop.keep(rest, b.fsub(t, b.fsub(near, anchor)), b.fadd)


def _split(loop: PairLoop, anchors: list[Any]) -> None:
    """Split the products of eight pairs on grids, where there are any."""
    b = loop.builder
    r, e = loop.wide, loop.errors
    factors = ((e, e), (r, r), (r, e))
    for name, anchor, both in zip(Grids._fields, anchors, factors, strict=False):
        t = b.fmul(*both)
        near = b.fadd(t, anchor)
        loop.keep(name, loop.bits(near), b.add)
        loop.keep(name + "_rest", b.fsub(t, b.fsub(near, anchor)), b.fadd)


def _count(loop: PairLoop, errors: Any, counts: Any) -> None:
    """Count the bins of eight errors."""
    b = loop.builder
    bins = b.trunc(b.lshr(errors, splat(WORD, BIN)), vector_of(HALF))
    words = b.bitcast(bins, ir.VectorType(WORD, LANES // _COLUMNS))
    for half in range(LANES // _COLUMNS):
        word = b.extract_element(words, ir.Constant(SHORT, half))
        for column in range(_COLUMNS):
            number = b.lshr(word, index(HALF.width * column))
            number = b.and_(number, index((1 << HALF.width) - 1))
            row = b.mul(number, index(_COLUMNS))
            place = b.gep(counts, [b.add(row, index(column))])
            b.store(b.add(b.load(place), index(1)), place)


# one_pass(ref, cand, bounds, grids, counts): a `Passed`; where grids are None, without products.
# Bins of |e| are added to `counts`, four columns a bin in turn. All is as if zeros followed up to a
# multiple of eight pairs.
one_pass: Any = _plain if config.DISABLE_JIT else _vectors
