"""A second interrupt doesn't wait for what is running."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import paritygate
from paritygate.core.errors import Interrupted

X = np.ones((4, 2), np.float32)


def interrupt_once() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    finish, ended = threading.Event(), threading.Event()
    lets_go: list[bool] = []

    def ref(given: dict[str, Any]) -> dict[str, Any]:
        lets_go.append(threading.current_thread().daemon)
        for delay in (0.2, 1.0):
            threading.Timer(delay, interrupt_once).start()
        finish.wait(30)
        ended.set()
        return {"y": given["x"]}

    def cand(given: dict[str, Any]) -> dict[str, Any]:
        return {"y": given["x"] * 1}

    try:
        with pytest.raises(Interrupted):
            paritygate.verify(ref, cand, {"x": X}, atol=0.0, rtol=0.0, out=tmp_path / "runs")
        assert not ended.is_set()
        assert lets_go == [True]  # else the process would wait for it at its end
    finally:
        finish.set()
        assert ended.wait(30)
    assert not (tmp_path / "runs").exists()


def test_the_first_one_waits_for_the_batch_that_is_running(tmp_path: Path) -> None:
    ended = threading.Event()

    def ref(given: dict[str, Any]) -> dict[str, Any]:
        threading.Timer(0.2, interrupt_once).start()
        threading.Event().wait(1.0)
        ended.set()
        return {"y": given["x"]}

    def cand(given: dict[str, Any]) -> dict[str, Any]:
        return {"y": given["x"] * 1}

    with pytest.raises(Interrupted):
        paritygate.verify(ref, cand, {"x": X}, atol=0.0, rtol=0.0, out=tmp_path / "runs")
    assert ended.is_set()
    assert not (tmp_path / "runs").exists()
