"""Whether an output is the same for all samples, as that of a dead model is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Array = npt.NDArray[Any]

_STEP = 4_096
VARIES = ""


class Constancy(Struct, frozen=True):
    """What all samples of an output have in common, on each side.

    Attributes:
        samples: samples seen.
        ref, cand: digest of the one answer that all samples have, bit for bit; "" where they
            differ; None where there is no sample.
    """

    samples: int = 0
    ref: str | None = None
    cand: str | None = None

    @staticmethod
    def of(ref: Array, cand: Array) -> Constancy:
        """Of `(samples, *shape)` of both sides; looks no further than the first difference."""
        return Constancy(len(ref), _common(ref), _common(cand))

    @staticmethod
    def varied(samples: int) -> Constancy:
        """Of samples that differ on both sides."""
        return Constancy(samples, VARIES, VARIES)

    @property
    def is_constant(self) -> bool:
        """Whether several samples have one answer, on both sides."""
        return self.samples > 1 and bool(self.ref) and bool(self.cand)

    def merge(self, other: Constancy) -> Constancy:
        """Both together."""
        return Constancy(
            self.samples + other.samples, _both(self.ref, other.ref), _both(self.cand, other.cand)
        )

    def to_json(self) -> list[Any]:
        """JSON types; `from_json` gives the same back."""
        return [self.samples, self.ref, self.cand]

    @staticmethod
    def from_json(data: Sequence[Any]) -> Constancy:
        """What `to_json` wrote."""
        return Constancy(*data)


def _both(ours: str | None, theirs: str | None) -> str | None:
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return ours if ours == theirs else VARIES


def _common(array: Array) -> str | None:
    """Digest of the one row that all rows are; "" where they differ, None without rows."""
    if not len(array):
        return None
    first = array[:1]
    step = 1
    at = 1
    while at < len(array):
        if not _is_all(array[at : at + step], first):
            return VARIES
        at += step
        step = _STEP
    text = repr(first.tolist()) if array.dtype.hasobject else first.tobytes()
    made = hashlib.blake2b(f"{array.dtype.str}{array.shape[1:]}".encode(), digest_size=16)
    made.update(text.encode() if isinstance(text, str) else text)
    return made.hexdigest()


def _is_all(rows: Array, first: Array) -> bool:
    """Whether all rows are the first one, bit for bit: a NaN is itself, -0 isn't 0."""
    if not rows.dtype.hasobject:
        width = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
        if width == 0:
            return True
        flat = np.ascontiguousarray(rows).reshape(len(rows), -1)
        one = np.ascontiguousarray(first).reshape(1, -1)
        rows, first = flat.view(np.uint8), one.view(np.uint8)
    return bool((rows == first).all())
