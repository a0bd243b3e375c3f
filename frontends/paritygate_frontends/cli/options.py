"""Options that several verbs share, and the small languages that they are written in."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from paritygate.core.errors import PlanError, Problem

COMMAND_LINE = "command line"
Stats = Literal["gate", "full"]
Nonfinite = Literal["fail", "match"]
CompareOn = Literal["cpu", "cuda", "auto"]

Atol = Annotated[
    float | None, typer.Option(metavar="X", help="Absolute tolerance of the float outputs.")
]
Rtol = Annotated[
    float | None, typer.Option(metavar="Y", help="Tolerance relative to the reference.")
]
NonfiniteRule = Annotated[
    Nonfinite | None,
    typer.Option(help="NaN and infinity: always fail (default), or match where both sides agree."),
]
TolerancesOf = Annotated[
    list[str] | None,
    typer.Option(
        "--tolerance",
        metavar="NAME:atol=X,rtol=Y",
        help="Tolerance of one output, also with nonfinite=match, candidate_dtype=D. Repeatable.",
    ),
]
BandRules = Annotated[
    list[str] | None,
    typer.Option(
        "--bands",
        metavar="RULE",
        help="Decision by bands: 'score: accept < 0.2 <= review <= 0.8 < reject'. Repeatable.",
    ),
]
ArgmaxOf = Annotated[
    list[str] | None,
    typer.Option(
        "--argmax", metavar="OUTPUT", help="Decision by the largest value of a row. Repeatable."
    ),
]
TopkOf = Annotated[
    list[str] | None,
    typer.Option(
        "--topk",
        metavar="OUTPUT:K",
        help="Decision by the set of the K largest values of a row. Repeatable.",
    ),
]
EqualOf = Annotated[
    list[str] | None,
    typer.Option(
        "--equal",
        metavar="OUTPUT",
        help="Decision by the value itself: a class id, a text, a bool. Repeatable.",
    ),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Parent of the run folder.")]
StatsTier = Annotated[
    Stats, typer.Option(help="Figures: all of them, or only what the verdict needs (faster).")
]
Threads = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Threads that run and compare.")
]
ComparesOn = Annotated[
    CompareOn | None,
    typer.Option(
        "--compare-on",
        help="Compare on the CPU, on a GPU (cuda), or where outputs are (auto); default: CPU.",
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Judge the first N samples; at best incomplete."),
]
Isolate = Annotated[
    bool,
    typer.Option(
        "--isolate", help="Run every runner in a process of its own: a crash costs its samples."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change the plan: runners.int8.model=new.onnx. Repeatable.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")]

_NUMBERS = ("atol", "rtol")
_KEYS = (*_NUMBERS, "nonfinite", "candidate_dtype")
_FORM = "write NAME:atol=X,rtol=Y, as in score:atol=1e-3,rtol=1e-3"


def read_tolerances(
    atol: float | None, rtol: float | None, texts: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Check the common tolerance and read those of single outputs.

    Args:
        atol: of `--atol`.
        rtol: of `--rtol`.
        texts: of `--tolerance`, each `NAME:atol=X,rtol=Y[,nonfinite=match][,candidate_dtype=D]`;
            the name may hold colons.

    Returns:
        Output name -> what the plan calls its tolerance.

    Raises:
        PlanError: with every problem found.
    """
    problems = _check_pair(atol, rtol)
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, wrong, values = _read_tolerance(text)
        if not wrong and name in found:
            wrong = [f"output {name!r} already has a tolerance; give it one"]
        problems += [Problem(f"--tolerance {text!r}", w) for w in wrong]
        found[name] = values
    if problems:
        raise PlanError(problems, COMMAND_LINE)
    return found


def _check_pair(atol: float | None, rtol: float | None) -> list[Problem]:
    given = {"atol": atol, "rtol": rtol}
    problems = [
        Problem(f"--{key}", wrong)
        for key, value in given.items()
        if value is not None and (wrong := _out_of_range(key, value))
    ]
    if (atol is None) != (rtol is None):
        absent = "--atol" if atol is None else "--rtol"
        problems.append(Problem(absent, "atol and rtol belong together; give both (0 is a value)"))
    return problems


def _read_tolerance(text: str) -> tuple[str, list[str], dict[str, Any]]:
    name, colon, body = text.rpartition(":")
    name = name.strip()
    if not colon or not name or "=" in name:
        return name, [f"names no output; {_FORM}"], {}
    wrong: list[str] = []
    values: dict[str, Any] = {}
    for entry in body.split(","):
        key, sign, literal = (part.strip() for part in entry.partition("="))
        if not sign or not key or not literal:
            wrong.append(f"{entry.strip()!r} isn't key=value; {_FORM}")
        elif key not in _KEYS:
            wrong.append(f"{key!r} isn't a known key{_mean(key)}")
        elif key in values:
            wrong.append(f"{key} is given twice")
        else:
            values[key], problem = _read_value(key, literal)
            wrong += [problem] if problem else []
    absent = [key for key in _NUMBERS if key not in values]
    if not wrong and len(absent) == 1:
        wrong.append(f"{absent[0]} is missing; atol and rtol belong together (0 is a value)")
    return name, wrong, values


def _read_value(key: str, literal: str) -> tuple[Any, str]:
    if key == "candidate_dtype":
        return literal, ""  # the plan knows the dtypes
    if key == "nonfinite":
        known = literal in ("fail", "match")
        return literal, "" if known else f"nonfinite is {literal!r}, not 'fail' or 'match'"
    try:
        value = float(literal)
    except ValueError:
        return literal, f"{key} is {literal!r}, not a number"
    return value, _out_of_range(key, value)


def _out_of_range(key: str, value: float) -> str:
    if not math.isfinite(value) or value < 0:
        return f"{key} is {value!r}, not a finite number from 0 up"
    if key == "rtol" and value >= 1:
        return f"rtol is {value!r}, not below 1 (from 1 up, an output of zeros would pass)"
    return ""


def _mean(key: str) -> str:
    close = difflib.get_close_matches(key, _KEYS, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(_KEYS)}"
