"""Usual magnitudes: keyed to the coarser precision, scaled by the output's own size."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.diagnosis.magnitude import assess, precision_of

F32 = ("float32", "float32")
ORDER = ["rounding", "usual", "suspicious", "bug"]


@pytest.mark.parametrize(
    ("relative", "level"),
    [(1e-6, "rounding"), (9e-6, "rounding"), (1e-4, "usual"), (1e-3, "suspicious"), (1e-2, "bug")],
)
def test_float32_on_both_sides(relative: float, level: str) -> None:
    for scale in (1e-6, 1.0, 1e6):
        assert assess(relative * scale * (1 + 1e-12), scale, F32)["level"] == level


@pytest.mark.parametrize(
    ("precisions", "named"),
    [
        (("float32", "float16"), "float16"),
        (("int8", "float32"), "int8"),
        (("float64", "float32"), "float32"),
        (("bfloat16", "float16"), "bfloat16"),
    ],
)
def test_the_coarser_side_counts(precisions: tuple[str, str], named: str) -> None:
    found = assess(1e-2, 1.0, precisions)
    assert found["precision"] == named
    assert assess(1e-2, 1.0, F32)["level"] == "bug"
    assert assess(9e-3, 1.0, ("float16", "float32"))["level"] == "usual"


@given(
    st.sampled_from(["float64", "float32", "float16", "bfloat16", "float8", "int8"]),
    st.floats(0, 1e3),
    st.floats(0, 1e3),
)
def test_a_larger_error_is_never_told_smaller(precision: str, one: float, two: float) -> None:
    small, large = sorted([one, two])
    levels = [ORDER.index(assess(e, 1.0, (precision, "float64"))["level"]) for e in (small, large)]
    assert levels == sorted(levels)


@pytest.mark.parametrize(("error", "scale"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, 0.0)])
def test_what_has_no_magnitude_is_undefined(error: float, scale: float) -> None:
    found = assess(error, scale, F32)
    assert (found["level"], found["relative"]) == ("undefined", None)


def test_precision_comes_from_the_model_before_the_dtype() -> None:
    assert precision_of({"precision": {"arithmetic": "int8"}}, "float32") == "int8"
    assert precision_of({}, "float64") == "float64"
    assert precision_of({"precision": "nonsense"}, "float16") == "float16"
    assert precision_of({"precision": {"arithmetic": "new"}}, "float8_e4m3fn") == "float8"
