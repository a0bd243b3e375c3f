"""Floats of 8 and 16 bits as the scan reads them, and what it adds them up in.

The type of an array says what its bits are: uint16 float16, int16 bfloat16, uint8 one of float8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import overload

from paritygate.kernels._jit import INLINED, scalar
from paritygate.kernels.typed import instruction


@scalar
def power(exponent: int) -> float:
    """2^exponent, a normal number."""
    return np.int64((exponent + 1023) << 52).view(np.float64)


def number_of(bits: Any, form: Any) -> Any:
    """The number as float32."""
    raise NotImplementedError("it is compiled for each dtype")


@overload(number_of, jit_options=INLINED)
def _number_of(bits: Any, form: Any) -> Any:
    """Choose by type."""
    return {types.uint16: _number_of_half, types.int16: _number_of_upper}.get(bits, _number_of_byte)


def _number_of_half(bits: Any, form: Any) -> Any:
    return _half(bits)


def _number_of_upper(bits: Any, form: Any) -> Any:
    return _upper(bits)


def _number_of_byte(bits: Any, form: Any) -> Any:
    return _half(_as_half(bits, form.shift)) * form.scale


@instruction
def _as_half(typing_context: Any, bits: Any, shift: Any) -> Any:
    """A float8 as a float16 that lacks a factor: its bits but the sign moved to the left."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(16)
        own, by = builder.zext(args[0], wide), builder.trunc(args[1], wide)
        size = builder.shl(builder.and_(own, ir.Constant(wide, 0x7F)), by)
        sign = builder.shl(builder.and_(own, ir.Constant(wide, 0x80)), ir.Constant(wide, 8))
        return builder.or_(size, sign)

    return types.uint16(bits, shift), generate


@instruction
def _half(typing_context: Any, bits: Any) -> Any:
    """The float32 that 16 bits of a float16 stand for."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        triple, _, features = context.codegen().magic_tuple()
        if triple.startswith("x86") and "+f16c" not in features:
            return _half_by_integers(builder, args[0])  # LLVM would call what isn't there
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(bits), generate


def _half_by_integers(builder: Any, bits: Any) -> Any:
    """The same in instructions that every processor has: exponents are 112 apart."""
    wide = ir.IntType(32)
    own = builder.zext(bits, wide)
    size = builder.shl(builder.and_(own, ir.Constant(wide, 0x7FFF)), ir.Constant(wide, 13))
    scaled = builder.fmul(builder.bitcast(size, ir.FloatType()), ir.FloatType()(2.0**112))
    is_finite = builder.icmp_unsigned("<", size, ir.Constant(wide, 0x7C00 << 13))
    beyond = builder.or_(size, ir.Constant(wide, 0xFF << 23))
    found = builder.select(is_finite, builder.bitcast(scaled, wide), beyond)
    sign = builder.shl(builder.and_(own, ir.Constant(wide, 0x8000)), ir.Constant(wide, 16))
    return builder.bitcast(builder.or_(found, sign), ir.FloatType())


@instruction
def _upper(typing_context: Any, bits: Any) -> Any:
    """The float32 whose upper 16 bits these are."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(32)
        moved = builder.shl(builder.zext(args[0], wide), ir.Constant(wide, 16))
        return builder.bitcast(moved, ir.FloatType())

    return types.float32(bits), generate


def but_for_known(room: Any, error: Any, size: Any, known: Any, bits: Any) -> Any:
    """How far below its bound an error is, negative if it is above; of a known one zero."""
    raise NotImplementedError("it is compiled for each size of floats")


@overload(but_for_known, jit_options=INLINED)
def _but_for_known(room: Any, error: Any, size: Any, known: Any, bits: Any) -> Any:
    """Of 8 bits the worst one is frequent; others are told from it where it matters."""
    return _as_it_is if bits.bitwidth == 16 else _but_for_worst


def _as_it_is(room: Any, error: Any, size: Any, known: Any, bits: Any) -> Any:
    return room


def _but_for_worst(room: Any, error: Any, size: Any, known: Any, bits: Any) -> Any:
    return np.int32(0) if (error == known[1]) & (size == known[0]) else room


@instruction
def pair_at(typing_context: Any, bits: Any, number: Any) -> Any:
    """Two neighbours of an array of 16 bits, which may lie at any place."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        pairs = builder.bitcast(array.data, ir.IntType(32).as_pointer())
        return builder.load(builder.gep(pairs, [args[1]]), align=2)

    return types.int32(bits, types.int64), generate


@instruction
def lower_of(typing_context: Any, pair: Any) -> Any:
    """The first bfloat16 of a pair as float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        moved = builder.shl(args[0], ir.Constant(ir.IntType(32), 16))
        return builder.bitcast(moved, ir.FloatType())

    return types.float32(pair), generate


@instruction
def upper_of(typing_context: Any, pair: Any) -> Any:
    """The second one."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        masked = builder.and_(args[0], ir.Constant(ir.IntType(32), 0xFFFF0000))
        return builder.bitcast(masked, ir.FloatType())

    return types.float32(pair), generate


def anchor_of(quantum: Any, none: Any) -> Any:
    """What rounds a float32 that is added to it to units, in whose bits they then are."""
    raise NotImplementedError("it is compiled for each type of sums")


@overload(anchor_of, jit_options=INLINED)
def _anchor_of(quantum: Any, none: Any) -> Any:
    """Choose by type."""
    return _no_anchor if none == types.float64 else _short_anchor


def _short_anchor(quantum: Any, none: Any) -> Any:
    return np.float32(1.5 * power(quantum + 23))


def _no_anchor(quantum: Any, none: Any) -> Any:
    return np.float32(0.0)


@instruction
def add_term(typing_context: Any, total: Any, value: Any, anchor: Any) -> Any:
    """Add a float32 that is a multiple of the unit: as it is to a float64, else its bits.

    Float64 may be added in any order: nothing below 2^53 units is rounded.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if total == types.float64:
            wide = builder.fpext(args[1], ir.DoubleType())
            return builder.fadd(args[0], wide, flags=("reassoc",))
        bits = builder.bitcast(builder.fadd(args[1], args[2]), ir.IntType(32))
        return builder.add(args[0], bits)

    return total(total, value, anchor), generate


def units_of(total: Any, count: Any, anchor: Any, quantum: Any) -> Any:
    """Units that so many terms add up to."""
    raise NotImplementedError("it is compiled for each type of sums")


@overload(units_of, jit_options=INLINED)
def _units_of(total: Any, count: Any, anchor: Any, quantum: Any) -> Any:
    """Choose by type."""
    return _units_of_doubles if total == types.float64 else _units_of_bits


def _units_of_doubles(total: Any, count: Any, anchor: Any, quantum: Any) -> Any:
    return np.int64(total * power(-quantum))


def _units_of_bits(total: Any, count: Any, anchor: Any, quantum: Any) -> Any:
    """Without the anchors' bits, which may have wrapped around as the units can't."""
    anchors = np.int64(np.float32(anchor).view(np.int32)) * count
    return np.int64(np.int32(np.int64(total) - anchors))
