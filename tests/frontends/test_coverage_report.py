"""The part of a report on what the golden samples exercised."""

from __future__ import annotations

from typing import Any

from paritygate_frontends.report.coverage import render_coverage
from paritygate_frontends.report.screen import plain


def lines(**found: Any) -> list[str]:
    return plain(render_coverage(found)).splitlines()


def side(decision: str, samples: int, nearest: float | None) -> dict[str, Any]:
    return {"decision": decision, "samples": samples, "nearest": nearest}


EDGE = {
    "edge": 0.2,
    "ties": 0,
    "below": side("ac\x1bcept", 1200, 0.001),
    "above": side("review", 0, None),
}


def test_edges_are_told_from_both_sides() -> None:
    found = lines(decisions={"s": {"d": {"edges": [EDGE] * 10}}})
    assert found[1] == "Coverage"
    told = "  s, d: edge 0.2: 1,200 ac\\x1bcept, the nearest 0.001 away; 0 review; no tie"
    assert found[2:10] == [told] * 8
    assert found[10:] == ["  s, d: and 2 more edges (summary.json)"]


def test_classes_values_dims_and_inputs() -> None:
    classes = {"classes": 9, "never": 2, "rarest": {"x": 0, "y": 0, "z": 3}, "ties": 1}
    found = lines(
        decisions={"s": {"c": classes, "v": {"values": 3}}},
        dims={"seq": {"seen": [2, 40], "approved": [1, 512]}},
        inputs={
            "x": {"ends": 1, "minima_reached": 1, "maxima_reached": 0, "zeros": 0},
            "w": {"ends": 30, "minima_reached": 2, "maxima_reached": 4, "zeros": 1},
            "u": {"zeros": 2},
        },
        batch_sizes={
            "a": {"ran": {"1": {"whole": 1, "padded": 0}, "8": {"whole": 3, "padded": 1}}}
            | {"checked": [2]}
        },
    )
    assert found[2:] == [
        "  s, c: 7 of 9 classes decided by the reference; rarest x 0x, y 0x, z 3x; 1 tie",
        "  s, v: 3 different values",
        "  dim seq: 2 to 40 of the approved 1 to 512",
        "  input x: minimum of its range reached, maximum not reached; all zero in 0 samples",
        (
            "  input w: minimum of its range reached in 2, maximum in 4 of 30 channels; all "
            "zero in 1 sample"
        ),
        "  input u: all zero in 2 samples",
        "  a: batches of 1 (1x), 8 (4x, 1 padded); run again at 2",
    ]


def test_nothing_is_told_of_nothing() -> None:
    ran = {"a": {"ran": {"1": {"whole": 1, "padded": 0}}, "checked": []}}
    assert lines() == lines(batch_sizes=ran) == []
