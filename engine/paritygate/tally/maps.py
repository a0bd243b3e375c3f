"""Maps of mergeable statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def merge_maps(
    ours: Mapping[K, V], theirs: Mapping[K, V], merge: Callable[[V, V], V]
) -> dict[K, V]:
    """Union of two maps; where both have a key the values are merged."""
    merged = dict(ours)
    for key, value in theirs.items():
        merged[key] = merge(merged[key], value) if key in merged else value
    return merged
