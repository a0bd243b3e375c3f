"""The plan of a replay: one stage of the plan that ran, on the samples of its shard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paritygate.core.errors import ReplayError
from paritygate.core.plan import Plan, Stage, parse_plan, read_plan
from paritygate.rerun.packs import write_inputs, write_side
from paritygate.runfolder import PLAN_FILE
from paritygate.runfolder.reading import FailedSample, FinishedRun
from paritygate.runners.registry import parse_runner

# Of the samples, not of the models: they passed it in the run.
_OF_SAMPLES = ("column", "range", "channels", "units", "axes")


def plan_alone(run: FinishedRun, stage: str, samples: Sequence[FailedSample], folder: Path) -> Plan:
    """The plan of one stage on some of its failing samples.

    Args:
        run: the run.
        stage: name of the stage.
        samples: failing samples of it that were kept whole.
        folder: for the packs made of the shard.

    Raises:
        ReplayError: a side that can't be run from here.
        ParityError: plan or shard can't be read, or a pack can't be written.
    """
    planned = next(s for s in run.plan.stages if s.name == stage)
    data = _plan_data(run)
    golden = folder / f"{stage}.arrow"
    write_inputs(golden, samples)
    runners = {
        name: _runner(run, name, prefix, samples, folder / f"{stage}-{prefix}arrow")
        for name, prefix in ((planned.reference, "ref."), (planned.candidate, "cand."))
    }
    data.update(golden=[str(golden)], id="sample_id", slices=[], min_samples=1)
    data.update(outputs_from="prefix", runners=runners)
    for column in ("label", "expect"):
        data.pop(column, None)
    data["stages"] = [t for t in data["stages"] if t["name"] == stage]
    data["inputs"] = {n: _of_any_samples(t) for n, t in data.get("inputs", {}).items()}
    data["outputs"] = {n: t for n, t in data.get("outputs", {}).items() if planned.decides(n)}
    data["decisions"] = {
        name: _without(table, ("label_column",))
        for name, table in data.get("decisions", {}).items()
        if planned.decides(table["output"])
    }
    return parse_plan(
        data, run.plan.folder, str(run.folder / PLAN_FILE), run.plan.name, parse_runner
    )


def plan_beside(run: FinishedRun) -> Plan:
    """The plan as it ran."""
    source = str(run.folder / PLAN_FILE)
    return parse_plan(_plan_data(run), run.plan.folder, source, run.plan.name, parse_runner)


def _plan_data(run: FinishedRun) -> dict[str, Any]:
    """The plan that ran, without what is asked of a whole pack or of runners by themselves."""
    data = read_plan(run.folder / PLAN_FILE)
    for key in ("calibration", "batch_coupling", "noise", "require_coverage", "probes", "target"):
        data.pop(key, None)
    dims = data.get("dims", {})
    if "batch" in dims:
        data["dims"] = {**dims, "batch": {**dims["batch"], "check_samples": 0}}
    return data


def without_constants(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan without constants that neither side takes."""
    data = plan.canonical()
    for name, constant in plan.table.constants.items():
        data["constants"][name]["value"] = constant.value
    data["constants"] = {n: t for n, t in data["constants"].items() if n not in names}
    return parse_plan(data, plan.folder, plan.source, plan.name, parse_runner)


def refuse_callables(plan: Plan, stages: Sequence[Stage]) -> None:
    """Refuse a side that was a function object of the process that ran it.

    Raises:
        ReplayError: naming it.
    """
    for name in dict.fromkeys(n for s in stages for n in (s.reference, s.candidate)):
        if getattr(plan.runners[name].options, "call", None) == "verify:callable":
            raise ReplayError(
                f"runner {name!r} was a function object of the process that called verify, so it "
                "can't be run from here; call verify there on the inputs in the shard"
            )


def is_recorded(plan: Plan, runner: str) -> bool:
    """Whether a runner answers with what was computed before."""
    return bool(plan.runners[runner].kind == "recorded")


def _runner(
    run: FinishedRun, name: str, prefix: str, samples: Sequence[FailedSample], path: Path
) -> dict[str, Any]:
    """A runner's table; what was recorded is taken from the shard."""
    if run.plan.runners[name].kind == "preprocessing":
        raise ReplayError(
            f"runner {name!r} prepares raw records, which the shard doesn't keep; replay "
            "--with-batch reads them from the golden pack"
        )
    if not is_recorded(run.plan, name):
        return dict(run.plan.canonical()["runners"][name])
    write_side(path, samples, prefix, name)
    return {"kind": "recorded", "path": [str(path)]}


def _of_any_samples(table: dict[str, Any]) -> dict[str, Any]:
    """The table of an input without what holds samples; what imputes needs the channel axis."""
    imputes = isinstance(table.get("missing"), dict)
    return _without(table, [key for key in _OF_SAMPLES if not (imputes and key == "axes")])


def _without(table: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}
