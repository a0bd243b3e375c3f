"""Rows about inputs: channels, units, ranges, missing values, and samples that must be refused."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.conformance.case import RELEASE, Call, Case, Expected, hold, unjudged
from tests.packs import write_pack

import paritygate

CHANNELS = ["vibration_rms", "bearing_temperature"]
UNITS = ["mm/s", "degC"]
GOOD = [[3.5, 60.0], [4.0, 71.5], [2.5, 55.0], [9.0, 120.0]]
CONTRACT = {"channels": CHANNELS, "units": UNITS, "range": [[0, 50], [-40, 200]]}
CODE = "import numpy as np\ndef fill(sample):\n    return np.nan_to_num(sample, nan=20.0)\n"


def _run(
    folder: Path,
    rows: list[list[float]] | None = None,
    said: dict[str, Any] | None = None,
    expect: list[str | None] | None = None,
    contract: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    x = np.array(GOOD if rows is None else rows, np.float32)
    told = {"channels": CHANNELS, "units": UNITS, **(said or {})}
    metadata = {"in.x": {f"paritygate.{key}": json.dumps(value) for key, value in told.items()}}
    columns = {} if expect is None else {"expect": pa.array(expect, pa.string())}
    ids = [f"s{row}" for row in range(len(x))]
    golden = write_pack(folder / "g.arrow", ids, {"x": x}, columns=columns, metadata=metadata)
    echo = {"kind": "null", "echo": {"y": "x"}}
    stage = {"reference": "a", "candidate": "b", "self": True, "default": {"atol": 0, "rtol": 0}}
    plan = {
        "golden": str(golden),
        "inputs": {"x": {**CONTRACT, **(contract or {})}},
        "runners": {"a": echo, "b": echo},
        "stages": [stage],
        **more,
    }
    return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)


def _imputed(folder: Path, approved: str) -> Any:
    """A function that fills NaN, whose digest was approved as of some code."""
    (folder / "filling.py").write_text(CODE)
    digest = hashlib.sha256(approved.encode()).hexdigest()
    missing = {"impute": "filling:fill", "digest": f"sha256:{digest}", "approved_by": "J. Doe"}
    rows = [*GOOD, [1.0, float("nan")]]
    return _run(folder, rows, contract={"missing": missing})


def _row(name: str, expected: Expected, *says: str, ids: tuple[str, ...] = (), **how: Any) -> Case:
    return Case("inputs", name, Call("run", partial(_run, **how)), expected, says, ids)


HOT = [*GOOD, [4.0, 512.3]]
LOST = [*GOOD, [float("nan"), 60.0]]
ROWS = [
    _row("channels and units are those that the pack names", RELEASE),
    _row(
        "the pack has the two channels the other way round",
        unjudged(),
        "inputs.x.channels",
        "the same in another order",
        said={"channels": CHANNELS[::-1]},
    ),
    _row(
        "the pack has its temperatures in degF, the plan in degC",
        unjudged(),
        "['mm/s', 'degC']",
        "['mm/s', 'degF']",
        said={"units": ["mm/s", "degF"]},
    ),
    _row(
        "one channel is out of its own range and within the other's",
        hold("sample.rejected"),
        "channel 'vibration_rms' (mm/s): 60.0 is above 50",
        ids=("s4",),
        rows=[*GOOD, [60.0, 3.5]],
    ),
    _row(
        "a value beyond the range, one such sample allowed",
        RELEASE,
        rows=HOT,
        max_rejected=1,
    ),
    _row(
        "two values beyond the range, one such sample allowed",
        hold("sample.rejected"),
        "2 of 6 samples were rejected, 1 allowed",
        ids=("s4", "s5"),
        rows=[*HOT, [-1.0, 20.0]],
        max_rejected=1,
    ),
    _row(
        "every sample beyond the range, any number allowed",
        hold("evidence.empty"),
        rows=[[-1.0, 20.0]] * 3,
        max_rejected=100,
    ),
    _row(
        "a NaN that the pack expects to be rejected",
        RELEASE,
        rows=LOST,
        expect=[None, None, None, None, "reject"],
    ),
    _row(
        "a sample that the pack expects to be rejected is within the contract",
        hold("contract.not_rejected"),
        "1 of 2 samples",
        ids=("s1",),
        rows=LOST,
        expect=[None, "reject", None, None, "reject"],
    ),
    _row(
        "a NaN is replaced by a constant that the plan approves",
        RELEASE,
        rows=LOST,
        contract={"missing": {"impute": "constant", "value": [0, 20], "approved_by": "J. Doe"}},
    ),
    Case(
        "inputs",
        "a NaN is replaced by a function whose code is the approved one",
        Call("run", partial(_imputed, approved=CODE)),
        RELEASE,
    ),
    Case(
        "inputs",
        "a NaN is replaced by a function whose code was changed after the approval",
        Call("run", partial(_imputed, approved=CODE.replace("20.0", "0.0"))),
        unjudged(),
        ("inputs.x.missing.digest",),
    ),
]
