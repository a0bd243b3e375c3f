"""The rules for one element, compiled for the GPU from the one source in `kernels`."""

from __future__ import annotations

from paritygate.gpu.device import rule
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
