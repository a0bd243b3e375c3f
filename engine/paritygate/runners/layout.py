"""Where a runner's own tensors have their samples: moved at its border, so that they come first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from paritygate.core.ragged import Ragged, Tensor
from paritygate.core.tensors import Array, Batch, TensorSpec

Axis = int | None


class Layout(Struct, frozen=True):
    """Sample axes of a runner's tensors by name; a tensor that isn't named has them first.

    An axis of None says that there is none: the tensor as a whole belongs to the one sample of a
    batch.

    Attributes:
        inputs, outputs: name -> axis of the samples, where it isn't the first.
        dims: output -> the plan's dims of a sample; one that has a name may vary.
    """

    inputs: Mapping[str, Axis] = field(default_factory=dict)
    outputs: Mapping[str, Axis] = field(default_factory=dict)
    dims: Mapping[str, Sequence[int | str]] = field(default_factory=dict)

    @property
    def is_moved(self) -> bool:
        """Whether some tensor has its samples elsewhere."""
        return bool(self.inputs or self.outputs)

    def arrange(self, batch: Batch) -> Batch:
        """The batch as the runner takes it; arrays with their samples elsewhere are views."""
        if not self.inputs or not any(name in self.inputs for name in batch.inputs):
            return batch
        inputs = {
            name: move_samples(array, self.inputs.get(name, 0))
            for name, array in batch.inputs.items()
        }
        return replace(batch, inputs=inputs)

    def samples_first(self, outputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Answers with their samples on axis 0; those with their samples elsewhere are views."""
        if not self.outputs or not any(name in self.outputs for name in outputs):
            return outputs
        return {
            name: tensor
            if isinstance(tensor, Ragged)
            else first_samples(tensor, self.outputs.get(name, 0))
            for name, tensor in outputs.items()
        }

    def without_samples(self) -> list[str]:
        """Paths in the plan of the tensors that have no sample axis."""
        return [
            f"{where}.{name}"
            for where, axes in (("inputs", self.inputs), ("outputs", self.outputs))
            for name, axis in axes.items()
            if axis is None
        ]

    def only(self, inputs: Mapping[str, object], outputs: Mapping[str, object]) -> Layout:
        """The part that is about these tensors."""
        return Layout(
            {name: axis for name, axis in self.inputs.items() if name in inputs},
            {name: axis for name, axis in self.outputs.items() if name in outputs},
            self.dims,
        )


def move_samples(array: Array, axis: Axis) -> Array:
    """A batch with its samples first, as a view with them on another axis or, of one, on none."""
    return array[0, ...] if axis is None else np.moveaxis(array, 0, axis)


def first_samples(array: Array, axis: Axis) -> Array:
    """The reverse of `move_samples`, as a view."""
    return array[None] if axis is None else np.moveaxis(array, axis, 0)


def first_sample_axis(spec: TensorSpec, axis: Axis) -> TensorSpec | None:
    """A tensor as it is seen with its samples first; None where it has no such axis."""
    if axis is None:
        return TensorSpec(spec.name, spec.dtype, (1, *spec.shape))
    if axis >= len(spec.shape):
        return None
    rest = (*spec.shape[:axis], *spec.shape[axis + 1 :])
    return TensorSpec(spec.name, spec.dtype, (spec.shape[axis], *rest))
