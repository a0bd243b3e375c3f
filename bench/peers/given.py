"""Pairs of arrays that every tool is given."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from bench.make import Array

CHUNK = 4_000_000
TOLERANCES = {  # atol, rtol
    "float16": (1e-2, 1e-2),
    "float32": (1e-5, 1e-5),
    "float64": (1e-5, 1e-5),
    "int8": (1.0, 0.0),
}


@dataclass(frozen=True)
class Given:
    """What is compared.

    Attributes:
        elements: how many, about.
        dtype: of both sides.
        width: elements a sample.
        failing: share of samples that fail: one element each, or every element where all fail.
    """

    elements: int = 1_000_000
    dtype: str = "float32"
    width: int = 100
    failing: float = 0.0

    @property
    def samples(self) -> int:
        """At least one."""
        return max(1, self.elements // self.width)

    @property
    def name(self) -> str:
        """In words."""
        fails = {0.0: "clean", 1.0: "all failing"}.get(
            self.failing, f"{self.failing:.0%} of samples failing".replace("%", " %")
        )
        return f"{self.size}, {self.dtype} x {self.width}, {fails}"

    @property
    def size(self) -> str:
        """How many elements, in words."""
        for unit, letter in ((1_000_000, "M"), (1_000, "K")):
            if self.elements >= unit:
                return f"{self.elements / unit:g} {letter} elements"
        return f"{self.elements} elements"

    def smaller(self) -> Given:
        """The same of few elements, to see that it works."""
        return replace(self, elements=min(self.elements, 2_000))

    def make(self) -> Pair:
        """The arrays; errors are a quarter of the tolerance at most, or eight times as large."""
        shape = self.samples, self.width
        ref, cand = np.empty(shape, self.dtype), np.empty(shape, self.dtype)
        rng = np.random.default_rng(31)
        step = max(1, CHUNK // self.width)
        for at in range(0, self.samples, step):
            part = slice(at, min(at + step, self.samples))
            bad = _bad_places(rng, part.stop - at, self.width, self.failing)
            ref[part], cand[part] = _values(rng, bad, self.dtype)
        return Pair(ref, cand, *TOLERANCES[self.dtype])


@dataclass(frozen=True)
class Pair:
    """Two arrays `(samples, width)` and the tolerance."""

    ref: Array
    cand: Array
    atol: float
    rtol: float


@dataclass(frozen=True)
class Answer:
    """What a tool says of a pair; None: it doesn't say.

    Attributes:
        passes: whether all of it is within the tolerance.
        failing: elements that are not.
        max_error: largest |cand - ref|.
        total: sum of |cand - ref|.
    """

    passes: bool | None = None
    failing: int | None = None
    max_error: float | None = None
    total: float | None = field(default=None)

    def agrees(self, ours: Answer, *, is_rounded: bool = False) -> bool:
        """Whether all that both say is the same; sums and what is rounded to 1e-3."""
        counted = all(
            theirs is None or theirs == own
            for theirs, own in ((self.passes, ours.passes), (self.failing, ours.failing))
        )
        near = all(
            theirs is None or own is None or math.isclose(theirs, own, rel_tol=tolerance)
            for theirs, own, tolerance in (
                (self.max_error, ours.max_error, 1e-3 if is_rounded else 1e-9),
                (self.total, ours.total, 1e-3),
            )
        )
        return counted and near


def _bad_places(
    rng: np.random.Generator, samples: int, width: int, share: float
) -> npt.NDArray[np.bool_]:
    bad = np.full((samples, width), share == 1.0)
    if 0.0 < share < 1.0:
        rows = np.flatnonzero(rng.random(samples) < share)
        bad[rows, rng.integers(0, width, rows.size)] = True
        bad[samples // 2, width // 2] = True
    return bad


def _values(
    rng: np.random.Generator, bad: npt.NDArray[np.bool_], dtype: str
) -> tuple[Array, Array]:
    if np.dtype(dtype).kind == "i":
        ref = rng.integers(1, 100, bad.shape, dtype=dtype)
        apart = rng.integers(-1, 2, bad.shape, dtype=dtype)
        return ref, np.where(bad, ref - np.array(9, dtype), ref + apart)
    atol, rtol = TOLERANCES[dtype]
    ref = (rng.random(bad.shape, dtype=np.float32) + np.float32(0.75)).astype(dtype)
    allowed = atol + rtol * ref.astype(np.float64)
    share = rng.random(bad.shape, dtype=np.float32) * 0.5 - 0.25
    # Neighbours of ref within a factor of two, whose differences every dtype holds exactly.
    return ref, (ref + allowed * np.where(bad, 8.0, share)).astype(dtype)
