"""Run a plan, compare two recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from paritygate.api.plans import PathLike, load_plan, plan_from_models
from paritygate.api.result import RunResult
from paritygate.core.errors import PlanError, Problem
from paritygate.core.events import Observer, ignore
from paritygate.core.plan import Plan
from paritygate.core.tensors import CompareOn, Stats
from paritygate.pipeline.execute import Options, execute
from paritygate.runners.isolate.defaults import isolate_all


def run(
    plan: Plan | PathLike | Mapping[str, Any],
    *,
    out: PathLike | None = "runs",
    stage: str | None = None,
    limit: int | None = None,
    stats: Stats = "full",
    threads: int | None = None,
    keep_outputs: bool = False,
    noise: bool = False,
    isolate: bool = False,
    compare_on: CompareOn | None = None,
    observer: Observer | None = None,
) -> RunResult:
    """Run a plan.

    Args:
        plan: a plan, its TOML file, or its dict.
        out: parent of the run folder; None leaves no folder.
        stage: only this stage; at best `incomplete`.
        limit: only the first samples of the pack; at best `incomplete`.
        stats: tier of the statistics.
        threads: threads that run and compare; None: as the plan says, or by cores and runners,
            of which a long run measures whether fewer are faster.
        keep_outputs: leave what every runner answers in the run folder, as recordings.
        noise: measure how far the references differ from themselves, as a plan with `[noise]` does.
        isolate: every runner in a process of its own, as with `isolate = "process"`.
        compare_on: "cpu", "cuda": on a GPU, or "auto"; None: as the plan says, else "cpu".
        observer: given the engine's events.

    Raises:
        ParityError: the run could not judge; `exit_code` says what a command ends with.
    """
    loaded = plan if isinstance(plan, Plan) else load_plan(plan)
    if isolate:
        loaded = replace(loaded, runners=isolate_all(loaded.runners))
    options = Options(
        out=Path(out) if out is not None else None,
        stage=stage,
        limit=limit,
        stats=stats,
        threads=threads,
        keep_outputs=keep_outputs,
        noise=noise,
        compare_on=compare_on,
        observer=observer or ignore,
    )
    return RunResult.of(execute(loaded, options))


def compare(
    ref: PathLike | Sequence[PathLike],
    cand: PathLike | Sequence[PathLike],
    *,
    atol: float | None = None,
    rtol: float | None = None,
    nonfinite: Literal["fail", "match"] = "fail",
    tolerances: Mapping[str, Mapping[str, Any]] | None = None,
    bands: Sequence[str] = (),
    argmax: Sequence[str] = (),
    topk: Sequence[str] = (),
    equal: Sequence[str] = (),
    id: str = "sample_id",
    is_self: bool = False,
    out: PathLike | None = "runs",
    stats: Stats = "full",
    limit: int | None = None,
    threads: int | None = None,
    compare_on: CompareOn | None = None,
    observer: Observer | None = None,
) -> RunResult:
    """Compare two recorded packs, joined by id in any order.

    Outputs are the `out.*` columns or, where none has that prefix, every column but the id.

    Args:
        ref: pack of the reference, which is also the golden pack.
        cand: pack of the candidate.
        atol: for float outputs that `tolerances` doesn't name; others, and floats without any
            tolerance, are exact.
        rtol: relative to the reference; given together with `atol`.
        nonfinite: "fail", or "match": the same class and sign in the same place is equal.
        tolerances: output -> `{atol, rtol, ...}` as in a plan.
        bands: rules `"OUTPUT: accept < 0.2 <= review"`.
        argmax: outputs whose class is the index of the row's maximum.
        topk: rules `"OUTPUT:K"`, the set of the K classes with the largest values of a row.
        equal: outputs whose value is the decision itself.
        id: id column of both packs.
        is_self: both may be the same recording, as in a check of noise; no release of a model.
        out: parent of the run folder; None leaves no folder.
        stats: tier of the statistics.
        limit: only the first samples; at best `incomplete`.
        threads: threads that compare; None chooses.
        compare_on: as of `run`.
        observer: given the engine's events.

    Raises:
        ParityError: the comparison could not judge.
    """
    files, cand_files = _absolute(reference=ref, candidate=cand)
    recorded: dict[str, Any] = {"kind": "recorded", "path": cand_files, "outputs_from": "all"}
    plan = plan_from_models(
        {"kind": "recorded"},
        recorded,
        files,
        atol=atol,
        rtol=rtol,
        nonfinite=nonfinite,
        tolerances=tolerances,
        bands=bands,
        argmax=argmax,
        topk=topk,
        equal=equal,
        name="compare",
        id=id,
    )
    plan["outputs_from"] = "all"
    plan["stages"][0]["self"] = is_self
    return run(
        plan,
        out=out,
        stats=stats,
        limit=limit,
        threads=threads,
        compare_on=compare_on,
        observer=observer,
    )


def _absolute(**packs: PathLike | Sequence[PathLike]) -> list[list[str]]:
    """The files of each pack. An empty path is none: made absolute it would be this folder."""
    listed = {
        name: [str(p) for p in ([given] if isinstance(given, str | Path) else given)]
        for name, given in packs.items()
    }
    empty = [name for name, files in listed.items() if not files or not all(files)]
    if empty:
        message = "is empty; name a file, a glob or a folder"
        raise PlanError([Problem(name, message) for name in empty], "compare")
    return [[str(Path(p).absolute()) for p in files] for files in listed.values()]
