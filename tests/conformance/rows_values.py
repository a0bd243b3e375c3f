"""Rows about single values: the cases at the least, NaN, infinity, integers, overflow, limits."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.conformance.case import RELEASE, Case, Expected, hold, unjudged
from tests.conformance.recordings import Pair, Recording, Recordings

F32, F64 = np.float32, np.float64
NAN, INF = np.nan, np.inf
BANDS = "accept < 0.2 <= review <= 0.8 < reject"
USUAL = {"atol": 1e-6, "rtol": 1e-5}
EXCEEDED = hold("tolerance.exceeded")
FLIP = hold("decision.flip")
NOTHING = hold("evidence.empty")


def single(values: Any) -> Any:
    """`(n,)` float32, one score a sample."""
    return np.asarray(values, F32)


def up(value: Any) -> Any:
    return np.nextafter(value, value.dtype.type(INF))


def down(value: Any) -> Any:
    return np.nextafter(value, value.dtype.type(-INF))


def scattered(value: float, *, at: int, ref: float = 1.0, of: int = 4096) -> tuple[Any, Any]:
    """One sample of equal elements on both sides but for one of the candidate's."""
    left = np.full((1, of), ref, F32)
    right = left.copy()
    right[0, at] = value
    return left, right


ORDINARY = single([-3.5, -1.25, 0.5, 1.0, 2.75, 1000.0])
EDGE, HIGH = single([0.2])[0], single([0.8])[0]
BROKEN_ROW = single([[NAN, 0.9, 0.3], [0.1, 0.9, 0.3]])

LEAST = [
    Case(
        "least",
        "ordinary values, off by less than the tolerance",
        Pair(ORDINARY, ORDINARY * single(1 + 5e-6), **USUAL),
        RELEASE,
    ),
    Case("least", "ordinary values, equal, judged exactly", Pair(ORDINARY, ORDINARY), RELEASE),
    Case(
        "least",
        "ordinary values, judged exactly, the last one off by one float32 step",
        Pair(ORDINARY, np.append(ORDINARY[:-1], up(ORDINARY[-1]))),
        EXCEEDED,
        ("1000.00006", "1000"),
    ),
    Case(
        "least",
        "near zero: 0 against 9e-7 at atol 1e-6",
        Pair(single([0, 1]), single([9e-7, 1]), **USUAL),
        RELEASE,
    ),
    Case(
        "least",
        "near zero: 0 against 1.1e-6 at atol 1e-6",
        Pair(single([0, 1]), single([1.1e-6, 1]), **USUAL),
        EXCEEDED,
        ("1.09999996e-06",),
    ),
    Case(
        "least",
        "near zero: 1e-8 against -1e-8, of opposite sign, within atol",
        Pair(single([1e-8]), single([-1e-8]), **USUAL),
        RELEASE,
    ),
    Case(
        "least",
        "near zero: 0 against 1e-30, only a relative tolerance",
        Pair(single([0, 1]), single([1e-30, 1]), atol=0.0, rtol=0.5),
        EXCEEDED,
    ),
    Case("least", "-0 against +0, exactly", Pair(single([-0.0]), single([0.0])), RELEASE),
    Case(
        "least",
        "denormals 1e-40 and 2e-40, exactly",
        Pair(single([1e-40]), single([2e-40])),
        EXCEEDED,
    ),
    Case(
        "least",
        "threshold crossings, 0.1999999 to 0.2000001 and 0.8000001 to 0.7999999: "
        "numerically close, two flips",
        Pair(single([0.1999999, 0.8000001]), single([0.2000001, 0.7999999]), **USUAL, bands=BANDS),
        FLIP,
        ("2 of 2 samples changed", "accept -> review 1x", "reject -> review 1x", "0 allowed"),
    ),
    Case(
        "least",
        "the same scores without a decision rule",
        Pair(single([0.1999999, 0.8000001]), single([0.2000001, 0.7999999]), **USUAL),
        RELEASE,
    ),
    Case(
        "least",
        "scores close to both thresholds that stay in their bands",
        Pair(single([0.1999998, 0.8000003]), single([0.1999999, 0.8000002]), **USUAL, bands=BANDS),
        RELEASE,
    ),
    Case(
        "least",
        "a larger deviation that also crosses a threshold",
        Pair(single([0.1, 0.5]), single([0.3, 0.5]), **USUAL, bands=BANDS),
        hold("tolerance.exceeded", "decision.flip"),
        ("0.1", "0.3", "1 of 2 samples"),
    ),
    Case(
        "least",
        "a larger deviation inside one band",
        Pair(single([0.3, 0.5]), single([0.4, 0.5]), **USUAL, bands=BANDS),
        EXCEEDED,
    ),
    Case(
        "least",
        "length mismatch: rows of three elements against rows of two",
        Pair(np.ones((2, 3), F32), np.ones((2, 2), F32), **USUAL),
        hold("shape.mismatch"),
    ),
    Case(
        "least",
        "empty on both sides",
        Pair(single([]), single([]), **USUAL),
        hold("evidence.empty"),
    ),
    *[
        Case(
            "nothing",
            f"nothing but {name} on both sides, nonfinite = 'match'",
            Pair(single([value] * 3), single([value] * 3), 1.0, 0.5, "match", is_named=False),
            NOTHING,
            ("all of its 3 elements",),
        )
        for value, name in ((NAN, "NaN"), (INF, "infinity"))
    ],
    Case("least", "one element, equal", Pair(single([0.5]), single([0.5]), **USUAL), RELEASE),
    Case("least", "one element, off", Pair(single([0.5]), single([0.6]), **USUAL), EXCEEDED),
    Case(
        "least",
        "three elements, all within the tolerance",
        Pair(single([1, 2, 3]), single([1, 2, 3.00001]), **USUAL),
        RELEASE,
    ),
    *[
        Case(
            "least",
            f"three elements, the {word} off",
            Pair(single([1, 2, 3]), single([1, 2, 3]) + np.eye(3, dtype=F32)[at], **USUAL),
            EXCEEDED,
            ("1 of 3",),
        )
        for at, word in enumerate(("first", "second", "last"))
    ],
]


def at_edge(name: str, ref: Any, cand: Any, bands: str, expected: Expected, **more: Any) -> Case:
    """A score at or beside an edge; the tolerance is wide, so that only the decision counts."""
    given = Pair(np.array([ref]), np.array([cand]), 1.0, 0.0, bands=bands, decision=more)
    return Case("ties", name, given, expected)


HALF = single([1.0, 4.0, 1.0])
FMA_LESS = (0.5375779271125793, 0.5913367198238373, 1e-06, 0.1)
FMA_MORE = (0.5664545297622681, 0.6330999827384949, 0.01, 0.1)

TIES = [
    at_edge(
        "score equal to float32(0.2), `accept < 0.2 <= review`: the edge is review on both sides",
        EDGE,
        up(EDGE),
        BANDS,
        RELEASE,
    ),
    at_edge(
        "one float32 step below that edge: accept against review", down(EDGE), EDGE, BANDS, FLIP
    ),
    at_edge(
        "score equal to float32(0.2), `accept <= 0.2 < review`: the edge is accept on both sides",
        EDGE,
        down(EDGE),
        "accept <= 0.2 < review",
        RELEASE,
    ),
    at_edge(
        "one float32 step above that edge: accept against review",
        EDGE,
        up(EDGE),
        "accept <= 0.2 < review",
        FLIP,
    ),
    at_edge(
        "score equal to float32(0.8), which is review: one step up", HIGH, up(HIGH), BANDS, FLIP
    ),
    at_edge("score equal to float32(0.8): one step down", HIGH, down(HIGH), BANDS, RELEASE),
    at_edge(
        "float32(0.2) judged in float64 is above 0.2: the tie rule doesn't apply",
        EDGE,
        up(EDGE),
        "accept <= 0.2 < review",
        RELEASE,
        compare_as="float64",
    ),
    at_edge(
        "float32 neighbours of 0.2 judged in float64: below and above",
        down(EDGE),
        EDGE,
        "accept <= 0.2 < review",
        FLIP,
        compare_as="float64",
    ),
    at_edge(
        "float64 score equal to 0.2 against one step below", F64(0.2), down(F64(0.2)), BANDS, FLIP
    ),
    at_edge(
        "float64 score equal to 0.2 against one step above", F64(0.2), up(F64(0.2)), BANDS, RELEASE
    ),
    at_edge("edge at zero, -0 against +0", F32(-0.0), F32(0.0), "low < 0 <= high", RELEASE),
    at_edge("whole edge of an int32 score", np.int32(2), np.int32(1), "low < 2 <= high", FLIP),
    at_edge(
        "fractional edge of an int32 score",
        np.int32(2),
        np.int32(2),
        "low < 1.5 <= high",
        unjudged(),
    ),
    Case(
        "ties",
        "error exactly equal to what is allowed (absolute)",
        Pair(HALF, HALF + F32(0.5), 0.5, 0.0),
        RELEASE,
    ),
    Case(
        "ties",
        "error one float32 step beyond what is allowed (absolute)",
        Pair(HALF, up(HALF + F32(0.5)), 0.5, 0.0),
        EXCEEDED,
    ),
    Case(
        "ties",
        "error exactly equal to what is allowed (relative)",
        Pair(HALF, HALF * F32(1.25), 0.0, 0.25),
        RELEASE,
    ),
    Case(
        "ties",
        "error one float32 step beyond what is allowed (relative)",
        Pair(HALF, up(HALF * F32(1.25)), 0.0, 0.25),
        EXCEEDED,
    ),
    Case(
        "ties",
        "error exactly equal to what is allowed (both terms), below the reference",
        Pair(HALF, HALF - (F32(0.5) + HALF * F32(0.25)), 0.5, 0.25),
        RELEASE,
    ),
    Case(
        "ties",
        "the bound is rounded twice: an error that one fused operation would refuse",
        Pair(F64([FMA_LESS[0]]), F64([FMA_LESS[1]]), *FMA_LESS[2:]),
        RELEASE,
    ),
    Case(
        "ties",
        "the bound is rounded twice: an error that one fused operation would accept",
        Pair(F64([FMA_MORE[0]]), F64([FMA_MORE[1]]), *FMA_MORE[2:]),
        EXCEEDED,
    ),
    Case(
        "ties",
        "the scale is the reference: 1.25 against 1 at rtol 0.2 passes ...",
        Pair(single([1.25]), single([1.0]), 0.0, 0.2),
        RELEASE,
    ),
    Case(
        "ties",
        "... and 1 against 1.25 does not",
        Pair(single([1.0]), single([1.25]), 0.0, 0.2),
        EXCEEDED,
    ),
]

LAST = np.append(np.ones(4095, F32), F32(NAN))[None]
PLAIN = single([1, 2, 3])
HOLED = single([1, NAN, 3])

NANS = [
    *[
        Case(
            "nan",
            f"the candidate is NaN where the reference is 2, nonfinite = {rule!r}",
            Pair(PLAIN, HOLED, 1e6, 0.9, nonfinite=rule),
            hold("nonfinite.candidate"),
            ("candidate" if rule else "", "1 "),
        )
        for rule in ("fail", "match")
    ],
    *[
        Case(
            "nan",
            f"the reference is NaN where the candidate is 2, nonfinite = {rule!r}",
            Pair(HOLED, PLAIN, 1e6, 0.9, nonfinite=rule),
            hold("nonfinite.mismatch"),
        )
        for rule in ("fail", "match")
    ],
    Case(
        "nan",
        "both are NaN in the same place, nonfinite = 'fail'",
        Pair(HOLED, HOLED),
        hold("nonfinite.reference"),
    ),
    Case(
        "nan",
        "both are NaN in the same place, nonfinite = 'match'",
        Pair(HOLED, HOLED, nonfinite="match"),
        RELEASE,
    ),
    *[
        Case(
            "nan",
            f"both are NaN in the same place, by the default tolerance, nonfinite = {rule!r}",
            Pair(HOLED, HOLED, 1.0, 0.5, nonfinite=rule, is_named=False),
            expected,
        )
        for rule, expected in (("fail", hold("nonfinite.reference")), ("match", RELEASE))
    ],
    Case(
        "nan",
        "both are NaN, with another sign and payload, nonfinite = 'match'",
        Pair(
            np.array([0x7FC00000, 0], np.uint32).view(F32),
            np.array([0xFFC12345, 0], np.uint32).view(F32),
            nonfinite="match",
        ),
        RELEASE,
    ),
    Case(
        "nan",
        "both are NaN in one place, a finite element is off, nonfinite = 'match'",
        Pair(HOLED, single([1, NAN, 4]), nonfinite="match"),
        EXCEEDED,
    ),
    Case(
        "nan",
        "NaN in other places of one sample, as many on both sides, nonfinite = 'match'",
        Pair(single([[NAN, 1, 2]]), single([[1, NAN, 2]]), 1e6, 0.9, nonfinite="match"),
        hold("nonfinite.candidate", "nonfinite.mismatch"),
    ),
    Case(
        "nan",
        "the last of 4096 elements is NaN (a maximum would depend on the order)",
        Pair(np.ones((1, 4096), F32), LAST, 0.1, 0.1),
        hold("nonfinite.candidate"),
    ),
    Case(
        "nan",
        "the first of 4096 elements is NaN",
        Pair(np.ones((1, 4096), F32), LAST[:, ::-1], 0.1, 0.1),
        hold("nonfinite.candidate"),
    ),
    Case(
        "nan",
        "every element of the candidate is NaN",
        Pair(PLAIN, np.full(3, NAN, F32), 1.0, 0.5),
        hold("nonfinite.candidate"),
        ("3 of 3",),
    ),
    Case(
        "nan",
        "float64 NaN in the candidate",
        Pair(F64([1]), F64([NAN])),
        hold("nonfinite.candidate"),
    ),
    Case(
        "nan",
        "NaN is no outlier, whatever share of a sample may fail",
        Pair(
            np.ones((1, 10), F32),
            np.where(np.arange(10) == 4, F32(NAN), F32(1))[None],
            0.0,
            0.0,
            more={"max_outlier_fraction": 0.5, "max_abs": 1.0},
        ),
        hold("nonfinite.candidate"),
    ),
    Case(
        "nan",
        "a NaN score is no band: the candidate's decision is undefined",
        Pair(single([0.5]), single([NAN]), 1.0, 0.5, bands=BANDS),
        hold("nonfinite.candidate", "decision.flip"),
        ("review -> undefined",),
    ),
    Case(
        "nan",
        "NaN scores on both sides, nonfinite = 'match'",
        Pair(single([NAN, 0.5]), single([NAN, 0.5]), nonfinite="match", bands=BANDS),
        RELEASE,
    ),
    Case(
        "nan",
        "NaN scores on both sides, nonfinite = 'fail'",
        Pair(single([NAN, 0.5]), single([NAN, 0.5]), bands=BANDS),
        hold("nonfinite.reference", "decision.flip"),
    ),
    Case(
        "nan",
        "NaN beside the maximum of a row of class scores",
        Pair(single([[0.1, 0.9, 0.3]]), single([[NAN, 0.9, 0.3]]), 1.0, 0.5, argmax=True),
        hold("nonfinite.candidate", "decision.flip"),
    ),
    Case(
        "nan",
        "NaN in the same place of a row of class scores, nonfinite = 'match'",
        Pair(BROKEN_ROW, BROKEN_ROW, nonfinite="match", argmax=True),
        RELEASE,
    ),
    Case(
        "nan",
        "NaN in every row of class scores on both sides: nothing is decided, nonfinite = 'match'",
        Pair(BROKEN_ROW[:1], BROKEN_ROW[:1], nonfinite="match", argmax=True),
        NOTHING,
        ("undefined on both sides for all 1 samples",),
    ),
]

NAMES = {1.0: "1", INF: "+inf", -INF: "-inf", NAN: "NaN"}


def _infinity(ref: float, cand: float, rule: str, expected: Expected) -> Case:
    name = f"reference {NAMES[ref]}, candidate {NAMES[cand]}, rtol 0.9, nonfinite = {rule!r}"
    return Case("inf", name, Pair(single([ref]), single([cand]), 1e6, 0.9, rule), expected)


MISMATCH = hold("nonfinite.mismatch")
INFINITIES = [
    *[_infinity(INF, 1.0, rule, MISMATCH) for rule in ("fail", "match")],
    *[_infinity(-INF, 1.0, rule, MISMATCH) for rule in ("fail", "match")],
    *[_infinity(INF, -INF, rule, MISMATCH) for rule in ("fail", "match")],
    *[_infinity(-INF, INF, rule, MISMATCH) for rule in ("fail", "match")],
    _infinity(INF, NAN, "match", MISMATCH),
    _infinity(NAN, INF, "match", MISMATCH),
    *[_infinity(1.0, INF, rule, hold("nonfinite.candidate")) for rule in ("fail", "match")],
    *[_infinity(s, s, "fail", hold("nonfinite.reference")) for s in (INF, -INF)],
    *[
        Case(
            "inf",
            f"{NAMES[s]} on both sides beside a finite value, rtol 0.9, nonfinite = 'match'",
            Pair(single([s, 1]), single([s, 1]), 1e6, 0.9, "match"),
            RELEASE,
        )
        for s in (INF, -INF)
    ],
    Case(
        "inf",
        "float64 values beyond float32 against a float32 candidate that overflowed",
        Pair(F64([1e39]), F32([INF]), 1e38, 0.9, more={"candidate_dtype": "float32"}),
        hold("nonfinite.candidate"),
    ),
    Case(
        "inf",
        "a score of +inf is in the highest band on both sides, nonfinite = 'match'",
        Pair(single([INF, 0.5]), single([INF, 0.5]), nonfinite="match", bands=BANDS),
        RELEASE,
    ),
    Case(
        "inf",
        "a score of +inf against -inf: another band, too",
        Pair(single([INF]), single([-INF]), nonfinite="match", bands=BANDS),
        hold("nonfinite.mismatch", "decision.flip"),
    ),
]


def _integers(dtype: str, ref: int, cand: int, expected: Expected, **rule: Any) -> Case:
    bound = "exactly" if not rule else f"at atol {rule['atol']:g}"
    name = f"{dtype}: {ref} against {cand}, {bound}"
    given = Pair(np.array([ref], dtype), np.array([cand], dtype), **rule)
    return Case("wrap", name, given, expected, (str(ref), str(cand)) if expected.codes else ())


WRAPS = [
    _integers("int32", 2147483647, -1, EXCEEDED),
    _integers("int32", 2147483647, -2147483648, EXCEEDED, atol=1),
    _integers("int32", 2147483647, 2147483646, RELEASE, atol=1),
    _integers("uint64", 1, 2, EXCEEDED),
    _integers("uint64", 2, 1, EXCEEDED),
    _integers("uint64", 2**64 - 1, 0, EXCEEDED, atol=1),
    _integers("uint64", 2**64 - 1, 2**64 - 2, RELEASE, atol=1),
    _integers("uint64", 2**64 - 1, 2**64 - 2, EXCEEDED),
    _integers("uint8", 0, 255, EXCEEDED, atol=1),
    _integers("uint8", 255, 0, EXCEEDED, atol=1),
    _integers("uint8", 255, 254, RELEASE, atol=1),
    _integers("int8", -128, 127, EXCEEDED, atol=1),
    _integers("int8", -128, -127, RELEASE, atol=1),
    _integers("int16", 32767, -32768, EXCEEDED, atol=1),
    _integers("uint16", 65535, 0, EXCEEDED, atol=1),
    _integers("uint32", 4294967295, 0, EXCEEDED, atol=1),
    _integers("int64", 2**63 - 1, -(2**63), EXCEEDED, atol=1),
    _integers("int64", -(2**63), 2**63 - 1, EXCEEDED, atol=1),
    _integers("int64", 2**63 - 1, 2**63 - 2, RELEASE, atol=1),
    _integers("int64", 2**53, 2**53 + 1, EXCEEDED),
    Case(
        "wrap",
        "int64 against uint64 with the same values",
        Pair(np.array([1]), np.array([1], np.uint64)),
        hold("dtype.mismatch"),
    ),
    Case(
        "wrap",
        "bool: True against False",
        Pair(np.array([True, False]), np.array([True, True])),
        EXCEEDED,
    ),
    Case("wrap", "bool: equal", Pair(np.array([True, False]), np.array([True, False])), RELEASE),
]

TOKENS, NEXT = np.array([7, 200000, 5]), np.array([7, 200001, 5])
NEIGHBOURS = [2**53, 2**53 + 1]

IDS = [
    Case(
        "ids",
        "int64 output 200000 against 200001, only a default tolerance of rtol 1e-5",
        Pair(TOKENS, NEXT, **USUAL, is_named=False),
        EXCEEDED,
        ("200000", "200001", "atol 0"),
    ),
    Case(
        "ids",
        "the same, equal",
        Pair(TOKENS, TOKENS, **USUAL, is_named=False),
        RELEASE,
    ),
    Case(
        "ids",
        "the same as float32, where the default applies",
        Pair(TOKENS.astype(F32), NEXT.astype(F32), **USUAL, is_named=False),
        RELEASE,
    ),
    Case(
        "ids",
        "int64 output 200000 against 200001 where the plan names atol 1 for it",
        Pair(TOKENS, NEXT, 1.0, 0.0),
        RELEASE,
    ),
    Case(
        "ids",
        "sample ids 2^53 and 2^53 + 1, which are one float64: each keeps its own output",
        Pair(single([1, 2]), single([1, 2]), ids=NEIGHBOURS),
        RELEASE,
    ),
    Case(
        "ids",
        "the candidate has their outputs swapped",
        Pair(single([1, 2]), single([2, 1]), ids=NEIGHBOURS),
        EXCEEDED,
        (),
        (2**53, 2**53 + 1),
    ),
    Case(
        "ids",
        'string ids "1" and "01" are two samples: outputs swapped',
        Pair(single([1, 2]), single([2, 1]), ids=["1", "01"]),
        EXCEEDED,
    ),
    Case(
        "ids",
        'string ids "1" and "01", each with its own output',
        Pair(single([1, 2]), single([1, 2]), ids=["1", "01"]),
        RELEASE,
    ),
    Case(
        "ids",
        "string ids that differ in Unicode normal form: another id",
        Recordings(
            Recording(["caf\u00e9"], {"y": single([1])}),
            Recording(["cafe\u0301"], {"y": single([1])}),
        ),
        hold("sample.missing", "sample.extra", "evidence.empty"),
    ),
]

LOWEST, TOP = np.finfo(F32).min, np.finfo(F32).max
MASKED = np.full((2, 64), LOWEST, F32)
MASKED[:, :3] = [1, 2, 3]
OFF = MASKED.copy()
OFF[1, 2] = 4
HUGE = np.finfo(F64).max

OVERFLOWS = [
    Case(
        "overflow",
        "rows of attention-mask values (lowest float32) with one element off: 3 against 4",
        Pair(MASKED, OFF, 1e-3, 0.0),
        EXCEEDED,
        (),
        (101,),
    ),
    Case("overflow", "the same rows, equal", Pair(MASKED, MASKED, 1e-3, 0.0), RELEASE),
    Case(
        "overflow",
        "lowest float32 against highest float32",
        Pair(np.array([LOWEST]), np.array([TOP]), 1.0, 0.9),
        EXCEEDED,
    ),
    Case(
        "overflow",
        "lowest float32 against its neighbour, within rtol",
        Pair(np.array([LOWEST]), up(np.array([LOWEST])), 0.0, 1e-6),
        RELEASE,
    ),
    Case(
        "overflow",
        "the difference of finite float64 values overflows",
        Pair(F64([-HUGE]), F64([HUGE]), 1.0, 0.999),
        EXCEEDED,
    ),
    Case(
        "overflow",
        "what is allowed overflows to infinity: it lets no difference pass",
        Pair(F64([HUGE]), F64([0.0]), 1e308, 0.999),
        EXCEEDED,
    ),
    Case(
        "overflow",
        "what is allowed overflows to infinity, and both are equal",
        Pair(F64([HUGE]), F64([HUGE]), 1e308, 0.999),
        RELEASE,
    ),
    Case(
        "overflow",
        "the squares of the errors overflow: 1e200 off in every element",
        Pair(np.zeros((4, 16)), np.full((4, 16), 1e200), 1.0, 0.0),
        EXCEEDED,
    ),
    Case(
        "overflow",
        "the squares of the values overflow: 1e200 on both sides",
        Pair(np.full((4, 16), 1e200), np.full((4, 16), 1e200), 0.0, 0.0),
        RELEASE,
    ),
]

RANDOM = np.random.default_rng(7).normal(size=(1000, 1000)).astype(F32)
SPIKE = RANDOM.copy()
SPIKE[617, 311] += 100
SMALL = RANDOM[:50, :40]

AVERAGES = [
    Case(
        "averages",
        "one of a million elements off by 100",
        Pair(RANDOM, SPIKE, 1e-3, 1e-3),
        EXCEEDED,
        ("1 of 1000", "99.48979"),
        (717,),
    ),
    Case(
        "averages",
        "a million elements off by less than the tolerance",
        Pair(RANDOM, RANDOM + F32(5e-4), 1e-3, 0.0),
        RELEASE,
    ),
    Case(
        "averages",
        "the candidate is twice the reference (cosine 1)",
        Pair(SMALL, 2 * SMALL, 1e-3, 1e-3),
        EXCEEDED,
    ),
    Case(
        "averages",
        "errors that cancel: +1 and -1",
        Pair(single([[1, 1]]), single([[2, 0]]), 0.5, 0.0),
        EXCEEDED,
    ),
    Case(
        "averages",
        "rows permuted: the same values, so that sums and histograms agree",
        Pair(SMALL, SMALL[::-1], 1e-3, 1e-3),
        EXCEEDED,
    ),
    Case(
        "averages",
        "one sample of a hundred holds all the error",
        Pair(
            np.ones((100, 8), F32),
            np.where(np.arange(100)[:, None] == 57, F32(1.5), F32(1)) * np.ones((1, 8), F32),
            0.1,
            0.0,
        ),
        EXCEEDED,
        (),
        (157,),
    ),
]


def _outliers(name: str, failing: int, expected: Expected, error: float = 0.5) -> Case:
    ref = np.zeros((1, 100), F32)
    cand = np.where(np.arange(100) < failing, F32(error), F32(0))[None]
    rule = {"max_outlier_fraction": 0.29, "max_abs": 1.0}
    return Case("vacuous", name, Pair(ref, cand, 0.1, 0.0, more=rule), expected)


def _refused(name: str, says: str, *, more: Any = None, **rule: Any) -> Case:
    given = Pair(PLAIN, PLAIN, **rule, more=more or {})
    return Case("vacuous", name, given, unjudged(), (says,))


WIDE = np.zeros((1, 10_000), F32)
VACUOUS = [
    _refused("atol = NaN", "atol", atol=NAN),
    _refused("atol = infinity", "atol", atol=INF),
    _refused("atol = -1", "atol", atol=-1.0),
    _refused("rtol = NaN", "rtol", rtol=NAN),
    _refused("rtol = 1, at which 0 passes for everything", "rtol", rtol=1.0),
    _refused("rtol = 2", "rtol", rtol=2.0),
    _refused("rtol = -0.1", "rtol", rtol=-0.1),
    _refused("atol without rtol", "rtol", rtol=None),
    _refused("rtol without atol", "atol", atol=None),
    _refused(
        "max_outlier_fraction = 1",
        "max_outlier_fraction",
        more={"max_outlier_fraction": 1.0, "max_abs": 1.0},
    ),
    _refused("max_outlier_fraction without a cap", "max_abs", more={"max_outlier_fraction": 0.5}),
    _refused("max_abs = infinity", "max_abs", more={"max_outlier_fraction": 0.5, "max_abs": INF}),
    _refused("a misspelt key, `atoll`", "atol", more={"atoll": 1.0}),
    Case(
        "vacuous",
        "rtol just below 1: 0 passes for 1 only with 0.001 of slack",
        Pair(single([1.0]), single([0.0]), 0.0, 0.999),
        EXCEEDED,
    ),
    Case(
        "vacuous",
        "|a - b| / max(|a|, |b|) < 2 is always true: 1e-10 against -1e10",
        Pair(single([1e-10]), single([-1e10]), 1e-6, 0.99),
        EXCEEDED,
    ),
    Case(
        "vacuous",
        "the tolerance doesn't grow with the array: one of 10 000 elements off by twice atol",
        Pair(WIDE, np.where(np.arange(10_000) == 9_999, F32(2e-3), F32(0))[None], 1e-3, 0.0),
        EXCEEDED,
        ("9999",),
    ),
    Case(
        "vacuous",
        "all of 10 000 elements within atol",
        Pair(WIDE, WIDE + F32(9e-4), 1e-3, 0.0),
        RELEASE,
    ),
    _outliers("29 of 100 elements fail where 0.29 may (29.0 - 4e-15 in float64)", 29, RELEASE),
    _outliers("30 of 100 elements fail where 0.29 may", 30, EXCEEDED),
    _outliers("one outlier beyond the hard cap", 1, hold("tolerance.hard_cap"), error=1.5),
]

DTYPES = [
    Case(
        "layout",
        "float32 against float64 with the same values",
        Pair(single([1, 2]), F64([1, 2]), 1.0, 0.0),
        hold("dtype.mismatch"),
    ),
    Case(
        "layout",
        "float64 against float32, which the plan declares",
        Pair(F64([1, 2]), single([1, 2]), 1.0, 0.0, more={"candidate_dtype": "float32"}),
        RELEASE,
    ),
    Case(
        "layout",
        "int64 against int32 with the same values",
        Pair(np.array([1, 2]), np.array([1, 2], np.int32)),
        hold("dtype.mismatch"),
    ),
    Case(
        "layout",
        "float64 values that differ and would be equal as float32",
        Pair(F64([1.0]), F64([1.0 + 1e-12])),
        EXCEEDED,
    ),
]

ROWS = [*LEAST, *TIES, *NANS, *INFINITIES, *WRAPS, *IDS, *OVERFLOWS, *AVERAGES, *VACUOUS, *DTYPES]
