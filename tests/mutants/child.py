"""Run tests against an engine and its mutants: `python -m tests.mutants.child JOB`, a JSON file.

Everything but the engine and the tests is imported once; what has to be fresh runs in a fork. For
each run one JSON line: the status that pytest ended with, and the first test that failed.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import Phase, settings

SECONDS = 60  # a mutant may never end


class Watch:
    """Remembers the first test that failed."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = f"collecting {report.nodeid}"


def run_tests(arguments: list[str]) -> dict[str, Any]:
    watch = Watch()
    options = ["-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-o", "addopts="]
    options += ["--import-mode=importlib", "-o", "filterwarnings=default", "-W", "ignore"]
    options += ["--hypothesis-profile=mutants", "-p", "_hypothesis_pytestplugin"]
    options += ["-p", "no:unraisableexception"]  # collects garbage, and little else here
    code = pytest.main([*options, *arguments], plugins=[watch])
    return {"code": int(code), "failed": watch.failed}


def in_fork(arguments: list[str]) -> dict[str, Any]:
    read, write = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(SECONDS)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        found = run_tests(arguments)
        with os.fdopen(write, "w") as out:
            json.dump(found, out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as out:
        text = out.read()
    _, status = os.waitpid(child, 0)
    found = json.loads(text) if text else {"code": -1, "failed": f"ended with status {status}"}
    return {**found, "seconds": time.monotonic() - started}


def main(job: dict[str, Any]) -> None:
    assert numba.config.DISABLE_JIT
    gc.freeze()
    np.seterr(all="ignore")  # compiled code warns of nothing either
    settings.register_profile(
        "mutants",
        deadline=None,
        derandomize=True,
        database=None,
        max_examples=50,
        phases=[Phase.explicit, Phase.generate],
    )
    files = job["tests"]
    print(json.dumps(in_fork([*files, "-k", job["plain"]])), flush=True)
    path = Path(job["file"])
    unchanged = path.read_text(encoding="utf-8")
    sys.dont_write_bytecode = True
    for text, chosen in job["mutants"]:
        path.write_text(text, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()
        print(json.dumps(in_fork([*files, "-k", f"({chosen}) and {job['plain']}"])), flush=True)
    path.write_text(unchanged, encoding="utf-8")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
