"""Shapes as a plan writes them: `["batch", "seq", 2]`, with the samples on any axis or on none."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from paritygate.core.errors import Problem
from paritygate.core.problems import did_you_mean

BATCH = "batch"
_NAME = re.compile(r"[A-Za-z_]\w*")


def check_shape(value: list[int | str] | None) -> list[int | str] | None:
    """Refuse a shape that names the samples twice, a negative dim, or a name that isn't one.

    Raises:
        ValueError: with a sentence that says what to change.
    """
    if value is None:
        return None
    if value.count(BATCH) > 1:
        raise ValueError('names the sample axis once, as in ["batch", 10]')
    if any(not _NAME.fullmatch(d) if isinstance(d, str) else d < 0 for d in value):
        raise ValueError("dims are numbers from 0 up, or names that [dims] bounds")
    return value


def sample_axis(shape: Sequence[int | str]) -> int | None:
    """Axis of the samples; None: the tensor as a whole belongs to one sample."""
    return list(shape).index(BATCH) if BATCH in shape else None


def has_names(shape: Sequence[int | str] | None) -> bool:
    """Whether some dim of a sample has a name, and so may differ from sample to sample."""
    return any(isinstance(dim, str) for dim in sample_dims(shape or ()))


def sample_dims(shape: Sequence[int | str]) -> list[int | str]:
    """Dims of one sample."""
    return [dim for dim in shape if dim != BATCH]


def fits(
    shape: Sequence[int], dims: Sequence[int | str], bounds: Mapping[str, tuple[int, int]]
) -> bool:
    """Whether a sample's shape is one that these dims allow; a name is one size wherever it is."""
    if len(shape) != len(dims):
        return False
    sizes: dict[str, int] = {}
    for size, dim in zip(shape, dims, strict=True):
        if isinstance(dim, str):
            low, high = bounds[dim]
            if not low <= size <= high or sizes.setdefault(dim, size) != size:
                return False
        elif size != dim:
            return False
    return True


def dim_problems(
    shapes: Mapping[str, Sequence[int | str] | None], names: Collection[str]
) -> list[Problem]:
    """Names in shapes that `[dims]` doesn't bound, and bounds that no shape uses.

    Args:
        shapes: path in the plan -> shape.
        names: names that `[dims]` bounds, besides "batch".
    """
    problems, used = [], set()
    for path, shape in shapes.items():
        for dim in dict.fromkeys(d for d in shape or () if isinstance(d, str) and d != BATCH):
            used.add(dim)
            if dim not in names:
                hint = did_you_mean(dim, [BATCH, *names])
                told = f"no dim is named {dim!r} in [dims]{hint}; give its bounds there"
                problems.append(Problem(path, f"{told}: {dim} = {{ min = 1, max = 512 }}"))
    problems += [
        Problem(f"dims.{name}", "no shape of [inputs] or [outputs] has a dim of this name")
        for name in names
        if name not in used
    ]
    return problems
