"""Bands of a score: which one it falls into, and how far it is from the nearest edge."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from paritygate.comparison.decide.band_scan import DTYPES, MOST_EDGES, Rule, edges_in, scan_bands
from paritygate.comparison.decide.base import (
    Codes,
    CompareAs,
    Decided,
    Flags,
    Floats,
    count,
    differing,
    narrowed,
    narrows,
    other_than,
)
from paritygate.comparison.decide.scanned import Scanned
from paritygate.core.bands import Bands
from paritygate.core.dtypes import is_float, limits_of, rounded
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array
from paritygate.tally.decision import Kind
from paritygate.tally.records import EdgeSides

# From here on neighbouring integers share a float64, and an edge could be passed by rounding.
EXACT_INTEGERS = 2.0**53


class BandJudge:
    """Finds the band of each score."""

    kind: ClassVar[Kind] = "bands"

    def __init__(
        self,
        rule: DecisionRule,
        tolerance: Tolerance,
        ref_dtype: str,
        compare_as: CompareAs,
        where: str,
        *,
        is_one_dtype: bool,
    ) -> None:
        bands = cast(Bands, rule.bands)
        exact = np.array(bands.edges, np.float64)
        nearest = _edges_in(bands, ref_dtype, where)
        if compare_as == "output":
            _check_distinct(bands, nearest, ref_dtype, where)
        self._ref_dtype = ref_dtype
        self._compare_as = compare_as
        self._edges: dict[CompareAs, Floats] = {"output": nearest, "float64": exact}
        self._edges_differ = not np.array_equal(nearest, exact)
        self._tie_up = np.array(bands.tie_up, np.bool_)
        self._tolerance = tolerance
        self._is_transformed = rule.transform is not None
        self._scan_edges: dict[np.dtype[Any], Any] = {}
        self._is_scanned = is_one_dtype and not self._is_transformed and exact.size <= MOST_EDGES

    @property
    def edges(self) -> tuple[Floats, Floats, Flags]:
        """Edges as they are compared and as the other `compare_as` has them; and `tie_up`."""
        main = self._compare_as
        return self._edges[main], self._edges[other_than(main)], self._tie_up

    def __call__(self, ref: Array, cand: Array, samples: int) -> Decided:
        """Decide both sides of a block; views as `flat` makes them."""
        from paritygate.kernels import decisions as kernels

        edges = self._edges[self._compare_as]
        codes = self._codes(ref, cand, self._compare_as)
        margin, at_risk = np.empty(samples), np.empty(samples, np.bool_)
        seen = self._as(self._compare_as, ref)
        kernels.band_margins(
            seen, edges, self._tolerance.atol, self._tolerance.rtol, margin, at_risk
        )
        sides = np.zeros(3 * edges.size, np.int64)
        nearest = np.full(2 * edges.size, np.inf)
        kernels.edge_sides(seen, edges, sides, nearest)
        depends = 0
        if self._edges_differ or any(narrows(side, self._ref_dtype) for side in (ref, cand)):
            depends = differing(codes, self._codes(ref, cand, other_than(self._compare_as)))
        return Decided(
            *codes,
            margin,
            None if self._is_transformed else count(at_risk),
            depends,
            edges=tuple(map(EdgeSides.of, sides.reshape(-1, 3), nearest.reshape(-1, 2))),
        )

    def scan(self, ref: Array, cand: Array, samples: int, *, is_full: bool) -> Scanned | None:
        """Count what is usual of a block and list the rest; None for scores that can't be."""
        del samples
        if not self._is_scanned or ref.dtype not in DTYPES or ref.dtype != cand.dtype:
            return None
        if ref.dtype not in self._scan_edges:
            self._scan_edges[ref.dtype] = edges_in(self._scan_rule, ref.dtype)
        edges = self._scan_edges[ref.dtype]
        if edges is None:
            return None
        return scan_bands(self._scan_rule, edges, ref, cand, is_full=is_full)

    @cached_property
    def _scan_rule(self) -> Rule:
        exact, nearest = self._edges["float64"], self._edges["output"]
        passes = (nearest > exact) | ((nearest == exact) & self._tie_up)
        switches = (passes != self._tie_up) & ~np.isnan(nearest)
        edges = self._edges[self._compare_as]
        return Rule(edges, nearest, self._tie_up, switches, self._tolerance)

    def _codes(self, ref: Array, cand: Array, compare_as: CompareAs) -> tuple[Codes, Codes]:
        from paritygate.kernels import decisions as kernels

        ref_codes, cand_codes = np.empty(ref.size, np.int64), np.empty(ref.size, np.int64)
        edges = self._edges[compare_as]
        kernels.band_codes(self._as(compare_as, ref), edges, self._tie_up, ref_codes)
        kernels.band_codes(self._as(compare_as, cand), edges, self._tie_up, cand_codes)
        return ref_codes, cand_codes

    def _as(self, compare_as: CompareAs, values: Array) -> Array:
        return narrowed(values, self._ref_dtype) if compare_as == "output" else values


def _edges_in(bands: Bands, dtype: str, where: str) -> Floats:
    exact = np.array(bands.edges, np.float64)
    if is_float(dtype):
        return rounded(exact, dtype)
    low, high = (0, 1) if dtype == "bool" else limits_of(dtype)
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


def _check_distinct(bands: Bands, nearest: Floats, dtype: str, where: str) -> None:
    if not np.isfinite(nearest).all():
        beyond = bands.edges[int(np.argmin(np.isfinite(nearest)))]
        raise ValueError(f"{where}: the edge {beyond!r} is beyond the range of {dtype}")
    for k in range(1, nearest.size):
        if nearest[k - 1] == nearest[k]:
            raise ValueError(
                f"{where}: the edges {bands.edges[k - 1]!r} and {bands.edges[k]!r} are the same "
                f"number in {dtype}, so no score can fall between them; move them apart, or "
                'compare_as = "float64"'
            )
