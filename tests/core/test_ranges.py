"""The ranges of a plan: what is one, and what is said of anything else."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from paritygate.core.tables import InputTable

NAN, INF = float("nan"), float("inf")
FORM = "write [minimum, maximum], or one such pair per channel"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([0, 1], [0.0, 1.0]),
        ((0, 1), [0.0, 1.0]),
        ([2, 2], [2.0, 2.0]),
        ([[0, 1], [-5, 0.5]], [[0.0, 1.0], [-5.0, 0.5]]),
        ([0, 2**64 - 1], [0.0, 2**64 - 1]),
        (None, None),
    ],
)
def test_ranges(given: Any, kept: Any) -> None:
    assert InputTable.model_validate({"range": given}).range == kept


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([1, 0], "the minimum 1 is above the maximum 0; exchange them"),
        ([[0, 1], [3, 1]], "pair 1: the minimum 3 is above the maximum 1; exchange them"),
        ([0, INF], "both ends are finite: for an end that is open write a number"),
        ([NAN, 1.0], "both ends are finite: for an end that is open write a number"),
        ([[0, 1], [-INF, 1]], "pair 1: both ends are finite: for an end that is open"),
        ([0], FORM),
        ([], FORM),
        ([0, 1, 2], FORM),
        ([True, 1], FORM),
        (["a", 1], FORM),
        ([[0, 1], 2], f"pair 1: {FORM}"),
        ("0..1", FORM),
    ],
)
def test_what_is_no_range_is_told_in_one_sentence(given: Any, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        InputTable.model_validate({"range": given})
    (error,) = caught.value.errors()
    assert error["loc"] == ("range",)
    assert error["msg"].startswith(f"Value error, {told}")
