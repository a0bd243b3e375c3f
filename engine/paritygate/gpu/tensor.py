"""Outputs that lie on a GPU: compared where they are, copied to the host where anybody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from paritygate.core.errors import DeviceError
from paritygate.core.ragged import Tensor, row_of
from paritygate.core.tensors import Array

Ints = npt.NDArray[np.int64]
T = TypeVar("T")

_FEW = 8  # samples that are copied one by one
_MOST = 2  # where more than one sample in so many is asked for, all are copied


class DeviceTensor:
    """A tensor on a GPU, in one array or several along its samples.

    What it is made of is whole: whoever makes it has waited for what writes it.

    Args:
        parts: C-contiguous arrays of the device, of one dtype and one shape of a sample.
        dtype: of its elements, where the parts are of their bits; None: that of the parts.

    Attributes:
        dtype: of its elements.
        shape: `(samples, *sample_shape)`.
    """

    __slots__ = ("_host", "_some", "dtype", "parts", "shape")

    def __init__(self, parts: Sequence[Any], dtype: np.dtype[Any] | None = None) -> None:
        self.parts = tuple(parts)
        self.dtype: np.dtype[Any] = np.dtype(parts[0].dtype) if dtype is None else dtype
        samples = sum(int(part.shape[0]) for part in parts)
        self.shape: tuple[int, ...] = (samples, *parts[0].shape[1:])
        self._host: Array | None = None
        self._some: tuple[Ints, Array] | None = None  # samples that were copied, and their values

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Axes, that of the samples included."""
        return len(self.shape)

    def edges(self) -> list[int]:
        """Where its arrays begin and end, as numbers of samples."""
        return [0, *np.cumsum([int(part.shape[0]) for part in self.parts]).tolist()]

    def __getitem__(self, rows: slice) -> DeviceTensor:
        start, stop, _ = rows.indices(len(self))
        found, at = [], 0
        for part in self.parts:
            size = int(part.shape[0])
            low, high = max(start - at, 0), min(stop - at, size)
            if low < high:
                found.append(part if high - low == size else part[low:high])
            at += size
        return DeviceTensor(found or [self.parts[0][:0]], self.dtype)

    def joined(self, other: DeviceTensor) -> DeviceTensor:
        """This and what follows, of the same dtype and shape of a sample."""
        return DeviceTensor([*self.parts, *other.parts], self.dtype)

    def picked(self, rows: Ints) -> Array:
        """Copies of some samples in the host's memory; of most samples, all are copied.

        Args:
            rows: `(n,)` ascending.

        Raises:
            DeviceError: as of `host`.
        """
        if self._host is not None:
            return self._host[rows]
        held, values = self._some or (
            np.empty(0, np.int64), np.empty((0, *self.shape[1:]), self.dtype),
        )  # fmt: skip
        missing = np.setdiff1d(rows, held, assume_unique=True)
        if missing.size:
            if _MOST * (missing.size + held.size) > len(self):
                return self.host()[rows]
            found = self._copied(lambda: self._fetched(missing))
            held, values = np.concatenate([held, missing]), np.concatenate([values, found])
            order = np.argsort(held)
            held, values = held[order], values[order]
            self._some = held, values  # at once: threads may share a tensor
        return values[np.searchsorted(held, rows)]

    def _fetched(self, rows: Ints) -> Array:
        if rows.size <= _FEW or not self.parts[0][:1].size:
            samples = [self[row : row + 1].parts[0].copy_to_host() for row in rows.tolist()]
            return np.concatenate(samples).view(self.dtype)
        from paritygate.gpu.gather import gathered  # which loads Numba

        found = gathered(self.parts, self.edges(), rows)
        return found.view(self.dtype).reshape(rows.size, *self.shape[1:])

    def host(self) -> Array:
        """A copy of it in the host's memory, read-only; made once.

        Raises:
            DeviceError: the GPU failed.
        """
        if self._host is None:
            copies = self._copied(lambda: [part.copy_to_host() for part in self.parts])
            whole: Array = copies[0] if len(copies) == 1 else np.concatenate(copies)
            whole = whole.view(self.dtype)
            whole.flags.writeable = False
            self._host = whole
        return self._host

    def _copied(self, copy: Callable[[], T]) -> T:
        try:
            return copy()
        except Exception as e:  # whatever a driver raises
            told = " ".join(str(e).split()) or type(e).__name__
            raise DeviceError(
                f"the GPU failed while an output was copied from it: {told}; nothing is "
                "judged: run again"
            ) from e


class Outputs(Mapping[str, Tensor]):
    """Outputs by name, some of which lie on a GPU; asked for one, it gives a copy on the host.

    Attributes:
        lying: name -> the tensor where it is.
    """

    def __init__(self, lying: Mapping[str, Tensor | DeviceTensor]) -> None:
        self.lying = dict(lying)

    def anew(self) -> Outputs:
        """The same places, of which nobody has asked for a copy yet; they were written again."""
        return Outputs(
            {
                name: DeviceTensor(tensor.parts, tensor.dtype)
                if isinstance(tensor, DeviceTensor)
                else tensor
                for name, tensor in self.lying.items()
            }
        )

    def __getitem__(self, name: str) -> Tensor:
        return on_host(self.lying[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.lying)

    def __len__(self) -> int:
        return len(self.lying)


def lying(outputs: Mapping[str, Tensor]) -> Mapping[str, Tensor | DeviceTensor]:
    """Outputs by name, each where it is."""
    return outputs.lying if type(outputs) is Outputs else outputs


def picked_of(tensor: Any, rows: Ints) -> Any:
    """Some samples, ascending, in the host's memory: no others of what lies on a GPU."""
    return tensor.picked(rows) if isinstance(tensor, DeviceTensor) else tensor[rows]


def fetch(tensor: Any, rows: Ints) -> None:
    """Copy some samples, ascending, of what lies on a GPU: they are asked for soon."""
    if isinstance(tensor, DeviceTensor):
        tensor.picked(rows)


def sample_of(tensor: Any, row: int) -> Array:
    """One sample, in the host's memory."""
    if isinstance(tensor, DeviceTensor):
        return tensor.picked(np.array([row], np.int64))[0, ...]
    return row_of(tensor, row)


def on_host(tensor: Any) -> Any:
    """A tensor, or of one on a GPU a copy."""
    return tensor.host() if isinstance(tensor, DeviceTensor) else tensor


def pieces(ref: Any, cand: Any, most: int) -> Iterator[tuple[slice, Any, Any]]:
    """Parts of both sides that are arrays, of at most so many samples; each with its samples."""
    count = len(ref)
    edges = {*range(0, count, most), count}
    for side in (ref, cand):
        edges.update(side.edges() if isinstance(side, DeviceTensor) else ())
    ordered = sorted(edges)
    for start, stop in pairwise(ordered):
        rows = slice(start, stop)
        yield rows, _array(ref, rows), _array(cand, rows)


def _array(side: Any, rows: slice) -> Any:
    part = side[rows]
    return part.parts[0] if isinstance(part, DeviceTensor) else part
