"""What `paritygate demo` does: copy the demo's files, judge both plans, say what it means."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.text import Text

from paritygate import api
from paritygate.api import RunResult
from paritygate.core.errors import FolderError
from paritygate.core.events import Observer
from paritygate_frontends.cli.ending import output
from paritygate_frontends.cli.judged import judge_and_tell
from paritygate_frontends.report.figures import counted
from paritygate_frontends.report.screen import show

PLANS = ("digits", "cancer")
KEPT, CHANGED = "conversion", "quantization"


def demonstrate(out: Path | None) -> int:
    """Show the demo; 0 if its outcome is what it promises, else 1.

    Args:
        out: folder for its files; None chooses one.

    Raises:
        ParityError: a plan could not be judged, or a file can't be written.
    """
    folder = copy_demo(out)
    _say(Text(INTRODUCTION), Text())
    results: dict[str, RunResult] = {}
    for at, name in enumerate(PLANS, 1):
        path = folder / f"{name}.toml"
        _say(Text(f"--- {at} of {len(PLANS)}: {path}", style="bold"), Text())
        judge = partial(_judge, path, folder / "runs")
        results[name] = judge_and_tell(name, judge)
        _say(Text())
    problem = broken_promise({name: result.summary for name, result in results.items()})
    if problem:
        _say(Text(f"The demo did not show what it promises: {problem}.", style="bold red"))
        return 1
    _say(Text("--- What you have seen", style="bold"), Text(), *_explain(folder, results))
    return 0


def _judge(plan: Path, out: Path, observer: Observer) -> RunResult:
    return api.run(plan, out=out, observer=observer)


def _say(*parts: Text) -> None:
    with output():
        show(parts)


INTRODUCTION = """\
Two models made from real data: one reads handwritten digits, one scores breast tumours as accept,
review or reject. Each goes two steps towards production, and each step is one stage:
  conversion    the trained scikit-learn model's recorded answers against its float ONNX export
  quantization  the float ONNX model against its int8 version"""

MEANING = """\
The float exports were released: every output of every sample agrees with the trained model within
the tolerance, and no decision changed. A release says just as plainly what it did not judge.

An int8 version is on hold, for two separate reasons: outputs beyond their tolerance, and decisions
that flipped, whatever the size of the error. Accuracy alone does not show it:"""


def _explain(folder: Path, results: Mapping[str, RunResult]) -> list[Text]:
    plan = folder / "cancer.toml"
    models = f"--ref {folder / 'cancer.onnx'} --cand {folder / 'cancer.int8.onnx'}"
    lines = [
        MEANING,
        *(line for name, result in results.items() for line in _labels(name, result.summary)),
        "",
        "Where everything lies",
        f"  {folder}: plans, models and golden samples (where they come from: PROVENANCE.md)",
        *(f"  {result.folder}: the summary and the failing samples" for result in results.values()),
        "",
        "Try next",
        f"  paritygate check {plan}",
        f"  paritygate run {plan} --set stages.{CHANGED}.flips.disposition=2",
        f"  paritygate run {models} \\",
        f"    --golden {folder / 'cancer.arrow'} --atol 1e-2 --rtol 1e-2 \\",
        '    --bands "score: accept < 0.2 <= review <= 0.8 < reject" --save-plan my-plan.toml',
    ]
    return [Text(line) for line in lines]


def _labels(name: str, summary: Mapping[str, Any]) -> Iterator[str]:
    for stage in summary["stages"]:
        for figures in stage["decisions"].values() if stage["name"] == CHANGED else ():
            labels = figures["labels"]
            yield (
                f"  {name}: right by label {labels['correct_ref']} -> {labels['correct_cand']} of "
                f"{labels['labelled']}, yet {counted(figures['flips'], 'decision')} flipped"
            )


def broken_promise(summaries: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Say how the outcome differs from what the demo promises, or None.

    Args:
        summaries: plan -> summary.
    """
    held = 0
    for name, summary in summaries.items():
        verdicts = {stage["name"]: stage["verdict"] for stage in summary["stages"]}
        if verdicts.get(KEPT) != "release":
            return f"stage {KEPT} of {name} is {verdicts.get(KEPT, 'missing')}, not released"
        if verdicts.get(CHANGED) not in ("release", "hold"):
            return f"stage {CHANGED} of {name} is {verdicts.get(CHANGED, 'missing')}"
        held += verdicts[CHANGED] == "hold"
    return None if held else f"no stage {CHANGED} is on hold"


def copy_demo(out: Path | None) -> Path:
    """Copy the demo's files to a folder; one that holds the same files is used again.

    Args:
        out: the folder; None: `paritygate-demo` here, `paritygate-demo-2` where that holds
            something else, a temporary folder where nothing can be written here.

    Raises:
        FolderError: `out` holds other files of these names, or it can't be written.
    """
    wanted = {
        f.name: f.read_bytes()
        for f in (files("paritygate_frontends") / "demo_data").iterdir()
        if f.is_file() and not f.name.startswith((".", "__"))
    }
    try:
        if out is not None:
            other = _first_other(out, wanted)
            if other:
                raise FolderError(f"{out}: holds another {other}; name a folder of its own (--out)")
            return _fill(out, wanted)
        if not os.access(Path.cwd(), os.W_OK):
            return _fill(Path(tempfile.mkdtemp(prefix="paritygate-demo-")), wanted)
        names = itertools.chain([""], (f"-{n}" for n in itertools.count(2)))
        folders = (Path(f"paritygate-demo{n}") for n in names)
        return _fill(next(f for f in folders if _first_other(f, wanted) is None), wanted)
    except OSError as e:
        raise FolderError(f"the demo's files can't be written: {e}") from None


def _first_other(folder: Path, wanted: Mapping[str, bytes]) -> str | None:
    """Name a file in the way: one of the same name that says something else."""
    if folder.exists() and not folder.is_dir():
        return "file of that name"
    for name, content in wanted.items():
        path = folder / name
        if path.exists() and (not path.is_file() or path.read_bytes() != content):
            return name
    return None


def _fill(folder: Path, wanted: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in wanted.items():
        if not (folder / name).exists():
            (folder / name).write_bytes(content)
    return folder
