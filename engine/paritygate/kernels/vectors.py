"""Loops over both sides of a piece of float32 or float64, emitted in vectors of eight.

LLVM may not find such a vector by itself: it may not reorder additions, and it vectorises no loop
that counts into bins. None of the instructions may be fused or reordered.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

LANES = 8
FLAG, HALF, SHORT, WORD = (ir.IntType(bits) for bits in (1, 16, 32, 64))
SINGLE, DOUBLE = ir.FloatType(), ir.DoubleType()
_BYTES = {SINGLE: 4, DOUBLE: 8}
MAGNITUDES = {SHORT: 0x7FFFFFFF, WORD: 0x7FFFFFFFFFFFFFFF}


class PairLoop:
    """A loop over vectors of eight of both sides, and what it keeps from one to the next.

    What is emitted after it was made is its body, until its end. Where `is_whole` there are whole
    vectors only, at least one.

    Attributes:
        builder: of its instructions.
        terms: elements, with the zeros that fill the last vector.
        ref: eight values.
        cand: the same of the candidate.
        kind: their type.
        wide: the reference as float64.
        errors: of the candidate, as float64.
    """

    def __init__(
        self, builder: Any, size: Any, ref: Any, cand: Any, *, is_whole: bool = False
    ) -> None:
        self.builder = builder
        self.terms = builder.and_(builder.add(size, index(LANES - 1)), index(-LANES))
        whole = builder.and_(size, index(-LANES))
        rests = [] if is_whole else [self._rest(side, whole, size) for side in (ref, cand)]
        self._before, self._block = builder.block, builder.append_basic_block("pass")
        builder.branch(self._block)
        builder.position_at_end(self._block)
        self._at = builder.phi(WORD)
        self._at.add_incoming(index(0), self._before)
        self._kept: dict[str, tuple[Any, Any]] = {}
        self.kind = ref.type.pointee
        places = [self._place(side, self._at) for side in (ref, cand)]
        if rests:
            is_before = builder.icmp_signed("<", self._at, whole)
            choices = zip(places, rests, strict=True)
            places = [builder.select(is_before, place, rest) for place, rest in choices]
        self.ref, self.cand = (builder.load(place, align=4) for place in places)
        self.wide, c = (self._widened(side) for side in (self.ref, self.cand))
        self.errors = builder.fsub(c, self.wide)

    def _widened(self, values: Any) -> Any:
        is_wide = values.type.element == DOUBLE
        return values if is_wide else self.builder.fpext(values, vector_of(DOUBLE))

    def _place(self, values: Any, at: Any) -> Any:
        place = self.builder.gep(values, [at])
        return self.builder.bitcast(place, vector_of(values.type.pointee).as_pointer())

    def _rest(self, values: Any, whole: Any, size: Any) -> Any:
        """What is beyond the last whole vector, and zeros: a masked load waits for every store."""
        kind = values.type.pointee
        rest = cgutils.alloca_once(self.builder, vector_of(kind))
        self.builder.store(splat(kind, 0.0), rest)
        into, beyond = self.builder.bitcast(rest, values.type), self.builder.gep(values, [whole])
        count = self.builder.sub(size, whole)
        cgutils.raw_memcpy(self.builder, into, beyond, count, index(_BYTES[kind]))
        return rest

    def keep(self, name: str, value: Any, operation: Any, start: int = 0) -> None:
        """Keep a value with those of all other vectors."""
        kind = value.type.element
        self.builder.position_at_start(self._block)
        kept = self.builder.phi(value.type)
        self.builder.position_at_end(self._block)
        kept.add_incoming(splat(kind, 0.0 if kind == DOUBLE else start), self._before)
        result = operation(kept, value)
        kept.add_incoming(result, self._block)
        self._kept[name] = result, operation

    def end(self) -> dict[str, Any]:
        """End the loop; what was kept, one number of all lanes."""
        following = self.builder.add(self._at, index(LANES))
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
            kind = ir.VectorType(SHORT, half)
            value = operation(
                *(self.builder.shuffle_vector(value, none, ir.Constant(kind, at)) for at in parts)
            )
            half //= 2
        one = self.builder.extract_element(value, ir.Constant(SHORT, 0))
        return one if one.type in (WORD, DOUBLE) else self.builder.zext(one, WORD)

    def all(self, value: Any) -> Any:
        """The same value in all lanes."""
        none = ir.Constant(vector_of(value.type), ir.Undefined)
        first = self.builder.insert_element(none, value, ir.Constant(SHORT, 0))
        return self.builder.shuffle_vector(first, none, splat(SHORT, 0))

    def bits(self, value: Any) -> Any:
        """Floats as integers of their size."""
        kind = WORD if value.type.element == DOUBLE else SHORT
        return self.builder.bitcast(value, vector_of(kind))

    def number(self, bits: Any) -> Any:
        """Bits as float64."""
        return self.builder.bitcast(bits, vector_of(DOUBLE))

    def magnitude(self, bits: Any) -> Any:
        """Bits without the sign."""
        kind = bits.type.element
        return self.builder.and_(bits, splat(kind, MAGNITUDES[kind]))

    def place(self, bits: Any) -> Any:
        """Bits as integers in the order of numbers; of negative ones one too low."""
        kind = bits.type.element
        signs = self.builder.ashr(bits, splat(kind, kind.width - 1))
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


def vector_of(kind: Any) -> Any:
    """The type of eight of a kind."""
    return ir.VectorType(kind, LANES)


def splat(kind: Any, value: Any) -> Any:
    """A constant in all lanes."""
    return ir.Constant(vector_of(kind), [value] * LANES)


def index(value: int) -> Any:
    """A constant of 64 bits."""
    return ir.Constant(WORD, value)
