"""Bands of a score: which one it falls into, and how far it is from the nearest edge."""

from __future__ import annotations

from typing import Literal

import numpy as np

from paritygate.comparison.decide.base import (
    Codes,
    CompareAs,
    Decided,
    Floats,
    count,
    differing,
    narrowed,
    narrows,
    other_than,
)
from paritygate.core.bands import Bands
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array, is_float
from paritygate.tally.decision import EdgeSides

# From here on neighbouring integers share a float64, and an edge could be passed by rounding.
EXACT_INTEGERS = 2.0**53


class BandJudge:
    """Finds the band of each score."""

    kind: Literal["bands"] = "bands"

    def __init__(
        self, bands: Bands, tolerance: Tolerance, ref_dtype: str, compare_as: CompareAs, where: str
    ) -> None:
        exact = np.array(bands.edges, np.float64)
        rounded = _edges_in(bands, ref_dtype, where)
        if compare_as == "output":
            _check_distinct(bands, rounded, ref_dtype, where)
        self._ref_dtype = ref_dtype
        self._compare_as = compare_as
        self._edges: dict[CompareAs, Floats] = {"output": rounded, "float64": exact}
        self._edges_differ = not np.array_equal(rounded, exact)
        self._tie_up = np.array(bands.tie_up, np.bool_)
        self._tolerance = tolerance

    def __call__(self, ref: Array, cand: Array, samples: int) -> Decided:
        """Decide both sides of a block; views as `flat` makes them."""
        from paritygate.kernels import decisions as kernels

        edges = self._edges[self._compare_as]
        codes = self._codes(ref, cand, self._compare_as)
        margin, at_risk = np.empty(samples), np.empty(samples, np.bool_)
        kernels.band_margins(
            ref, edges, self._tolerance.atol, self._tolerance.rtol, margin, at_risk
        )
        sides = np.zeros(3 * edges.size, np.int64)
        kernels.edge_sides(ref, edges, sides)
        depends = 0
        if self._edges_differ or narrows(cand, self._ref_dtype):
            depends = differing(codes, self._codes(ref, cand, other_than(self._compare_as)))
        return Decided(
            *codes,
            margin,
            count(at_risk),
            depends,
            edges=tuple(EdgeSides(*map(int, side)) for side in sides.reshape(-1, 3)),
        )

    def _codes(self, ref: Array, cand: Array, compare_as: CompareAs) -> tuple[Codes, Codes]:
        from paritygate.kernels import decisions as kernels

        ref_codes, cand_codes = np.empty(ref.size, np.int64), np.empty(ref.size, np.int64)
        edges = self._edges[compare_as]
        if compare_as == "output":
            cand = narrowed(cand, self._ref_dtype)
        kernels.band_codes(ref, edges, self._tie_up, ref_codes)
        kernels.band_codes(cand, edges, self._tie_up, cand_codes)
        return ref_codes, cand_codes


def check_score(rule: DecisionRule, shape: tuple[int, ...], where: str) -> None:
    """Refuse samples that aren't one score.

    Raises:
        ValueError: says what to change.
    """
    elements = int(np.prod(shape, dtype=np.int64))
    if elements != 1:
        raise ValueError(
            f"{where}: bands need one score a sample, but a sample of shape {list(shape)} has "
            f"{elements} elements; use argmax, or an output with one element"
        )
    if rule.labels is not None:
        raise ValueError(f"{where}: bands are named in the rule itself; remove labels")


def _edges_in(bands: Bands, dtype: str, where: str) -> Floats:
    exact = np.array(bands.edges, np.float64)
    if is_float(dtype):
        with np.errstate(over="ignore", under="ignore"):
            return exact.astype(dtype).astype(np.float64)
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for edge in bands.edges:
        if not edge.is_integer():
            raise ValueError(
                f"{where}: the edge {edge!r} is fractional, but the score is {dtype}; compare the "
                "dequantized output, or give whole edges"
            )
        if not low <= edge <= high or abs(edge) >= EXACT_INTEGERS:
            limits = f"{max(low, 1 - 2**53)} to {min(high, 2**53 - 1)}"
            raise ValueError(f"{where}: the edge {edge!r} of a {dtype} score is not in {limits}")
    return exact


def _check_distinct(bands: Bands, rounded: Floats, dtype: str, where: str) -> None:
    if not np.isfinite(rounded).all():
        beyond = bands.edges[int(np.argmin(np.isfinite(rounded)))]
        raise ValueError(f"{where}: the edge {beyond!r} is beyond the range of {dtype}")
    for k in range(1, rounded.size):
        if rounded[k - 1] == rounded[k]:
            raise ValueError(
                f"{where}: the edges {bands.edges[k - 1]!r} and {bands.edges[k]!r} are the same "
                f"number in {dtype}, so no score can fall between them; move them apart, or "
                'compare_as = "float64"'
            )
