"""Pieces of a comparison that are arrays of the host, sent to a device as it takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from paritygate.comparison.device_sides import stored
from paritygate.core.dtypes import dtype_name, numpy_dtype

if TYPE_CHECKING:
    from paritygate.gpu.staging import Lane

Piece = tuple[slice, Any, Any]


def sent(
    lane: Lane, parts: Iterable[Piece], dtypes: tuple[np.dtype[Any], np.dtype[Any]]
) -> Iterator[Piece]:
    """The same pieces, on the device where they were declared so; each until the next is asked for.

    Args:
        lane: of this thread.
        parts: samples, reference and candidate; arrays of the host, or of the device.
        dtypes: of both, as they were declared.
    """
    names = dtype_name(dtypes[0]), dtype_name(dtypes[1])
    for rows, *sides in parts:
        ours = [k for k, side in enumerate(sides) if is_of_host(side, names[k])]
        if not ours:
            yield rows, sides[0], sides[1]
            continue
        arrays, told = lane.send([stored(sides[k], names[k]) for k in ours])
        for k, array in zip(ours, arrays, strict=True):
            sides[k] = array
        yield rows, sides[0], sides[1]
        lane.judged(told)


def is_of_host(side: Any, name: str) -> bool:
    """Whether this is an array of the host in a dtype."""
    return isinstance(side, np.ndarray) and side.dtype.newbyteorder("=") == numpy_dtype(name)
