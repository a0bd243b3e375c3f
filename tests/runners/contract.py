"""The public contract suite over x and, recorded, out.y; and what its tests are made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from paritygate import testing
from paritygate.core.tensors import Batch
from paritygate.testing import context_of, spec_of

__all__ = ["SAMPLES", "WIDTH", "Outputs", "RunnerContract", "context_of", "golden_inputs"]
__all__ += ["make_batch", "spec_of"]

SAMPLES, WIDTH = 40, 4
Outputs = Mapping[str, npt.NDArray[np.generic]]


def golden_inputs() -> npt.NDArray[np.float32]:
    """x of the golden samples: `(SAMPLES, WIDTH)`, no two rows the same."""
    return testing.sample_inputs()["x"]


def make_batch(
    x: npt.NDArray[np.generic],
    start: int = 0,
    valid: int | None = None,
    ids: npt.NDArray[np.generic] | None = None,
    name: str = "x",
    number: int = 0,
) -> Batch:
    """A batch of the rows of x, of which the first `valid` count; inputs are read-only."""
    return testing.make_batch({name: x}, start, valid, ids, number)


class RunnerContract(testing.RunnerContract):
    """Inherit and give `table` and `answers`; the golden pack has x and, recorded, out.y."""

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        """What the runner must answer to the rows of x."""
        raise NotImplementedError

    def expected(self, inputs: Outputs) -> Outputs:
        return self.answers(inputs["x"])

    def recorded(self) -> Outputs:
        return {"y": 2 * golden_inputs()}
