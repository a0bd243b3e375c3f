"""Summaries written by hand, in the shape of `summary.json`, for the rendering tests."""

from __future__ import annotations

from typing import Any


def output(**changes: Any) -> dict[str, Any]:
    """Figures of one output that agrees."""
    figures = {
        "tier": "full",
        "samples": 1000,
        "elements": 10_000,
        "failing_elements": 0,
        "empty_samples": 0,
        "nonfinite": {"ref": 0, "cand": 0, "agreeing": 0, "disagreeing": 0, "table": {}},
        "ref_beyond_cand_range": 0,
        "mean_error": -2.5e-9,
        "rmse": 3.25e-8,
        "max_abs_error": {"value": 6e-7, "ordinal": 7, "index": 3, "ref": 0.5, "cand": 0.5000006},
        "max_excess": {"value": 0.04, "ordinal": 7, "index": 3, "ref": 0.5, "cand": 0.5000006},
    }
    return {**figures, **changes}


def decision(**changes: Any) -> dict[str, Any]:
    """Figures of one decision without a flip."""
    figures = {
        "budget": 0,
        "samples": 1000,
        "flips": 0,
        "agreement": 1.0,
        "flip_rate_upper_95": 0.002991,
        "undefined": {"ref": 0, "cand": 0},
        "matrix": {"accept": {"accept": 600}, "reject": {"reject": 400}},
        "at_risk": 2,
        "depends_on_compare_as": 0,
        "labels": None,
    }
    return {**figures, **changes}


def stage(name: str = "conversion", verdict: str = "release", **changes: Any) -> dict[str, Any]:
    """One stage that agrees."""
    figures = {
        "name": name,
        "verdict": verdict,
        "reference": "source",
        "candidate": "float",
        "ran": True,
        "stats": "full",
        "samples": {
            "expected": 1000,
            "compared": 1000,
            "rejected": 0,
            "missing": 0,
            "extra": 0,
            "duplicate": 0,
            "errors": 0,
            "failed": 0,
        },
        "outputs": {"score": output()},
        "decisions": {"disposition": decision()},
    }
    return {**figures, **changes}


def release(**changes: Any) -> dict[str, Any]:
    """A run of one stage that is released."""
    summary = {
        "schema_version": 1,
        "verdict": "release",
        "reasons": [],
        "not_judged": ["latency: not measured"],
        "plan": {"name": "advisory"},
        "golden": {"samples": 1000},
        "stages": [stage()],
        "timing": {
            "read_s": 0.002,
            "reference_s": 1.5,
            "candidate_s": 75.0,
            "compare_s": 0.0,
            "wall_s": 4000.0,
            "startup_s": 0.5,
        },
    }
    return {**summary, **changes}


def hold() -> dict[str, Any]:
    """A run on hold: a stage that is fine, then one with errors, NaN and flips."""
    bad = stage(
        "quantization",
        "hold",
        reference="float",
        candidate="int8",
        samples={
            "expected": 1000,
            "compared": 990,
            "rejected": 4,
            "missing": 6,
            "extra": 2,
            "duplicate": 0,
            "errors": 0,
            "failed": 31,
        },
        outputs={
            "score": output(
                failing_elements=28,
                nonfinite={"ref": 1, "cand": 5, "agreeing": 1, "disagreeing": 4, "table": {}},
                mean_error="nan",
                rmse="inf",
                max_abs_error={
                    "value": "inf",
                    "ordinal": 7,
                    "index": 0,
                    "ref": 0.1999999,
                    "cand": 0.2000001,
                },
                max_excess={"value": 38.3, "ordinal": 9, "index": 4, "ref": "-inf", "cand": "nan"},
            )
        },
        decisions={
            "disposition": decision(
                flips=5,
                budget=1,
                samples=990,
                matrix={
                    "accept": {"accept": 600, "reject": 1},
                    "review": {"accept": 3},
                    "undefined": {"undefined": 1},
                    "reject": {"reject": 385},
                },
                undefined={"ref": 1, "cand": 1},
                labels={
                    "labelled": 980,
                    "unknown": 10,
                    "correct_ref": 900,
                    "correct_cand": 898,
                    "changed_to_wrong": 3,
                    "changed_to_right": 1,
                },
                depends_on_compare_as=2,
            )
        },
        slices={
            "site": {
                "north": {"samples": 500, "failed": 1, "flips": {"disposition": 0}},
                "south": {"samples": 490, "failed": 30, "flips": {"disposition": 5}},
                "west": {"samples": 10, "failed": 0, "flips": {"disposition": 0}},
            }
        },
        failures={
            "ids": "failures/quantization-ids.arrow",
            "failed": 31,
            "kept": 20,
            "truncated": True,
            "shards": ["failures/quantization-00000.arrow"],
        },
    )
    reasons = [
        {
            "code": "tolerance.exceeded",
            "message": "output 'score': 26 of 990 samples exceed the tolerance",
            "stage": "quantization",
            "output": "score",
            "count": 26,
            "ids": ["a-1", "a-2"],
            "next": "look at dtype casts",
        },
        {
            "code": "decision.flip",
            "message": "5 of 990 samples changed 'disposition'",
            "stage": "quantization",
            "decision": "disposition",
            "count": 2,
            "ids": [17, 18],
        },
    ]
    return release(verdict="hold", reasons=reasons, stages=[stage(), bad])


def unjudged() -> dict[str, Any]:
    """What stands in for a summary where there is no verdict."""
    return {
        "schema_version": 1,
        "verdict": "unjudged",
        "reasons": [{"code": "policy.invalid", "message": "golden: is missing"}],
    }
