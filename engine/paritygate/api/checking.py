"""Check a plan: everything but inference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paritygate.api.plans import PathLike, load_plan
from paritygate.core.errors import ParityError, PlanError
from paritygate.core.plan import Plan
from paritygate.core.tensors import CompareOn
from paritygate.pipeline.graph_contract import note_unanswered, output_differences
from paritygate.pipeline.prepare import Preparation, prepare_plan
from paritygate.pipeline.same_graph import note_same_graphs
from paritygate.pipeline.target import target_findings
from paritygate.pipeline.threads import choose_threads

if TYPE_CHECKING:
    from paritygate.golden.check_words import Status


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
