"""Where machine code is kept, in processes of their own."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import paritygate.kernels

pytestmark = pytest.mark.slow
KERNELS = Path(paritygate.kernels.__file__).parent
ENGINE = KERNELS.parents[1]

USE = """
import numba, numpy as np
before = numba.config.CACHE_DIR
from paritygate.kernels import _cache, scalar, sums
assert numba.config.CACHE_DIR == before
chunks = np.zeros((2, sums.CHUNKS), np.int64)
sums.sum_errors(np.ones(3), chunks)
print(_cache.cache_folder())
print(sum(sums.sum_errors.stats.cache_hits.values()))
"""


def use(engine=ENGINE, code=USE, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_"))}
    environment |= {"PYTHONPATH": str(engine)} | {k: str(v) for k, v in variables.items()}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    folder, hits = done.stdout.split()
    return Path(folder), int(hits)


def test_second_process_finds_the_code_of_the_first(tmp_path):
    first, hits = use(XDG_CACHE_HOME=tmp_path)
    assert first.is_relative_to(tmp_path / "paritygate" / "kernels")
    assert hits == 0
    assert use(XDG_CACHE_HOME=tmp_path) == (first, 1)


def test_users_folder_is_respected(tmp_path):
    folder, _ = use(NUMBA_CACHE_DIR=tmp_path / "mine", XDG_CACHE_HOME=tmp_path / "other")
    assert folder.is_relative_to(tmp_path / "mine")
    assert list(folder.glob("sums.sum_errors-*"))
    assert not (tmp_path / "other").exists()


def test_without_a_folder_that_may_be_written_code_is_compiled_each_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    for _ in range(2):
        folder, hits = use(XDG_CACHE_HOME=blocked, TMPDIR=tmp_path / "nowhere")
        assert hits == 0
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == [blocked]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_for_reading_only_is_read(tmp_path):
    folder, _ = use(XDG_CACHE_HOME=tmp_path)
    folder.chmod(0o555)
    try:
        assert use(XDG_CACHE_HOME=tmp_path) == (folder, 1)
    finally:
        folder.chmod(0o755)


def test_edit_of_an_inlined_rule_is_not_hidden_by_the_cache(tmp_path):
    copy = tmp_path / "engine" / "paritygate" / "kernels"
    copy.mkdir(parents=True)
    (copy.parent / "__init__.py").write_text("")  # a package before the installed one
    for path in KERNELS.glob("*.py"):
        (copy / path.name).write_bytes(path.read_bytes())
    code = """
import numpy as np
from paritygate.kernels import _cache, elements
counts = np.zeros(20_000, np.int64)
elements.count_errors(np.ones(1), counts)
print(_cache.cache_folder())
print(int(np.flatnonzero(counts)[0]))
"""
    first = use(tmp_path / "engine", code, XDG_CACHE_HOME=tmp_path)
    rules = copy / "scalar.py"
    edited = rules.read_text().replace(
        "return 1 + (np.float64(error)", "return 7 + (np.float64(error)"
    )
    assert edited != rules.read_text()
    rules.write_text(f"{edited}\n")  # of another size: Python knows a file by that and the second
    second = use(tmp_path / "engine", code, XDG_CACHE_HOME=tmp_path)
    assert second[0] != first[0]
    assert second[1] == first[1] + 6


def test_processes_that_start_together_share_one_folder(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: use(XDG_CACHE_HOME=tmp_path), range(2)))
    assert len({folder for folder, _ in found}) == 1
    assert use(XDG_CACHE_HOME=tmp_path)[1] == 1
