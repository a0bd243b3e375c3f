"""An interrupt that something swallowed on its way is raised again at the next event."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from paritygate.api import RunResult
from paritygate.core.events import Event, Finished, Observer, Prepared, Progress
from paritygate_frontends.cli import supervise
from paritygate_frontends.cli.judged import judge_and_tell


@pytest.fixture(autouse=True)
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the child process has for SIGINT, while a test lasts."""
    monkeypatch.setattr(supervise, "_was_interrupted", False)
    before = signal.signal(signal.SIGINT, supervise._interrupt_once)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_unheard() -> None:
    """An interrupt that arrives where exceptions are dropped, as in a finalizer."""
    with suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        raise AssertionError("no interrupt arrived")


@pytest.mark.parametrize(
    "event", [Prepared("plan", 4, Path("x.partial")), Progress(2, 4, 0, 0, 0.1, 0.1)]
)
def test_it_is_raised_at_the_next_event(event: Event) -> None:
    def judge(observe: Observer) -> RunResult:
        observe(event)
        interrupt_unheard()
        observe(event)
        raise AssertionError("the run went on")

    with pytest.raises(KeyboardInterrupt):
        judge_and_tell("plan", judge)


def test_a_verdict_that_is_there_is_told() -> None:
    def judge(observe: Observer) -> RunResult:
        interrupt_unheard()
        observe(Finished("release"))
        raise LookupError("told")

    with pytest.raises(LookupError, match="told"):
        judge_and_tell("plan", judge)
