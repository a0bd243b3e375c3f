"""What cases of elements and of decisions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paritygate.core.policy import Tolerance

Check = Callable[[], None]
Array = Any

SMALL = Tolerance(1e-3, 1e-3)
ZERO = Tolerance(0.0, 0.0)
