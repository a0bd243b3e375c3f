"""Rows about decisions of every kind: top-k, equality, masks, other axes, transforms, names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tests.conformance.case import RELEASE, Case, Expected, hold, unjudged
from tests.conformance.recordings import Recording, Recordings

F32 = np.float32
FLIP = hold("decision.flip")


def _kind(
    name: str,
    ref: Any,
    cand: Any,
    decision: Mapping[str, Any],
    expected: Expected,
    says: tuple[str, ...] = (),
    atol: float = 0.05,
    **stage: Any,
) -> Case:
    ref, cand = np.asarray(ref), np.asarray(cand)
    ids = list(range(100, 100 + len(ref)))
    given = Recordings(
        Recording(ids, {"y": ref}),
        Recording(ids[::-1], {"y": cand[::-1]}),
        rule={"atol": atol, "rtol": 0.0},
        plan={"decisions": {"d": {"output": "y", **decision}}},
        stage=stage,
    )
    return Case("flips", name, given, expected, says)


def rows(*values: Any) -> Any:
    return np.array(values, F32)


TOP = rows([0.4, 0.35, 0.25], [0.8, 0.15, 0.05])
REORDERED = rows([0.36, 0.39, 0.25], [0.8, 0.15, 0.05])
ENTERED = rows([0.4, 0.29, 0.30], [0.8, 0.15, 0.05])
NAN = float("nan")

TOPK = [
    _kind("the top 2 in another order, as a set", TOP, REORDERED, {"topk": 2}, RELEASE),
    _kind(
        "the top 2 in another order, ranked",
        TOP,
        REORDERED,
        {"topk": 2, "order": "ranked", "labels": ["cat", "dog", "owl"]},
        FLIP,
        ("1 of 2 samples", "cat -> dog 1x"),
    ),
    _kind(
        "another class enters the top 2 within the tolerance",
        TOP,
        ENTERED,
        {"topk": 2, "labels": ["cat", "dog", "owl"]},
        FLIP,
        ("dog -> owl 1x", "margin 0.1"),
        atol=0.07,
    ),
    _kind(
        "another class enters the top 2, one flip allowed",
        TOP,
        ENTERED,
        {"topk": 2},
        RELEASE,
        atol=0.07,
        flips={"d": 1},
    ),
    _kind(
        "a tie at the border of the top 1 goes to the lowest index",
        rows([0.5, 0.5, 0.1]),
        rows([0.5, 0.51, 0.1]),
        {"topk": 1},
        FLIP,
    ),
    _kind(
        "NaN outside the top 2 of both sides",
        rows([0.9, 0.8, NAN]),
        rows([0.9, 0.8, NAN]),
        {"topk": 2},
        hold("decision.flip", "nonfinite.reference"),
        ("undefined on both sides",),
    ),
    _kind("the top 3 of 3 classes, which can't change", TOP, TOP, {"topk": 3}, unjudged()),
]

MASK = np.full((2, 3, 4), 0.1, F32)
SPOT = MASK.copy()
MASK[1, 2, 3], SPOT[1, 2, 3] = 0.49, 0.51
SEGMENTS = np.zeros((2, 3, 2, 2), F32)
SEGMENTS[:, 1] = 0.02
MOVED = SEGMENTS.copy()
MOVED[1, 2, 0, 1] = 0.03
YES = "no < 0.5 <= yes"

MASKS = [
    _kind(
        "one pixel of a mask crosses its threshold within the tolerance",
        MASK,
        SPOT,
        {"bands": YES, "elementwise": True},
        FLIP,
        ("1 of 2 samples", "in 1 of 24 places", "no -> yes 1x", "place 11"),
    ),
    _kind(
        "the same mask without elementwise",
        MASK,
        SPOT,
        {"bands": YES},
        unjudged(),
        ("elementwise",),
    ),
    _kind(
        "no pixel crosses", MASK, MASK + F32(0.005), {"bands": YES, "elementwise": True}, RELEASE
    ),
    _kind(
        "a segmentation [n, classes, h, w] changes its class at one pixel",
        SEGMENTS,
        MOVED,
        {"argmax": True, "axis": 1, "labels": ["sky", "road", "car"]},
        FLIP,
        ("in 1 of 8 places", "road -> car 1x"),
    ),
    _kind(
        "the same over the last axis, which holds no classes of that pixel",
        SEGMENTS,
        MOVED,
        {"argmax": True, "labels": ["sky", "road", "car"]},
        unjudged(),
        ("3 labels for 2 classes",),
    ),
    _kind(
        "one of several labels of a sample flips",
        rows([0.9, 0.48, 0.1]),
        rows([0.9, 0.51, 0.1]),
        {"bands": YES, "elementwise": True},
        FLIP,
        ("in 1 of 3 places",),
    ),
]

IDS = np.array([3, 1, 2])
EQUAL = [
    _kind("equal class ids", IDS, IDS, {"equal": True}, RELEASE, atol=0.0),
    _kind(
        "a class id that differs within a declared tolerance",
        IDS,
        np.array([3, 1, 3]),
        {"equal": True},
        FLIP,
        ("2 -> 3 1x",),
        outputs={"y": {"atol": 10.0, "rtol": 0.0}},
    ),
    _kind(
        "int64 ids 2^53 and 2^53 + 1",
        np.array([2**53]),
        np.array([2**53 + 1]),
        {"equal": True},
        FLIP,
        outputs={"y": {"atol": 10.0, "rtol": 0.0}},
    ),
    _kind(
        "ids of lists in another order that mean the same",
        np.array([0, 1]),
        np.array([1, 0]),
        {"equal": True, "ref_labels": ["cat", "dog"], "cand_labels": ["dog", "cat"]},
        RELEASE,
        outputs={"y": {"atol": 10.0, "rtol": 0.0}},
    ),
    _kind("equality of floats", rows(0.5), rows(0.5), {"equal": True}, unjudged(), ("bands",)),
]

NAMES = [
    _kind(
        "permuted classes that agree by name",
        rows([0.9, 0.1]),
        rows([0.1, 0.9]),
        {"argmax": True, "ref_labels": ["cat", "dog"], "cand_labels": ["dog", "cat"]},
        RELEASE,
        atol=1.0,
    ),
    _kind(
        "the same index, which means another class",
        rows([0.9, 0.1]),
        rows([0.9, 0.1]),
        {"argmax": True, "ref_labels": ["cat", "dog"], "cand_labels": ["dog", "cat"]},
        FLIP,
        ("cat -> dog 1x",),
    ),
    _kind(
        "label lists of unequal length",
        rows([0.9, 0.1]),
        rows([0.9, 0.1]),
        {"argmax": True, "ref_labels": ["cat", "dog"], "cand_labels": ["dog", "cat", "owl"]},
        unjudged(),
        ("'owl' is not among the other side's names",),
    ),
    _kind(
        "a name that one side spells otherwise",
        rows([0.9, 0.1]),
        rows([0.9, 0.1]),
        {"argmax": True, "ref_labels": ["cat", "dog"], "cand_labels": ["cats", "dog"]},
        unjudged(),
        ("cand_labels", "'cats'"),
    ),
    _kind(
        "labels of one side only",
        rows([0.9, 0.1]),
        rows([0.9, 0.1]),
        {"argmax": True, "ref_labels": ["cat", "dog"]},
        unjudged(),
        ("give both",),
    ),
]

LOGITS = rows([3e38, 3e38, -3e38])
TRANSFORMED = [
    _kind(
        "bands on a logit, whose sigmoid crosses 0.2",
        rows(-1.4),
        rows(-1.38),
        {"bands": "no < 0.2 <= yes", "transform": "sigmoid"},
        FLIP,
        ("no -> yes 1x",),
    ),
    _kind(
        "the same logits below 0.2 both, taken as they are",
        rows(-1.4),
        rows(-1.38),
        {"bands": "no < 0.2 <= yes"},
        RELEASE,
    ),
    _kind(
        "softmax of logits whose exponential overflows",
        LOGITS,
        LOGITS,
        {"bands": "no < 0.4 <= yes", "elementwise": True, "transform": "softmax"},
        RELEASE,
    ),
    _kind(
        "softmax with an infinite logit has no value",
        rows([float("inf"), 0.0]),
        rows([float("inf"), 0.0]),
        {"bands": YES, "elementwise": True, "transform": "softmax"},
        hold("decision.flip", "nonfinite.reference"),
    ),
    _kind(
        "softmax of one score, which is always 1",
        rows(0.3),
        rows(0.3),
        {"bands": YES, "transform": "softmax"},
        unjudged(),
        ("always 1",),
    ),
]

BOTH = [
    _kind("two rules at once", TOP, TOP, {"topk": 1, "argmax": True}, unjudged(), ("exactly one",)),
    _kind("a ranking of an argmax", TOP, TOP, {"argmax": True, "order": "ranked"}, unjudged()),
    _kind("classes along the samples", TOP, TOP, {"argmax": True, "axis": 0}, unjudged()),
    _kind(
        "a function that isn't there",
        TOP,
        TOP,
        {"python": "no_such_module:decide"},
        unjudged(),
        ("no_such_module",),
    ),
    _kind(
        "a function that answers something that is no list of values",
        TOP,
        TOP,
        {"python": "operator:itemgetter"},
        hold("decision.error"),
        ("could not be decided for 2 of 2 samples",),
    ),
]


def _layout(
    name: str,
    ref: Any,
    cand: Any,
    view: Mapping[str, Any] | None,
    expected: Expected,
    says: tuple[str, ...] = (),
) -> Case:
    given = Recordings(
        Recording([1, 2], {"y": ref}),
        Recording([2, 1], {"y": cand[::-1]}),
        runner={"outputs": {"y": view}} if view is not None else {"id": "sample_id"},
    )
    return Case("layout", name, given, expected, says)


FLAT = rows(0.25, 0.75)
COLUMN = FLAT[:, None]
CLASSES = rows([0.75, 0.25], [0.25, 0.75])
FIRST = np.arange(2 * 3 * 4 * 5, dtype=F32).reshape(2, 3, 4, 5)
LAST = np.ascontiguousarray(FIRST.transpose(0, 2, 3, 1))
HOLD = hold("shape.mismatch")

DECLARED = [
    _layout(
        "[n] against [n, 1], and what to declare",
        FLAT,
        COLUMN,
        None,
        HOLD,
        ('outputs.y = { reshape = ["batch"] }',),
    ),
    _layout("[n] against [n, 1], declared", FLAT, COLUMN, {"reshape": ["batch"]}, RELEASE),
    _layout(
        "a score against two columns of probabilities, and what to declare",
        FLAT,
        CLASSES,
        None,
        HOLD,
        ("outputs.y = { select = 1 }",),
    ),
    _layout("a score against the column that is meant", FLAT, CLASSES, {"select": 1}, RELEASE),
    _layout(
        "a score against the other column",
        FLAT,
        CLASSES,
        {"select": 0},
        hold("tolerance.exceeded"),
    ),
    _layout(
        "a column that isn't there",
        FLAT,
        CLASSES,
        {"select": 2},
        unjudged("runner.load_failed"),
        ("select is 2, but the axis has 2",),
    ),
    _layout(
        "channels first against channels last, and what to declare",
        FIRST,
        LAST,
        None,
        HOLD,
        ("outputs.y = { transpose = [0, 3, 1, 2] }",),
    ),
    _layout(
        "channels first against channels last, declared",
        FIRST,
        LAST,
        {"transpose": [0, 3, 1, 2]},
        RELEASE,
    ),
    _layout(
        "axes in an order that fits by the numbers alone",
        np.ascontiguousarray(FIRST[:, :, :3, :3]),
        np.ascontiguousarray(FIRST[:, :, :3, :3].transpose(0, 2, 3, 1)),
        {"transpose": [0, 3, 2, 1]},
        hold("tolerance.exceeded"),
    ),
    _layout(
        "as many elements in another shape, for which nothing is suggested",
        FIRST,
        FIRST.reshape(2, 6, 10),
        None,
        HOLD,
    ),
    _layout(
        "columns in another order, declared", CLASSES, CLASSES[:, ::-1], {"select": [1, 0]}, RELEASE
    ),
    _layout(
        "a declaration that names no step",
        FLAT,
        FLAT,
        {"selct": 1},
        unjudged(),
        ("did you mean 'select'",),
    ),
]

ROWS = [*TOPK, *MASKS, *EQUAL, *NAMES, *TRANSFORMED, *BOTH, *DECLARED]
