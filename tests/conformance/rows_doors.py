"""Rows about the doors themselves: files that overlap, arguments of the wrong kind, mappings."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.conformance.case import (
    RELEASE,
    Answer,
    Call,
    Case,
    Expected,
    answer_assertion,
    hold,
    unjudged,
)
from tests.conformance.live import Functions
from tests.conformance.recordings import Pair, Recording, Recordings
from tests.packs import write_pack

import paritygate

F32 = np.float32
Y = np.arange(12, dtype=F32).reshape(6, 2)
EXACT = {"atol": 0.0, "rtol": 0.0}
EXCEEDED = hold("tolerance.exceeded")
TRUTH = np.array([True, False])
ONES = np.ones(3, F32)


def _files(folder: Path, golden: list[str], ids: list[list[int]]) -> Any:
    """Compare golden files `0.arrow`, `1.arrow`, ... with one recording of ids 1, 2 and 3."""
    for number, some in enumerate(ids):
        write_pack(folder / f"{number}.arrow", some, outputs={"y": Y[some]})
    cand = Recording([3, 2, 1], {"y": Y[[3, 2, 1]]}).write(folder / "cand.arrow", "candidate")
    return paritygate.compare([folder / name for name in golden], cand, out=None)


def _split(name: str, golden: list[str], ids: list[list[int]], expected: Expected) -> Case:
    return Case("fewer", name, Call("compare", partial(_files, golden=golden, ids=ids)), expected)


def _mappings(name: str, ref: Any, cand: Any, expected: Expected, *says: str) -> Case:
    def judge(_: Path) -> Answer:
        return answer_assertion(ref, cand, EXACT)

    return Case("outputs", name, Call("assert_parity", judge), expected, says)


def _kept(name: str, expected: Expected, off: float, **plan: Any) -> Case:
    given = Recordings(
        Recording(range(6), {"y": Y}), Recording(range(6), {"y": Y + F32(off)}), plan=plan
    )
    return Case("rejudged", name, given, expected)


def _two_packs(folder: Path, **arguments: Any) -> Any:
    ref = Recording(range(6), {"y": Y}).write(folder / "ref.arrow", "reference")
    cand = Recording(range(6), {"y": Y}).write(folder / "cand.arrow", "candidate")
    return paritygate.compare(ref, cand, out=None, **arguments)


def _asked(kind: str, name: str, expected: Expected, *says: str, **arguments: Any) -> Case:
    given = Call("compare", partial(_two_packs, **arguments))
    return Case(kind, name, given, expected, says)


def _verified(name: str, inputs: Any, expected: Expected, *says: str) -> Case:
    def judge(_: Path) -> Any:
        return paritygate.verify(
            lambda g: {"y": g["x"]}, lambda g: {"y": g["x"] + 0}, inputs, **EXACT
        )

    return Case("nothing", name, Call("verify", judge), expected, says)


ALIAS = "def ref(g):\n    return {'y': g['x']}\n\ncand = ref\n"
RAISES = (
    "def good(g):\n    return {'y': g['x'] + 0}\n\n"
    "def bad(g):\n    if g['x'][0, 0] == 8:\n        raise ValueError('no answer')\n"
    "    return {'y': g['x']}\n\n"
    "ref = cand = good\n%s = bad\n"
)
MADE = (
    "def scaled(by):\n    def call(g):\n        return {'y': g['x'] * by}\n    return call\n\n"
    "ref, cand = scaled(1), scaled(%d)\n"
)

ROWS = [
    _split("three samples in two golden files", ["0.arrow", "1.arrow"], [[1, 2], [3]], RELEASE),
    _split(
        "one of the golden files has no samples", ["0.arrow", "1.arrow"], [[1, 2, 3], []], RELEASE
    ),
    _split("a glob of golden files", ["*[01].arrow"], [[1, 2], [3]], RELEASE),
    _split(
        "a sample is in two golden files",
        ["0.arrow", "1.arrow"],
        [[1, 2], [2, 3]],
        unjudged("golden.duplicate_id"),
    ),
    _split(
        "a golden file is named twice, by its path and by a glob",
        ["0.arrow", "*[01].arrow"],
        [[1, 2], [3]],
        unjudged("golden.duplicate_file"),
    ),
    _split(
        "a golden file is left out",
        ["0.arrow"],
        [[1, 2], [3]],
        hold("sample.extra"),
    ),
    _asked("fewer", "a negative limit", unjudged(), "limit", limit=-1),
    _mappings(
        "assert_parity: a name less",
        {"a": ONES, "b": ONES},
        {"a": ONES},
        hold("output.missing"),
        "b",
    ),
    _mappings(
        "assert_parity: a name more",
        {"a": ONES},
        {"a": ONES, "b": ONES},
        hold("output.missing"),
        "b",
    ),
    _mappings("assert_parity: no names at all", {}, {}, hold("evidence.empty")),
    _mappings(
        "assert_parity: names in another order",
        {"a": ONES, "b": 2 * ONES},
        {"b": 2 * ONES, "a": ONES},
        RELEASE,
    ),
    _mappings(
        "assert_parity: the second of two arrays is off",
        {"a": ONES, "b": ONES},
        {"a": ONES, "b": 2 * ONES},
        EXCEEDED,
        "'b'",
    ),
    _mappings("assert_parity: an array against one number", ONES, F32(1), hold("shape.mismatch")),
    _asked(
        "outputs",
        "argmax of an output that isn't there, given as plain text",
        hold("output.missing"),
        "'scores'",
        argmax="scores",
    ),
    _asked(
        "flips",
        "a band rule given as plain text",
        unjudged(),
        "one score",
        bands="y: low < 1 <= high",
    ),
    _asked(
        "vacuous",
        "a tolerance that is a number, not a table",
        unjudged(),
        "outputs.y",
        tolerances={"y": 1.0},
    ),
    Case(
        "vacuous",
        "bool: True against False at atol 1, which would let everything pass",
        Recordings(
            Recording([1, 2], {"y": TRUTH}),
            Recording([1, 2], {"y": ~TRUTH}),
            stage={"outputs": {"y": {"atol": 1.0, "rtol": 0.0}}},
        ),
        unjudged(),
        ("bools are judged exactly",),
    ),
    Case(
        "vacuous",
        "bool: equal, beside floats with a default tolerance",
        Recordings(
            Recording([1, 2], {"y": TRUTH, "z": ONES[:2]}),
            Recording([1, 2], {"y": TRUTH, "z": ONES[:2] + F32(0.5)}),
            rule={"atol": 1.0, "rtol": 0.0},
        ),
        RELEASE,
    ),
    Case(
        "vacuous",
        "bool: True against False beside floats with a default tolerance of 1",
        Recordings(
            Recording([1, 2], {"y": TRUTH, "z": ONES[:2]}),
            Recording([1, 2], {"y": ~TRUTH, "z": ONES[:2]}),
            rule={"atol": 1.0, "rtol": 0.0},
        ),
        EXCEEDED,
        ("'y'",),
    ),
    Case(
        "vacuous",
        "a float output that is named without a tolerance",
        Recordings(
            Recording([1, 2, 3], {"y": ONES}),
            Recording([1, 2, 3], {"y": ONES}),
            stage={"outputs": {"y": {"nonfinite": "match"}}},
        ),
        unjudged(),
        ("float32", "atol"),
    ),
    Case(
        "vacuous",
        "an int output that is named without a tolerance is judged exactly",
        Recordings(
            Recording([1, 2, 3], {"y": ONES.astype(np.int32)}),
            Recording([1, 2, 3], {"y": 2 * ONES.astype(np.int32)}),
            stage={"outputs": {"y": {}}},
        ),
        EXCEEDED,
    ),
    Case(
        "vacuous",
        "atol = 0 and rtol = 0, equal values",
        Pair(ONES, ONES, 0.0, 0.0),
        RELEASE,
    ),
    _kept(
        "no failing sample is kept (max_failures = 0): the verdict doesn't depend on it",
        EXCEEDED,
        1.0,
        max_failures=0,
    ),
    _kept("the same, without a failing sample", RELEASE, 0.0, max_failures=0),
    _verified("verify with an array in place of a dict of arrays", Y, unjudged(), "ndarray"),
    _verified("verify with no rows", {"x": Y[:0]}, hold("evidence.empty")),
    _verified(
        "verify with one of two batches empty", [{"x": Y}, {"x": Y[:0]}], unjudged(), "no rows"
    ),
    _verified("verify with one row", {"x": Y[:1]}, RELEASE),
    Case(
        "outputs",
        "the candidate lacks an output whose name has a colon and brackets",
        Recordings(
            Recording([1], {"y": ONES[:1], "head:0 (logits)": ONES[:1]}),
            Recording([1], {"y": ONES[:1]}),
        ),
        hold("output.missing"),
        ("'head:0 (logits)'", "candidate"),
    ),
    Case(
        "outputs",
        "both sides have it",
        Recordings(
            Recording([1], {"y": ONES[:1], "head:0 (logits)": ONES[:1]}),
            Recording([1], {"y": ONES[:1], "head:0 (logits)": ONES[:1]}),
        ),
        RELEASE,
    ),
    Case(
        "warnings",
        "the reference raises for one of two batches",
        Functions(RAISES % "ref", Y),
        hold("runner.disagreement"),
        ("reference", "ValueError: no answer"),
        (4, 5),
    ),
    Case(
        "warnings",
        "the candidate ends the process for one of two batches",
        Functions((RAISES % "cand").replace("ValueError('no answer')", "SystemExit(0)"), Y),
        hold("runner.disagreement"),
        ("candidate", "SystemExit"),
        (4, 5),
    ),
    Case("ships", "one function under two names", Functions(ALIAS, Y), hold("policy.same_runner")),
    Case("ships", "two functions made by one factory, alike", Functions(MADE % 1, Y), RELEASE),
    Case("ships", "two functions made by one factory, not alike", Functions(MADE % 2, Y), EXCEEDED),
]
