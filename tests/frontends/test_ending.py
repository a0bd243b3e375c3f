from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer

from paritygate.core.errors import (
    GoldenError,
    Interrupted,
    ParityError,
    PlanError,
    Problem,
    RunnerError,
)
from paritygate_frontends.cli import app
from paritygate_frontends.cli.ending import finish, output
from paritygate_frontends.cli.main import main


def raising(error: BaseException) -> Callable[[], int]:
    def work() -> int:
        raise error

    return work


def end(capsys: pytest.CaptureFixture[str], work: Callable[[], int], as_json: bool) -> Any:
    with pytest.raises(typer.Exit) as ended:
        finish(work, as_json)
    return ended.value.exit_code, *capsys.readouterr()


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_exit_code_is_the_works(capsys: pytest.CaptureFixture[str], code: int) -> None:
    assert end(capsys, lambda: code, True) == (code, "", "")


def test_every_problem_of_a_plan_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    error = PlanError([Problem("golden", "is missing"), Problem("stages", "is missing")], "p.toml")
    code, out, err = end(capsys, raising(error), False)
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "UNJUDGED  policy.invalid",
        "p.toml: 2 problems",
        "  golden: is missing",
        "  stages: is missing",
    ]


def test_json_is_a_summary_that_could_not_judge(capsys: pytest.CaptureFixture[str]) -> None:
    error = PlanError([Problem("golden", "is missing"), Problem("stages", "is missing")], "p.toml")
    code, out, err = end(capsys, raising(error), True)
    summary = json.loads(out)
    assert code == 2
    assert summary["verdict"] == "unjudged"
    assert summary["schema_version"] == 1
    assert [r["message"] for r in summary["reasons"]] == [
        "golden: is missing",
        "stages: is missing",
    ]
    assert {r["code"] for r in summary["reasons"]} == {"policy.invalid"}
    assert "golden: is missing" in err


@pytest.mark.parametrize(
    ("error", "code", "verdict", "reason"),
    [
        (GoldenError("no rows\x1b[2J"), 2, "unjudged", "golden.unreadable"),
        (RunnerError("raised"), 1, "hold", "runner.error"),
        (Interrupted("interrupted; no verdict"), 130, "unjudged", "run.interrupted"),
        (KeyboardInterrupt(), 130, "unjudged", "run.interrupted"),
        (MemoryError(), 2, "unjudged", "internal.error"),
        (SystemExit(0), 2, "unjudged", "internal.error"),
        (GeneratorExit(), 2, "unjudged", "internal.error"),
        (ZeroDivisionError("a\nb"), 2, "unjudged", "internal.error"),
    ],
)
def test_every_end_has_its_code_and_one_text(
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    verdict: str,
    reason: str,
) -> None:
    found, out, err = end(capsys, raising(error), True)
    summary = json.loads(out)
    assert (found, summary["verdict"], summary["reasons"][0]["code"]) == (code, verdict, reason)
    assert "Traceback" not in err
    assert "\x1b" not in err
    assert ("\\x1b[2J" in err) == ("\x1b" in str(error))
    assert err.startswith("interrupted" if code == 130 else f"{verdict.upper()}  {reason}\n")


def test_a_fault_of_ours_is_one_line_and_a_traceback_on_demand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARITYGATE_DEBUG", raising=False)
    _, _, err = end(capsys, raising(ZeroDivisionError("a\nb")), False)
    assert len(err.splitlines()) == 2
    assert "(ZeroDivisionError: a b)" in err
    assert "PARITYGATE_DEBUG=1" in err
    monkeypatch.setenv("PARITYGATE_DEBUG", "1")
    _, _, err = end(capsys, raising(ZeroDivisionError("a\nb")), False)
    assert "Traceback (most recent call last)" in err
    _, _, err = end(capsys, raising(GoldenError("no rows")), False)
    assert "Traceback" not in err


def test_a_fault_outside_any_verb_is_never_a_hold(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("early")

    monkeypatch.setattr(app, "app", broken)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "ZeroDivisionError: early" in capsys.readouterr().err


class Stream:
    """Standard output that can't be written."""

    def __init__(self, number: int) -> None:
        self.number = number

    def flush(self) -> None:
        raise OSError(self.number, "no")

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "no file")


def test_a_reader_that_has_gone_away_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(errno.EPIPE))
    with output():
        pass


def test_a_report_that_cannot_be_written_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(errno.ENOSPC))
    with pytest.raises(ParityError, match="standard output can't be written") as caught, output():
        pass
    assert caught.value.exit_code == 2
