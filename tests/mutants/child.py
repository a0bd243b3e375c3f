"""Run tests against an engine and its mutants: `python -m tests.mutants.child JOB`, a JSON file.

The engine and the tests are imported once; each mutant is a fork in which the functions of one
file do something else, and what is tested quickest goes first. For each run one JSON line: 0 where
all tests passed, and the first test that failed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import Phase, settings

SECONDS = 60  # of processor time, for the rules as they are; a mutant has twice what these took
CONSTANTS = (int, float, str, tuple, np.ndarray)
NAMED = (pytest.Module, pytest.Class, pytest.Function)


class Runs:
    """A plugin that runs the tests once for each mutant, and writes down what came of it."""

    def __init__(self, job: dict[str, Any], out: Any) -> None:
        self._job, self._out = job, out
        self._failed = ""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        module = importlib.import_module(self._job["module"])
        mutants = [changes_of(text, module) for text, _ in self._job["mutants"]]
        plain = self._job["plain"]
        wanted = [plain, *(f"({chosen}) and {plain}" for _, chosen in self._job["mutants"])]
        limit, took = SECONDS, dict[str, float]()
        for chosen, changes in zip(wanted, [{}, *mutants], strict=True):
            items = [item for item in session.items if is_chosen(item, chosen)]
            items.sort(key=lambda item: took.get(item.nodeid, 0.0))
            found = self._in_fork(items, partial(change, module, changes), limit)
            self._out.write(json.dumps(found) + "\n")
            self._out.flush()
            if not changes:
                limit, took = 2 + int(2 * found["seconds"]), found.get("took", {})
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._failed:
            self._failed = report.nodeid

    def _in_fork(
        self, items: list[pytest.Item], prepare: Callable[[], None], limit: int
    ) -> dict[str, Any]:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            try:
                prepare()
                with os.fdopen(write, "w") as out:
                    json.dump(self._run(items), out)
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as out:
            text = out.read()
        _, status, used = os.wait4(child, 0)
        ended = f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else ""
        found = json.loads(text) if text else {"code": -1, "failed": ended}
        return {**found, "seconds": used.ru_utime + used.ru_stime}

    def _run(self, items: Sequence[pytest.Item]) -> dict[str, Any]:
        took = {}
        for number, item in enumerate(items, 1):
            following = items[number] if number < len(items) else None
            started = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            took[item.nodeid] = time.process_time() - started
            if self._failed:
                return {"code": 1, "failed": self._failed}
        code = 0 if items else int(pytest.ExitCode.NO_TESTS_COLLECTED)
        return {"code": code, "failed": "", "took": took}


def is_chosen(item: pytest.Item, expression: str) -> bool:
    """Whether a test is one that pytest's `-k` takes."""
    names = [node.name.lower() for node in item.listchain() if isinstance(node, NAMED)]

    def answer(word: re.Match[str]) -> str:
        if word[0] in ("and", "or", "not"):
            return word[0]
        return str(any(word[0].lower() in name for name in names))

    return bool(eval(re.sub(r"\w+", answer, expression)))


def changes_of(text: str, module: Any) -> dict[str, Any]:
    """The functions of a module whose file has another text, and its own constants that differ.

    Raises:
        ValueError: a constant differs that other modules may have taken as it was.
    """
    made: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__}
    exec(compile(text, module.__file__, "exec", dont_inherit=True), made)
    found = {}
    for name, value in made.items():
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            found[name] = value
        elif isinstance(value, CONSTANTS) and repr(value) != repr(getattr(module, name, None)):
            if not name.startswith("_"):
                raise ValueError(f"a mutant may change functions and private constants, not {name}")
            found[name] = value
    return found


def change(module: Any, changes: dict[str, Any]) -> None:
    """Let a module's functions do what others do, wherever they were imported."""
    for name, value in changes.items():
        old = getattr(module, name, None)
        if isinstance(old, FunctionType):
            old.__code__, old.__defaults__ = value.__code__, value.__defaults__
        else:
            setattr(module, name, value)


def main(job: dict[str, Any]) -> None:
    assert numba.config.DISABLE_JIT
    np.seterr(all="ignore")  # compiled code warns of nothing either
    settings.register_profile(
        "mutants",
        deadline=None,
        derandomize=True,
        database=None,
        max_examples=50,
        phases=[Phase.explicit, Phase.generate],
    )
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    options = ["-s", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-o", "addopts="]
    options += ["--import-mode=importlib", "-o", "filterwarnings=default", "-W", "ignore"]
    options += ["--hypothesis-profile=mutants", "-p", "_hypothesis_pytestplugin"]
    options += ["-p", "no:unraisableexception"]  # collects garbage, and little else here
    gc.freeze()
    code = pytest.main([*options, *job["tests"]], plugins=[Runs(job, out)])
    assert code == pytest.ExitCode.OK, code


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
