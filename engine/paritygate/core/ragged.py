"""Tensors whose shape varies from sample to sample: one array a sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from paritygate.core.tensors import Array, Shape


class Ragged:
    """One array a sample, all of one dtype and one number of axes.

    Attributes:
        arrays: sample -> `sample_shape`, which may differ.
        dtype: dtype of all of them.
        ndim: axes, that of the samples included.
    """

    __slots__ = ("arrays", "dtype", "ndim")

    def __init__(self, arrays: Sequence[Array], dtype: np.dtype[Any], sample_ndim: int) -> None:
        self.arrays = list(arrays)
        self.dtype = dtype
        self.ndim = 1 + sample_ndim

    @staticmethod
    def of(arrays: Sequence[Array]) -> Ragged:
        """Of at least one array; all of one dtype and rank."""
        return Ragged(arrays, arrays[0].dtype, arrays[0].ndim)

    def __len__(self) -> int:
        return len(self.arrays)

    def __iter__(self) -> Iterator[Array]:
        return iter(self.arrays)

    @overload
    def __getitem__(self, at: int) -> Array: ...
    @overload
    def __getitem__(self, at: slice) -> Ragged: ...
    def __getitem__(self, at: int | slice) -> Array | Ragged:
        if isinstance(at, slice):
            return Ragged(self.arrays[at], self.dtype, self.ndim - 1)
        return self.arrays[at]


Tensor = Array | Ragged


class HasShape(Protocol):
    """A tensor anywhere, in one array or several."""

    @property
    def shape(self) -> tuple[int, ...]:
        """`(samples, *sample_shape)`."""


def shape_of(tensor: Ragged | HasShape, row: int) -> Shape:
    """Shape of one sample."""
    return tensor.arrays[row].shape if isinstance(tensor, Ragged) else tensor.shape[1:]


def row_of(tensor: Tensor, row: int) -> Array:
    """One sample, as an array also where it is one element."""
    return tensor.arrays[row] if isinstance(tensor, Ragged) else tensor[row, ...]


def take_rows(tensor: Tensor, rows: npt.NDArray[np.int64]) -> Tensor:
    """These samples, in the order given."""
    if not isinstance(tensor, Ragged):
        return tensor[rows]
    return Ragged([tensor.arrays[row] for row in rows.tolist()], tensor.dtype, tensor.ndim - 1)


def stack_rows(tensor: Tensor, rows: npt.NDArray[np.int64]) -> Array:
    """`(n, *shape)` of these samples, which have one shape."""
    if not isinstance(tensor, Ragged):
        return tensor[rows]
    arrays = [tensor.arrays[row] for row in rows.tolist()]
    stacked: Array = np.empty((len(arrays), *arrays[0].shape), tensor.dtype)
    for at, array in enumerate(arrays):
        stacked[at, ...] = array
    return stacked


def repeat_last(tensor: Tensor, size: int) -> Tensor:
    """At least one sample, the last one repeated up to `size`; a plain array is read-only."""
    more = size - len(tensor)
    if more <= 0:
        return tensor
    if isinstance(tensor, Ragged):
        return Ragged([*tensor.arrays, *tensor.arrays[-1:] * more], tensor.dtype, tensor.ndim - 1)
    padded: Array = np.concatenate([tensor, np.repeat(tensor[-1:], more, axis=0)])
    padded.flags.writeable = False
    return padded


def as_tensor(arrays: Sequence[Array]) -> Tensor:
    """At least one array of one dtype and rank: `(n, *shape)` where all shapes are equal."""
    if len({array.shape for array in arrays}) == 1:
        return stack_rows(Ragged.of(arrays), np.arange(len(arrays)))
    return Ragged.of(arrays)


def varying_dims(tensor: Ragged | HasShape) -> tuple[int | None, ...]:
    """Dims of a sample, None where they vary."""
    if not isinstance(tensor, Ragged):
        return tensor.shape[1:]
    columns = zip(*(array.shape for array in tensor.arrays), strict=True)
    return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in columns)
