"""Mutants of the scan of clean stretches: shortcuts that are a little bolder than proved."""

from __future__ import annotations

from tests.mutants.mutant import of_rule

FILE = "kernels/scan.py"

SCANS = (
    *of_rule(
        FILE,
        "beyond or saturated or cap or excesses or a_scan",
        (
            "smaller(best_error[1], atol), smaller(best_excess[0], 1.0)",
            "smaller(best_error[1], atol), best_excess[0]",
            "what fails is flagged only where it is the worst so far",
        ),
        (
            "smaller(best_error[1], atol), smaller(best_excess[0], 1.0)",
            "best_error[1], smaller(best_excess[0], 1.0)",
            "the same without a relative tolerance",
        ),
        ("if is_flagged or not error <= cap:", "if is_flagged:", "a cap is forgotten"),
        ("if is_flagged or not error <= cap:", "if not error <= cap:", "bounds are forgotten"),
        ("if is_flagged or not error <= cap:", "if is_flagged or error > cap * 2:", "half a cap"),
        ("within &= bits - bits_of(", "within = bits - bits_of(", "all but the last are free"),
        ("least, slope = _shrunk(*near", "least, slope, _ = (near", "the whole bound, not a share"),
        (
            "if beyond.is_first or error > largest or (",
            "if beyond.is_first or (",
            "no larger error",
        ),
        ("if beyond.is_first or error > largest or (", "if error > largest or (", "no first"),
        ("flagged and not error < beyond.nearest", "flagged and False", "no worse excess"),
        (
            "number_of(bits_of(error) + 1), 0.0, 1.0",
            "number_of(bits_of(error) + 2), 0.0, 1.0",
            "one step",
        ),
        ("return atol, rtol, share_below(", "return atol, rtol, 1.01 * share_below(", "a percent"),
    ),
    *of_rule(
        FILE,
        "equal or magnitudes or grow or nan or overflow or smallest or sign or a_scan",
        ("if (top >> 52) > highest or left != 0:", "if left != 0:", "too large"),
        ("if (top >> 52) > highest or left != 0:", "if (top >> 52) > highest:", "too fine"),
        (
            "left |= bits_of(near - anchor) ^ bits",
            "left = bits_of(near - anchor) ^ bits",
            "the last",
        ),
        ("total += bits_of(e + anchor)", "total += bits_of(near)", "errors without their signs"),
        ("highest = np.int64(smaller(guess, HIGHEST - 1) + 1022)", "highest = np.int64(2000)", "-"),
        ("error < math.inf and (top >> 52) < HIGHEST + 1022", "True", "infinite ones are counted"),
        (
            "error < math.inf and (top >> 52) < HIGHEST + 1022",
            "error < math.inf",
            "errors beyond every grid",
        ),
        (
            "                states[number * pieces + piece] = LEFT\n            continue",
            "                pass\n            continue",
            "a stretch that is left in part",
        ),
        ("        counted += stop - start", "        counted += size", "the last one is shorter"),
        ("add_units(chunks[ABS_E], units[1, piece], grid)", "pass", "no magnitudes"),
        (
            "units[0, piece], units[1, piece] = total, magnitude",
            "units[:, piece] = total",
            "signed",
        ),
        (
            "if not states[number * pieces + piece] & np.uint8(AGAIN):\n                add_units",
            "if True:\n                add_units",
            "what is summed again is summed twice",
        ),
        (
            "        if not states[number] & np.uint8(AGAIN):\n            continue",
            "        if True:\n            continue",
            "nothing is summed again",
        ),
        ("top = larger(top, bits_of(abs(error)))", "top = larger(top, bits_of(error))", "signs"),
    ),
    *of_rule(
        FILE,
        "cap or beyond or equal or excess or step or a_scan or parts",
        ("wrong += np.int64(not error <= allowed(value, atol, rtol))", "pass", "all is good"),
        ("            wrong += np.int64(not largest <= cap)", "            pass", "no cap"),
        ("        if wrong == 0:", "        if wrong <= 1:", "one that fails is forgiven"),
        ("not (largest > best_error[0] or (flagged", "not ((flagged", "no larger error"),
        ("(flagged > 0 and top > 0) or is_first):", "is_first):", "no worse excess"),
        ("beyond == 0 and not is_first", "beyond <= 1 and not is_first", "a single one"),
        (
            "(ratio > best_excess[0]) | is_tie | (error > best_error[0])",
            "(ratio > best_excess[0]) | (error > best_error[0])",
            "a larger error of the same excess",
        ),
        (
            "(ratio > best_excess[0]) | is_tie | (error > best_error[0])",
            "(ratio > best_excess[0]) | is_tie",
            "a larger error of a smaller excess",
        ),
        ("sample = first + (at + k) // width", "sample = (at + k) // width", "the first sample"),
        (
            "if error > best_error[0] or best_at[0, 0] < 0:",
            "if error >= best_error[0] or best_at[0, 0] < 0:",
            "the last of equal errors",
        ),
        (
            "== best_excess[0] and error > best_error[1]):",
            "== best_excess[0] and error >= best_error[1]):",
            "the last of equal excesses",
        ),
        (
            "== best_excess[0] and error > best_error[1]):",
            "== best_excess[0] and False):",
            "the first of equal excesses, whatever the error",
        ),
    ),
)
