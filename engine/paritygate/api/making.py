"""Packs made of a plan: boundary samples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paritygate.api.plans import PathLike, load_plan
from paritygate.core.plan import Plan
from paritygate.pipeline.boundary import Boundary, BoundaryOptions
from paritygate.pipeline.boundary import make_boundary as make


def make_boundary(
    plan: Plan | PathLike | Mapping[str, Any],
    path: PathLike,
    *,
    budget: int = BoundaryOptions.budget,
    per_side: int = BoundaryOptions.per_side,
    seed: int = BoundaryOptions.seed,
) -> Boundary:
    """Write a pack of samples at the boundaries of what a plan decides and allows.

    Both sides of every edge and exact ties, found by searching inputs of the reference between
    golden samples; zeros, constant channels, ends of ranges and dims, whole batches; and what the
    contract must reject, marked `expect = "reject"`. The same plan, pack and seed give the same.

    Args:
        plan: a plan, its TOML file, or its dict.
        path: of the Arrow file; it appears when it is complete and has been read as a whole.
        budget: samples that the reference may be asked for each edge.
        per_side: samples to keep on each side of an edge, and on it.
        seed: of what is tried at random.

    Returns:
        The file, and a sentence on each edge: how near the samples come, or why there are none.

    Raises:
        ParityError: the plan, the pack or the reference can't be used, or the file not written.
    """
    loaded = plan if isinstance(plan, Plan) else load_plan(plan)
    return make(loaded, Path(path), BoundaryOptions(budget, per_side, seed))
