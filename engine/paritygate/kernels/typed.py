"""Arithmetic that stays in the type of its operands, so that a loop works on as many as fit.

Numba widens integers to 64 bits, which leaves eight to a register. Integers wrap around.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from paritygate.kernels._cache import config

_PLAIN: Any = {
    "add": operator.add,
    "sub": operator.sub,
    "or_": operator.or_,
    "xor": operator.xor,
    "and_": operator.and_,
    "fadd": operator.add,
}


def instruction(function: Callable[..., Any]) -> Any:
    """What compiles a call: Numba's `intrinsic`, of which type checkers know too little."""
    return intrinsic(function)


def _binary(name: str, **options: Any) -> Any:
    """One instruction on two operands of one type."""
    if config.DISABLE_JIT:
        return _PLAIN[name]

    @instruction
    def operation(typing_context: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, name)(*args, **options)

        return left(left, right), generate

    return operation


add = _binary("add")
subtract = _binary("sub")
either = _binary("or_")
both = _binary("and_")
differing = _binary("xor")
add_in_any_order = _binary("fadd", flags=("reassoc",))  # for sums that no order can round


def _one_of_two(name: str, is_taken: Callable[[Any, Any], Any]) -> Any:
    """The second operand where that holds of it and the first, else the first."""
    if config.DISABLE_JIT:
        return {"smaller": min, "larger": max}[name]

    @instruction
    def operation(typing_context: Any, left: Any, right: Any) -> Any:
        kind = typing_context.unify_types(types.unliteral(left), types.unliteral(right))

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            first, second = (
                context.cast(builder, value, own, kind)
                for value, own in zip(args, signature.args, strict=True)
            )
            compare = context.get_function(is_taken, types.boolean(kind, kind))
            taken = compare(builder, (second, first))
            return builder.select(taken, second, first)

        return kind(left, right), generate

    return operation


def _converted(
    of: Any, plain: Callable[[Any], Any], *, has_bits_of: Any = None
) -> Callable[[Any], Any]:
    """A number as one of the type `of`, or as that with the bits of such one."""
    if config.DISABLE_JIT:
        return plain

    @instruction
    def operation(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if has_bits_of is None:
                return context.cast(builder, args[0], signature.args[0], of)
            number = context.cast(builder, args[0], signature.args[0], has_bits_of)
            return builder.bitcast(number, context.get_value_type(of))

        return of(value), generate

    return cast("Callable[[Any], Any]", operation)


# What follows is in Numba a function each, which is compiled again and again, for each kernel.
whole: Callable[[Any], int] = _converted(types.int64, int)
bits_of = _converted(
    types.int64, lambda value: np.float64(value).view(np.int64), has_bits_of=types.float64
)
number_of = _converted(
    types.float64, lambda bits: np.int64(bits).view(np.float64), has_bits_of=types.int64
)
smaller = _one_of_two("smaller", operator.lt)
larger = _one_of_two("larger", operator.gt)


def _plain_unsigned(value: Any) -> Any:
    return np.asarray(value).view(f"u{np.asarray(value).itemsize}")[()]


@instruction
def _unsigned(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0]

    return types.Integer.from_bitwidth(value.bitwidth, signed=False)(value), generate


# unsigned(value): the bits of a signed integer as one without a sign, as wide.
unsigned: Any = _plain_unsigned if config.DISABLE_JIT else _unsigned


def _plain_sign_bit(value: Any) -> Any:
    return type(value)(8 * np.asarray(value).itemsize - 1)


@instruction
def _sign_bit(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0].type(value.bitwidth - 1)

    return value(value), generate


# sign_bit(value): number of an integer's highest bit, in its type, known when it is compiled.
sign_bit: Any = _plain_sign_bit if config.DISABLE_JIT else _sign_bit


def _plain_trailing_zeros(value: Any) -> int:
    return (int(value) & -int(value)).bit_length() - 1


@instruction
def _trailing_zeros(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


# trailing_zeros(value): number of the lowest bit that is set of 64, of which one is.
trailing_zeros: Any = _plain_trailing_zeros if config.DISABLE_JIT else _trailing_zeros


def _plain_own_bits(value: Any) -> Any:
    return np.asarray(value).view(f"i{np.asarray(value).itemsize}")[()]


@instruction
def _own_bits(typing_context: Any, value: Any) -> Any:
    kind = types.Integer.from_bitwidth(value.bitwidth, signed=True)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(kind))

    return kind(value), generate


# own_bits(value): the bits of a float as an integer as wide.
own_bits: Any = _plain_own_bits if config.DISABLE_JIT else _own_bits


def _plain_sign_of(value: Any) -> Any:
    return type(value)(value < 0)


@instruction
def _sign_of(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.lshr(args[0], args[0].type(value.bitwidth - 1))

    return value(value), generate


# sign_of(value): 1 of a negative integer, 0 of another one, in its type.
sign_of: Any = _plain_sign_of if config.DISABLE_JIT else _sign_of
