from __future__ import annotations

import io
import sys

import pytest

from paritygate.core.events import Compiling, Finished, Prepared, Progress, ignore
from paritygate_frontends.report.progress import describe, watch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_drawn_where_standard_error_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with watch("plan") as observer:
        assert observer is ignore
        observer(Prepared("plan", 10))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_samples_speed_flips_failures_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with watch("plan") as observer:
        observer(Prepared("[bold]advisory", 1000))
        observer(Progress(250, 1000, 3, 17, 0.5, 1.5))
        observer(Finished("hold"))
    drawn = screen.getvalue()
    assert "[bold]advisory: hold" in drawn
    assert "250/1000" in drawn
    assert "500 samples/s, 3 flips, 17 failed, 1.5 s left" in drawn
    assert capsys.readouterr().out == ""


def test_a_terminal_shows_that_kernels_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with watch("plan") as observer:
        observer(Prepared("plan", 1000))
        observer(Compiling(2.6))
    assert "compiling kernels, once on this machine: 3 s" in screen.getvalue()


def test_time_left_is_not_guessed() -> None:
    assert describe(Progress(0, 10, 0, 0, 0.0, None)) == "0 samples/s, 0 flips, 0 failed"
