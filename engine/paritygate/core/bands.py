"""The one-line band rule: `accept < 0.2 <= review <= 0.8 < reject`.

A score is in exactly one band. At each edge exactly one of the two signs has the `=`, and that
is the side on which a score equal to the edge falls.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise

from msgspec import Struct

_TOKEN = re.compile(r"\s*(<=|<|[^\s<>=]+)")


class Bands(Struct, frozen=True):
    """Ordered bands of a score.

    Attributes:
        names: band names from the lowest score to the highest.
        edges: `len(names) - 1` ascending edges, float64.
        tie_up: for each edge whether a score equal to it falls into the upper band.
        text: the rule as written, its parts one space apart.
    """

    names: tuple[str, ...]
    edges: tuple[float, ...]
    tie_up: tuple[bool, ...]
    text: str


def parse_bands(text: str) -> Bands:
    """Parse a band rule.

    Raises:
        ValueError: with a sentence that says what to change.
    """
    tokens = _tokenize(text)
    if len(tokens) < 5 or (len(tokens) - 1) % 4:
        raise ValueError(
            f"{text!r} is not a band rule; write names (without spaces) and "
            "edges in turn, such as 'accept < 0.2 <= review <= 0.8 < reject'"
        )
    names, edges, tie_up = [tokens[0]], [], []
    for i in range(1, len(tokens), 4):
        below, literal, above, name = tokens[i : i + 4]
        if below not in ("<", "<=") or above not in ("<", "<="):
            raise ValueError(f"{text!r}: expected '<' or '<=' on both sides of {literal!r}")
        if (below == "<=") == (above == "<="):
            both = "both sides" if below == "<=" else "neither side"
            raise ValueError(
                f"{text!r}: a score equal to {literal} belongs to {both}; "
                "write '<=' on exactly one side of each edge"
            )
        edges.append(_edge(text, literal))
        tie_up.append(above == "<=")
        names.append(name)
    _check(text, names, edges)
    return Bands(tuple(names), tuple(edges), tuple(tie_up), " ".join(tokens))


def _tokenize(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(
                f"{text!r}: unexpected {text[at:].strip()[0]!r}; only '<' and '<=' are used, "
                "from the lowest band to the highest"
            )
        tokens.append(match.group(1))
        at = match.end()
    return tokens


def _edge(text: str, literal: str) -> float:
    try:
        edge = float(literal)
    except ValueError:
        raise ValueError(f"{text!r}: {literal!r} stands where an edge (a number) belongs") from None
    if not math.isfinite(edge):
        raise ValueError(f"{text!r}: the edge {literal} must be finite")
    return edge


def _check(text: str, names: list[str], edges: list[float]) -> None:
    for low, high in pairwise(edges):
        if low >= high:
            raise ValueError(f"{text!r}: edges must ascend, but {high!r} follows {low!r}")
    if len(set(names)) != len(names):
        raise ValueError(f"{text!r}: every band needs a name of its own")
    if "undefined" in names:
        raise ValueError(f"{text!r}: 'undefined' is the decision of a NaN score; rename the band")
    for name in names:
        if name in ("<", "<=") or _is_number(name):
            raise ValueError(f"{text!r}: {name!r} stands where a band's name belongs")


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True
