"""Pieces of a comparison that are arrays of the host, sent to a device as it takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from paritygate.comparison.device_sides import stored
from paritygate.core.dtypes import dtype_name, numpy_dtype

if TYPE_CHECKING:
    from paritygate.gpu.staging import Lane

Piece = tuple[Any, ...]


def sent(lane: Lane, parts: Iterable[Piece], dtypes: Sequence[np.dtype[Any]]) -> Iterator[Piece]:
    """The same pieces, on the device where they were declared so; each until the next is asked for.

    Args:
        lane: of this thread.
        parts: samples, reference and candidate, and what else belongs to these samples; arrays of
            the host, or of the device.
        dtypes: of all arrays, as they were declared.
    """
    names = [dtype_name(dtype) for dtype in dtypes]
    for rows, *arrays in parts:
        ours = [k for k, array in enumerate(arrays) if is_of_host(array, names[k])]
        if not ours:
            yield rows, *arrays
            continue
        there, told = lane.send([stored(arrays[k], names[k]) for k in ours])
        for k, array in zip(ours, there, strict=True):
            arrays[k] = array
        yield rows, *arrays
        lane.judged(told)


def is_of_host(side: Any, name: str) -> bool:
    """Whether this is an array of the host in a dtype."""
    return isinstance(side, np.ndarray) and side.dtype.newbyteorder("=") == numpy_dtype(name)
