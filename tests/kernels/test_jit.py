"""What every kernel may rely on, and may not do."""

import numpy as np
import pytest
from numba.core.errors import TypingError

from paritygate.kernels import decisions, elements, sums
from paritygate.kernels._jit import jit


def test_kernels_count_no_references():
    for kernel in (elements.judge_floats, sums.sum_errors, decisions.argmax_codes):
        assert kernel.targetoptions["_nrt"] is False


def test_a_kernel_that_makes_an_array_does_not_compile():
    @jit
    def doubled(values):
        made = np.zeros(values.size)
        for i in range(values.size):
            made[i] = 2 * values[i]
        return made

    with pytest.raises(TypingError, match="Only accept returning of array passed into"):
        doubled(np.ones(3))


def test_division_by_zero_is_that_of_ieee_754():
    @jit
    def ratio(values, into):
        into[0] = values[0] / values[1]

    into = np.zeros(1)
    ratio(np.array([1.0, 0.0]), into)
    assert into[0] == np.inf
