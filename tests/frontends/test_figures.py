from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate_frontends.report.figures import (
    bound,
    clean,
    clean_lines,
    counted,
    number,
    seconds,
    share,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("nan", "nan"),
        ("-inf", "-inf"),
        (0, "0"),
        (8990, "8,990"),
        (2**63, "9,223,372,036,854,775,808"),
        (0.0, "0"),
        (6.004e-7, "6e-07"),
        (38.349, "38.3"),
        (float("nan"), "nan"),
    ],
)
def test_number(value: object, text: str) -> None:
    assert number(value) == text


def test_number_keeps_float32_neighbours_apart_at_nine_digits() -> None:
    assert number(0.1999999, 9) != number(0.2000001, 9)


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(899, 899, "100 %"), (896, 899, "99.66 %"), (0, 5, "0 %"), (29, 100, "29 %"), (0, 0, "-")],
)
def test_share(part: int, whole: int, text: str) -> None:
    assert share(part, whole) == text


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_share_is_never_rounded_up(left: int, flips: int) -> None:
    text = share(left, left + flips)
    shown = Fraction(text.removesuffix(" %")) / 100
    assert shown <= Fraction(left, left + flips) < shown + Fraction(1, 10_000)
    assert text != "100 %"


@given(st.floats(1e-300, 1))
def test_bound_is_never_rounded_down(fraction: float) -> None:
    shown = Fraction(bound(fraction).removesuffix(" %")) / 100
    exact = Fraction(fraction)
    assert exact <= shown <= exact * Fraction(102, 100)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.002991, "0.3 %"),
        (0.0033267, "0.333 %"),
        (1.0, "100 %"),
        (0.995001, "99.6 %"),
        (None, "-"),
    ],
)
def test_bound(fraction: float | None, text: str) -> None:
    assert bound(fraction) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ms"),
        (0.0123, "12 ms"),
        (0.9996, "1.0 s"),
        (1.84, "1.8 s"),
        (99.96, "1 min 40 s"),
        (3599.6, "1 h 00 min"),
        (7500.0, "2 h 05 min"),
        (None, "-"),
        (float("inf"), "inf"),
    ],
)
def test_seconds(value: object, text: str) -> None:
    assert seconds(value) == text


def test_counted() -> None:
    assert [counted(n, "sample") for n in (0, 1, 12_000)] == [
        "0 samples",
        "1 sample",
        "12,000 samples",
    ]


@given(st.text())
def test_clean_leaves_nothing_that_a_terminal_obeys(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.isprintable()
    if all(c.isprintable() for c in text):
        assert cleaned == text


def test_clean_escapes_what_it_takes_away() -> None:
    assert clean("id\x1b[31m\r\n") == "id\\x1b[31m\\r\\n"


@given(st.text())
def test_clean_lines_keeps_lines_and_nothing_else(text: str) -> None:
    lines = clean_lines(text).split("\n")
    assert len(lines) == text.count("\n") + 1
    assert all(line.isprintable() for line in lines)
