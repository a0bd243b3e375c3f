"""A first run on a machine says what it waits for, and how long that took."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.packs import write_pack

RUN = """
import json, sys
import paritygate
from paritygate.kernels import second
from paritygate.pipeline import drive
drive.spare_cores = lambda: 2
events, started, start = [], [], second._start
second._start = lambda: started.append(start()) or started[-1]
result = paritygate.compare(*sys.argv[1:], atol=0.0, rtol=0.0, out=None, observer=events.append)
kinds = [type(e).__name__ for e in events]
told = [e.seconds for e in events if type(e).__name__ == "Compiling"]
ended = [process.returncode is not None for process, _ in started]
print(json.dumps([kinds, told, ended, result.summary["timing"]["compiling_s"]]))
"""


@pytest.mark.slow
def test_compiling_is_told_once(tmp_path):
    values = np.arange(60, dtype=np.float32).reshape(20, 3)
    packs = [tmp_path / "ref.arrow", tmp_path / "cand.arrow"]
    for path in packs:
        write_pack(path, range(20), outputs={"y": values})
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}

    def run():
        command = [sys.executable, "-c", RUN, *map(str, packs)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    kinds, told, ended, seconds = run()
    assert ended == [True]
    # Nothing else is told in between, which would be shown instead.
    first = kinds.index("Compiling")
    assert kinds[first:][: len(told)] == ["Compiling"] * len(told)
    assert told == sorted(told)
    assert 1.0 <= told[-1] <= seconds
    assert run()[1:] == [[], [], 0.0]
