"""Hold kernels of a GPU and their mutants against the CPU: `python -m tests.gpu.mutants.child`.

Told on standard input, as JSON, the module of each mutant, its text, and the cases that are to
notice it; answers with what noticed it, empty for nothing. Kernels as they are come first, which
compiles what the CPU needs; then each mutant has a fork, in which what is made of kernels of a GPU
is imported anew. Runs in Numba's simulator.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import signal
import sys
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any

import numpy as np
from numba import cuda
from tests.gpu.simulated import turns
from tests.gpu.simulator import quick_simulator

CASES = "tests.gpu.mutants.cases"
AT_ONCE = len(os.sched_getaffinity(0))
KEPT = (  # what the cases import and no kernel of a GPU is in
    "hypothesis.strategies",
    "ml_dtypes",
    "paritygate.comparison.decisions",
    "paritygate.comparison.elements",
    "paritygate.kernels.decisions",
)
SECONDS = 30  # a mutant may never end


class Changed(MetaPathFinder, Loader):
    """Loads a module from a text."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._name:
            return None
        return importlib.util.spec_from_loader(name, self, origin=name)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._text, self._name, "exec"), module.__dict__)


def noticed(names: list[str]) -> str:
    """The first case that isn't counted as on the CPU, and how it ended; empty: none."""
    cases = importlib.import_module(CASES).CASES
    for name in names:
        for number, check in enumerate(cases[name]()):
            try:
                check()
            except BaseException as error:
                return f"{name} {number}: {type(error).__name__}"
    return ""


def forget(modules: set[str]) -> None:
    for name in modules:
        package, _, own = name.rpartition(".")
        del sys.modules[name]
        if hasattr(sys.modules.get(package), own):
            delattr(sys.modules[package], own)


def start(module: str, text: str, names: list[str], anew: set[str]) -> tuple[int, int]:
    """Look at a mutant in a fork; its process, and where it will answer."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        forget(anew)
        sys.meta_path.insert(0, Changed(module, text))
        with os.fdopen(write, "w") as out:
            out.write(noticed(names) or "nothing")
        os._exit(0)
    os.close(write)
    return child, read


def end(read: int, status: int) -> str:
    with os.fdopen(read) as answer:
        found = answer.read() or f"ended with status {status}"
    return "" if found == "nothing" else found


def main(jobs: list[tuple[str, str, list[str]]]) -> list[str]:
    assert cuda.config.ENABLE_CUDASIM
    for name in KEPT:
        importlib.import_module(name)
    assert "paritygate.gpu.device" not in sys.modules
    turns.AT_ONCE = sys.maxsize  # none, so that each run is like the last one
    np.seterr(all="ignore")
    before = set(sys.modules)
    found = noticed(list(importlib.import_module(CASES).CASES))
    anew = {
        name for name in set(sys.modules) - before if name.startswith(("paritygate.", "tests."))
    }
    gc.freeze()
    gc.disable()
    running: dict[int, tuple[int, int]] = {}
    answers = {0: found}
    left = list(enumerate(jobs, 1))
    while left or running:
        if left and len(running) < AT_ONCE:
            number, job = left.pop(0)
            child, read = start(*job, anew)
            running[child] = number, read
            continue
        child, status = os.wait()
        number, read = running.pop(child)
        answers[number] = end(read, status)
    return [answers[number] for number in sorted(answers)]


if __name__ == "__main__":
    with quick_simulator():
        json.dump(main(json.load(sys.stdin)), sys.stdout)
