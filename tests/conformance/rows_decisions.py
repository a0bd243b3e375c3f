"""Rows about decisions: what the product does with an output."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.conformance.case import RELEASE, Case, Expected, hold, unjudged
from tests.conformance.recordings import Pair, Recording, Recordings

F32 = np.float32
WIDE = {"atol": 0.05, "rtol": 0.0}
FLIP = hold("decision.flip")
BANDS = "accept < 0.2 <= review <= 0.8 < reject"


def rows(*values: Any) -> Any:
    return np.array(values, F32)


def _classes(
    name: str, ref: Any, cand: Any, expected: Expected, says: Any = (), **more: Any
) -> Case:
    given = Pair(ref, cand, **{**WIDE, **more}, argmax=True)
    return Case("flips", name, given, expected, says)


SAFE = rows([0.7, 0.3], [0.2, 0.8])
CLOSE = rows([0.51, 0.49])
SEVERAL = rows([0.51, 0.49], [0.49, 0.51], [0.9, 0.1])
SWAPPED = rows([0.49, 0.51], [0.51, 0.49], [0.9, 0.1])
THREE = np.array([0, 1, 0])

ARGMAX = [
    _classes(
        "[.51, .49] against [.49, .51] at atol 0.05",
        CLOSE,
        rows([0.49, 0.51]),
        FLIP,
        ("0 -> 1 1x", "margin 0.02"),
    ),
    _classes("[.51, .49] against [.505, .495] at atol 0.05", CLOSE, rows([0.505, 0.495]), RELEASE),
    _classes("classes far apart, at atol 0.05", SAFE, SAFE + F32(0.04), RELEASE),
    Case(
        "flips",
        "the same numbers without a decision rule",
        Pair(CLOSE, rows([0.49, 0.51]), **WIDE),
        RELEASE,
    ),
    _classes(
        "two flips that cancel in the counts of each class", SEVERAL, SWAPPED, FLIP, ("2 of 3",)
    ),
    _classes("two flips where two are allowed", SEVERAL, SWAPPED, RELEASE, flips=2),
    _classes("two flips where one is allowed", SEVERAL, SWAPPED, FLIP, ("1 allowed",), flips=1),
    _classes(
        "two flips that leave the accuracy as it is",
        SEVERAL,
        SWAPPED,
        FLIP,
        label=np.array([0, 0, 0]),
    ),
    _classes(
        "no flip, every label is wrong on both sides", SAFE, SAFE, RELEASE, label=THREE[:2] ^ 1
    ),
    _classes(
        "a tie goes to the lowest index on both sides",
        rows([0.5, 0.5]),
        rows([0.5, 0.4999]),
        RELEASE,
    ),
    _classes(
        "a tie against the second class one step up", rows([0.5, 0.5]), rows([0.5, 0.50001]), FLIP
    ),
    _classes(
        "argmax of one class, which can't flip",
        rows([0.5]),
        rows([0.5]),
        unjudged(),
        ("at least two classes",),
    ),
    _classes(
        "int32 scores that flip within their tolerance",
        np.array([[5, 4]], np.int32),
        np.array([[5, 6]], np.int32),
        FLIP,
        atol=2.0,
    ),
    _classes(
        "int64 scores 2^53 and 2^53 + 1, which are one float64",
        np.array([[2**53, 2**53 + 1]]),
        np.array([[2**53 + 1, 2**53]]),
        FLIP,
        atol=2.0,
    ),
    _classes(
        "classes with names",
        CLOSE,
        rows([0.49, 0.51]),
        FLIP,
        ("cat -> dog",),
        decision={"labels": ["cat", "dog"]},
    ),
    _classes("a class without a name", SAFE, SAFE, unjudged(), decision={"labels": ["cat"]}),
    _classes(
        "one of 1000 samples flips, within the tolerance",
        np.tile(CLOSE, (1000, 1)),
        np.where(np.arange(1000)[:, None] == 998, rows([0.49, 0.51]), CLOSE),
        FLIP,
        ("1 of 1000",),
    ),
]


def _scores(
    name: str, ref: Any, cand: Any, expected: Expected, says: Any = (), **more: Any
) -> Case:
    given = Pair(np.asarray(ref, F32), np.asarray(cand, F32), **{**WIDE, "bands": BANDS, **more})
    return Case("flips", name, given, expected, says)


TABLE = {"d": {"output": "y", "bands": BANDS}}
SCORES = Recording([1, 2], {"y": rows(0.1, 0.9)})

SCORED = [
    _scores(
        "0.19 against 0.21 at atol 0.05", [0.19, 0.5], [0.21, 0.5], FLIP, ("accept -> review",)
    ),
    _scores("0.15 against 0.19 at atol 0.05", [0.15, 0.5], [0.19, 0.5], RELEASE),
    _scores("scores of shape [n, 1]", [[0.19], [0.5]], [[0.21], [0.5]], FLIP),
    _scores("scores of shape [n, 1], no flip", [[0.15], [0.5]], [[0.19], [0.5]], RELEASE),
    _scores(
        "from accept to reject, over a band", [0.1], [0.9], FLIP, ("accept -> reject",), atol=1.0
    ),
    _scores("a band rule on an output of two elements", [[0.1, 0.5]], [[0.1, 0.5]], unjudged()),
    _scores("a tie that belongs to both bands", [0.1], [0.1], unjudged(), bands="a <= 0.2 <= b"),
    _scores("a tie that belongs to no band", [0.1], [0.1], unjudged(), bands="a < 0.2 < b"),
    _scores("edges that descend", [0.1], [0.1], unjudged(), bands="a < 0.8 <= b < 0.2 <= c"),
    _scores("an edge at NaN", [0.1], [0.1], unjudged(), bands="a < nan <= b"),
    _scores(
        "two edges that are one float32",
        [0.1],
        [0.1],
        unjudged(),
        bands="a < 0.2 <= b < 0.2000000001 <= c",
    ),
    Case(
        "flips",
        "float64 against a declared float32 candidate, without compare_as",
        Pair(
            np.array([0.5]),
            rows(0.5),
            **WIDE,
            more={"candidate_dtype": "float32"},
            bands=BANDS,
        ),
        unjudged(),
        ("compare_as",),
    ),
    Case(
        "flips",
        "the same, with compare_as = 'output'",
        Pair(
            np.array([0.5]),
            rows(0.5),
            **WIDE,
            more={"candidate_dtype": "float32"},
            bands=BANDS,
            decision={"compare_as": "output"},
        ),
        RELEASE,
    ),
    *[
        Case(
            "flips",
            "float32(0.2) against a declared float64 candidate just below 0.2, compare_as = "
            f"{compare_as!r}",
            Pair(
                rows(0.2),
                np.array([0.2 - 1e-10]),
                **WIDE,
                more={"candidate_dtype": "float64"},
                bands=BANDS,
                decision={"compare_as": compare_as},
            ),
            expected,
        )
        for compare_as, expected in (("output", RELEASE), ("float64", FLIP))
    ],
    Case(
        "flips",
        "a decision on an output that no side has",
        Recordings(SCORES, SCORES, plan={"decisions": {"d": {"output": "score", "bands": BANDS}}}),
        hold("output.missing"),
        ("score",),
    ),
    Case(
        "flips",
        "a decision on an output that the stage doesn't compare",
        Recordings(
            SCORES,
            SCORES,
            stage={"default": None, "outputs": {"z": {"atol": 0.0, "rtol": 0.0}}},
            plan={"decisions": TABLE},
        ),
        unjudged(),
    ),
    Case(
        "flips",
        "a budget for a decision that the plan doesn't have",
        Recordings(SCORES, SCORES, stage={"flips": {"dd": 3}}, plan={"decisions": TABLE}),
        unjudged(),
        ("no such decision",),
    ),
    Case(
        "flips",
        "a negative budget",
        Recordings(SCORES, SCORES, stage={"flips": {"d": -1}}, plan={"decisions": TABLE}),
        unjudged(),
    ),
    Case(
        "flips",
        "a decision without a rule",
        Recordings(SCORES, SCORES, plan={"decisions": {"d": {"output": "y"}}}),
        unjudged(),
    ),
    Case(
        "flips",
        "two decisions on one output, one of them flips",
        Recordings(
            SCORES,
            Recording([1, 2], {"y": rows(0.1, 0.85)}),
            rule={"atol": 0.1, "rtol": 0.0},
            plan={
                "decisions": {**TABLE, "strict": {"output": "y", "bands": "no < 0.875 <= yes"}},
            },
        ),
        FLIP,
        ("'strict'", "yes -> no"),
        (2,),
    ),
]

ROWS = [*ARGMAX, *SCORED]
