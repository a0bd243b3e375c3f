"""Shapes as a plan writes them: `["batch", 10]`, with the samples on any axis or on none."""

from __future__ import annotations

from collections.abc import Sequence

BATCH = "batch"


def check_shape(value: list[int | str] | None) -> list[int | str] | None:
    """Refuse a shape that names the samples twice, or another dim that isn't a fixed number.

    Raises:
        ValueError: with a sentence that says what to change.
    """
    if value is None:
        return None
    if value.count(BATCH) > 1:
        raise ValueError('names the sample axis once, as in ["batch", 10]')
    if any(d != BATCH and (isinstance(d, str) or d < 0) for d in value):
        raise ValueError('dims are fixed numbers, but for "batch", the sample axis')
    return value


def sample_axis(shape: Sequence[int | str]) -> int | None:
    """Axis of the samples; None: the tensor as a whole belongs to one sample."""
    return list(shape).index(BATCH) if BATCH in shape else None


def sample_dims(shape: Sequence[int | str]) -> list[int | str]:
    """Dims of one sample."""
    return [dim for dim in shape if dim != BATCH]
