"""The input contract as far as it is about shapes: dims that have a name stay within `[dims]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from paritygate.core.plan import Plan
from paritygate.core.shapes import has_names, sample_dims
from paritygate.core.violation import Violation


class ShapeContract(Struct, frozen=True):
    """What the shapes of a sample's inputs must satisfy.

    Attributes:
        dims: input -> dims of a sample, numbers or names.
        bounds: name -> smallest and largest size, both inclusive.
    """

    dims: Mapping[str, Sequence[int | str]]
    bounds: Mapping[str, tuple[int, int]]

    @staticmethod
    def of(plan: Plan) -> ShapeContract:
        """The contract of the plan's inputs whose shape has a name in it."""
        tables = plan.table.inputs.items()
        dims = {name: sample_dims(t.shape or ()) for name, t in tables if has_names(t.shape)}
        return ShapeContract(dims, plan.table.dims.bounds())

    def violation(self, shapes: Mapping[str, Sequence[int]]) -> Violation | None:
        """The first dim that isn't allowed, or that is of two sizes in one sample; None: none."""
        sizes: dict[str, int] = {}
        for name, dims in self.dims.items():
            for axis, (size, dim) in enumerate(zip(shapes[name], dims, strict=True)):
                low, high = (dim, dim) if isinstance(dim, int) else self.bounds[dim]
                if isinstance(dim, str) and low <= size <= high:
                    low = high = sizes.setdefault(dim, size)
                if not low <= size <= high:
                    return Violation("contract.shape", name, axis, size, low, high)
        return None


def no_shape_contract() -> ShapeContract:
    """Nothing is asked of shapes."""
    return ShapeContract({}, {})
