"""Rows in which a runner has a process of its own, and something ends that process."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.conformance.case import RELEASE, Case, Expected, hold
from tests.conformance.live import Functions

TWELVE = np.arange(12, dtype=np.float32).reshape(12, 1)
SAME = "def ref(g):\n    return {'y': g['x'] * 2}\n\n"


def _isolated(
    kind: str,
    name: str,
    body: str,
    expected: Expected,
    *says: str,
    ids: tuple[int, ...] = (),
    isolate: object = "process",
    ref: dict[str, Any] | None = None,
    head: str = "",
) -> Case:
    """Two functions that answer alike, but for what the candidate does first, in its process."""
    source = f"import os, time\n{head}{SAME}def cand(g):\n    x = g['x']\n{body}    return ref(g)\n"
    runners = {
        "ref": {"call": "sides:ref", "batch_size": 4, **(ref or {})},
        "cand": {"call": "sides:cand", "batch_size": 4, "isolate": isolate},
    }
    given = Functions(source, TWELVE, plan={"runners": runners})
    return Case(kind, name, given, expected, says, ids)


ROWS = [
    _isolated("warnings", "a process of its own: nothing ends it", "", RELEASE),
    _isolated(
        "warnings",
        "a process of its own: a sample crashes it",
        "    if (x == 6).any():\n        os.kill(os.getpid(), 11)\n        time.sleep(9)\n",
        hold("runner.crashed"),
        "1 of 12 samples",
        "SIGSEGV",
        "the reference answered y float32[batch, 1]",
        ids=(6,),
    ),
    _isolated(
        "warnings",
        "a process of its own: two samples of different batches exit with status 0",
        "    if (x == 3).any() or (x == 8).any():\n        os._exit(0)\n",
        hold("runner.crashed"),
        "2 of 12 samples",
        "status 0",
        ids=(3, 8),
    ),
    _isolated(
        "warnings",
        "a process of its own: a sample that never gets an answer",
        "    while (x == 6).any():\n        pass\n",
        hold("runner.timeout"),
        "1 of 12 samples",
        "longer than 1 s",
        ids=(6,),
        isolate={"batch_timeout_s": 1.0},
    ),
    _isolated(
        "warnings",
        "a process of its own: a crash that doesn't come back",
        "    if (x == 6).any() and not os.path.exists(__file__ + '.once'):\n"
        "        open(__file__ + '.once', 'w').close()\n        os.abort()\n",
        hold("runner.crashed"),
        "not reproducible",
        "SIGABRT",
    ),
    _isolated(
        "fewer",
        "a process of its own, ended by more samples than max_crashes",
        "    if ((x == 5) | (x == 6)).any():\n        os.abort()\n",
        hold("runner.crashed", "runner.stopped"),
        "more than max_crashes = 1",
        isolate={"max_crashes": 1},
    ),
    _isolated(
        "exits",
        "a process of its own that ends while it loads",
        "",
        hold("runner.load_failed", "stage.not_run"),
        "SIGABRT",
        head="import sys\nif 'isolate.worker' in ' '.join(sys.orig_argv):\n    os.abort()\n",
    ),
    Case(
        "ships",
        "one function on both sides, once in a process of its own",
        Functions(
            SAME,
            TWELVE,
            plan={
                "runners": {
                    "ref": {"call": "sides:ref"},
                    "cand": {"call": "sides:ref", "isolate": "process"},
                }
            },
        ),
        hold("policy.same_runner"),
    ),
]
