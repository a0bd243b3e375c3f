"""Rows about replays: what failed is run again, and a run of failing samples releases nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.case import Call, Case, Expected, hold, incomplete, unjudged
from tests.diagnosis.runs import run_pair
from tests.models import scale_model
from tests.rerun.models import coupled_run, neighbours_of_outliers

import paritygate

_OFF, _MENDED = 1.5, 1.0 + 2e-7


def _replay(folder: Path, now: float = _OFF, **how: Any) -> Any:
    """Replay a run of `y = x` against `y = 1.5 x`, with the candidate's file as it is now."""
    models = [scale_model(folder / f"{n}.onnx", f) for n, f in (("ref", 1.0), ("cand", _OFF))]
    run = run_pair(folder, *map(str, models))
    scale_model(models[1], now)
    return paritygate.replay(run.folder or "", out=folder / "again", **how)


def _coupled(folder: Path, **how: Any) -> Any:
    run = coupled_run(folder)
    return paritygate.replay(run, neighbours_of_outliers(run)[:1], out=folder / "again", **how)


def _row(kind: str, name: str, make: Any, expected: Expected, *says: str) -> Case:
    return Case(kind, name, Call("replay", make), expected, says)


ROWS: tuple[Case, ...] = (
    _row(
        "rejudged",
        "the failing samples of a hold, run again: they fail again",
        _replay,
        hold("tolerance.exceeded"),
    ),
    _row(
        "rejudged",
        "the same with a candidate mended since: nothing fails, and nothing is released",
        partial(_replay, now=_MENDED, changed=True),
        incomplete("evidence.partial"),
        "no rule fires on them now",
    ),
    _row(
        "rejudged",
        "the same with a candidate whose file has changed, which nobody said",
        partial(_replay, now=_MENDED),
        unjudged("replay.refused"),
        "'cand' was",
        "--changed",
    ),
    _row(
        "coupling",
        "a sample that failed beside an outlier, dynamically quantised, run again alone",
        _coupled,
        incomplete("evidence.partial"),
    ),
    _row(
        "coupling",
        "the same sample in the batch that it was in",
        partial(_coupled, with_batch=True),
        hold("tolerance.exceeded"),
    ),
)
