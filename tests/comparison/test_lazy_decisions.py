"""What is counted without being kept equals what is decided sample by sample, bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paritygate.comparison import decisions
from paritygate.comparison.decide import detail as details
from paritygate.comparison.decisions import DecisionComparer
from paritygate.core.bands import parse_bands
from paritygate.core.dtypes import numpy_dtype
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.tally.decision import MarginAt

EDGES = (0.2, 0.5, 0.7, 0.8)
TEXTS = (
    "no < 0.5 <= yes",
    "accept < 0.2 <= review <= 0.8 < reject",
    "a <= 0.2 < b < 0.5 <= c <= 0.7 < d <= 0.8 < e",
    "no <= 0.7 < yes",
    "minus < 0 <= plus < 1e30 <= huge",
    "minus <= 0 < plus",
    "a < -3e38 <= b < 3e38 <= c",
)
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e-45, -1e-45, 3e38, -3e38, 1e308)
TOLERANCES = (
    Tolerance(),
    Tolerance(1e-6, 1e-6),
    Tolerance(0.05, 0.0),
    Tolerance(0.0, 0.4, nonfinite="match"),
    Tolerance(1e30, 0.999999),
)


@pytest.fixture(autouse=True)
def _however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "FEWEST", 1)
    monkeypatch.setattr(decisions, "AT_ONCE", 1000)
    monkeypatch.setattr(decisions, "MOST_LISTED", 1.0)
    monkeypatch.setattr(details, "AT_ONCE", 7)


def check_same(comparer, ref, cand, seed=0, truth=None):
    """Both ways find the same; answers the tally."""
    ordinals = np.sort(np.random.default_rng(seed).choice(10**6, len(ref), replace=False))
    ref.flags.writeable = cand.flags.writeable = False
    tally, detail = comparer.compare(ref, cand, ordinals, truth)
    lazy, found = comparer.compare_lazily(ref, cand, ordinals, truth)
    assert lazy.to_json() == tally.to_json()
    assert lazy == tally
    np.testing.assert_array_equal(found.flipped_rows, np.flatnonzero(detail.flipped))
    np.testing.assert_array_equal(found.flip_margins, detail.margin[detail.flipped])
    rows = np.arange(0, len(ref), max(1, len(ref) // 50))
    told, lazily = detail.told(rows), found.told(rows)
    assert (told.ref, told.cand) == (lazily.ref, lazily.cand)
    np.testing.assert_array_equal(told.margin, lazily.margin)
    return tally


def scores(rng, dtype, count, *, how):
    """Scores in plenty: anywhere, beside edges, on few values, and special ones."""
    made = rng.random(count) * rng.choice([1.0, 1.0, 40.0])
    if how != "anywhere":
        at = rng.random(count) < rng.choice([0.001, 0.1, 0.9])
        edge = rng.choice([*EDGES, 0.0], count).astype(dtype)
        for _ in range(3):
            way = rng.choice(np.array([-np.inf, 0, np.inf]), count).astype(dtype)
            edge = np.where(way == 0, edge, np.nextafter(edge, way))
        made[at] = edge[at]
    if how == "special":
        at = rng.random(count) < rng.choice([0.001, 0.3])
        made[at] = rng.choice(SPECIAL, count)[at]
    with np.errstate(over="ignore", under="ignore"):
        return made.astype(dtype)


def shaken(rng, ref, *, how):
    """The same with errors of every size, or none."""
    cand = ref.copy()
    at = rng.random(ref.size) < rng.choice([0.0, 0.002, 0.5, 1.0])
    with np.errstate(all="ignore"):
        noise = (rng.normal(size=ref.size) * 10.0 ** rng.integers(-9, 0, ref.size)).astype(
            ref.dtype
        )
        cand[at] = (cand + noise)[at].astype(ref.dtype)
        at = rng.random(ref.size) < rng.choice([0.0, 0.01, 0.5])
        cand[at] = np.nextafter(cand, rng.choice(EDGES, ref.size).astype(ref.dtype))[at]
    if how == "special":
        at = rng.random(ref.size) < rng.choice([0.0, 0.01])
        cand[at] = rng.choice(SPECIAL[:5], ref.size)[at]
    return cand


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from(["float32", "float64"]),
    text=st.sampled_from(TEXTS),
    how=st.sampled_from(["anywhere", "edges", "special"]),
    tolerance=st.sampled_from(TOLERANCES),
    compare_as=st.sampled_from(["output", "float64"]),
    stats=st.sampled_from(["gate", "full"]),
    count=st.sampled_from([1, 63, 64, 65, 2112, 2113, 5000]),
    each=st.sampled_from([None, 1, 3]),
)
def test_bands(seed, dtype, text, how, tolerance, compare_as, stats, count, each):
    rng = np.random.default_rng(seed)
    rule = DecisionRule(
        "d", "s", bands=parse_bands(text), compare_as=compare_as, elementwise=each is not None
    )
    shape = () if each is None else (each,)
    comparer = DecisionComparer(rule, tolerance, dtype, dtype, shape, stats)
    ref = scores(rng, np.dtype(dtype), count * math.prod(shape), how=how)
    cand = shaken(rng, ref, how=how)
    check_same(comparer, ref.reshape(count, *shape), cand.reshape(count, *shape), seed)


def rows_of_classes(rng, dtype, rows, width, *, how):
    """Rows whose first places are far apart, close, tied, or special."""
    ref = rng.normal(size=(rows, width)) * rng.choice([1e-3, 1.0, 30.0]) - rng.choice([0, 0, 200])
    if how != "anywhere":
        at = rng.random(rows) < rng.choice([0.01, 0.5])
        ref[at] = np.round(ref[at] * rng.choice([1, 4]))  # many ties, and zeros of both signs
    ref = ref.astype(dtype)
    top, other = ref.argmax(axis=1), rng.integers(0, width, rows)
    at = np.flatnonzero(rng.random(rows) < rng.choice([0.0, 0.02, 0.5]))
    if how == "close":
        below = np.nextafter(ref[at, top[at]], np.array(-np.inf, dtype))
        ref[at, other[at]] = np.where(rng.random(at.size) < 0.5, below, ref[at, top[at]])
    if how == "special":
        ref[at, other[at]] = rng.choice(SPECIAL, at.size).astype(dtype)
        some = rng.random(rows) < 0.01
        ref[some] = rng.choice([np.nan, -np.inf, np.inf, 0.0, -0.0], (int(some.sum()), 1))
    return ref


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from(["float32", "float64"]),
    width=st.sampled_from([2, 3, 15, 16, 17, 64, 100]),
    how=st.sampled_from(["anywhere", "ties", "close", "special"]),
    tolerance=st.sampled_from(TOLERANCES),
    stats=st.sampled_from(["gate", "full"]),
    rows=st.sampled_from([1, 255, 256, 257, 900]),
    each=st.sampled_from([None, 2]),
    kind=st.sampled_from(["argmax", "argmax", "set", "ranked"]),
    k=st.integers(1, 5),
)
def test_ranks(seed, dtype, width, how, tolerance, stats, rows, each, kind, k):
    rng = np.random.default_rng(seed)
    what = {"argmax": True}
    if kind != "argmax":
        what = {"topk": min(k, width - (kind == "set")), "order": kind}
    rule = DecisionRule("d", "s", **what, axis=1)
    shape = (width,) if each is None else (width, each)
    comparer = DecisionComparer(rule, tolerance, dtype, dtype, shape, stats)
    with np.errstate(over="ignore", under="ignore"):
        ref = rows_of_classes(rng, np.dtype(dtype), rows * (each or 1), width, how=how)
    cand = shaken(rng, ref.reshape(-1), how=how).reshape(ref.shape)
    if each is not None:
        ref, cand = (np.moveaxis(s.reshape(rows, each, width), 2, 1) for s in (ref, cand))
        ref, cand = ref.copy(), cand.copy()
    check_same(comparer, ref, cand, seed)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("width", [3, 40])
@pytest.mark.parametrize("rule", [{"argmax": True}, {"topk": 2}, {"topk": 2, "order": "ranked"}])
def test_a_nan_anywhere_in_a_row_is_seen(rule, width, side):
    comparer = DecisionComparer(
        DecisionRule("d", "s", **rule), Tolerance(), "float32", "float32", (width,), "gate"
    )
    row = np.arange(width, dtype=np.float32)
    sides = [np.tile(row, (3 * width, 1)) for _ in range(2)]
    sides[side][np.arange(width), np.arange(width)] = np.nan
    sides[side][width + np.arange(width), np.arange(width)] = -np.float32(np.nan)
    tally = check_same(comparer, *sides)
    assert tally.flips == 2 * width


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint64"])
@pytest.mark.parametrize("rule", [{"argmax": True}, {"topk": 2}])
def test_ranks_of_other_dtypes(dtype, rule):
    rng = np.random.default_rng(3)
    comparer = DecisionComparer(
        DecisionRule("d", "s", **rule), Tolerance(0.01), dtype, dtype, (5,), "full"
    )
    sides = [rng.integers(0, 9, (3000, 5)).astype(numpy_dtype(dtype)) for _ in range(2)]
    assert check_same(comparer, *sides).flips > 0
    assert check_same(comparer, sides[0], sides[0]).flips == 0


def test_classes_by_name_and_transforms_are_looked_at():
    rng = np.random.default_rng(5)
    names = {"ref_labels": ["a", "b", "c"], "cand_labels": ["c", "a", "b"]}
    ref = rng.normal(size=(3000, 3)).astype(np.float32)
    for rule in (names, {"transform": "softmax"}):
        made = DecisionRule("d", "s", argmax=True, **rule)
        comparer = DecisionComparer(made, Tolerance(), "float32", "float32", (3,), "full")
        tally = check_same(comparer, ref, ref[:, [2, 0, 1]].copy())
        assert (tally.flips == 0) == (rule is names)


@pytest.mark.parametrize("dtype", ["float16", "int8", "bool"])
def test_bands_of_other_dtypes(dtype):
    rng = np.random.default_rng(3)
    text = "no < 1 <= yes" if dtype == "bool" else "low < 0 <= mid <= 1 < high"
    rule = DecisionRule("d", "s", bands=parse_bands(text))
    comparer = DecisionComparer(rule, Tolerance(0.01), dtype, dtype, (), "full")
    sides = [rng.integers(-2, 3, 3000).astype(numpy_dtype(dtype)) for _ in range(2)]
    assert check_same(comparer, *sides).flips > 0
    assert check_same(comparer, sides[0], sides[0]).flips == 0


def test_float16_scores_on_a_rounded_edge_depend_on_compare_as():
    comparer = DecisionComparer(
        DecisionRule("d", "s", bands=parse_bands("no < 0.1 <= yes")),
        Tolerance(), "float16", "float16", (), "full",
    )  # fmt: skip
    ref = np.linspace(0, 1, 3001).astype(np.float16)
    assert float(np.float16(0.1)) < 0.1
    tally = check_same(comparer, ref, ref)
    assert tally.depends_on_compare_as == int((ref == np.float16(0.1)).sum()) > 0


def test_mixed_dtypes_and_labels():
    rng = np.random.default_rng(4)
    rule = DecisionRule("d", "s", bands=parse_bands(TEXTS[1]), compare_as="output")
    comparer = DecisionComparer(rule, Tolerance(), "float32", "float64", (), "full")
    check_same(comparer, rng.random(3000).astype(np.float32), rng.random(3000))
    dtypes = "float16", "float32"
    comparer = DecisionComparer(rule, Tolerance(), *dtypes, (), "full")
    beside = [np.linspace(edge - 1e-4, edge + 1e-4, 200) for edge in (0.2, 0.8)]
    cand = np.concatenate([rng.random(4000), *beside]).astype(np.float32)
    ref = cand.astype(np.float16)
    ref[4000:4100] = 0.25
    check_same(comparer, ref, cand)
    comparer = DecisionComparer(rule, Tolerance(), "float32", "float32", (), "full")
    ref = rng.random(3000).astype(np.float32)
    check_same(comparer, ref, ref + np.float32(0.01), truth=rng.integers(-1, 3, 3000))


def test_the_first_of_equal_margins_is_told():
    comparer = DecisionComparer(
        DecisionRule("d", "s", bands=parse_bands("no < 0.5 <= yes")),
        Tolerance(), "float32", "float32", (), "gate",
    )  # fmt: skip
    ref = np.full(5000, 0.75, np.float32)
    ref[[2500, 4500]] = 0.25, 0.75
    ref[[3000, 4000]] = 0.375, 0.625
    tally, _ = comparer.compare_lazily(ref, ref, np.arange(5000))
    assert tally.margin_min == MarginAt(0.125, 3000)
    tally, _ = comparer.compare_lazily(ref[:3000], ref[:3000], np.arange(3000))
    assert tally.margin_min == MarginAt(0.25, 0)
    infinite = np.full(3000, np.inf, np.float32)
    tally, _ = comparer.compare_lazily(infinite, infinite, np.arange(7, 3007))
    assert tally.margin_min == MarginAt(math.inf, 7)


@pytest.mark.parametrize("width", [3, 40])
@pytest.mark.parametrize("rule", [{"argmax": True}, {"topk": 2}])
def test_the_first_of_equal_leads_is_told(rule, width):
    comparer = DecisionComparer(
        DecisionRule("d", "s", **rule), Tolerance(), "float32", "float32", (width,), "gate"
    )
    ref = np.zeros((600, width), np.float32)
    ref[:, :3] = [8, 4, 0.5]
    ref[[300, 400], :3] = [6, 4, 2]
    ref[:, 3:] = -1
    tally, _ = comparer.compare_lazily(ref, ref, np.arange(600))
    assert tally.margin_min == MarginAt(2.0, 300)
    tally, _ = comparer.compare_lazily(ref[:300], ref[:300], np.arange(300))
    assert tally.margin_min == MarginAt(4.0 if rule == {"argmax": True} else 3.5, 0)


@pytest.mark.parametrize(("order", "flips"), [("set", 0), ("ranked", 30)])
def test_another_order_of_the_first_is_a_flip_where_it_counts(order, flips):
    rule = DecisionRule("d", "s", topk=3, order=order)
    comparer = DecisionComparer(rule, Tolerance(), "float32", "float32", (20,), "gate")
    ref = np.tile(np.arange(20, dtype=np.float32), (300, 1))
    cand = ref.copy()
    cand[::10, [18, 19]] = ref[::10, [19, 18]]
    assert check_same(comparer, ref, cand).flips == flips


@pytest.mark.parametrize("width", [12, 40])
def test_leads_between_negative_scores_are_at_risk_as_far_as_the_tolerance_reaches(width):
    comparer = DecisionComparer(
        DecisionRule("d", "s", argmax=True),
        Tolerance(0.0, 0.1), "float32", "float32", (width,), "gate",
    )  # fmt: skip
    ref = np.full((5000, width), -9.0, np.float32)
    ref[:, 3] = -1.0
    ref[:, 5] = -1.3
    ref[::2, 5] = -1.21  # a lead above twice the tolerance of the first, below that of both
    ref[0, 5] = -1.01
    assert check_same(comparer, ref, ref.copy()).at_risk == 2500


@pytest.mark.parametrize("text", ["a <= 0.2 < b", "a < 0.7 <= b"])
def test_a_candidate_on_a_rounded_edge_depends_on_compare_as(text):
    comparer = DecisionComparer(
        DecisionRule("d", "s", bands=parse_bands(text)),
        Tolerance(), "float32", "float32", (), "gate",
    )  # fmt: skip
    ref, edge = np.full(5000, 0.5, np.float32), np.float32(text.split()[2])
    cand = ref.copy()
    ref[[20, 30]] = edge - np.float32(0.1), edge + np.float32(0.1)
    cand[[20, 30]] = edge
    tally = check_same(comparer, ref, cand)
    assert (tally.flips, tally.depends_on_compare_as) == (1, 2)


def test_an_edge_that_no_finite_score_passes():
    rule = DecisionRule("d", "s", bands=parse_bands("a < 1e39 <= b"), compare_as="float64")
    comparer = DecisionComparer(rule, Tolerance(), "float32", "float32", (), "gate")
    ref = np.linspace(-3e38, 3e38, 3000, dtype=np.float32)
    cand = ref.copy()
    ref[::3], cand[::5] = np.inf, np.inf
    assert check_same(comparer, ref, cand).flips == 1200


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("compare_as", ["output", "float64"])
@pytest.mark.parametrize("text", [TEXTS[2], "a < 0.2 <= b <= 0.6 < c", TEXTS[5], TEXTS[4]])
def test_a_single_score_beside_an_edge_is_seen_among_usual_ones(
    text, compare_as, dtype, monkeypatch
):
    monkeypatch.setattr(decisions, "AT_ONCE", 5000)  # windows are close after the first ones
    bands = parse_bands(text)
    rule = DecisionRule("d", "s", bands=bands, compare_as=compare_as)
    comparer = DecisionComparer(rule, Tolerance(1e-9, 0.0), dtype, dtype, (), "gate")
    rng = np.random.default_rng(7)
    usual = (rng.random(5000) - 0.4).astype(dtype)
    ends = np.array(bands.edges)[:, None] * [1 - 1e-6, 1 + 1e-6] + [-1e-6, 1e-6]
    usual[: ends.size] = ends.reshape(-1).astype(dtype)
    usual = usual[np.abs(usual - np.array(bands.edges)[:, None]).min(axis=0) > 9e-7]
    for edge in np.array(bands.edges).astype(dtype):
        beside = [np.nextafter(edge, end) for end in np.array([-np.inf, np.inf], dtype)]
        for score in (edge, -edge if edge == 0 else edge, *beside):
            for side in (0, 1):
                for of in (0.9, -0.3):
                    pair = [usual.copy(), usual.copy()]
                    pair[0][4000] = pair[1][4000] = of
                    pair[side][4000] = score
                    check_same(comparer, *pair)
