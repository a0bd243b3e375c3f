"""Rows made of what runs: functions and ONNX models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.conformance.case import Answer, answer
from tests.packs import write_pack

import paritygate

Table = Mapping[str, Any]
Make = Callable[[Path], Path]
EXACT: Table = {"atol": 0.0, "rtol": 0.0}


@dataclass(frozen=True)
class Functions:
    """Two functions, `ref` and `cand`, of one Python source text.

    Attributes:
        source: defines both; NumPy is there as `np`.
        x: `(n, *shape)`, the only input, named `x`.
        rule: tolerance of every output.
        batch_size: rows of a batch.
        plan: further keys of the plan.
        in_verify: whether it goes through `verify` too, which runs all samples as one batch.
    """

    source: str
    x: Any
    rule: Table = field(default_factory=lambda: EXACT)
    batch_size: int = 4
    plan: Table = field(default_factory=dict)
    in_verify: bool = False

    @property
    def doors(self) -> tuple[str, ...]:
        return ("run", "verify") if self.in_verify else ("run",)

    def judge(self, door: str, folder: Path) -> Answer:
        source = "import numpy as np\n\n" + self.source
        if door == "verify":
            names: dict[str, Any] = {}
            exec(compile(source, "sides", "exec"), names)
            inputs = {"x": np.asarray(self.x)}
            return answer(
                lambda: paritygate.verify(names["ref"], names["cand"], inputs, **self.rule)
            )
        (folder / "sides.py").write_text(source, encoding="utf-8")
        golden = write_pack(folder / "golden.arrow", np.arange(len(self.x)), {"x": self.x})
        plan = {
            "golden": golden.name,
            "runners": {
                side: {"call": f"sides:{side}", "batch_size": self.batch_size}
                for side in ("ref", "cand")
            },
            "stages": [{"reference": "ref", "candidate": "cand", "default": dict(self.rule)}],
            **self.plan,
        }
        return answer(lambda: paritygate.run(paritygate.load_plan(plan, folder=folder), out=None))


@dataclass(frozen=True)
class Models:
    """Two ONNX models through ONNX Runtime.

    Attributes:
        ref, cand: make a model in a folder of its own and return its path; a candidate that
            isn't given is the reference's own file.
        x: `(n, *shape)`, the only input, named `x`.
        rule: tolerance of every output.
        ref_options, cand_options: further keys of the runners.
        plan: further keys of the plan.
        stage: further keys of the stage.
        in_verify: whether it goes through `verify` too.
    """

    ref: Make
    cand: Make | None
    x: Any
    rule: Table = field(default_factory=lambda: EXACT)
    ref_options: Table = field(default_factory=dict)
    cand_options: Table = field(default_factory=dict)
    plan: Table = field(default_factory=dict)
    stage: Table = field(default_factory=dict)
    in_verify: bool = False

    @property
    def doors(self) -> tuple[str, ...]:
        return ("run", "verify") if self.in_verify else ("run",)

    def judge(self, door: str, folder: Path) -> Answer:
        ref, cand = self._make(folder)
        runners = {
            "ref": {"model": str(ref), **self.ref_options},
            "cand": {"model": str(cand), **self.cand_options},
        }
        if door == "verify":
            inputs = {"x": np.asarray(self.x)}
            return answer(
                lambda: paritygate.verify(runners["ref"], runners["cand"], inputs, **self.rule)
            )
        golden = write_pack(folder / "golden.arrow", np.arange(len(self.x)), {"x": self.x})
        stage = {"reference": "ref", "candidate": "cand", "default": dict(self.rule)}
        plan = {
            "golden": str(golden),
            "runners": runners,
            "stages": [{**stage, **self.stage}],
            **self.plan,
        }
        return answer(lambda: paritygate.run(plan, out=None))

    def _make(self, folder: Path) -> tuple[Path, Path]:
        paths = []
        for side, make in (("ref", self.ref), ("cand", self.cand)):
            if make is not None:
                (folder / side).mkdir()
                paths.append(make(folder / side))
        return paths[0], paths[-1]
