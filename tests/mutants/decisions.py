"""Mutants of the rules of decisions."""

from __future__ import annotations

from tests.mutants.mutant import of_rule

FILE = "kernels/decisions.py"

DECISIONS = (
    *of_rule(
        FILE,
        "the_band_of",
        (
            "    if score != score:\n        return UNDEFINED\n    passed",
            "    passed",
            "NaN has a band",
        ),
        ("if score > edges[k] or (", "if score >= edges[k] or (", "every tie goes up"),
        ("if score > edges[k] or (", "if score < edges[k] or (", "bands are counted from above"),
        (" or (score == edges[k] and tie_up[k]):", ":", "every tie goes down"),
        (
            "(score == edges[k] and tie_up[k])",
            "(score == edges[k] and not tie_up[k])",
            "ties swapped",
        ),
        ("(score == edges[k] and tie_up[k])", "tie_up[k]", "scores below an edge pass it"),
        (
            "(score == edges[k] and tie_up[k])",
            "(score == edges[k] and tie_up[0])",
            "one tie for all",
        ),
        ("            passed += 1", "            passed = 1", "two bands only"),
        ("    passed = 0", "    passed = 1", "off by one band"),
    ),
    *of_rule(
        FILE,
        "margin_of_a_band",
        ("nearest = abs(score - edges[0])", "nearest = score - edges[0]", "margins below 0"),
        ("if distance < nearest:", "if distance > nearest:", "the farthest edge"),
        ("nearest < np.inf and nearest <=", "nearest <=", "an infinite score is at risk"),
        ("and nearest <= allowed(", "and nearest < allowed(", "a margin at the tolerance is safe"),
        ("and nearest <= allowed(", "or nearest <= allowed(", "every score is at risk"),
    ),
    *of_rule(
        FILE,
        "tie or place or undefined or integers",
        ("            if score > top:", "            if score >= top:", "the last one of a tie"),
        ("            if score > top:", "            if score < top:", "the smallest"),
        ("undefined = top != top", "undefined = False", "a NaN in the first place"),
        (
            "elif score != score:\n                undefined = True",
            "elif False:\n                pass",
            "a NaN in another place",
        ),
        ("tied[i] = shared and not undefined", "tied[i] = shared", "undefined rows tie"),
        ("UNDEFINED if undefined else code", "code", "a row with a NaN has a class"),
        (
            "score == top:\n                shared = True",
            "score == top:\n                shared = False",
            "no tie is told",
        ),
    ),
    *of_rule(
        FILE,
        "tolerance_just_spans",
        (
            "bound = allowed(top, atol, rtol) + allowed(second, atol, rtol)",
            "bound = allowed(top, atol, rtol)",
            "what is allowed for one of the two scores",
        ),
        ("margin < np.inf and margin <= bound)", "margin < np.inf and margin < bound)", "at it"),
    ),
)
