"""Samples of an output on a GPU, gathered there: one copy brings those that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from paritygate.core.errors import DeviceError
from paritygate.gpu.device import SIMULATED, THREADS, cuda, kernel

Ints = npt.NDArray[np.int64]

_BLOCKS = 2 if SIMULATED else 1024
_UNITS = {1: np.uint8, 2: np.uint16}  # what elements of so many bytes are copied in; else four
_NUMBER = 8  # bytes


@kernel
def gather_rows(values: Any, width: int, rows: Any, out: Any, taken: Any) -> None:
    """Copy rows of an array, one after the other, and which ones they are.

    Args:
        values: flat.
        width: elements of a row.
        rows: `(n,)` int64.
        out: `(n * width,)` set to the rows.
        taken: `(n,)` int64, set to their numbers.
    """
    for k in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        at, place = k // width, k % width
        out[k] = values[rows[at] * width + place]
        if place == 0:
            taken[at] = rows[at]


def gathered(parts: Sequence[Any], edges: Sequence[int], rows: Ints) -> npt.NDArray[np.uint8]:
    """Bytes of samples that lie one after the other in several arrays of the device.

    Args:
        parts: C-contiguous, of one dtype and shape of a sample, which has an element.
        edges: number of the first sample of each, and of all samples.
        rows: `(n,)` which samples, ascending, at least one.

    Returns:
        `(n, bytes of a sample)`.

    Raises:
        DeviceError: other samples came back than were asked for.
    """
    unit = np.dtype(_UNITS.get(parts[0].dtype.itemsize, np.uint32))
    size = int(parts[0].dtype.itemsize * np.prod(parts[0].shape[1:], dtype=np.int64))
    width = size // unit.itemsize
    bounds = np.searchsorted(rows, edges).tolist()
    counts = np.diff(bounds)
    own = rows - np.repeat(np.asarray(edges[:-1]), counts)
    wanted = cuda.to_device(own)
    end = -(-rows.size * size // _NUMBER) * _NUMBER
    room = cuda.device_array(end + rows.size * _NUMBER, np.uint8)
    out, taken = room[: rows.size * size].view(unit), room[end:].view(np.int64)
    for part, low, high in zip(parts, bounds, bounds[1:], strict=False):
        if low < high:
            flat = part.reshape(part.size).view(unit)
            cast(Any, gather_rows)[_BLOCKS, THREADS](
                flat, width, wanted[low:high], out[low * width : high * width], taken[low:high]
            )
    found: npt.NDArray[np.uint8] = room.copy_to_host()
    if not np.array_equal(found[end:].view(np.int64), own):
        raise DeviceError("it gave back other samples than it was asked for")
    return found[: rows.size * size].reshape(rows.size, size)
