"""Patterns: each is found where it is, and nothing is claimed where nothing is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.core.policy import Tolerance
from paritygate.diagnosis.patterns import Pair, find_patterns, swapped_outputs

TOLERANCE = Tolerance(atol=1e-6, rtol=1e-6)


def pairs(shape: tuple[int, ...], change: Callable[[np.ndarray], np.ndarray], n: int = 3) -> list:
    rng = np.random.default_rng(7)
    made = []
    for _ in range(n):
        ref = rng.standard_normal(shape).astype(np.float32)
        found = Pair.of(ref, np.ascontiguousarray(change(ref)))
        assert found is not None
        made.append(found)
    return made


def kind(shape: tuple[int, ...], change: Callable[[np.ndarray], np.ndarray]) -> list[str]:
    return [p.kind for p in find_patterns(pairs(shape, change), TOLERANCE)]


@pytest.mark.parametrize(
    ("shape", "change", "expected"),
    [
        ((4, 4), lambda a: a.T, "transposed"),
        ((3, 5), lambda a: a.T, "transposed"),
        ((2, 3, 4), lambda a: a.transpose(1, 2, 0), "transposed"),
        ((2, 3, 4), lambda a: a.transpose(1, 2, 0).copy().reshape(2, 3, 4), "layout"),
        ((3, 8), lambda a: a[:, ::-1], "reversed"),
        ((3, 8), lambda a: a[::-1, ::-1], "reversed"),
        ((6,), lambda a: a.reshape(6, 1), "reshaped"),
        ((6,), lambda a: a[[2, 0, 1, 3, 5, 4]], "permuted"),
        ((4, 6), lambda a: a[:, [2, 0, 1, 3, 5, 4]], "permuted"),
        ((12,), lambda a: a + np.float32(0.25), "offset"),
        ((12,), lambda a: a * np.float32(1.5), "scale"),
        ((12,), lambda a: a * 1.5 + 3, "line"),
        ((12,), lambda a: a * np.nan, "all_nan"),
        ((12,), lambda a: a * 0, "all_zero"),
        ((12,), lambda a: 1 / (1 + np.exp(-a.astype(np.float64))), "sigmoid"),
    ],
)
def test_patterns_are_found(
    shape: tuple[int, ...], change: Callable[[np.ndarray], np.ndarray], expected: str
) -> None:
    assert kind(shape, change) == [expected]


def test_a_lacking_softmax_is_found() -> None:
    rng = np.random.default_rng(1)
    made = []
    for _ in range(3):
        logits = rng.standard_normal(5)
        powers = np.exp(logits)
        made.append(Pair(powers / powers.sum(), logits))
    assert [p.kind for p in find_patterns(made, TOLERANCE)] == ["softmax"]


@given(st.integers(0, 2**32 - 1), st.sampled_from([(1,), (2, 2), (3, 4), (10,), (2, 3, 2)]))
def test_noise_has_no_pattern(seed: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    made = [Pair(rng.standard_normal(shape), rng.standard_normal(shape)) for _ in range(4)]
    assert find_patterns(made, TOLERANCE) == []


@given(st.permutations(range(7)), st.integers(0, 2**32 - 1))
def test_any_order_of_classes_is_found(order: list[int], seed: int) -> None:
    refs = np.random.default_rng(seed).standard_normal((3, 7))
    made = [Pair(ref, ref[order]) for ref in refs]
    found = find_patterns(made, TOLERANCE)
    if order == sorted(order):
        return
    assert found
    assert found[0].kind in ("permuted", "reversed")
    assert (found[0].samples, found[0].of) == (3, 3)


def test_a_coincidence_in_one_of_many_is_not_told() -> None:
    rng = np.random.default_rng(2)
    made = [Pair(a := rng.standard_normal((4, 4)), a.T.copy())]
    made += [Pair(rng.standard_normal((4, 4)), rng.standard_normal((4, 4))) for _ in range(5)]
    assert find_patterns(made, TOLERANCE) == []


def test_exchanged_outputs() -> None:
    a, b = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.float32) + 10
    ref = {"left": a, "right": b}
    assert swapped_outputs(ref, {"left": b, "right": a}, "left", TOLERANCE) == "right"
    assert swapped_outputs(ref, {"left": a + 1, "right": b}, "left", TOLERANCE) is None
    assert swapped_outputs({"left": a}, {"left": b}, "left", TOLERANCE) is None
