"""A piece of float32 pairs, read once: extremes, sums of all kinds, distances in steps, histogram.

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

LANES = 8
BIN = 49  # bits of a float64 below those that number a bin

Numbers = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]

_COLUMNS = 4  # of a bin's counts, so that equal neighbours don't wait for each other
_FLAG, _HALF, _SHORT, _WORD = (ir.IntType(bits) for bits in (1, 16, 32, 64))
_SINGLE, _DOUBLE = ir.FloatType(), ir.DoubleType()
_SIGN = 31
_MAGNITUDES = {_SHORT: 0x7FFFFFFF, _WORD: 0x7FFFFFFFFFFFFFFF}
_ALL = 0xFFFFFFFF


class Bounds(NamedTuple):
    """What a pass is told.

    Attributes:
        least, slope: an error is flagged if it is not below `least + slope * |ref|`.
        ee, rr, re: anchors of the grids that e^2, r^2 and r*e are split on.
        floor: bits of the smallest |ref| of the second kind of steps.
    """

    least: float
    slope: float
    ee: float
    rr: float
    re: float
    floor: int


class Passed(NamedTuple):
    """What a pass found.

    Attributes:
        top: bits of the largest |e| as a float64; any that isn't finite is larger than all others.
        flagged: 1 if any error is flagged, else 0.
        errors, magnitudes: sums of e and |e|.
        ref: bits of the largest |ref|.
        low: bits, less one, of the smallest |ref| or |cand| that isn't zero, without a sign.
        steps, above: largest distance in steps, or one more, over all and where |ref| reaches the
            floor.
        ee, rr, re: units of e^2, r^2 and r*e, rounded to the grid of the anchor.
        ee_rest, rr_rest, re_rest: sums of what is left of them.
    """

    top: int
    flagged: int
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


def _plain(ref: Numbers, cand: Numbers, bounds: Bounds, counts: Counts) -> Passed:
    pad = -ref.size % LANES
    ref, cand = (np.concatenate([side, np.zeros(pad, side.dtype)]) for side in (ref, cand))
    with np.errstate(all="ignore"):
        r, c = ref.astype(np.float64), cand.astype(np.float64)
        e = c - r
        error = abs(e)
        limit = bounds.least + bounds.slope * abs(r)
        columns = np.arange(e.size) % _COLUMNS
        np.add.at(counts, (error.view(np.int64) >> BIN) * _COLUMNS + columns, 1)
        bits = [side.view(np.int32).astype(np.int64) for side in (ref, cand)]
        size, other = (own & _MAGNITUDES[_SHORT] for own in bits)
        places = [own ^ (own >> _SIGN & _MAGNITUDES[_SHORT]) for own in bits]
        steps = abs(places[0] - places[1])
        units, rests = [], []
        for t, anchor in ((e * e, bounds.ee), (r * r, bounds.rr), (r * e, bounds.re)):
            near = t + anchor
            units.append(int((near.view(np.int64) - np.float64(anchor).view(np.int64)).sum()))
            rests.append(float((t - (near - anchor)).sum()))
        return Passed(
            int(error.view(np.int64).max()), int((~(error < limit)).any()), float(e.sum()),
            float(error.sum()), int(size.max()),
            min(int(((own - 1) & _ALL).min()) for own in (size, other)), int(steps.max()),
            int(steps[size >= bounds.floor].max(initial=0)), *units, *rests,
        )  # fmt: skip


_NUMBERS = types.NamedTuple(
    [types.float64 if kind is float else types.int64 for kind in get_type_hints(Passed).values()],
    Passed,
)


@intrinsic
def _vectors(typing: Any, ref: Any, cand: Any, bounds: Any, counts: Any) -> tuple[Any, Any]:
    del typing
    return _NUMBERS(ref, cand, bounds, counts), _emit


def _emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    ref, cand, counts = (
        context.make_array(signature.args[at])(context, builder, arguments[at]) for at in (0, 1, 3)
    )
    given = {
        name: builder.extract_value(arguments[2], at) for at, name in enumerate(Bounds._fields)
    }
    given["floor"] = builder.trunc(given["floor"], _SHORT)
    loop = _Loop(builder, builder.extract_value(ref.shape, 0), ref.data, cand.data)
    errors = _judge(loop, {name: loop.all(value) for name, value in given.items()})
    _count(loop, errors, counts.data)
    found = loop.end()
    for name in ("ee", "rr", "re"):
        anchors = builder.mul(loop.terms, builder.bitcast(given[name], _WORD))
        found[name] = builder.sub(found[name], anchors)
    values = [found[name] for name in Passed._fields]
    return context.make_tuple(builder, signature.return_type, values)


def _judge(loop: _Loop, bounds: dict[str, Any]) -> Any:
    """What is found of eight pairs; the bits of their |e|."""
    b = loop.builder
    ref_bits, cand_bits = loop.bits(loop.ref), loop.bits(loop.cand)
    ref_size, cand_size = loop.magnitude(ref_bits), loop.magnitude(cand_bits)
    r, c = (b.fpext(side, _vector(_DOUBLE)) for side in (loop.ref, loop.cand))
    e = b.fsub(c, r)
    error_bits = loop.magnitude(loop.bits(e))
    error, size = loop.number(error_bits), loop.number(loop.magnitude(loop.bits(r)))
    limit = b.fadd(bounds["least"], b.fmul(bounds["slope"], size))
    loop.keep("top", error_bits, loop.larger)
    loop.keep("flagged", b.fcmp_unordered(">=", error, limit), b.or_)
    loop.keep("errors", e, b.fadd)
    loop.keep("magnitudes", error, b.fadd)
    loop.keep("ref", ref_size, loop.larger)
    below = (b.sub(own, _splat(_SHORT, 1)) for own in (ref_size, cand_size))
    loop.keep("low", loop.lower(*below), loop.lower, _ALL)
    places = loop.place(ref_bits), loop.place(cand_bits)
    steps = b.sub(loop.chosen(">", *places), loop.chosen("<", *places))
    is_above = b.icmp_unsigned(">=", ref_size, bounds["floor"])
    loop.keep("steps", steps, loop.larger)
    loop.keep("above", b.select(is_above, steps, _splat(_SHORT, 0)), loop.larger)
    for name, left, right in (("ee", e, e), ("rr", r, r), ("re", r, e)):
        t = b.fmul(left, right)
        near = b.fadd(t, bounds[name])
        loop.keep(name, loop.bits(near), b.add)
        loop.keep(name + "_rest", b.fsub(t, b.fsub(near, bounds[name])), b.fadd)
    return error_bits


def _count(loop: _Loop, errors: Any, counts: Any) -> None:
    """Count the bins of eight errors."""
    b = loop.builder
    bins = b.trunc(b.lshr(errors, _splat(_WORD, BIN)), _vector(_HALF))
    words = b.bitcast(bins, ir.VectorType(_WORD, LANES // _COLUMNS))
    for half in range(LANES // _COLUMNS):
        word = b.extract_element(words, ir.Constant(_SHORT, half))
        for column in range(_COLUMNS):
            number = b.lshr(word, _word(_HALF.width * column))
            number = b.and_(number, _word((1 << _HALF.width) - 1))
            row = b.mul(number, _word(_COLUMNS))
            place = b.gep(counts, [b.add(row, _word(column))])
            b.store(b.add(b.load(place), _word(1)), place)


class _Loop:
    """A loop over vectors of eight of both sides, and what it keeps from one to the next.

    What is emitted after it was made is its body, until its end.

    Attributes:
        builder: of its instructions.
        terms: elements, with the zeros that fill the last vector.
        ref: eight values.
        cand: the same of the candidate.
    """

    def __init__(self, builder: Any, size: Any, ref: Any, cand: Any) -> None:
        self.builder = builder
        self.terms = builder.and_(builder.add(size, _word(LANES - 1)), _word(-LANES))
        whole = builder.and_(size, _word(-LANES))
        rests = [self._rest(values, whole, size) for values in (ref, cand)]
        self._before, self._block = builder.block, builder.append_basic_block("pass")
        builder.branch(self._block)
        builder.position_at_end(self._block)
        self._at = builder.phi(_WORD)
        self._at.add_incoming(_word(0), self._before)
        self._kept: dict[str, tuple[Any, Any]] = {}
        is_whole = builder.icmp_signed("<", self._at, whole)
        self.ref, self.cand = (
            builder.load(builder.select(is_whole, self._place(values, self._at), rest), align=4)
            for values, rest in zip((ref, cand), rests, strict=True)
        )

    def _place(self, values: Any, at: Any) -> Any:
        place = self.builder.gep(values, [at])
        return self.builder.bitcast(place, _vector(_SINGLE).as_pointer())

    def _rest(self, values: Any, whole: Any, size: Any) -> Any:
        """What is beyond the last whole vector, and zeros: a masked load waits for every store."""
        rest = cgutils.alloca_once(self.builder, _vector(_SINGLE))
        self.builder.store(_splat(_SINGLE, 0.0), rest)
        into = self.builder.bitcast(rest, _SINGLE.as_pointer())
        count = self.builder.sub(size, whole)
        cgutils.raw_memcpy(self.builder, into, self.builder.gep(values, [whole]), count, _word(4))
        return rest

    def keep(self, name: str, value: Any, operation: Any, start: int = 0) -> None:
        """Keep a value with those of all other vectors."""
        kind = value.type.element
        self.builder.position_at_start(self._block)
        kept = self.builder.phi(value.type)
        self.builder.position_at_end(self._block)
        kept.add_incoming(_splat(kind, 0.0 if kind == _DOUBLE else start), self._before)
        result = operation(kept, value)
        kept.add_incoming(result, self._block)
        self._kept[name] = result, operation

    def end(self) -> dict[str, Any]:
        """End the loop; what was kept, one number of all lanes."""
        following = self.builder.add(self._at, _word(LANES))
        self._at.add_incoming(following, self._block)
        after = self.builder.append_basic_block("pass.after")
        goes_on = self.builder.icmp_signed("<", following, self.terms)
        self.builder.cbranch(goes_on, self._block, after)
        self.builder.position_at_end(after)
        return {name: self._one(*kept) for name, kept in self._kept.items()}

    def _one(self, value: Any, operation: Any) -> Any:
        half = LANES // 2
        while half:
            parts = [list(range(first, first + half)) for first in (0, half)]
            none = ir.Constant(value.type, ir.Undefined)
            kind = ir.VectorType(_SHORT, half)
            value = operation(
                *(self.builder.shuffle_vector(value, none, ir.Constant(kind, at)) for at in parts)
            )
            half //= 2
        one = self.builder.extract_element(value, ir.Constant(_SHORT, 0))
        return one if one.type in (_WORD, _DOUBLE) else self.builder.zext(one, _WORD)

    def all(self, value: Any) -> Any:
        """The same value in all lanes."""
        none = ir.Constant(_vector(value.type), ir.Undefined)
        first = self.builder.insert_element(none, value, ir.Constant(_SHORT, 0))
        return self.builder.shuffle_vector(first, none, _splat(_SHORT, 0))

    def bits(self, value: Any) -> Any:
        """Floats as integers of their size."""
        kind = _WORD if value.type.element == _DOUBLE else _SHORT
        return self.builder.bitcast(value, _vector(kind))

    def number(self, bits: Any) -> Any:
        """Bits as float64."""
        return self.builder.bitcast(bits, _vector(_DOUBLE))

    def magnitude(self, bits: Any) -> Any:
        """Bits without the sign."""
        kind = bits.type.element
        return self.builder.and_(bits, _splat(kind, _MAGNITUDES[kind]))

    def place(self, bits: Any) -> Any:
        """Bits of float32 as integers in the order of numbers; of negative ones one too low."""
        signs = self.builder.ashr(bits, _splat(_SHORT, _SIGN))
        return self.builder.xor(bits, self.magnitude(signs))

    def chosen(self, which: str, left: Any, right: Any) -> Any:
        """The first where the comparison of both holds, else the second."""
        return self.builder.select(self.builder.icmp_signed(which, left, right), left, right)

    def larger(self, left: Any, right: Any) -> Any:
        """The larger one, without signs."""
        return self.builder.select(self.builder.icmp_unsigned(">", left, right), left, right)

    def lower(self, left: Any, right: Any) -> Any:
        """The lower one, without signs."""
        return self.builder.select(self.builder.icmp_unsigned("<", left, right), left, right)


def _vector(kind: Any) -> Any:
    return ir.VectorType(kind, LANES)


def _splat(kind: Any, value: Any) -> Any:
    return ir.Constant(_vector(kind), [value] * LANES)


def _word(value: int) -> Any:
    return ir.Constant(_WORD, value)


# one_pass(ref, cand, bounds, counts): a `Passed`. Bins of |e| are added to `counts`, four columns a
# bin in turn. All is as if zeros followed up to a multiple of eight pairs.
one_pass: Any = _plain if config.DISABLE_JIT else _vectors
