"""A finished run explained: its reasons with their worst samples, or one sample in every stage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from paritygate.core.digest import sha256_file
from paritygate.core.errors import GoldenError, ParityError
from paritygate.core.text import clean
from paritygate.diagnosis.commands import explain_command
from paritygate.diagnosis.sample import explain_failure, worst_of
from paritygate.golden.pack import open_pack
from paritygate.runfolder.files import SampleId, meanings
from paritygate.runfolder.reading import FailedSample, FinishedRun

WORST = 3
LOOKED_AT = 200


def explain_run(run: FinishedRun) -> dict[str, Any]:
    """The verdict and its reasons, each with its worst samples.

    Raises:
        GoldenError: a shard can't be read.
    """
    kept = {str(stage["name"]): run.kept(str(stage["name"])) for stage in run.stages}
    reasons = []
    for reason in run.summary["reasons"]:
        of_stage = kept.get(str(reason.get("stage")), [])
        worst = [_brief(s) for s in _worst(run, reason, of_stage)]
        told = {**reason, "worst": worst}
        if worst:
            told["explain"] = explain_command(run.folder, worst[0]["id"])
        reasons.append(told)
    return {
        "folder": str(run.folder),
        "verdict": run.summary["verdict"],
        "plan": {"name": run.summary["plan"].get("name")},
        "reasons": reasons,
        "stages": [
            {"name": s["name"], "verdict": s.get("verdict"), "samples": s["samples"]}
            for s in run.stages
        ],
    }


def _worst(
    run: FinishedRun, reason: Mapping[str, Any], kept: Sequence[FailedSample]
) -> list[FailedSample]:
    code, output, decision = reason["code"], reason.get("output"), reason.get("decision")
    caught = [s for s in kept if code in s.rules]
    if decision is not None:
        caught = [s for s in caught if _is_flipped(s, str(decision))]
        return sorted(caught, key=lambda s: -_number(s.decisions[str(decision)].get("margin")))[
            :WORST
        ]
    if output is not None:
        caught = _by_output(run, str(code), str(output), caught) or caught
    return sorted(caught, key=_by_excess)[:WORST]


def _by_excess(sample: FailedSample) -> tuple[float, int]:
    return -_number(sample.values.get("excess")), sample.row


def _by_output(
    run: FinishedRun, code: str, output: str, caught: Sequence[FailedSample]
) -> list[FailedSample]:
    """Samples in which this output breaks the rule, with its values.

    A shard tells of each sample its worst output alone. Where that is another one, both sides'
    tensors tell; of at most `LOOKED_AT` samples, beginning with the run's worst of the output.
    """
    found = [s for s in caught if s.values.get("output") == output]
    others = [s for s in caught if s.values.get("output") != output]
    if not others:
        return found
    figures = run.stage(others[0].stage)["outputs"].get(output)
    extreme = figures.get("max_excess") if isinstance(figures, Mapping) else None
    first = extreme.get("id") if isinstance(extreme, Mapping) else None
    others.sort(key=lambda s: (s.id != first, *_by_excess(s)))
    for sample in others[:LOOKED_AT]:
        values = worst_of(run, sample, output, code)
        if values is not None:
            found.append(replace(sample, values={**sample.values, **values}))
    return found


def _is_flipped(sample: FailedSample, decision: str) -> bool:
    found = sample.decisions.get(decision, {})
    return found.get("ref") != found.get("cand") or found.get("ref") == "undefined"


def _number(value: object) -> float:
    return value if isinstance(value, float) and not math.isnan(value) else -math.inf


def _brief(sample: FailedSample) -> dict[str, Any]:
    values = sample.values
    names = ("output", "index", "ref_value", "cand_value", "abs_error", "allowed", "excess")
    told = {name: values.get(name) for name in names}
    return {"id": sample.id, "rules": sample.rules, **told, "decisions": sample.decisions}


def explain_sample(run: FinishedRun, sample_id: SampleId) -> dict[str, Any]:
    """One sample: in each stage in which it failed, or why there is nothing to explain.

    Args:
        run: the run.
        sample_id: its id; a text that is a number stands for the number too.

    Returns:
        `status`: "failed", "rejected", "passed", "not_run", "absent" (no such sample) or
        "unknown"; `says`: a sentence; `failures`: by stage.

    Raises:
        ParityError: a file of the run can't be read.
    """
    for candidate in meanings(sample_id):
        failures = run.find(candidate)
        if failures:
            return _failed(run, candidate, failures)
        violation = run.rejected(candidate)
        if violation is not None:
            return _told(run, candidate, "rejected", _rejection(violation))
    replayed = run.summary.get("replay")
    if isinstance(replayed, dict):
        return _of_replay(run, replayed, sample_id)
    found = _look_up(run, meanings(sample_id))
    if isinstance(found, str):
        return _told(run, sample_id, "unknown", f"it failed in no stage; {found}")
    meant, row = found
    if row is None:
        return _told(run, meant, "absent", "no sample of the golden pack has this id")
    asked = max((s["samples"].get("expected", 0) for s in run.stages), default=0)
    if row >= asked:
        return _told(run, meant, "not_run", f"it is row {row}, and the first {asked} were run")
    ran = [str(s["name"]) for s in run.stages if s.get("ran", True)]
    if not ran:
        return _told(run, meant, "not_run", "no stage of this run was run")
    return _told(run, meant, "passed", f"no rule fired on it in {_listed(ran)}")


def _of_replay(
    run: FinishedRun, replayed: Mapping[str, Any], sample_id: SampleId
) -> dict[str, Any]:
    """A sample that failed in no stage of a replay, which runs a few samples only."""
    of = clean(replayed.get("of"))
    for meant in meanings(sample_id):
        if any(s.get("id") == meant for s in replayed.get("samples") or []):
            return _told(run, meant, "passed", f"no rule fired on it in this replay of {of}")
    return _told(run, sample_id, "not_run", f"this replay of {of} did not run it")


def _failed(
    run: FinishedRun, sample_id: SampleId, failures: Sequence[FailedSample]
) -> dict[str, Any]:
    failed = [f.stage for f in failures]
    passed = [s["name"] for s in run.stages if s["name"] not in failed and s.get("ran", True)]
    says = f"it failed in {_listed(failed)}"
    says += f" and passed in {_listed(passed)}" if passed else ""
    told = _told(run, sample_id, "failed", says)
    return {**told, "failures": [explain_failure(run, f) for f in failures]}


def _told(run: FinishedRun, sample_id: SampleId, status: str, says: str) -> dict[str, Any]:
    return {
        "folder": str(run.folder),
        "verdict": run.summary["verdict"],
        "id": sample_id,
        "status": status,
        "says": f"sample {clean(sample_id)}: {says}",
        "failures": [],
    }


def _listed(names: Sequence[Any]) -> str:
    return f"stage{'s' if len(names) > 1 else ''} {', '.join(map(str, names))}"


def _rejection(violation: Mapping[str, Any]) -> str:
    if violation.get("says"):
        expected = ", as the pack expects" if violation.get("outcome") == "as_expected" else ""
        says = f"{clean(violation['says'])} ({clean(violation.get('code'))})"
        return f"it was not run{expected}: {says}"
    low, high = violation.get("low"), violation.get("high")
    if violation.get("code") == "contract.shape":
        sizes = [int(v) for v in (violation.get("value"), low, high) if isinstance(v, int | float)]
        size, least, most = map(str, sizes) if len(sizes) == 3 else ("?", "?", "?")
        allowed = (
            f"{least} to {most}" if least != most else f"{least}, of the plan or another input"
        )
        return (
            f"it was not run: dim {violation.get('index')} of a sample of input "
            f"{violation.get('input')!r} is {size}; allowed is {allowed} (contract.shape)"
        )
    bounds = f"; allowed is [{low}, {high}]" if low is not None and high is not None else ""
    return (
        f"it was not run: input {violation.get('input')!r} has {violation.get('value')} at element "
        f"{violation.get('index')} ({violation.get('code')}{bounds})"
    )


def _look_up(run: FinishedRun, meanings: Sequence[SampleId]) -> tuple[SampleId, int | None] | str:
    """The id as the golden pack has it, and its row there; or why that can't be told."""
    files = run.summary["golden"].get("files")
    if not isinstance(files, list) or not files:
        return "where its golden pack lies isn't known"
    try:
        for file in files:
            path = Path(file["path"])
            if sha256_file(path) != file["sha256"]:
                return f"{path} has changed since, so that what it held can't be told"
        paths = [file["path"] for file in files]
        with open_pack(paths, run.folder, id_column=run.plan.table.id, label_column=None) as pack:
            for meant in meanings:
                if (pack.id_kind == "int64") is isinstance(meant, int):
                    dtype = np.int64 if isinstance(meant, int) else object
                    row = int(pack.index().rows(np.array([meant], dtype))[0])
                    return meant, row if row >= 0 else None
    except OSError as e:
        return f"whether it passed can't be told: {e.filename} can't be read ({e.strerror})"
    except GoldenError as e:
        return f"whether it passed can't be told: {e}"
    except ParityError as e:
        return f"whether it passed can't be told: {e}"
    return meanings[0], None
