from __future__ import annotations

from typing import Any

import pytest
from tests.frontends.summaries import hold

from paritygate_frontends.report.verdict import _threads

RATES = [{"threads": n, "samples_per_s": 5.0} for n in (4, 2, 1)]


@pytest.mark.parametrize(
    ("threads", "told"),
    [
        (None, "threads"),
        ({"used": 1, "reason": "option"}, "1 thread"),
        ({"used": 4, "reason": "cores"}, "4 threads"),
        ({"used": 2, "reason": "measured", "measured": RATES}, "2 threads, measured beside 4, 1"),
    ],
)
def test_times_say_over_how_many_threads_they_are_summed(
    threads: dict[str, Any] | None, told: str
) -> None:
    summary = hold() | ({"threads": threads} if threads else {})
    assert _threads(summary.get("threads") or {}) == told
