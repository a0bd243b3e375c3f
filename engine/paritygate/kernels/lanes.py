"""Sums of a sample in eight lanes: an order that vectors of any machine can follow.

Element k is added to lane k mod 8, each lane from its first element to its last. LLVM may not find
that by itself, since it may not reorder additions; so the loop is emitted in vectors of eight. None
of its instructions may be fused or reordered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from paritygate.kernels._cache import config
from paritygate.kernels.vectors import LANES, PairLoop

Doubles = npt.NDArray[np.float64]

_DOUBLE, _INDEX = ir.DoubleType(), ir.IntType(64)
_VECTOR = ir.VectorType(_DOUBLE, LANES)


def _plain(ref: Doubles, errors: Doubles, start: int, stop: int, lanes: Doubles) -> None:
    with np.errstate(all="ignore"):
        for at in range(start, stop, LANES):
            r, e = ref[at : at + LANES], errors[at : at + LANES]
            lanes += np.concatenate([r * r, e * e, r * e])


@intrinsic
def _vectors(
    typing: Any, ref: Any, errors: Any, start: Any, stop: Any, lanes: Any
) -> tuple[Any, Any]:
    del typing
    signature = types.void(ref, errors, types.int64, types.int64, lanes)
    return signature, _emit


def _emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    pointers = [
        context.make_array(signature.args[at])(context, builder, arguments[at]).data
        for at in (0, 1, 4)
    ]
    start, stop = arguments[2:4]
    rows = [_place(builder, pointers[2], ir.Constant(_INDEX, row * LANES)) for row in range(3)]
    given = [builder.load(row, align=8) for row in rows]
    before = builder.block
    loop = builder.append_basic_block("lanes")
    after = builder.append_basic_block("lanes.after")
    builder.cbranch(builder.icmp_signed("<", start, stop), loop, after)

    builder.position_at_end(loop)
    at = builder.phi(_INDEX)
    sums = [builder.phi(_VECTOR) for _ in range(3)]
    r, e = (builder.load(_place(builder, pointer, at), align=8) for pointer in pointers[:2])
    products = [builder.fmul(r, r), builder.fmul(e, e), builder.fmul(r, e)]
    added = [builder.fadd(total, term) for total, term in zip(sums, products, strict=True)]
    following = builder.add(at, ir.Constant(_INDEX, LANES))
    at.add_incoming(start, before)
    at.add_incoming(following, loop)
    for total, start_value, new in zip(sums, given, added, strict=True):
        total.add_incoming(start_value, before)
        total.add_incoming(new, loop)
    builder.cbranch(builder.icmp_signed("<", following, stop), loop, after)

    builder.position_at_end(after)
    totals = []
    for row, start_value, new in zip(rows, given, added, strict=True):
        total = builder.phi(_VECTOR)
        total.add_incoming(start_value, before)
        total.add_incoming(new, loop)
        totals.append((total, row))
    for total, row in totals:
        builder.store(total, row, align=8)
    return context.get_dummy_value()


def _place(builder: Any, pointer: Any, at: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [at]), _VECTOR.as_pointer())


def _plain_pairs(ref: Any, cand: Any, start: int, stop: int) -> tuple[float, float, float]:
    lanes = np.zeros(3 * LANES)
    r = ref[start:stop].astype(np.float64)
    _plain(r, cand[start:stop] - r, 0, stop - start, lanes)
    total, half = lanes.reshape(3, LANES), LANES // 2
    while half:
        total, half = total[:, :half] + total[:, half:], half // 2
    ee, rr, re = (float(total[row, 0]) for row in (1, 0, 2))
    return ee, rr, re


@intrinsic
def _pair_vectors(typing: Any, ref: Any, cand: Any, start: Any, stop: Any) -> tuple[Any, Any]:
    del typing
    return types.UniTuple(types.float64, 3)(ref, cand, types.int64, types.int64), _emit_pairs


def _emit_pairs(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    start, stop = arguments[2:]
    sides = [
        context.make_array(signature.args[at])(context, builder, arguments[at]).data
        for at in range(2)
    ]
    places = [builder.gep(side, [start]) for side in sides]
    loop = PairLoop(builder, builder.sub(stop, start), *places, is_whole=True)
    r, e = loop.wide, loop.errors
    for name, left, right in (("ee", e, e), ("rr", r, r), ("re", r, e)):
        loop.keep(name, builder.fmul(left, right), builder.fadd)
    found = loop.end()
    return context.make_tuple(builder, signature.return_type, list(found.values()))


# pair_sums(ref, cand, start, stop): sums of e^2, r^2 and r*e of the pairs of float32
# `[start, stop)`, a multiple of eight many, above none; the lanes of each added in pairs.
pair_sums: Any = _plain_pairs if config.DISABLE_JIT else _pair_vectors

# lane_sums(ref, errors, start, stop, lanes): r^2, e^2 and r*e of the elements `[start, stop)`, a
# multiple of eight many, added to `lanes`, `(24,)`, eight a sum.
lane_sums: Any = _plain if config.DISABLE_JIT else _vectors
