"""The one table of cases: `bench/run.py` measures them, a test runs each once on tiny sizes."""

from __future__ import annotations

import itertools

from bench.contract import Contract
from bench.decisions import DECISIONS, Decisions
from bench.dtypes import DTYPES, Dtype
from bench.elements import Elements, InCache
from bench.failing import Failing
from bench.harness import NullRun
from bench.isolation import ISOLATION
from bench.joins import Join
from bench.measure import Case
from bench.memory import Memory
from bench.packs import Packs
from bench.recorded import COMPARED
from bench.recording import Recorded
from bench.sessions import PAIRS
from bench.startup import Check, Compile, Demo, Help

CASES: tuple[Case, ...] = (
    *(NullRun(batch, width) for batch, width in itertools.product((1, 32, 256), (1, 10, 1000))),
    *PAIRS,
    ISOLATION,
    Help(),
    Check(),
    Demo(),
    Compile("gate"),
    Compile("full"),
    *(
        Elements(tier, dtype, width)
        for tier in ("gate", "full")
        for dtype in ("float32", "float64", "int32")
        for width in (1, 10, 100, 1000)
    ),
    *(
        Failing(tier, share, width)
        for tier, share, width in itertools.product(
            ("gate", "full"), ("1 %", "all"), (1, 10, 100, 1000)
        )
    ),
    InCache(),
    *DECISIONS,
    *DTYPES,
    Contract(2),
    Contract(1000),
    Join("ascending ints"),
    Join("shuffled ints"),
    Join("strings"),
    *(Packs(verb, width) for verb in ("build", "check") for width in (1, 1024)),
    *COMPARED,
    Recorded(10),
    Recorded(1000),
    Memory("same order"),
    Memory("shuffled"),
    Memory("all failing"),
)

SPREAD = (Elements, Failing, Decisions, Dtype)  # what memory limits
