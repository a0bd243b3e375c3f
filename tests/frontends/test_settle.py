"""What a command's process no longer goes through when it looks for garbage."""

import gc
import os

import pytest

from paritygate_frontends.cli import judged, supervise


@pytest.fixture
def frozen(monkeypatch):
    """How often everything that is there was taken out of the search."""
    calls = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(1))
    judged._settle.cache_clear()
    yield calls
    judged._settle.cache_clear()


def test_only_a_process_of_one_command_settles_and_once(frozen, monkeypatch):
    judged._settle()
    assert frozen == []
    judged._settle.cache_clear()
    monkeypatch.setattr(supervise, "_line", supervise._Line(os.getpid(), -1))
    judged._settle()
    judged._settle()
    assert frozen == [1]


def test_a_process_that_it_forked_is_not_one(monkeypatch):
    monkeypatch.setattr(supervise, "_line", supervise._Line(0, -1))
    assert not supervise.is_supervised()
