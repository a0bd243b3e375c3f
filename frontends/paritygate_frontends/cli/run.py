"""`paritygate run`: a plan, or two models and golden samples without one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import asdict

from paritygate.core.errors import FolderError, PlanError, Problem
from paritygate_frontends.cli.ending import finish
from paritygate_frontends.cli.options import (
    COMMAND_LINE,
    ArgmaxOf,
    Atol,
    BandRules,
    ComparesOn,
    EqualOf,
    Isolate,
    Json,
    Limit,
    NonfiniteRule,
    Out,
    Overrides,
    Rtol,
    StatsTier,
    Threads,
    TolerancesOf,
    TopkOf,
    read_tolerances,
)

if TYPE_CHECKING:
    from paritygate.core.plan import Plan


NO_FILES = ("recorded", "null")  # runners that are named by their kind alone


class Planless(Struct, frozen=True):
    """What stands in for a plan, as given; None or empty where it isn't."""

    ref: str | None
    cand: str | None
    golden: Sequence[str]
    atol: float | None
    rtol: float | None
    tolerances: Sequence[str]
    nonfinite: str | None
    bands: Sequence[str]
    argmax: Sequence[str]
    topk: Sequence[str]
    equal: Sequence[str]
    batch_size: int | None
    save_plan: Path | None

    def given(self) -> list[str]:
        """Names of the options that were given."""
        options = {**asdict(self), "tolerance": self.tolerances}
        del options["tolerances"]
        return [
            f"--{name.replace('_', '-')}"
            for name, value in options.items()
            if value is not None and value != () and value != []
        ]


def run(
    plan: Annotated[
        Path | None, typer.Argument(metavar="PLAN", help="A plan (TOML).", show_default=False)
    ] = None,
    ref: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Without a plan: the reference model.")
    ] = None,
    cand: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Without a plan: the candidate model.")
    ] = None,
    golden: Annotated[
        list[str] | None,
        typer.Option(metavar="FILES", help="Without a plan: golden files or a glob. Repeatable."),
    ] = None,
    atol: Atol = None,
    rtol: Rtol = None,
    tolerance: TolerancesOf = None,
    nonfinite: NonfiniteRule = None,
    bands: BandRules = None,
    argmax: ArgmaxOf = None,
    topk: TopkOf = None,
    equal: EqualOf = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Without a plan: samples in a batch.")
    ] = None,
    save_plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Without a plan: write the plan that this run amounts to."
        ),
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run this stage only; at best incomplete."),
    ] = None,
    limit: Limit = None,
    set_: Overrides = None,
    stats: StatsTier = "full",
    threads: Threads = None,
    compare_on: ComparesOn = None,
    keep_outputs: Annotated[
        bool,
        typer.Option("--keep-outputs", help="Keep what both sides answer, beside the run."),
    ] = False,
    noise: Annotated[
        bool,
        typer.Option("--noise", help="Measure how far the references differ from themselves."),
    ] = False,
    isolate: Isolate = False,
    out: Out = Path("runs"),
    json: Json = False,
) -> None:
    """Run a plan, or compare two models over golden samples without one.

    paritygate run plan.toml

    paritygate run --ref a.onnx --cand b.onnx --golden g.arrow --atol 1e-3 --rtol 1e-3
    """
    planless = Planless(
        ref, cand, golden or (), atol, rtol, tolerance or (), nonfinite, bands or (),
        argmax or (), topk or (), equal or (), batch_size, save_plan,
    )  # fmt: skip

    def work() -> int:
        from paritygate import api
        from paritygate_frontends.cli.judged import judge_and_tell

        chosen = _choose(plan, planless, set_ or ())
        return judge_and_tell(
            chosen.name,
            lambda observer: api.run(
                chosen,
                out=out,
                stage=stage,
                limit=limit,
                stats=stats,
                threads=threads,
                compare_on=compare_on,
                keep_outputs=keep_outputs,
                noise=noise,
                isolate=isolate,
                observer=observer,
            ),
            json,
        ).exit_code

    finish(work, as_json=json)


def _choose(plan: Path | None, planless: Planless, overrides: Sequence[str]) -> Plan:
    """Load the plan, or make one of the options that stand in for it.

    Raises:
        PlanError: both, neither, or a part of either; with every problem found.
    """
    from paritygate import api
    from paritygate.core.overrides import apply_overrides

    given = planless.given()
    if plan is not None:
        if given:
            raise PlanError(
                [
                    Problem(
                        option,
                        "belongs to a run without a plan; the plan says it, or --set changes it",
                    )
                    for option in given
                ],
                COMMAND_LINE,
            )
        return api.load_plan(plan, overrides=overrides)
    if not given:
        raise PlanError(
            [Problem("", "name a plan, or give --ref, --cand and --golden")], COMMAND_LINE
        )
    data = _write_plan(planless)
    if planless.save_plan is None:
        return api.load_plan(data, overrides=overrides)
    api.load_plan(data, overrides=overrides)  # nothing is saved that isn't valid
    changed = _moved(apply_overrides(data, overrides), planless.save_plan)
    _save(planless.save_plan, api.toml_text(changed))
    return api.load_plan(planless.save_plan)


def _write_plan(planless: Planless) -> dict[str, Any]:
    """Make the plan of a run without one; its paths are relative to the current folder.

    Raises:
        PlanError: with everything that is missing or wrong.
    """
    from paritygate.api import plan_from_models

    what = {
        "--ref": (planless.ref, "the reference model"),
        "--cand": (planless.cand, "the candidate model"),
        "--golden": (planless.golden, "the golden samples"),
    }
    problems = [
        Problem(option, f"is missing; name {name}, or give a plan instead")
        for option, (value, name) in what.items()
        if not value
    ]
    tolerances: dict[str, dict[str, Any]] = {}
    try:
        tolerances = read_tolerances(planless.atol, planless.rtol, planless.tolerances)
    except PlanError as e:
        problems += e.problems
    if problems:
        raise PlanError(problems, COMMAND_LINE)
    return plan_from_models(
        planless.ref,
        planless.cand,
        list(planless.golden),
        atol=planless.atol,
        rtol=planless.rtol,
        nonfinite=planless.nonfinite or "fail",
        tolerances=tolerances,
        bands=planless.bands,
        argmax=planless.argmax,
        topk=planless.topk,
        equal=planless.equal,
        batch_size=planless.batch_size,
    )


def _moved(data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Write the plan's relative paths as seen from the folder of the file it is saved to."""
    return {
        **data,
        "golden": _seen_from(data["golden"], path),
        "runners": {name: _moved_runner(given, path) for name, given in data["runners"].items()},
    }


def _moved_runner(given: Any, path: Path) -> Any:
    if isinstance(given, Mapping):
        moved = {key: _seen_from(given[key], path) for key in ("model", "path") if key in given}
        call = given.get("call", given.get("model"))
        return {**given, **moved, **_moved_folder(call, given.get("folder", "."), path)}
    folder = _moved_folder(given, ".", path)
    if folder:
        return {"kind": "python", "call": given, **folder}
    return given if given in NO_FILES else _seen_from(given, path)


def _moved_folder(call: Any, folder: str, path: Path) -> dict[str, str]:
    """Where a function's module is found, where that isn't the folder of the plan's file."""
    if not isinstance(call, str) or not _is_function(call):
        return {}
    module = Path(folder, call.partition(":")[0].partition(".")[0])
    is_here = module.is_dir() or module.with_suffix(".py").is_file()
    if not is_here or Path(folder).resolve() == path.resolve().parent:
        return {}
    return {"folder": _seen_from(folder, path)}


def _is_function(text: str) -> bool:
    return ":" in text and not Path(text).exists()


def _seen_from(paths: Any, path: Path) -> Any:
    """A path, or each of a list, as seen from a file's folder; functions stay as they are."""
    if isinstance(paths, list):
        return [_seen_from(text, path) for text in paths]
    if _is_function(paths) or Path(paths).is_absolute():
        return paths
    return os.path.relpath(paths, path.resolve().parent)


def _save(path: Path, text: str) -> None:
    """Write a plan, whole or not at all; one that says something else is never overwritten.

    Raises:
        PlanError: such a file exists.
        FolderError: it can't be written.
    """
    content = text.encode()
    partial = path.parent / f".{path.name}.{os.getpid()}.partial"
    try:
        if path.exists():
            if path.is_file() and path.read_bytes() == content:
                return
            problem = Problem(
                f"--save-plan {path}", "exists and says something else; choose another name"
            )
            raise PlanError([problem], COMMAND_LINE)
        try:
            partial.write_bytes(content)
            partial.rename(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as e:
        raise FolderError(f"--save-plan {path}: can't be written: {e.strerror or e}") from None
