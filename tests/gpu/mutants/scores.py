"""Small scores that a device decides as the CPU does; together they tell every mutant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from tests.gpu import deciding
from tests.gpu.dtypes import a_pair
from tests.gpu.mutants.inputs import SMALL, ZERO, Array, Check

from paritygate.core.bands import parse_bands
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.gpu import device


def decided(rule: dict[str, Any], ref: Array, cand: Array, *how: Any) -> Check:
    ordinals, cuts, tolerance, labelled = how
    case = {"rule": DecisionRule("d", "s", **rule), "ref": ref, "cand": cand, "stats": "full"}
    case |= {"tolerance": tolerance, "labelled": labelled}
    return partial(deciding.check, case, ordinals, cuts)


def scores(rng: Any, shape: tuple[int, ...], dtype: Any, share: float) -> tuple[Array, Array]:
    """Scores of few values, with neighbours of each other and special ones among them."""
    made = np.round(rng.random(shape) * 10) / rng.choice([10, 2])
    other = made + rng.choice([0.0, 0.0, 1e-8, 0.1], shape)
    for side in (made, other):
        at = rng.random(shape) < share
        side[at] = rng.choice(deciding.SPECIAL, at.sum())
    return made.astype(dtype), other.astype(dtype)


TOLERANCES = (*deciding.TOLERANCES[1:4], Tolerance(0.0, 0.999, nonfinite="match"))


def of_rows(
    rules: Iterable[dict[str, Any]], shapes: tuple[Any, ...], seed: int, count: int = 13
) -> Iterator[Check]:
    """Rows of any scores, with ordinals of both kinds, with labels or not."""
    rng = np.random.default_rng(seed)
    for number, (rule, shape) in enumerate(product(rules, shapes)):
        dtype = np.float32 if number % 2 else np.float64
        samples = count + number % 3
        sides = scores(rng, (samples, *shape), dtype, 0.2 if number % 4 else 0.0)
        ordinals = rng.permutation(samples) if number % 2 else range(7, 7 + samples)
        tolerance = TOLERANCES[number % len(TOLERANCES)]
        yield decided(rule, *sides, ordinals, [number % 9], tolerance, number % 3 > 0)


def of_bands() -> Iterator[Check]:
    pairs = np.array([*product(sorted({*deciding.SPECIAL}), repeat=2)])
    for number, tolerance in enumerate(TOLERANCES):
        sides = pairs[:, 0].astype(np.float32), pairs[:, 1].astype(np.float32)
        bands = {"bands": parse_bands(deciding.BANDS[number])}
        yield decided(bands, *sides, range(len(pairs)), [], tolerance, True)
    rules = [{"bands": parse_bands(text)} for text in deciding.BANDS]
    ends = np.array([math.nan, 0.3, 0.7, 0.79, math.nan, 0.9, 0.1, -5.0, -3.0])
    yield decided(rules[1], ends, ends, range(9), [], ZERO, False)
    yield from of_rows(rules, ((),), 6, 30)
    elementwise = {**rules[2], "elementwise": True}
    yield from of_rows([elementwise, elementwise], ((3,),), 7)
    equal = np.full((12, 3), 0.5)
    backwards = np.arange(12)[::-1]
    yield decided(elementwise, equal, equal, backwards, [5], ZERO, False)
    many = np.full(2 * device.THREADS * 300, 0.9, np.float32)  # more than a byte counts
    yield decided(rules[1], many, many, range(len(many)), [], ZERO, False)


def renamed(classes: int) -> dict[str, Any]:
    names = tuple(f"c{k}" for k in range(classes))
    return {"ref_labels": names, "cand_labels": (*names[2:], *names[:2])}


def of_argmax() -> Iterator[Check]:
    pairs = np.array([*product(sorted({*deciding.SPECIAL}), repeat=2)]).astype(np.float32)
    for tolerance in TOLERANCES[2:]:
        sides = pairs, np.roll(pairs, 5, axis=0)
        yield decided({"argmax": True}, *sides, range(len(pairs)), [], tolerance, True)
    for classes in (9, 17):
        rules = ({"argmax": True, "axis": 1}, {"argmax": True, "axis": 1, **renamed(classes)})
        yield from of_rows(rules, ((classes,), (classes, 2)), classes)
    yield from of_rows([{"argmax": True, "axis": 2}], ((2, 4),), 1)


def of_topk() -> Iterator[Check]:
    for classes, k in ((3, 2), (9, 2), (17, 3)):
        rules = (
            {"topk": k, "axis": 1, "order": "ranked"},
            {"topk": k, "axis": 1, "order": "set", **renamed(classes)},
            {"topk": min(classes, 9), "axis": 1, "order": "ranked"},
        )
        yield from of_rows(rules, ((classes,), (classes, 2)), classes + 1)


def of_conversion() -> Iterator[Check]:
    """Scores that are rounded to the reference's dtype, or to float64, where that matters."""
    argmax, bands = {"argmax": True}, {"bands": parse_bands("no < 0.5 <= yes")}
    rng = np.random.default_rng(8)
    for names in (("float16", "float32"), ("bfloat16", "float64")):
        ref, cand, _ = a_pair(rng, names, (20, 4))
        cand[0], cand[1] = (65504.0, math.inf, 0.0, 0.0), (8e-8, 6.5e-8, 0.0, 0.0)
        ref[:2] = 0.0
        yield decided({**argmax, "compare_as": "output"}, ref, cand, range(20), [], SMALL, False)
        sides = ref[:, 0].copy(), cand[:, 0].copy()
        yield decided({**bands, "compare_as": "output"}, *sides, range(20), [], SMALL, False)
    near = np.array([[2**53, 2**53 + 1, 0, 5]] * 4)  # neighbours that are one float64
    far = np.array([[9, 2**53 + 1, 0, 5]] * 4)
    for rule in (argmax, {"topk": 1, "order": "ranked"}):
        for sides in ((near, far), (far, near)):
            yield decided(rule, *sides, range(4), [], SMALL, False)
