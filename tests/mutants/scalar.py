"""Mutants of the rules for one element."""

from __future__ import annotations

from tests.mutants.mutant import of_rule

FILE = "kernels/scalar.py"

SCALAR = (
    *of_rule(
        FILE,
        "ratio_that_rounding or share_of_its_bound",
        (
            "return product(ratio, shrunk) if ratio > 1e-290 else 0.0",
            "return product(ratio, shrunk)",
            "a denormal ratio proves",
        ),
        ("return product(ratio, shrunk) if", "return ratio if", "rounding hides nothing"),
        ("if ratio > 1e-290 else 0.0", "if ratio < 1e-290 else 0.0", "no ratio proves anything"),
    ),
    *of_rule(
        FILE,
        "allowed",
        (
            "return atol + product(rtol, abs(ref))",
            "return atol - product(rtol, abs(ref))",
            "a difference, not a sum",
        ),
        (
            "return atol + product(rtol, abs(ref))",
            "return atol + product(rtol, ref)",
            "sign of the reference counts",
        ),
        (
            "return atol + product(rtol, abs(ref))",
            "return atol * product(rtol, abs(ref))",
            "a product, not a sum",
        ),
        (
            "return atol + product(rtol, abs(ref))",
            "return max(atol, product(rtol, abs(ref)))",
            "the larger alone",
        ),
        (
            "return atol + product(rtol, abs(ref))",
            "return rtol + product(atol, abs(ref))",
            "tolerances exchanged",
        ),
        (
            "return atol + product(rtol, abs(ref))",
            "return atol",
            "the relative tolerance is left out",
        ),
    ),
    *of_rule(
        FILE,
        "is_within or nan_bound",
        (
            "return error <= bound and (",
            "return error < bound and (",
            "an error at the bound fails",
        ),
        ("return error <= bound and (", "return not error > bound and (", "NaN passes"),
        ("return error <= bound and (", "return error <= bound or (", "any finite bound passes"),
        ("(bound < math.inf or error == 0.0)", "True", "an infinite bound passes everything"),
        ("(bound < math.inf or error", "(bound <= math.inf or error", "the same, by a strictness"),
        ("math.inf or error == 0.0)", "math.inf)", "equality fails where the bound is infinite"),
    ),
    *of_rule(
        FILE,
        "excess and not integer",
        ("    if error == 0.0:\n        return 0.0\n    if bound", "    if bound", "0/0"),
        (
            "if bound == 0.0 or bound == math.inf:",
            "if bound == 0.0:",
            "an infinite bound excuses all",
        ),
        ("if bound == 0.0 or bound == math.inf:", "if bound == math.inf:", "x/0"),
        ("return error / bound", "return bound / error", "operands swapped"),
        ("return error / bound", "return error - bound", "a difference, not a ratio"),
    ),
    *of_rule(
        FILE,
        "class_of",
        ("if abs(value) < math.inf:", "if abs(value) <= math.inf:", "infinity is finite"),
        ("if abs(value) < math.inf:", "if value < math.inf:", "-inf is finite"),
        ("if abs(value) < math.inf:", "if not abs(value) >= math.inf:", "NaN is finite"),
        ("    if value != value:\n        return NAN\n", "", "NaN is -inf"),
        ("POSITIVE_INF if value > 0.0", "POSITIVE_INF if value < 0.0", "infinities exchanged"),
    ),
    *of_rule(
        FILE,
        "integer_error",
        ("if cand >= ref:", "if cand <= ref:", "the difference wraps around"),
        ("return np.uint64(cand) - np.uint64(ref)", "return np.uint64(0)", "larger is equal"),
        (
            "return np.uint64(ref) - np.uint64(cand)",
            "return np.uint64(cand) - np.uint64(ref)",
            "a smaller candidate wraps around",
        ),
        (
            "return np.uint64(cand) - np.uint64(ref)",
            "return np.uint64(np.float64(cand) - np.float64(ref))",
            "differences of large integers are rounded",
        ),
    ),
    *of_rule(
        FILE,
        "integer_bound",
        ("return np.uint64(bound)", "return np.uint64(np.rint(bound))", "rounded, not its floor"),
        ("return np.uint64(bound)", "return np.uint64(np.ceil(bound))", "ceiling, not floor"),
        (
            "return np.uint64(0xFFFFFFFFFFFFFFFF)",
            "return np.uint64(0)",
            "a huge bound allows nothing",
        ),
        ("_TWO_TO_64 = 18446744073709551616.0", "_TWO_TO_64 = 9223372036854775808.0", "2^63"),
    ),
    *of_rule(
        FILE,
        "integer_excess",
        (
            "error > integer_bound(bound)",
            "error >= integer_bound(bound)",
            "at the bound is beyond it",
        ),
        ("error > integer_bound(bound)", "error < integer_bound(bound)", "good ones are beyond it"),
        ("and ratio < _ABOVE_ONE:", "and ratio < 1.0:", "a ratio rounded to 1 stays"),
        ("_ABOVE_ONE = 1.0 + 2.0**-52", "_ABOVE_ONE = 1.0", "what fails has the excess 1"),
    ),
    *of_rule(
        FILE,
        "ulp_distance_32",
        ("np.int64(-2147483648)", "np.int64(-2147483647)", "-0 and +0 are a step apart"),
        (
            "-2147483648)\n    ref_step = ref_bits if ref_bits >= 0",
            "-2147483648)\n    ref_step = ref_bits if ref_bits > 0",
            "+0 of the reference is the lowest number",
        ),
        (
            "-2147483648)\n    ref_step = ref_bits if ref_bits >= 0 else sign - ref_bits",
            "-2147483648)\n    ref_step = ref_bits",
            "negative references are counted backwards",
        ),
        (
            "(ref_step, cand_step)\n\n\n@scalar\ndef ulp_distance_64",
            "(ref_step, cand_bits)\n\n\n@scalar\ndef ulp_distance_64",
            "negative candidates are counted backwards",
        ),
    ),
    *of_rule(
        FILE,
        "ulp_distance",
        ("(-9223372036854775808)", "(-9223372036854775807)", "-0 and +0 are a step apart"),
        (
            "-9223372036854775808)\n    ref_step = ref_bits if ref_bits >= 0",
            "-9223372036854775808)\n    ref_step = ref_bits if ref_bits > 0",
            "+0 of the reference is the lowest number",
        ),
        (
            "-9223372036854775808)\n    ref_step = ref_bits if ref_bits >= 0 else sign - ref_bits",
            "-9223372036854775808)\n    ref_step = ref_bits",
            "negative references are counted backwards",
        ),
    ),
    *of_rule(
        FILE,
        "grid",
        ("exponent = max(", "exponent = min(", "subnormals are finer than their step"),
        ("0x7FF) - 1023, np.int64", "0x7FF) - 1022, np.int64", "off by one binade"),
        ("np.int64(rint(product", "np.int64(np.floor(product", "cut off, not rounded"),
        (
            "(product(abs(value), scale))",
            "(product(value, scale))",
            "negative numbers are misplaced",
        ),
        ("<< mantissa) + steps", "<< mantissa) | steps", "binades overlap"),
        ("return place if value >= 0.0 else -place", "return place", "signs are lost"),
        ("return place if value >= 0.0", "return place if value <= 0.0", "signs are exchanged"),
    ),
    *of_rule(
        FILE,
        "bin",
        (
            "        return 0\n    return 1 +",
            "        return 1\n    return 1 +",
            "zero is no bin alone",
        ),
        ("return 1 + (np.float64(error)", "return 2 + (np.float64(error)", "off by one bin"),
        ("return 1 + (np.float64(error)", "return (np.float64(error)", "off by one bin, down"),
        ("view(np.int64) >> 49)", "view(np.int64) >> 48)", "16 bins a binade"),
        ("view(np.int64) >> 49)", "view(np.int64) >> 50)", "4 bins a binade"),
    ),
    *of_rule(
        FILE,
        "cosine",
        ("noise = error_energy / ref_energy", "noise = ref_energy / error_energy", "swapped"),
        ("along = cross / ref_energy", "along = cross / error_energy", "over the wrong energy"),
        (
            "power = 1.0 + product(2.0, along) + noise",
            "power = 1.0 + along + noise",
            "2 r e, not r e",
        ),
        ("if not 0.0 < power < math.inf", "if not 0.0 <= power < math.inf", "x/0"),
        ("if not 0.0 < power < math.inf", "if not 0.0 < power <= math.inf", "inf/inf is told as 0"),
        ("if 1.0 + along <= 0.0:", "if False:", "opposed vectors cancel"),
        ("if 1.0 + along <= 0.0:", "if True:", "equal vectors cancel"),
        ("opposed = 1.0 - (1.0", "opposed = 1.0 + (1.0", "opposed vectors are equal"),
        ("return opposed if opposed < 2.0 else 2.0", "return opposed", "above 2 by rounding"),
        ("across = noise - product(", "across = noise + product(", "scale is an angle"),
        ("    if across <= 0.0:\n        return 0.0\n", "", "below 0 by rounding"),
        ("length + 1.0 + along)", "length + 1.0 - along)", "sign of the cross term"),
        ("across / product(length, ", "across / (length + ", "sum, not product"),
    ),
)
