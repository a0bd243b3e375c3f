"""Brute-force oracle of narrow float formats: every code decoded from its bits, exactly.

Nothing of paritygate is imported here, nor what it relies on.
"""

import bisect
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache


@dataclass(frozen=True)
class Format:
    """Bits of the exponent and of the mantissa, bias, and what the special codes are.

    `specials`: "ieee": the top exponent is infinity and NaN; "fn": all ones is NaN, there is no
    infinity; "fnuz": the code of -0 is the only NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    specials: str

    @property
    def bits(self):
        return 1 + self.exponent + self.mantissa


FORMATS = {
    "float16": Format(5, 10, 15, "ieee"),
    "bfloat16": Format(8, 7, 127, "ieee"),
    "float8_e5m2": Format(5, 2, 15, "ieee"),
    "float8_e4m3fn": Format(4, 3, 7, "fn"),
    "float8_e4m3fnuz": Format(4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": Format(5, 2, 16, "fnuz"),
    "float32": Format(8, 23, 127, "ieee"),
    "float64": Format(11, 52, 1023, "ieee"),
}


def decode(name, code):
    """The number of a code, as a Python float."""
    form = FORMATS[name]
    sign = -1.0 if code >> (form.bits - 1) else 1.0
    exponent = (code >> form.mantissa) & ((1 << form.exponent) - 1)
    mantissa = code & ((1 << form.mantissa) - 1)
    top = (1 << form.exponent) - 1
    if form.specials == "ieee" and exponent == top:
        return math.nan if mantissa else sign * math.inf
    if form.specials == "fn" and exponent == top and mantissa == (1 << form.mantissa) - 1:
        return math.nan
    if form.specials == "fnuz" and code == 1 << (form.bits - 1):
        return math.nan
    whole = mantissa + (1 << form.mantissa if exponent else 0)
    return sign * math.ldexp(whole, max(exponent, 1) - form.bias - form.mantissa)


@cache
def codes(name):
    """The numbers of all codes, in the order of the codes."""
    return [decode(name, code) for code in range(1 << FORMATS[name].bits)]


@cache
def magnitudes(name):
    """All finite numbers from zero up."""
    return sorted({abs(v) for v in codes(name) if math.isfinite(v)})


def has_infinity(name):
    return FORMATS[name].specials == "ieee"


def round_to(name, value):
    """The nearest number of the format, a tie to the even code; past the range inf, or NaN."""
    if math.isnan(value):
        return math.nan
    grid = magnitudes(name)
    past = math.inf if has_infinity(name) else math.nan
    if math.isinf(value):
        return math.copysign(past, value)
    above = bisect.bisect_left(grid, abs(value))
    if above == len(grid):
        ahead = Fraction(grid[-1]) * 2 - Fraction(grid[-2])  # where the next number would be
        rest = abs(Fraction(value)) * 2 - Fraction(grid[-1]) - ahead
        is_past = rest > 0 or (rest == 0 and (above - 1) % 2 == 1)
        return math.copysign(past if is_past else grid[-1], value)
    if grid[above] == abs(value):
        return value
    rest = abs(Fraction(value)) * 2 - Fraction(grid[above - 1]) - Fraction(grid[above])
    up = rest > 0 or (rest == 0 and above % 2 == 0)
    return math.copysign(grid[above] if up else grid[above - 1], value)


def steps(name, ref, cand):
    """Numbers of the format from the rounded reference to the candidate; None: undefined."""
    ref = round_to(name, ref)
    if not (math.isfinite(ref) and math.isfinite(cand)):
        return None
    places = [math.copysign(bisect.bisect_left(magnitudes(name), abs(v)), v) for v in (ref, cand)]
    return int(abs(places[0] - places[1]))
