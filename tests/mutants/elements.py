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
    *of_rule(
        FILE,
        "nonfinite",
        (
            "if ref_class != FINITE or cand_class != FINITE:",
            "if ref_class != FINITE and cand_class != FINITE:",
            "one finite side is enough",
        ),
        ("broken = j if broken < 0 else broken", "broken = j", "the last one is told"),
        ("at_excess if broken < 0 else broken", "at_excess", "a finite one is the worst"),
    ),
    *of_rule(
        FILE,
        "single_elements",
        (
            "bound = allowed(r, rule.atol, rule.rtol)\n        good = is_within(error, bound)",
            "bound = allowed(c, rule.atol, rule.rtol)\n        good = is_within(error, bound)",
            "relative to the candidate",
        ),
        (
            "good = is_within(error, bound)\n        if not good:\n            outlying += 1",
            "good = is_within(error, bound)\n        if good:\n            outlying += 1",
            "good ones count as bad",
        ),
        ("allowed(np.float64(r), rule", "allowed(np.float64(c), rule", "relative to the candidate"),
        (
            "bool(error <= integer_bound(bound))",
            "bool(error < integer_bound(bound))",
            "at the bound",
        ),
        ("bool(error <= integer_bound(bound))", "bool(error <= bound)", "compared as floats"),
    ),
    *of_rule(
        FILE,
        "outliers or hard_cap or cap_of",
        (
            "if not error <= rule.cap:",
            "if not error < rule.cap:",
            "an error at the cap is above it",
        ),
        ("if not error <= rule.cap:", "if False:", "no cap"),
        ("if error > cap:", "if error >= cap:", "an integer error at the cap is above it"),
        ("if error > cap:", "if np.float64(error) > rule.cap:", "the error is rounded to the cap"),
        (
            "outliers:\n        rules |= rule.bits[0]\n    return rules, failing, broken",
            "outliers + 1:\n        rules |= rule.bits[0]\n    return rules, failing, broken",
            "one outlier more than allowed",
        ),
        (
            "> rule.outliers:\n        rules |= rule.bits[0]\n    return rules, failing, broken",
            ">= rule.outliers:\n        rules |= rule.bits[0]\n    return rules, failing, broken",
            "one outlier less than allowed",
        ),
    ),
)
