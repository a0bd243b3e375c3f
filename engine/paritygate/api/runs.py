"""Run a plan, compare two recordings, check a plan, look at this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from paritygate.api.plans import PathLike, load_plan, plan_from_models
from paritygate.api.result import RunResult
from paritygate.core.errors import ParityError, PlanError, Problem
from paritygate.core.events import Observer, ignore
from paritygate.core.plan import Plan
from paritygate.core.tensors import CompareOn, Stats
from paritygate.pipeline.execute import Options, execute
from paritygate.pipeline.graph_contract import note_unanswered, output_differences
from paritygate.pipeline.prepare import Preparation, prepare_plan
from paritygate.pipeline.same_graph import note_same_graphs
from paritygate.pipeline.target import target_findings
from paritygate.pipeline.threads import choose_threads
from paritygate.runners.isolate.defaults import isolate_all

Status = Literal["ok", "fail", "note"]


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


@dataclass(frozen=True)
class CheckReport:
    """What `check` found.

    Attributes:
        lines: status and sentence of each thing looked at.
        exit_code: 0, or what a run of the plan would end with.
    """

    lines: tuple[tuple[Status, str], ...]
    exit_code: int

    @property
    def problems(self) -> tuple[str, ...]:
        """The sentences of what failed."""
        return tuple(text for status, text in self.lines if status == "fail")


def check(
    plan: Plan | PathLike | Mapping[str, Any], *, overrides: Sequence[str] = ()
) -> CheckReport:
    """Do everything but inference: plan, pack, ids, models, contracts, placement."""
    lines: list[tuple[Status, str]] = []
    try:
        loaded = plan if isinstance(plan, Plan) else load_plan(plan, overrides=overrides)
        lines.append(("ok", f"plan {loaded.name!r}: valid, digest {loaded.digest()[:12]}"))
        on: CompareOn = "cuda" if loaded.table.compare_on == "cuda" else "cpu"
        ready = prepare_plan(loaded, compare_on=on)
    except PlanError as e:
        lines += [("fail", f"{e.source}: {p}") for p in e.problems]
        return CheckReport(tuple(lines), e.exit_code)
    except ParityError as e:
        return CheckReport((*lines, ("fail", str(e))), e.exit_code)
    with ready.resources:
        lines += _describe(ready)
    failed = any(status == "fail" for status, _ in lines)
    return CheckReport(tuple(lines), 1 if failed else 0)


def _describe(ready: Preparation) -> Iterator[tuple[Status, str]]:
    prepared = ready.prepared
    pack = prepared.pack
    files = f"{len(pack.files)} file{'s' if len(pack.files) != 1 else ''}"
    status: Status = "ok" if pack.samples else "fail"
    yield (
        status,
        f"golden pack: {pack.samples} samples in {files}, {pack.id_kind} ids, no duplicates",
    )
    for column in (*pack.inputs.values(), *pack.outputs.values()):
        yield "note", f"column {column}"
    for name, runner in prepared.runners.items():
        sizes = runner.limits.batch_sizes
        batch = f"batches of {max(sizes)}" if sizes else "any number of rows"
        yield "ok", f"runner {name!r}: {runner.kind} loaded, {batch}"
        placed = _describe_placement(runner.facts.get("placement"))
        if placed:
            yield "note", f"runner {name!r}: nodes assigned: {placed}; what runs, a run observes"
        beyond = target_findings(prepared.plan, name, runner.facts)
        for finding in (*runner.findings, *beyond):
            yield "fail", f"runner {name!r}: {finding.code}: {finding.message}"
        for difference in output_differences(prepared.plan, name, runner):
            yield "fail", f"runner {name!r}: {difference}"
        admission = runner.facts.get("admission")
        for note in admission["notes"] if isinstance(admission, Mapping) else ():
            yield "note", f"runner {name!r}: {note}"
    for note in note_unanswered(prepared.plan, prepared.runners):
        yield "note", note
    for name, error in ready.load_failures.items():
        yield "fail", f"runner {name!r}: {error.code}: {error}"
    for stage in ready.selected:
        if not ready.runs(stage):
            yield "fail", f"stage {stage.name!r} can't run"
            continue
        sides = [prepared.runners[n].source for n in (stage.reference, stage.candidate)]
        if sides[0] == sides[1] and not stage.is_self:
            yield "fail", f"stage {stage.name!r}: policy.same_runner: both sides are the same thing"
        else:
            yield "ok", f"stage {stage.name!r}: {stage.reference} against {stage.candidate}"
        ref, cand = (prepared.runners[n] for n in (stage.reference, stage.candidate))
        for note in note_same_graphs(stage, ref, cand):
            yield "note", note
    threads = choose_threads(prepared).most
    yield "note", f"a run would use {threads} threads, blocks of {prepared.block_samples}"


def _describe_placement(placement: object) -> str:
    assigned = placement.get("assigned") if isinstance(placement, Mapping) else None
    if not isinstance(assigned, Mapping):
        return ""
    return ", ".join(f"{told['nodes']} on {name}" for name, told in assigned.items())


def doctor() -> list[tuple[Status, str, str]]:
    """Look at this machine: what a run needs and what it would use.

    Returns:
        Status, name and sentence of each thing looked at.
    """
    from paritygate.api.gpus import describe_gpus
    from paritygate.runners.environment import (
        describe_cpu,
        describe_environment,
        onnxruntime_distributions,
        onnxruntime_problem,
        package_versions,
    )

    lines: list[tuple[Status, str, str]] = []
    for name, version in package_versions().items():
        lines.append(("ok" if version else "note", name, version or "not installed"))
    builds = onnxruntime_distributions()
    problem = onnxruntime_problem(builds)
    if problem:
        lines.append(("fail", "onnxruntime build", problem))
    else:
        lines.append(("ok", "onnxruntime build", ", ".join(f"{n} {v}" for n, v in builds.items())))
        lines += _providers()
    lines += _plugins()
    lines.append(_kernels())
    lines += describe_gpus()
    lines.append(_staging())
    cpu = describe_cpu()
    lines.append(("note", "processor", f"{cpu['model']}, {cpu['usable_cores']} usable cores"))
    settings = describe_environment()["variables"]
    lines.append(("note", "settings", str(settings) if settings else "no thread settings"))
    return lines


def _staging() -> tuple[Status, str, str]:
    """Where models are copied to before they are loaded."""
    from paritygate.admission.place import VARIABLE, make_place, staging_root

    try:
        make_place().remove()
        root = staging_root()
    except ParityError as e:
        return "fail", "copies of models", str(e)
    free = shutil.disk_usage(root).free / (1 << 30)
    return "note", "copies of models", f"in {root}, {free:.1f} GiB free ({VARIABLE} names another)"


def _providers() -> Iterator[tuple[Status, str, str]]:
    try:
        import onnxruntime
    except ImportError as e:
        yield "fail", "providers", f"onnxruntime can't be imported: {e}"
        return
    from paritygate.runners.ort_doctor import probe_providers

    names = onnxruntime.get_available_providers()
    yield "ok", "providers", ", ".join(names)
    libraries = Path(onnxruntime.__file__).parent / "capi"
    for name, takes_nodes, sentence in probe_providers(names, libraries):
        yield "ok" if takes_nodes else "note", name, sentence


def _plugins() -> list[tuple[Status, str, str]]:
    from paritygate.runners.plugins import describe_plugins
    from paritygate.runners.registry import KINDS

    return [
        ("ok" if is_good else "note", f"runner kind {kind}", told)
        for is_good, kind, told in describe_plugins(KINDS)
    ]


def _kernels() -> tuple[Status, str, str]:
    """Compile and run one comparison, so that a broken compiler shows here."""
    import numpy as np

    from paritygate.comparison.elements import ElementComparer
    from paritygate.core.policy import Tolerance

    comparer = ElementComparer(Tolerance(), "float32", "float32", (2,), "gate")
    values = np.array([[0.0, 1.0]], np.float32)
    try:
        tally, _ = comparer.compare(values, values + np.float32(1), np.zeros(1, np.int64))
    except ParityError as e:
        return "fail", "kernels", str(e)
    right = tally.failing_elements == 2
    return (
        ("ok", "kernels", "compile and count right")
        if right
        else ("fail", "kernels", "count wrong")
    )
