"""Brute-force oracles for elements: plain Python numbers, one element at a time.

Nothing of paritygate is imported here, and nothing is fast.
"""

import math
import struct
from fractions import Fraction

CLASS_NAMES = ("finite", "nan", "inf", "-inf")


def class_of(value):
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return "finite"


def judge_sample(ref, cand, *, atol, rtol, cap=None, outliers=0, match=False):
    """Rules, failing elements and worst element of one sample; Python floats or Python ints."""
    rules, failing, outlying, ranks = set(), 0, 0, []
    for j, (r, c) in enumerate(zip(ref, cand, strict=True)):
        rc, cc = class_of(r), class_of(c)
        if rc != "finite" or cc != "finite":
            rule = nonfinite_rule(rc, cc, match)
            if rule:
                rules.add(rule)
                failing += 1
                ranks.append((1, math.inf, math.inf, -j))
            continue
        error, bound = abs(c - r), atol + rtol * abs(float(r))
        within = proved_within(error, bound)
        outlying += not within
        if cap is not None and not error <= cap:
            rules.add("tolerance.hard_cap")
            within = False
        failing += not within
        ranks.append((0, excess(error, bound), error, -j))
    if outlying > outliers:
        rules.add("tolerance.exceeded")
    _, ratio, error, place = max(ranks, default=(0, 0.0, 0.0, 1))
    return {
        "rules": rules,
        "failing": failing,
        "worst_index": -place,
        "worst_excess": ratio,
        "worst_error": float(error),
    }


def nonfinite_rule(ref_class, cand_class, match):
    if ref_class == "finite":
        return "nonfinite.candidate"
    if ref_class != cand_class:
        return "nonfinite.mismatch"
    return None if match else "nonfinite.reference"


def proved_within(error, bound):
    """Exactly: a Python int is compared with a float without rounding."""
    if error == 0:
        return True
    return math.isfinite(bound) and error <= bound


def excess(error, bound):
    """Correctly rounded error / bound; a failing element's is above 1."""
    if error == 0:
        return 0.0
    if bound == 0 or math.isinf(bound) or math.isinf(error):
        return math.inf
    try:
        ratio = float(error) / bound
    except OverflowError:
        return math.inf
    return max(ratio, 1 + 2.0**-52) if error > bound else ratio


def class_table(ref, cand):
    """(reference class, candidate class) -> elements."""
    table = {}
    for r, c in zip(ref, cand, strict=True):
        key = class_of(r), class_of(c)
        table[key] = table.get(key, 0) + 1
    return table


def finite_pairs(ref, cand):
    """Index and both values of the pairs that are finite on both sides."""
    return [
        (k, r, c)
        for k, (r, c) in enumerate(zip(ref, cand, strict=True))
        if math.isfinite(r) and math.isfinite(c)
    ]


def exact_sum(terms):
    """Exact sum of float terms, or None if one isn't finite."""
    if not all(math.isfinite(t) for t in terms):
        return None
    return sum((Fraction(t) for t in terms), Fraction(0))


def to_float(fraction):
    """Nearest float64, infinity beyond the range; None stays None."""
    if fraction is None:
        return None
    try:
        return fraction.numerator / fraction.denominator
    except OverflowError:
        return math.inf if fraction > 0 else -math.inf


def terms(ref, cand):
    """The float64 terms of each sum, by name, over pairs that are finite on both sides."""
    found = {"abs_errors": [], "errors": [], "squared_errors": [], "squared_refs": []}
    found["ref_errors"] = []
    for _, r, c in finite_pairs(ref, cand):
        error, r = float(c - r), float(r)
        found["abs_errors"].append(abs(error))
        found["errors"].append(error)
        found["squared_errors"].append(error * error)
        found["squared_refs"].append(r * r)
        found["ref_errors"].append(r * error)
    return found


def histogram_bin(error):
    """By definition: exact zero, 8 linear parts of every binade, infinity."""
    if error == 0:
        return 0
    if math.isinf(error):
        return 1 + 2047 * 8
    if error < 2.0**-1022:
        return 1 + math.floor(Fraction(error) * 8 / Fraction(2) ** -1022)
    mantissa, exponent = math.frexp(error)
    part = math.floor(Fraction(mantissa * 2 - 1) * 8)
    return 1 + (exponent - 1 + 1023) * 8 + part


def round_to_single(value):
    """Nearest float32 as a Python float; infinity where it doesn't fit."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def ulp_steps(ref, cand, single):
    """Representable numbers between the two, or None where undefined."""
    if single:
        ref = round_to_single(ref)
    if not (math.isfinite(ref) and math.isfinite(cand)):
        return None
    return abs(_place_on_line(cand, single) - _place_on_line(ref, single))


def _place_on_line(value, single):
    code, bits = ("<f", "<I") if single else ("<d", "<Q")
    magnitude = struct.unpack(bits, struct.pack(code, abs(value)))[0]
    return -magnitude if value < 0 else magnitude


def sample_sums(ref, cand):
    """Sums of r^2, e^2 and r*e of a sample in eight lanes, element by element, as is told."""
    good = {k for k, _, _ in finite_pairs(ref, cand)}
    sums = []
    for of in (lambda r, e: r * r, lambda r, e: e * e, lambda r, e: r * e):
        terms = [
            of(float(r), float(c) - float(r)) if k in good else 0.0
            for k, (r, c) in enumerate(zip(ref, cand, strict=True))
        ]
        whole = len(terms) // 8 * 8
        lanes = [0.0] * 8
        for k in range(whole):
            lanes[k % 8] += terms[k]
        a, b, c, d, e, f, g, h = lanes
        total = ((a + e) + (c + g)) + ((b + f) + (d + h))
        for term in terms[whole:]:
            total += term
        sums.append(total)
    return sums


def quantile_rank(values, fraction):
    """The smallest value that at least `fraction` of all values don't exceed."""
    ordered = sorted(values)
    return ordered[max(1, math.ceil(fraction * len(ordered))) - 1]


def energies(ref, cand):
    """Exact sums of r^2, e^2 and r*e over finite pairs, from exact products."""
    pairs = [(Fraction(r), Fraction(c) - Fraction(r)) for _, r, c in finite_pairs(ref, cand)]
    return (
        sum((r * r for r, _ in pairs), Fraction(0)),
        sum((e * e for _, e in pairs), Fraction(0)),
        sum((r * e for r, e in pairs), Fraction(0)),
    )


def one_minus_cosine(ref, cand):
    """To 50 digits, from the textbook form; None where a side has no energy."""
    rr, ee, re = energies(ref, cand)
    cc = rr + 2 * re + ee
    if rr == 0 or cc == 0:
        return None
    digits = 10**120
    root = Fraction(math.isqrt(math.floor(rr * cc * digits**2)), digits)
    if root == 0:
        raise ValueError("values too small for this oracle")
    return float(1 - (rr + re) / root)
