"""Rows about runners by themselves: other approved batch sizes, and what the pack recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.conformance.case import RELEASE, Call, Case, hold, unjudged
from tests.conformance.live import Functions, Models
from tests.conformance.rows_live import per_tensor
from tests.packs import write_pack

import paritygate

X = np.linspace(-8, 8, 256, dtype=np.float32).reshape(64, 4)
COUPLED = hold("runner.batch_coupled")
BOTH = {"batch": {"sizes": [1, 32]}}
LOOSE = {"y": {"atol": 1.0, "rtol": 0.0}}
MEAN = """
def ref(g):
    return {"y": g["x"] - g["x"].mean()}

def cand(g):
    return {"y": g["x"] + 0 - g["x"].mean()}
"""
TAIL = """
def ref(g):
    return {"y": g["x"] * 2}

def cand(g):
    return {"y": g["x"] * 2 + (1e-7 if len(g["x"]) == 1 else 0)}
"""


def quantised(**plan: Any) -> Models:
    """The same quantised model on both sides, with and without optimisation."""
    return Models(
        per_tensor,
        None,
        X,
        {"atol": 0.5, "rtol": 0.0},
        cand_options={"graph_optimization_level": "disable"},
        plan=plan,
    )


def drifted(off: float) -> Call:
    """A live reference, and a pack that recorded its outputs once."""

    def make(folder: Path) -> Any:
        source = "def ref(g):\n    return {'y': g['x'] * 2}\n\n"
        source += "def cand(g):\n    return {'y': g['x'] + g['x']}\n"
        (folder / "sides.py").write_text(source)
        y = X * 2
        y[9, 1] += np.float32(off)
        write_pack(folder / "golden.arrow", np.arange(len(X)), {"x": X}, {"y": y})
        plan = {
            "golden": "golden.arrow",
            "runners": {"ref": "sides:ref", "cand": "sides:cand"},
            "stages": [{"reference": "ref", "candidate": "cand", "default": LOOSE["y"]}],
        }
        return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)

    return Call("run", make)


ROWS = [
    Case(
        "coupling",
        "dynamic quantisation per tensor on both sides alike, batches of 1 and 32 are approved",
        quantised(dims=BOTH),
        COUPLED,
        ("at 32,", "at 1,", "none is allowed"),
    ),
    Case(
        "coupling",
        "dynamic quantisation per tensor on both sides alike, batches of 32 only",
        quantised(dims={"batch": {"sizes": [32]}}),
        RELEASE,
    ),
    Case(
        "coupling",
        "dynamic quantisation per tensor on both sides alike, with a budget for both",
        quantised(dims=BOTH, batch_coupling={"ref": LOOSE, "cand": LOOSE}),
        RELEASE,
    ),
    Case(
        "coupling",
        "functions that subtract the mean of their batch, batches of 1 and 32 are approved",
        Functions(MEAN, X, batch_size=32, plan={"dims": BOTH}),
        COUPLED,
        ("64 of 64 samples differ",),
    ),
    Case(
        "coupling",
        "a function that is off by 1e-7 in a batch of one, which is approved besides 32",
        Functions(TAIL, X, batch_size=32, plan={"dims": BOTH}),
        COUPLED,
        ("runner 'cand'",),
    ),
    Case(
        "ships",
        "a reference that doesn't answer what the pack recorded of it",
        drifted(1.5),
        hold("runner.reference_drift"),
        ("recorded", "answered", "1 of 64"),
        (9,),
    ),
    Case("ships", "a reference that answers what the pack recorded of it", drifted(0.5), RELEASE),
    Case(
        "outputs",
        "an ignored output that neither side has",
        Models(
            per_tensor,
            None,
            X,
            cand_options={"graph_optimization_level": "disable"},
            stage={"ignore": ["z"]},
        ),
        unjudged(),
        ("neither side answers an output 'z'",),
    ),
]


def recorded_of(samples: int) -> Call:
    """A live reference, and a recording of the candidate over so many of the 64 samples' pack."""

    def make(folder: Path) -> Any:
        (folder / "sides.py").write_text(
            "def ref(g):\n    return {'y': g['x'] * 2}\n\n"
            "def cand(g):\n    return {'y': g['x'] + g['x']}\n"
        )
        stage = {"reference": "ref", "candidate": "cand", "default": LOOSE["y"]}
        plan = {
            "golden": "golden.arrow",
            "runners": {"ref": "sides:ref", "cand": "sides:cand"},
            "stages": [stage],
        }
        write_pack(folder / "golden.arrow", np.arange(samples), {"x": X[:samples]})
        made = paritygate.record(
            paritygate.load_plan(plan, folder=folder), "cand", out=folder / "cand.rec.arrow"
        )
        assert made.exit_code == 0
        write_pack(folder / "golden.arrow", np.arange(len(X)), {"x": X})
        plan["runners"] = {"ref": "sides:ref", "cand": "cand.rec.arrow"}
        return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)

    return Call("run", make)


RESTLESS = """
import itertools

turns = itertools.count()

def ref(g):
    return {"y": (g["x"] + next(turns) * np.float32(0.5)).astype(np.float32)}

def cand(g):
    return {"y": g["x"] + 0}
"""
WIDE = {"atol": 100.0, "rtol": 0.0}
NOISE = {"vary": ["repetition"]}

ROWS += [
    Case(
        "ships",
        "a recording of the candidate that was made of another golden pack",
        recorded_of(63),
        unjudged("golden.other_pack"),
        ("recorded from another golden pack", "record it anew"),
    ),
    Case("ships", "a recording of the candidate, of this golden pack", recorded_of(64), RELEASE),
    Case(
        "vacuous",
        "dynamic quantisation per tensor, a tolerance below its noise by batch size, noise asked",
        Models(
            per_tensor,
            None,
            X,
            {"atol": 1e-4, "rtol": 0.0},
            cand_options={"graph_optimization_level": "disable"},
            plan={"noise": {}},
        ),
        hold("policy.below_noise"),
        ("exceeds it against itself (batch size 1, not 256)",),
    ),
    Case(
        "vacuous",
        "a reference that answers otherwise each time, within a wide tolerance, noise asked",
        Functions(RESTLESS, X, WIDE, batch_size=64, plan={"noise": NOISE}),
        RELEASE,
    ),
]
