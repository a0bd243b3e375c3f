"""The rules for one element, compiled for the GPU from the one source in `kernels`."""

from __future__ import annotations

from paritygate.gpu.device import rule
from paritygate.kernels import elements, scalar

FINITE = scalar.FINITE

allowed = rule(scalar.allowed)
class_of = rule(scalar.class_of)
excess = rule(scalar.excess)
is_within = rule(scalar.is_within)
nonfinite_bit = rule(elements.nonfinite_bit)
share_below = rule(scalar.share_below)
