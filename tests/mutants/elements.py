"""Mutants of the rules that judge an element and choose the worst."""

from __future__ import annotations

from tests.mutants.mutant import of_rule

FILE = "kernels/elements.py"

ELEMENTS = (
    *of_rule(
        FILE,
        "nonfinite",
        ("if ref_class != cand_class:", "if ref_class == cand_class:", "classes are exchanged"),
        ("return 0 if rule.match else", "return 0 if not rule.match else", "'match' is exchanged"),
        ("return 0 if rule.match else", "return 0 if True else", "equal classes always agree"),
        ("return int(rule.bits[2])", "return 0", "a candidate that alone isn't finite agrees"),
        ("return int(rule.bits[4])", "return int(rule.bits[3])", "one rule for another"),
    ),
    *of_rule(
        FILE,
        "goes_first",
        (
            "return best < 0 or ordinals[i] < ordinals[best]",
            "return best < 0",
            "the first one stays",
        ),
        (
            "or ordinals[i] < ordinals[best]",
            "or ordinals[i] > ordinals[best]",
            "the last one stays",
        ),
        ("or ordinals[i] < ordinals[best]", "or i < best", "order of arrival, not of the pack"),
    ),
)
