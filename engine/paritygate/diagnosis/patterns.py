"""What would make the two sides agree: a transposed output, permuted classes, a constant offset.

Each look takes the same output of several failing samples, so that a coincidence in one is told
from a pattern in all. Finding nothing proves nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Array

Doubles = npt.NDArray[np.float64]
Change = Callable[[Doubles, tuple[int, ...]], Doubles | None]
MAX_RANK = 5
MAX_CLASSES = 2048
FEWEST_FITTED = 8
FEWEST_VARIED = 4
_CELLS = 1 << 23


class Pair(Struct, frozen=True):
    """One output of one failing sample, in float64."""

    ref: Doubles
    cand: Doubles

    @staticmethod
    def of(ref: Array, cand: Array) -> Pair | None:
        """The pair; None for what isn't numbers."""
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                return Pair(np.asarray(ref, np.float64), np.asarray(cand, np.float64))
        except (TypeError, ValueError):
            return None


class Pattern(Struct, frozen=True):
    """Something that makes the sides agree.

    Attributes:
        kind: stable word, such as "transposed".
        says: a sentence without its end.
        samples: failing samples in which it holds.
        of: failing samples that were looked at.
    """

    kind: str
    says: str
    samples: int
    of: int

    def to_json(self) -> dict[str, Any]:
        """The same, of JSON types."""
        return {"kind": self.kind, "says": self.says, "samples": self.samples, "of": self.of}


def find_patterns(pairs: Sequence[Pair], tolerance: Tolerance) -> list[Pattern]:
    """What makes the first pair agree, and at least half of all of them; the plainest first."""
    if not pairs:
        return []
    found = _find_values(pairs)
    if found is not None:
        return [found]
    elements = sum(pair.ref.size for pair in pairs)
    for looks in (_layouts, _functions) if elements >= FEWEST_VARIED else ():
        for kind, says, change in looks(pairs[0]):
            pattern = _try(pairs, tolerance, kind, says, change)
            if pattern is not None:
                return [pattern]
    for look in (_permutation, _line):
        pattern = look(pairs, tolerance)
        if pattern is not None:
            return [pattern]
    return []


def agree(ref: Doubles, cand: Doubles, tolerance: Tolerance) -> bool:
    """Whether two arrays of one shape agree in every element, proved good; some must vary."""
    if ref.shape != cand.shape or ref.size == 0:
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        is_good = np.abs(cand - ref) <= tolerance.atol + tolerance.rtol * np.abs(ref)
    is_same = (np.isnan(ref) & np.isnan(cand)) | ((ref == cand) & np.isinf(ref))
    return bool(np.where(np.isfinite(ref) & np.isfinite(cand), is_good, is_same).all())


def _try(
    pairs: Sequence[Pair], tolerance: Tolerance, kind: str, says: str, change: Change
) -> Pattern | None:
    holds = 0
    for number, pair in enumerate(pairs):
        with np.errstate(all="ignore"):
            changed = change(pair.cand, pair.ref.shape)
        if changed is not None and agree(pair.ref, changed, tolerance):
            holds += 1
        elif number == 0:
            return None
    return Pattern(kind, says, holds, len(pairs)) if 2 * holds >= len(pairs) else None


def _find_values(pairs: Sequence[Pair]) -> Pattern | None:
    """A candidate without any information in it."""
    for kind, says, holds in (
        ("all_nan", "every element of the candidate is NaN", lambda c: np.isnan(c).all()),
        ("all_zero", "every element of the candidate is 0", lambda c: not c.any()),
    ):
        count = sum(bool(pair.cand.size and holds(pair.cand)) for pair in pairs)
        if pairs[0].cand.size and holds(pairs[0].cand):
            return Pattern(kind, says, count, len(pairs))
    return None


def _layouts(pair: Pair) -> Iterator[tuple[str, str, Change]]:
    """Other readings of the candidate's memory and axes."""
    cand, ref = pair.cand, pair.ref
    if cand.size != ref.size or ref.size < 2 or ref.ndim > MAX_RANK:
        return
    if cand.shape != ref.shape:
        yield "reshaped", f"reshaped from {list(cand.shape)} to {list(ref.shape)}", _reshape
    if cand.ndim > MAX_RANK:
        return
    for order in itertools.permutations(range(cand.ndim)):
        if list(order) != sorted(order):
            yield "transposed", f"with its axes in the order {list(order)}", _transpose(order)
    for axes in _subsets(ref.ndim):
        yield "reversed", f"reversed along the axes {list(axes)} of a sample", _flip(axes)
    for order in itertools.permutations(range(ref.ndim)):
        if list(order) != sorted(order):
            says = f"read as stored with the axes in the order {list(order)}"
            yield "layout", says, _reread(order)


def _subsets(rank: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, rank + 1):
        yield from itertools.combinations(range(rank), size)


def _reshape(cand: Doubles, shape: tuple[int, ...]) -> Doubles | None:
    return cand.reshape(shape) if cand.size == np.prod(shape) else None


def _transpose(order: tuple[int, ...]) -> Change:
    def change(cand: Doubles, shape: tuple[int, ...]) -> Doubles | None:
        del shape
        return cand.transpose(order) if cand.ndim == len(order) else None

    return change


def _flip(axes: tuple[int, ...]) -> Change:
    def change(cand: Doubles, shape: tuple[int, ...]) -> Doubles | None:
        return np.flip(cand, axes) if cand.shape == shape else None

    return change


def _reread(order: tuple[int, ...]) -> Change:
    """The same memory in another order of axes: NHWC in what is called NCHW."""

    def change(cand: Doubles, shape: tuple[int, ...]) -> Doubles | None:
        if len(shape) != len(order) or cand.size != np.prod(shape):
            return None
        stored = cand.reshape([shape[axis] for axis in order])
        return stored.transpose(np.argsort(order))

    return change


def _functions(pair: Pair) -> Iterator[tuple[str, str, Change]]:
    """A last step of the graph that only one side has."""
    if pair.cand.shape != pair.ref.shape:
        return
    if pair.ref.ndim and pair.ref.shape[-1] > 1:
        yield "softmax", "after a softmax, which it lacks", _softmax
    yield "sigmoid", "after a sigmoid, which it lacks", _sigmoid
    yield "sigmoid", "before its sigmoid, which the reference lacks", _logit


def _softmax(cand: Doubles, shape: tuple[int, ...]) -> Doubles | None:
    del shape
    powers = np.exp(cand - cand.max(axis=-1, keepdims=True))
    result: Doubles = powers / powers.sum(axis=-1, keepdims=True)
    return result


def _sigmoid(cand: Doubles, shape: tuple[int, ...]) -> Doubles | None:
    del shape
    result: Doubles = 1 / (1 + np.exp(-cand))
    return result


def _logit(cand: Doubles, shape: tuple[int, ...]) -> Doubles | None:
    del shape
    return np.log(cand) - np.log1p(-cand)


def _permutation(pairs: Sequence[Pair], tolerance: Tolerance) -> Pattern | None:
    """One order of the last axis for all samples, such as a class list sorted otherwise."""
    first = pairs[0]
    classes = first.ref.shape[-1] if first.ref.ndim else 0
    if not 2 <= classes <= MAX_CLASSES:
        return None
    alike = [p for p in pairs if p.ref.shape == p.cand.shape == first.ref.shape]
    if not alike:
        return None
    most = max(1, _CELLS // classes**2)
    refs = np.concatenate([p.ref.reshape(-1, classes) for p in alike])[:most]
    cands = np.concatenate([p.cand.reshape(-1, classes) for p in alike])[:most]
    order = _match(refs, cands, tolerance)
    if order is None:
        return None
    moved = [(i, j) for i, j in enumerate(order) if i != j]
    told = ", ".join(f"{i} is its {j}" for i, j in moved[:6])
    more = f" and {len(moved) - 6} more" if len(moved) > 6 else ""
    says = f"with its classes in another order ({told}{more})"
    return _try(pairs, tolerance, "permuted", says, lambda cand, _: cand[..., order])


def _match(refs: Doubles, cands: Doubles, tolerance: Tolerance) -> list[int] | None:
    """For each reference class the candidate's that agrees in every row; None: not one to one."""
    taken: set[int] = set()
    order: list[int] = []
    allowed = tolerance.atol + tolerance.rtol * np.abs(refs)
    for i in range(refs.shape[1]):
        with np.errstate(invalid="ignore"):
            good = (np.abs(cands - refs[:, i : i + 1]) <= allowed[:, i : i + 1]).all(axis=0)
        free = [j for j in np.flatnonzero(good).tolist() if j not in taken]
        if not free:
            return None
        chosen = i if i in free else free[0]
        taken.add(chosen)
        order.append(chosen)
    return None if order == sorted(order) else order


def _line(pairs: Sequence[Pair], tolerance: Tolerance) -> Pattern | None:
    """`cand = a * ref + b` for all elements: a constant offset, a scale, or both."""
    alike = [p for p in pairs if p.ref.shape == p.cand.shape]
    refs = np.concatenate([p.ref.reshape(-1) for p in alike]) if alike else np.empty(0)
    cands = np.concatenate([p.cand.reshape(-1) for p in alike]) if alike else np.empty(0)
    finite = np.isfinite(refs) & np.isfinite(cands)
    refs, cands = refs[finite], cands[finite]
    if len(refs) < FEWEST_FITTED or not np.ptp(refs) > 0:
        return None
    with np.errstate(all="ignore"):
        offset = float(np.mean(cands - refs))
        scale = float(np.dot(refs, cands) / np.dot(refs, refs))
        spread = refs - refs.mean()
        slope = float(np.dot(spread, cands - cands.mean()) / np.dot(spread, spread))
        rest = float(cands.mean() - slope * refs.mean())
    for kind, says, a, b in (
        ("offset", f"less a constant offset of {offset:.6g}", 1.0, offset),
        ("scale", f"divided by a constant factor of {scale:.6g}", scale, 0.0),
        ("line", f"taken as {slope:.6g} x reference + {rest:.6g}", slope, rest),
    ):
        if not np.isfinite([a, b]).all() or a == 0:
            continue
        found = _try(pairs, tolerance, kind, says, _undo(a, b))
        if found is not None:
            return found
    return None


def _undo(a: float, b: float) -> Change:
    def change(cand: Doubles, shape: tuple[int, ...]) -> Doubles | None:
        del shape
        return (cand - b) / a

    return change


def swapped_outputs(
    ref: Mapping[str, Array], cand: Mapping[str, Array], output: str, tolerance: Tolerance
) -> str | None:
    """The output whose name the candidate's answer belongs to, where two are exchanged."""
    mine = Pair.of(ref[output], cand[output])
    for other in ref:
        if other == output or other not in cand:
            continue
        theirs = Pair.of(ref[other], cand[other])
        if mine is None or theirs is None:
            continue
        if agree(theirs.ref, mine.cand, tolerance) and agree(mine.ref, theirs.cand, tolerance):
            return other
    return None
