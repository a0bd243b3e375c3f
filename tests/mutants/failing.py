"""Mutants of what finds the failing samples of stretches that are finite throughout."""

from __future__ import annotations

from tests.mutants.mutant import of_rule

FILE = "kernels/scan_failing.py"
_ZEROS = "            failing.flags[k] = 0\n"

FAILING = (
    *of_rule(
        FILE,
        "test",
        ("np.uint8(not error <= allowed(", "np.uint8(not error < allowed(", "at the bound"),
        ("np.uint8(not error <= allowed(", "np.uint8(not error * 0.9 <= allowed(", "a tenth"),
        (
            "if not found & np.uint8(SUSPECT):",
            "if not states[number * pieces] & np.uint8(SUSPECT):",
            "only first pieces",
        ),
        ("            if rule.cap < math.inf:", "            if False:", "no cap"),
        ("error > best_error[0])", "error > 2 * best_error[0])", "no larger error"),
        ("near += np.int64(is_near) + ", "near += ", "no worse excess"),
        ("            if near == 0:", "            if True:", "nothing is looked at"),
        (_ZEROS + "        keep", "            pass\n        keep", "flags of before"),
    ),
    *of_rule(
        FILE,
        "test",
        ("np.uint8(not abs(e) <= allowed(", "np.uint8(not abs(e) < allowed(", "at the bound"),
        ("np.uint8(not abs(e) <= allowed(", "np.uint8(abs(e) > 2 * allowed(", "half of it"),
        ("            if not error <= rule.cap:", "            if False:", "no cap"),
        ("(not error_k <= rule.cap)", "(not error_k < rule.cap)", "at the cap"),
        ("LOOK if error > best_error[0] else 0", "0", "no larger error"),
        ("if (top >> 52) > highest or left != 0:", "if left != 0:", "too large"),
        ("if (top >> 52) > highest or left != 0:", "if (top >> 52) > highest:", "too fine"),
        ("error < math.inf and (top >> 52) < HIGHEST + 1022", "True", "infinite ones are counted"),
        (
            "                own[piece] = LEFT\n            continue",
            "                pass\n            continue",
            "a stretch that is left in part",
        ),
        ("        counted += stop - start", "        counted += size", "the last one is shorter"),
        ("add_units(chunks[ABS_E], units[1, piece], grid)", "pass", "no magnitudes"),
        (_ZEROS + "        before", "            pass\n        before", "flags of before"),
        (
            "width, first + start // width, rule, failing)\n        rows",
            "width, first, rule, failing)\n        rows",
            "the first samples",
        ),
        ("is_sparse = worst > 1.0 and ", "is_sparse = ", "samples that pass can't be the worst"),
        ("(rows[number] - first) * width, width", "(rows[number] - first) * width, 1", "one"),
        ("        if below >= 0:", "        if False:", "no worse excess"),
    ),
)  # fmt: skip
