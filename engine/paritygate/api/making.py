"""Packs of made samples: at the boundaries of a plan, or of nothing but a model's graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from paritygate.api.building import build_pack
from paritygate.api.plans import PathLike, load_plan
from paritygate.core.errors import PlanError, Problem
from paritygate.core.plan import Plan
from paritygate.core.problems import did_you_mean
from paritygate.golden.build import Built
from paritygate.golden.evidence import MARK
from paritygate.golden.synth import Bounds, graph_inputs, open_dims, synthetic_samples
from paritygate.pipeline.boundary import USUAL, Boundary, BoundaryOptions
from paritygate.pipeline.boundary import make_boundary as make


def make_boundary(
    plan: Plan | PathLike | Mapping[str, Any],
    path: PathLike,
    *,
    budget: int = USUAL.budget,
    per_side: int = USUAL.per_side,
    seed: int = USUAL.seed,
    with_golden: bool = USUAL.with_golden,
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
        with_golden: write the golden samples too, before the others, so that one run has both.

    Returns:
        The file, and a sentence on each edge: how near the samples come, or why there are none.

    Raises:
        ParityError: the plan, the pack or the reference can't be used, or the file not written.
    """
    loaded = plan if isinstance(plan, Plan) else load_plan(plan)
    return make(loaded, Path(path), BoundaryOptions(budget, per_side, seed, with_golden))


class Synthetic(Struct, frozen=True):
    """A pack of synthetic samples: the file, and what was left out."""

    built: Built
    notes: tuple[str, ...]


def make_synthetic(
    model: PathLike, path: PathLike, *, dims: Bounds | None = None, seed: int = 0
) -> Synthetic:
    """Write zeros, ones, scaled and length-varied inputs of a model as a pack.

    They are marked as no acceptance evidence, in the file's metadata and in a column: a run that
    compares no other samples holds (`evidence.synthetic`).

    Args:
        model: an ONNX model, of which only the graph's inputs are looked at; the first axis of each
            is that of the samples.
        path: of the Arrow file; it appears when it is complete and has been read as a whole.
        dims: smallest and largest size of each dim that the graph leaves open, by its name.
        seed: of the scaled inputs.

    Raises:
        PlanError: a dim without bounds, or bounds of no dim.
        GoldenError: the model can't be read, or has an input that no pack holds.
        FolderError: the file can't be written.
    """
    inputs, notes = graph_inputs(Path(model))
    bounds, named = dict(dims or {}), open_dims(inputs)
    problems = [
        Problem("dim", f"{name!r} is open in the graph; give its bounds: --dim {name}=1..512")
        for name in named
        if name not in bounds
    ]
    problems += [
        Problem("dim", f"no open dim is named {name!r}{did_you_mean(name, named)}")
        for name in bounds
        if name not in named
    ]
    problems += [
        Problem(
            "dim", f"{name} is {low} to {high}; give whole numbers with 0 <= smallest <= largest"
        )
        for name, (low, high) in bounds.items()
        if not 0 <= low <= high
    ]
    if problems:
        raise PlanError(problems, "pack synth")
    varying = [
        f"in.{given.name}" for given in inputs if any(isinstance(d, str) for d in given.dims)
    ]
    samples = synthetic_samples(inputs, bounds, seed)
    return Synthetic(build_pack(path, samples, varying=varying, metadata=MARK), tuple(notes))
