"""Calls that are linked: late, to the same results, and loud where there is nothing to call."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import paritygate.kernels
from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance
from paritygate.kernels import linked, measures
from paritygate.kernels.sums import CHUNKS
from paritygate.tally.exact import ExactSum

ENGINE = Path(paritygate.kernels.__file__).parents[2]

# Kernels as a file of the kernels' folder has them, so that they are cached.
KERNELS = """
from __future__ import annotations
import numpy as np
from paritygate.kernels._jit import jit
from paritygate.kernels.linked import linked

@jit
def total(values: np.ndarray, scale: int) -> int:
    found = 0
    for k in range(values.size):
        found += values[k] * scale
    return found

@jit
def never(values: np.ndarray) -> int:
    return values.no_such_thing()

@jit
def liar(values: np.ndarray) -> int:
    return 0.5

_total, _never, _liar = linked(total), linked(never), linked(liar)

@jit
def outer(values: np.ndarray, which: int) -> int:
    if which == 1:
        return _never(values)
    if which == 2:
        return _liar(values)
    return _total(values[1:], 3) + _total(values, 1)
"""
USE = """
import sys
from pathlib import Path
import paritygate.kernels
paritygate.kernels.__path__.insert(0, sys.argv[1])
from paritygate.kernels import _cache
_cache.SOURCES = Path(sys.argv[1])
import numpy as np
from paritygate.kernels import linked, linked_sample as sample
outer = linked.call(sample.outer)
values = np.arange(5)
compiled = sample.total.inner.dispatcher.overloads
print(outer(values, 0), len(compiled), sum(sample.outer.stats.cache_hits.values()))
for which in (1, 2, 1):
    try:
        print(outer(values, which))
    except linked.LinkError as error:
        print(type(error.__cause__).__name__)
    except BaseException as error:
        print(type(error).__name__)
print(outer(values, 0))
"""


def test_a_linked_kernel_is_compiled_when_it_is_called_and_errors_are_raised(tmp_path):
    sources = tmp_path / "kernels"
    sources.mkdir()
    (sources / "linked_sample.py").write_text(KERNELS)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ENGINE)}

    def use() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", USE, str(sources)],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        assert "ignored" not in done.stderr
        return done.stdout.split("\n")

    first = use()
    assert first[0] == "40 1 0"
    assert first[1:5] == ["TypingError", "TypeError", "TypingError", "40"]
    # The caller comes from the cache, and finds what it is linked to.
    again = use()
    assert again[0] == "40 1 1"
    assert again[1:] == first[1:]
    for path in (tmp_path / "paritygate").rglob("linked_sample.total.inner-*"):
        path.unlink()
    assert use() == again


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_what_stops_a_linked_kernel_from_being_compiled_is_raised(monkeypatch, stop):
    def interrupt(self, own):
        raise stop

    def add(terms):
        chunks = np.zeros(CHUNKS, np.int64)
        linked.call(measures.add_samples)(terms, chunks, np.zeros(1, np.int64), 0)
        return ExactSum.from_chunks(chunks).value()

    assert add(np.ones(3)) == 3.0
    with monkeypatch.context() as patch:
        for cell in linked._links._cells.values():
            patch.setattr(cell, "value", 0)
        patch.setattr(Dispatcher, "compile", interrupt)
        assert add(np.ones(3)) == 3.0
        with pytest.raises(stop):
            add(np.full(3, 2.0**1001))  # too large for a grid: one by one, by a linked kernel
    assert add(np.full(3, 2.0**1001)) == 3 * 2.0**1001


def test_what_a_stopped_block_counted_is_forgotten(monkeypatch):
    ref = np.linspace(0.5, 1.5, 32768, dtype=np.float32).reshape(-1, 8)
    judge = ElementComparer(Tolerance(1.0, 0.0), "float32", "float32", (8,), "full")

    def compared(cand):
        return judge.compare(ref, cand, np.arange(len(ref)), is_lazy=True)[0].to_json()

    near = ref + np.float32(1e-3)
    expected = compared(near)
    compile_one = Dispatcher.compile

    def interrupt(self, own):
        if self.py_func.__name__ == "collect_bins":
            raise KeyboardInterrupt
        return compile_one(self, own)

    with monkeypatch.context() as patch:
        for cell in linked._links._cells.values():
            patch.setattr(cell, "value", 0)
        patch.setattr(Dispatcher, "compile", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compared(near)
    assert compared(near) == expected


def test_a_signal_of_which_nothing_could_be_noted_stops_the_call():
    def kernel():
        raise linked.LinkError

    with pytest.raises(KeyboardInterrupt, match="signal"):
        linked.call(kernel)()
