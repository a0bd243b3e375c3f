"""Rows about exit codes: the command itself, from arguments to the code that a script sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from tests import models
from tests.conformance.case import RELEASE, Answer, Call, Case, Expected, hold, incomplete, unjudged
from tests.frontends.command import invoke
from tests.packs import write_pack

from paritygate.comparison.stage import StageComparer

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(6, 4)
Arguments = Callable[[Path], list[str]]


def models_of(folder: Path, factor: float = 2.0, ids: object = None) -> list[str]:
    """Options of a run without a plan, of a model that doubles and one that multiplies."""
    golden = write_pack(folder / "golden.arrow", list(ids or range(len(X))), {"x": X})
    ref = models.scale_model(folder / "ref.onnx", 2.0, metadata={"made": "first"})
    cand = models.scale_model(folder / "cand.onnx", factor)
    return ["run", "--ref", str(ref), "--cand", str(cand), "--golden", str(golden)]


def exact(folder: Path, factor: float = 2.0, *more: str) -> list[str]:
    return [*models_of(folder, factor), "--atol", "0", "--rtol", "0", *more]


def unreadable(folder: Path, side: str) -> list[str]:
    args = exact(folder)
    (folder / f"{side}").write_bytes(b"nothing of the kind")
    return args


def twice(folder: Path) -> list[str]:
    return [*models_of(folder, ids=[0, 1, 2, 3, 4, 4]), "--atol", "0", "--rtol", "0"]


def raising(folder: Path) -> list[str]:
    """A plan whose candidate raises."""
    write_pack(folder / "golden.arrow", range(len(X)), {"x": X})
    (folder / "sides.py").write_text(
        "def ref(g):\n    return {'y': g['x']}\n\ndef cand(g):\n    raise MemoryError\n",
        encoding="utf-8",
    )
    plan = folder / "plan.toml"
    plan.write_text(
        'golden = "golden.arrow"\nrunners = { ref = "sides:ref", cand = "sides:cand" }\n'
        '[[stages]]\nreference = "ref"\ncandidate = "cand"\n'
        "outputs.y = { atol = 0.0, rtol = 0.0 }\n",
        encoding="utf-8",
    )
    return ["run", str(plan)]


def judge(folder: Path, arguments: Arguments) -> Answer:
    """Run the command with `--json`, which prints a summary whatever happens."""
    done = invoke(*arguments(folder), "--json", "--out", folder / "runs")
    text = done.stdout + done.stderr
    summary = json.loads(done.stdout)
    codes = frozenset(reason["code"] for reason in summary["reasons"])
    return Answer(summary["verdict"], codes, done.exit_code, text)


def fail_ourselves(folder: Path) -> Answer:
    fault = patch.object(StageComparer, "compare", side_effect=RuntimeError("a fault of ours"))
    with fault:
        return judge(folder, exact)


def _command(name: str, arguments: Arguments, expected: Expected, *says: str) -> Case:
    return Case("exits", name, Call("command", partial(judge, arguments=arguments)), expected, says)


USAGE = unjudged("usage.invalid")

ROWS = [
    _command("the candidate agrees", exact, RELEASE),
    _command("the candidate differs", partial(exact, factor=3.0), hold("tolerance.exceeded")),
    _command(
        "the candidate agrees on the first samples, all that was asked for",
        lambda folder: exact(folder, 2.0, "--limit", "3"),
        incomplete("evidence.partial"),
    ),
    _command(
        "the candidate's file isn't a model",
        partial(unreadable, side="cand.onnx"),
        hold("admission.invalid_model", "stage.not_run"),
    ),
    _command(
        "the reference's file isn't a model",
        partial(unreadable, side="ref.onnx"),
        unjudged("admission.invalid_model"),
    ),
    _command(
        "the golden pack isn't an Arrow file",
        partial(unreadable, side="golden.arrow"),
        unjudged("golden.format"),
    ),
    _command("the golden pack has a sample twice", twice, unjudged("golden.duplicate_id")),
    _command(
        "the candidate raises",
        raising,
        hold("runner.disagreement", "evidence.empty"),
        "MemoryError",
    ),
    _command(
        "no such plan",
        lambda folder: ["run", str(folder / "none.toml")],
        unjudged(),
        "no such file",
    ),
    _command("atol without rtol", lambda f: [*models_of(f), "--atol", "1"], unjudged(), "rtol"),
    _command("an option that isn't there", lambda f: exact(f, 2.0, "--force"), USAGE, "--force"),
    _command(
        "a limit that isn't a number", lambda f: exact(f, 2.0, "--limit", "many"), USAGE, "--limit"
    ),
    Case(
        "exits",
        "a fault of our own while comparing",
        Call("command", fail_ourselves),
        unjudged("internal.error"),
        ("paritygate itself failed", "a fault of ours"),
    ),
]
