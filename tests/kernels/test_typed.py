"""Arithmetic in the operands' own type: what it gives is what Python gives."""

import numpy as np
import pytest

from paritygate.kernels._jit import jit
from paritygate.kernels.typed import larger, smaller


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
