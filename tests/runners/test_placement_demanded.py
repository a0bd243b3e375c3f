"""`placement = "observed"` is a demand: where nothing was observed, the run is on hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.test_record import plan_of

import paritygate


@pytest.mark.parametrize(
    ("placement", "writes", "expected"),
    [
        ("observed", True, {"placement.unobserved"}),
        ("observed", False, set()),
        ("auto", True, set()),
        ("assigned", True, set()),
    ],
)
def test_what_is_demanded_and_not_observed_holds(
    tmp_path: Path, placement: str, writes: bool, expected: set[str]
) -> None:
    """A session that writes a context file is never made a second time, so nothing is observed."""
    plan: dict[str, Any] = plan_of(tmp_path, n=40)
    plan["stages"][0]["outputs"] = {"y": {"atol": 1.0, "rtol": 0.5}}
    cand = plan["runners"]["cand"]
    cand["placement"] = placement
    if writes:
        cand["session_options"] = {"ep.context_enable": "1"}
    result = paritygate.run(plan, out=None)
    assert {r.code for r in result.reasons} == expected, result.explain()
    if expected:
        (reason,) = result.reasons
        assert "writes a file (ep.context_enable)" in reason.message
