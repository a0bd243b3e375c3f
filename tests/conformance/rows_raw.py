"""Rows about what happens before the graph: raw records that are prepared otherwise than golden."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.conformance.case import RELEASE, Call, Case, Expected, hold
from tests.packs import tensor_column, write_pack

import paritygate

RAW = np.random.default_rng(5).integers(-2000, 2000, (12, 8, 2), dtype=np.int16)
GAIN = np.array([0.25, 3.0], np.float32)
GOLDEN = RAW.astype(np.float32) * GAIN


def _prepared(folder: Path, body: str, given: str = "raw['signal']") -> Any:
    columns = {"raw.signal": tensor_column(RAW, "fixed_shape")}
    write_pack(folder / "g.arrow", np.arange(12), {"x": GOLDEN}, columns=columns)
    (folder / "prep.py").write_text(
        "import numpy as np\nGAIN = np.array([0.25, 3.0], np.float32)\n"
        f"def f(raw):\n    s = {given}\n    return {body}\n"
    )
    plan = {"golden": "g.arrow", "replay": "raw", "preprocessing": {"python": "prep:f"}}
    return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)


def _row(kind: str, name: str, body: str, expected: Expected, *says: str, given: str = "") -> Case:
    call = partial(_prepared, body=body, given=given or "raw['signal']")
    return Case(kind, name, Call("run", call), expected, says)


def _probed(folder: Path, inputs: dict[str, Any]) -> Any:
    """A contract that is held against what can't be a row of a pack."""
    write_pack(folder / "g.arrow", np.arange(12), {"x": GOLDEN})
    (folder / "f.py").write_text(
        "def ref(i):\n    return {'y': i['x'] * 2}\n"
        "def cand(i):\n    return {'y': i['x'] + i['x']}\n"
    )
    exact = {"atol": 0, "rtol": 0}
    plan = {
        "golden": "g.arrow",
        "runners": {"ref": "f:ref", "cand": "f:cand"},
        "stages": [{"reference": "ref", "candidate": "cand", "outputs": {"y": exact}}],
        "inputs": inputs,
        "probes": {},
    }
    return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)


TIGHT = {"x": {"dtype": "float32", "shape": ["batch", 8, 2]}}
ROWS = [
    Case(
        "vacuous",
        "probes of a contract that says neither dtype nor shape",
        Call("run", partial(_probed, inputs={})),
        hold(*["contract.probe"] * 6),
        ("x with an axis more, float32[1,8,2,1]", "rules it out"),
    ),
    Case(
        "vacuous",
        "probes of a contract that says dtype and shape of every input",
        Call("run", partial(_probed, inputs=TIGHT)),
        RELEASE,
    ),
    _row(
        "prepared",
        "raw records, prepared anew with two channels swapped",
        "{'x': s[..., ::-1].astype(np.float32) * GAIN}",
        hold("tolerance.exceeded"),
        "12 of 12 samples",
    ),
    _row(
        "prepared",
        "raw records, prepared anew with a gain that is off by 0.01 %",
        "{'x': s.astype(np.float32) * (GAIN * np.float32(1.0001))}",
        hold("tolerance.exceeded"),
        "12 of 12 samples",
    ),
    _row(
        "prepared",
        "preprocessing that answers nothing",
        "{}",
        hold("output.missing"),
        "'x'",
    ),
    _row(
        "prepared",
        "raw records, prepared anew as the golden inputs were",
        "{'x': s.astype(np.float32) * GAIN}",
        RELEASE,
    ),
]
