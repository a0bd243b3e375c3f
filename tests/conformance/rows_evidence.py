"""Rows about what a release rests on: samples that were made up, and edges that none comes near."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.conformance.case import RELEASE, Call, Case, hold, unjudged
from tests.packs import write_pack

import paritygate

KEY = "paritygate.evidence"
SCORES = np.float32([0.1, 0.1999999, 0.2, 0.5, 0.9]).reshape(-1, 1)


def _plan(golden: Path, **more: Any) -> dict[str, Any]:
    echo = {"kind": "null", "echo": {"score": "score"}}
    stage = {"reference": "a", "candidate": "b", "self": True, "default": {"atol": 0, "rtol": 0}}
    return {
        "golden": str(golden),
        "runners": {"a": echo, "b": echo},
        "stages": [stage],
        "decisions": {"d": {"output": "score", "bands": "accept < 0.2 <= review <= 0.8 < reject"}},
        **more,
    }


def _made_up(folder: Path, marks: list[str | None], way: str, least: int = 1) -> Any:
    path = write_pack(
        folder / "golden.arrow",
        [f"s{n}" for n in range(5)],
        {"score": SCORES},
        columns={KEY: pa.array(marks, pa.string())},
    )
    if way == "built":
        paritygate.build_from(folder / "built.arrow", path)
        path = folder / "built.arrow"
    elif way == "arrays":
        paritygate.export_pack(path, folder / "arrays.npz", rows=range(5))
        inputs = ["score=in.score"]
        paritygate.build_from(folder / "built.arrow", folder / "arrays.npz", inputs=inputs)
        path = folder / "built.arrow"
    return paritygate.run(_plan(path, min_samples=least), out=None)


def _one_side(folder: Path, marked: str) -> Any:
    """Two recordings of made-up samples, one of which has lost its mark."""
    paths = []
    for side in ("reference", "candidate"):
        columns = {KEY: pa.array(["synthetic"] * 5)} if side == marked else {}
        paths.append(
            write_pack(
                folder / f"{side}.arrow",
                [f"s{n}" for n in range(5)],
                outputs={"score": SCORES},
                columns=columns,
            )
        )
    return paritygate.compare(*paths, out=None, atol=0, rtol=0)


def _near(folder: Path, **demand: Any) -> Any:
    path = write_pack(folder / "golden.arrow", [f"s{n}" for n in range(5)], {"score": SCORES})
    return paritygate.run(_plan(path, require_coverage={"decisions": {"d": demand}}), out=None)


def _rows() -> list[Case]:
    made, some = ["synthetic"] * 5, ["synthetic"] * 2 + [None] * 3
    cases = [
        (f"all samples are made up{told}", partial(_made_up, marks=made, way=way))
        for told, way in (
            ("", "as it is"),
            (", in a pack that was built of their pack", "built"),
            (", in a pack that was built of their arrays", "arrays"),
        )
    ]
    held = [
        Case("made up", name, Call("run", make), hold("evidence.synthetic"), ("all 5 samples",))
        for name, make in cases
    ]
    lost = [
        Case(
            "made up",
            f"of two recordings of made-up samples only the {side} says so",
            Call("compare", partial(_one_side, marked=side)),
            hold("evidence.synthetic"),
            ("all 5 samples",),
        )
        for side in ("reference", "candidate")
    ]
    odd = ["yes"] * 5
    return [
        *held,
        *lost,
        Case(
            "made up",
            "all samples are marked by a word that means nothing",
            Call("run", partial(_made_up, marks=odd, way="as it is")),
            unjudged("golden.value"),
            ("says 'yes'",),
        ),
        Case(
            "made up",
            "three samples are real, as many as are demanded, and two are made up",
            Call("run", partial(_made_up, marks=some, way="built", least=3)),
            RELEASE,
        ),
        Case(
            "made up",
            "three samples are real where four are demanded, and two are made up",
            Call("run", partial(_made_up, marks=some, way="built", least=4)),
            hold("evidence.too_few"),
            ("besides 2 synthetic ones",),
        ),
        Case(
            "uncovered",
            "a tie on each edge is demanded, and no score lies on one of them",
            Call("run", partial(_near, ties=1)),
            hold("evidence.uncovered"),
            ("no scores of the reference exactly on edge 0.8",),
        ),
        Case(
            "uncovered",
            "each edge has scores on either side that are as near as is demanded",
            Call("run", partial(_near, within=0.31)),
            RELEASE,
        ),
        Case(
            "uncovered",
            "the nearest score above an edge is further away than is demanded",
            Call("run", partial(_near, within=0.05)),
            hold("evidence.uncovered"),
            ("on the side below edge 0.8", "on the side above edge 0.8"),
        ),
    ]


ROWS = _rows()
