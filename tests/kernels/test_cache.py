"""Machine code on disk: what belongs to one signature is never taken for another's."""

import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from paritygate.kernels import _cache, coverage
from paritygate.kernels._cache import KernelCache, cache_folder
from paritygate.kernels._jit import jit
from paritygate.kernels.compiling import Stopped, compiled_for, until

SIGNATURES = (np.float32, np.float64)


def fresh():
    """The same kernel as a process that starts now sees it."""
    return jit(coverage.channel_spans.py_func)


def spans(kernel, dtype):
    """Lowest and highest of three numbers, as the kernel finds them."""
    values = np.array([3, 1, 2], dtype)
    values.setflags(write=False)
    lows, highs = np.full(1, np.inf, dtype), np.full(1, -np.inf, dtype)
    kernel(values, 1, 1, lows, highs, np.zeros(3, np.int64), np.zeros(1, np.int64))
    return float(lows[0]), float(highs[0])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(_cache, "cache_folder", lambda: tmp_path)
    return tmp_path


def hits(kernel):
    return sum(kernel.stats.cache_hits.values())


@pytest.mark.slow
def test_writers_of_two_signatures_at_once_do_not_mix_them_up(folder):
    # Both look before either has written, which leaves Numba's own index with a wrong entry.
    first, second = fresh(), fresh()
    kept = []
    for kernel in (first, second):
        save = kernel._cache.save_overload
        kernel._cache.save_overload = lambda sig, made, save=save: kept.append((save, sig, made))
    for kernel, dtype in zip((first, second), SIGNATURES, strict=True):
        spans(kernel, dtype)
    for save, sig, made in reversed(kept):
        save(sig, made)
    assert len(list(folder.iterdir())) == 2
    reader = fresh()
    for dtype in SIGNATURES:
        assert spans(reader, dtype) == (1.0, 3.0)
    assert hits(reader) == 2


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "changed", "of another signature", "empty"])
def test_a_file_that_is_not_what_was_written_is_made_anew(folder, how):
    kernel = fresh()
    spans(kernel, np.float32)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    if how == "of another signature":
        spans(kernel, np.float64)
        (other,) = set(folder.iterdir()) - {path}
        path.write_bytes(other.read_bytes())
    else:
        changed = whole[:-1] + bytes([whole[-1] ^ 1])
        path.write_bytes({"cut": whole[: len(whole) // 2], "changed": changed, "empty": b""}[how])
    reader = fresh()
    assert spans(reader, np.float32) == (1.0, 3.0)
    assert hits(reader) == 0
    again = fresh()
    spans(again, np.float32)
    assert hits(again) == 1


@pytest.mark.slow
def test_a_thread_that_was_stopped_compiles_no_further_kernel(folder):
    kernel, stop = fresh(), threading.Event()
    with until(stop):
        assert spans(kernel, np.float32) == (1.0, 3.0)
        stop.set()
        for known in (kernel, fresh()):
            assert spans(known, np.float32) == (1.0, 3.0)
        with pytest.raises(Stopped):
            spans(kernel, np.float64)
        with ThreadPoolExecutor(1) as pool:  # of which no thread is stopped
            assert pool.submit(spans, kernel, np.float64).result() == (1.0, 3.0)


@pytest.mark.slow
def test_without_room_a_kernel_runs_and_is_not_kept(folder, monkeypatch):
    def full(self, _data):
        with self.open("wb") as file:
            file.write(b"some")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    assert spans(fresh(), np.float32) == (1.0, 3.0)
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_a_folder_in_which_nothing_can_be_made_is_read(folder, monkeypatch):
    spans(fresh(), np.float32)
    before = list(folder.iterdir())

    def refuse(*_args, **_options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    for name in ("mkdir", "write_bytes", "replace", "unlink"):
        monkeypatch.setattr(f"pathlib.Path.{name}", refuse)
    reader = fresh()
    assert spans(reader, np.float32) == (1.0, 3.0)
    assert hits(reader) == 1
    assert spans(reader, np.float64) == (1.0, 3.0)
    assert list(folder.iterdir()) == before


def test_functions_from_elsewhere_are_not_kept():
    @jit
    def first(values):
        return values[0]

    assert not KernelCache.covers(first.py_func)
    assert first(np.ones(1)) == 1.0
    assert not list(cache_folder().glob("*first-*"))


@pytest.mark.slow
def test_compiling_is_told_while_it_lasts(folder):
    before, is_compiling = compiled_for()
    assert not is_compiling
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(spans, fresh(), np.float32)
        seen = []
        while not running.done():
            seen.append(compiled_for())
            time.sleep(0.001)
        running.result()
    after, is_compiling = compiled_for()
    during = [seconds for seconds, was_compiling in seen if was_compiling]
    assert not is_compiling
    assert during == sorted(during)
    assert before < during[-1] <= after
    spans(fresh(), np.float32)
    assert compiled_for() == (after, False)
