"""The rules for one element, compiled for the GPU from the one source in `kernels`."""

from __future__ import annotations

from paritygate.gpu.device import SIMULATED, rule
from paritygate.kernels import decisions, elements, scalar

FINITE = scalar.FINITE
UNDEFINED = decisions.UNDEFINED

BINS = scalar.BINS

allowed = rule(scalar.allowed)
band_of = rule(decisions.band_of)
bin_of = rule(scalar.bin_of)
class_of = rule(scalar.class_of)
excess = rule(scalar.excess)
is_within = rule(scalar.is_within)
nonfinite_bit = rule(elements.nonfinite_bit)
one_minus_cosine = rule(scalar.one_minus_cosine)
place_on_grid = rule(scalar.place_on_grid)
share_below = rule(scalar.share_below)


def _float_excess(error: float, bound: float) -> float:
    return excess(float(error), bound)  # where NumPy's float64 warns of what overflows


integer_bound = rule(scalar.integer_bound)
integer_excess = rule(
    scalar.integer_excess,
    excess=_float_excess if SIMULATED else excess,
    integer_bound=integer_bound,
)
