"""Mutants of the rules of decisions."""

from __future__ import annotations

from tests.mutants.mutant import of_rule

DECISIONS = of_rule(
    "kernels/decisions.py",
    "the_band_of",
    (
        "    if score != score:\n        return UNDEFINED\n    passed",
        "    passed",
        "NaN has a band",
    ),
    ("if score > edges[k] or (", "if score >= edges[k] or (", "every tie goes up"),
    ("if score > edges[k] or (", "if score < edges[k] or (", "bands are counted from above"),
    (" or (score == edges[k] and tie_up[k]):", ":", "every tie goes down"),
    ("(score == edges[k] and tie_up[k])", "(score == edges[k] and not tie_up[k])", "ties swapped"),
    ("(score == edges[k] and tie_up[k])", "tie_up[k]", "scores below an edge pass it"),
    ("(score == edges[k] and tie_up[k])", "(score == edges[k] and tie_up[0])", "one tie for all"),
    ("            passed += 1", "            passed = 1", "two bands only"),
    ("    passed = 0", "    passed = 1", "off by one band"),
)
