"""Rules for one element and exact sums in compiled code against the oracle."""

import math
import re
from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import naive
from tests.kernels.assembly import assembly_of

from paritygate.kernels import elements, scalar, sums

anything = st.floats()
positive = st.floats(0, allow_nan=False)
finite = st.floats(allow_nan=False, allow_infinity=False)
singles = st.floats(width=32, allow_nan=False, allow_infinity=False)
int64s = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])
uint64s = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])
quick = settings(deadline=None)


@quick
@given(anything)
@example(-math.nan)
def test_class_of(value):
    assert naive.CLASS_NAMES[scalar.class_of(value)] == naive.class_of(value)


@quick
@given(anything, positive)
@example(math.nan, 1.0)
@example(1.0, math.inf)
@example(0.0, math.inf)
@example(1.0, 1.0)
def test_is_within(error, bound):
    proved = not math.isnan(error) and naive.proved_within(abs(error), bound)
    assert scalar.is_within(abs(error), bound) == proved


def test_a_nan_bound_proves_nothing():
    assert not scalar.is_within(1.0, math.nan)


@quick
@given(positive, positive)
@example(1e308, 1e-10)
@example(0.0, 0.0)
@example(0.0, math.inf)
@example(1.0, math.inf)
def test_excess(error, bound):
    assert scalar.excess(error, bound) == naive.excess(error, bound)


@quick
@given(int64s, int64s)
def test_integer_error_of_signed(ref, cand):
    assert int(scalar.integer_error(np.int64(ref), np.int64(cand))) == abs(cand - ref)


@quick
@given(uint64s, uint64s)
def test_integer_error_of_unsigned(ref, cand):
    assert int(scalar.integer_error(np.uint64(ref), np.uint64(cand))) == abs(cand - ref)


@quick
@given(st.floats(0, 2.0**64) | st.sampled_from([2.0**64, 2.0**65, math.inf]))
@example(2.0**53 + 2)
@example(0.99)
def test_integer_bound(bound):
    floor = math.floor(bound) if math.isfinite(bound) else 2**64
    assert int(scalar.integer_bound(bound)) == min(floor, 2**64 - 1)


@quick
@given(uint64s, st.floats(0, 2.0**64))
@example(2**53 + 1, 2.0**53)
@example(2**64 - 1, 2.0**64)
def test_integer_excess(error, bound):
    assert scalar.integer_excess(np.uint64(error), bound) == naive.excess(error, bound)


@quick
@given(singles, singles)
@example(-0.0, 0.0)
@example(-1.401298464324817e-45, 1.401298464324817e-45)
@example(-3.4028234663852886e38, 3.4028234663852886e38)
def test_ulp_distance_32(ref, cand):
    assert int(scalar.ulp_distance_32(ref, cand)) == naive.ulp_steps(ref, cand, single=True)


@quick
@given(finite, finite)
@example(-0.0, 0.0)
@example(-5e-324, 5e-324)
@example(-1.7976931348623157e308, 1.7976931348623157e308)
def test_ulp_distance_64(ref, cand):
    assert int(scalar.ulp_distance_64(ref, cand)) == naive.ulp_steps(ref, cand, single=False)


@quick
@given(finite, st.integers(0, 30))
@example(0.0, 3)
@example(-5e-324, 2)
def test_ulp_distance_counts_steps(start, steps):
    there = start
    for _ in range(steps):
        there = math.nextafter(there, 0.0 if start > 0 else math.inf)
    crossed = steps if (start > 0) == (there > 0) or start < 0 else None
    if crossed is not None and there != 0:
        assert int(scalar.ulp_distance_64(start, there)) == steps


@quick
@given(positive)
@example(5e-324)
@example(2.0**-1022)
@example(math.nextafter(2.0**-1022, 0))
@example(1.7976931348623157e308)
@example(math.inf)
@example(0.0)
@example(1.125)
@example(math.nextafter(1.125, 0))
def test_bin_of(error):
    assert scalar.bin_of(error) == naive.histogram_bin(error)


moderate = st.floats(-1e3, 1e3).filter(lambda x: x == 0 or abs(x) > 1e-3)


@quick
@given(st.lists(moderate, min_size=3, max_size=3), st.lists(moderate, min_size=3, max_size=3))
@example([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0])
@example([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
def test_one_minus_cosine(ref, cand):
    rr, ee, re = (float(x) for x in naive.energies(ref, cand))
    expected = naive.one_minus_cosine(ref, cand)
    if rr == 0:
        return
    found = scalar.one_minus_cosine(rr, ee, re)
    if expected is not None and naive.energies(cand, ref)[0] > 1e-3 * rr:
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-11)
        assert 0 <= found <= 2


def test_one_minus_cosine_does_not_cancel_near_one():
    rng = np.random.default_rng(2)
    ref = rng.normal(size=50)
    cand = ref + 1e-8 * rng.normal(size=50)
    rr, ee, re = naive.energies(ref.tolist(), cand.tolist())
    found = scalar.one_minus_cosine(float(rr), float(ee), float(re))
    assert found == pytest.approx(naive.one_minus_cosine(ref.tolist(), cand.tolist()), rel=1e-6)


# Sums -------------------------------------------------------------------------------------------


def units(chunks):
    magnitudes = [sum(c << (32 * k) for k, c in enumerate(row)) for row in chunks.tolist()]
    return Fraction(magnitudes[0] - magnitudes[1], 2**1074)


@quick
@given(st.lists(anything, max_size=30))
@example([1.7976931348623157e308] * 5)
@example([5e-324, -5e-324, 2.0**-1022, -(2.0**-1022)])
def test_sum_errors_is_exact(terms):
    chunks = np.zeros((2, sums.CHUNKS), np.int64)
    lost = sums.sum_errors(np.array(terms, np.float64), chunks)
    assert lost == sum(math.isinf(t) for t in terms)
    assert units(chunks) == naive.exact_sum([t for t in terms if math.isfinite(t)])


@quick
@given(st.lists(st.tuples(anything, anything, anything), max_size=30))
def test_sum_products_is_the_exact_sum_of_rounded_products(rows):
    left, right, errors = np.array(rows, np.float64).reshape(-1, 3).T.copy()
    chunks = np.zeros((2, sums.CHUNKS), np.int64)
    lost = sums.sum_products(left, right, errors, chunks)
    terms = [x * y for x, y, e in rows if not math.isnan(e)]
    assert lost == sum(not math.isfinite(t) for t in terms)
    assert units(chunks) == naive.exact_sum([t for t in terms if math.isfinite(t)])


@pytest.mark.parametrize("value", [1.7976931348623157e308, -(2.0 - 2.0**-52), 5e-324, 2.0**-31])
def test_no_number_of_equal_terms_overflows_a_chunk(value):
    count = 1_000_003
    chunks = np.zeros((2, sums.CHUNKS), np.int64)
    for _ in range(3):
        sums.sum_errors(np.full(count, value), chunks)
    assert units(chunks) == 3 * count * Fraction(value)
    assert (chunks[:, :-1] < 2**32).all()
    assert (chunks >= 0).all()


# Machine code -----------------------------------------------------------------------------------

FUSED = re.compile(r"\bvf(?:n?m)(?:add|sub)\w*")
ORDINALS = np.arange(1)
RULE = elements.Rule(1.0, 0.5, math.inf, 0, False, math.inf, (1, 2, 4, 8, 16))


def judge(kernel, dtype, error_dtype):
    ref = np.ones(2, dtype)
    detail = elements.Detail(*np.zeros((3, 1), np.int64), *np.zeros((2, 1)))
    found = elements.Found(
        np.zeros((4, 4), np.int64),
        np.zeros(1, np.int64),
        np.full((2, 2), -1),
        np.zeros(2, error_dtype),
        np.zeros(1),
    )
    arguments = ref, ref, 2, 0, 1, ORDINALS, RULE, detail, found, np.zeros(2)
    kernel(*arguments)
    assert detail.rules[0] == 0
    return assembly_of(kernel.overloads[tuple(map(numba.typeof, arguments))])


@pytest.mark.parametrize(
    ("kernel", "dtype", "error_dtype"),
    [
        (elements.judge_integers, np.int64, np.uint64),
        (elements.judge_integers, np.uint8, np.uint64),
    ],
)
def test_deciding_code_has_no_fused_multiply_add(kernel, dtype, error_dtype):
    """Of integers; `test_fused.py` looks at the code for floats."""
    assembly = judge(kernel, dtype, error_dtype)
    assert "judge_" in assembly
    assert not FUSED.findall(assembly)


def test_kernels_are_compiled_without_fastmath_or_checks():
    for kernel in (elements.judge_floats, elements.judge_integers, scalar.allowed, sums.sum_errors):
        options = kernel.targetoptions
        assert options["error_model"] == "numpy"
        assert not options.get("fastmath")
        assert not options.get("parallel")


def test_the_search_for_fused_code_finds_it():
    @numba.njit(fastmath=True)
    def fused(x, y, z):
        return x * y + z

    fused(1.0, 2.0, 3.0)
    assembly = "".join(fused.inspect_asm().values())
    if "fma" in str(numba.core.codegen.get_host_cpu_features()).split("+"):
        assert FUSED.findall(assembly)
    assert FUSED.findall("vfmadd213sd %xmm2, %xmm0, %xmm1 / vfnmsub231pd / vfmsub132ss")
