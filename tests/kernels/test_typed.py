"""Arithmetic in the operands' own type: what it gives is what Python gives."""

import struct

import numpy as np
import pytest

from paritygate.kernels._jit import jit
from paritygate.kernels.typed import (
    bits_of,
    larger,
    number_of,
    own_bits,
    sign_of,
    smaller,
    trailing_zeros,
    whole,
)


@jit
def both(left, right):
    return smaller(left, right), larger(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 2), (2, 1), (3, 3), (-(2**63), 2**63 - 1),
        (np.uint16(7), np.uint16(9)), (np.uint16(65535), 1),
        (1.0, 2.0), (2, 1.5), (0.0, -0.0), (-0.0, 0.0), (np.inf, -np.inf),
        (np.nan, 1.0), (1.0, np.nan),
    ],
)  # fmt: skip
def test_of_two_numbers_one_is_taken_as_python_does(left, right):
    found = both(left, right)
    told = min(left, right), max(left, right)
    assert np.array(found, np.float64).tobytes() == np.array(told, np.float64).tobytes()
    assert [value == want for value, want in zip(found, told, strict=True)] == [
        want == want for want in told
    ]


@jit
def converted(number, small, bits):
    return bits_of(number), bits_of(small), number_of(bits), whole(small), whole(bits)


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 5e-324])
@pytest.mark.parametrize("small", [np.float32(-7.75), np.uint16(65535), np.int8(-3), True])
@pytest.mark.parametrize("bits", [0, -1, 1 << 62, -(2**63)])
def test_numbers_are_taken_for_others_as_python_does(number, small, bits):
    found = converted(number, small, bits)
    wanted = struct.unpack("<q", struct.pack("<d", number))[0]
    as_number = struct.unpack("<d", struct.pack("<q", bits))[0]
    of_small = struct.unpack("<q", struct.pack("<d", float(small)))[0]
    assert found[:2] == (wanted, of_small)
    assert struct.pack("<d", found[2]) == struct.pack("<d", as_number)
    assert found[3:] == (int(small), bits)


@jit
def lowest_bit(value):
    return trailing_zeros(value)


@pytest.mark.parametrize("bit", [0, 1, 7, 31, 32, 63])
def test_the_lowest_bit_that_is_set_is_found(bit):
    assert lowest_bit(np.uint64(1 << bit)) == bit
    assert lowest_bit(np.uint64(((1 << 64) - 1) ^ ((1 << bit) - 1))) == bit


@jit
def bits_and_sign(value):
    return own_bits(value), sign_of(own_bits(value))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, 1e-40])
def test_bits_are_as_wide_as_their_number(dtype, number):
    value = dtype(number)
    whole_type = {np.float32: np.int32, np.float64: np.int64}[dtype]
    assert bits_and_sign(value) == (int(value.view(whole_type)), int(np.signbit(value)))
