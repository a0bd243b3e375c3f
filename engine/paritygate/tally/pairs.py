"""Pairs of decisions and how often each was met: bounded, and the same for any order of merging."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping

Code = int | str
Pair = tuple[Code, Code]

# Free values, such as texts, may be as many as there are samples.
MOST_PAIRS = 4096
LONGEST = 120


def pair_order(pair: Pair) -> tuple[bool, str, bool, str]:
    """Order of pairs of free values: changes first, then by text."""
    ref, cand = pair
    return ref == cand, str(ref), isinstance(ref, str), str(cand)


def merge_pairs(ours: Mapping[Pair, int], theirs: Mapping[Pair, int]) -> dict[Pair, int]:
    """Add two counts of pairs."""
    return dict(Counter(ours) + Counter(theirs))


def bound_pairs(pairs: Mapping[Pair, int]) -> tuple[dict[Pair, int], int]:
    """The first `MOST_PAIRS` pairs in order, and how many samples the others count.

    A pair that is left out once comes after as many others in any larger set too, so that what
    stays is counted whole, for every split and every order of merging.
    """
    if len(pairs) <= MOST_PAIRS:
        return dict(pairs), 0
    kept = sorted(pairs, key=pair_order)[:MOST_PAIRS]
    rest = sum(pairs.values()) - sum(pairs[pair] for pair in kept)
    return {pair: pairs[pair] for pair in kept}, rest


def shorten(text: str) -> str:
    """A text as a key: whole, or its beginning with a digest of all of it."""
    if len(text) <= LONGEST:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{text[: LONGEST - 20]}... ({digest})"
