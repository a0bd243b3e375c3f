"""Rows made of recorded outputs: plain arrays, or two packs whose ids and columns differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.conformance.case import Answer, answer, answer_assertion
from tests.packs import write_pack

import paritygate

Table = Mapping[str, Any]
NO_TABLE: Table = {}


@dataclass(frozen=True)
class Pair:
    """One output `y` on both sides, the same ids; judged alike through every door that fits.

    Attributes:
        ref, cand: `(n, *shape)`; the candidate's pack has its samples in reverse order.
        atol, rtol, nonfinite: the rule; None leaves a key out.
        more: further keys of the tolerance.
        is_named: whether the tolerance names the output; else it is the stage's default.
        bands, argmax: a decision on `y`.
        decision: further keys of that decision.
        flips: allowed flips.
        label: `(n,)` labels in the golden pack.
        ids: `(n,)`; 100, 101, ... by default.
    """

    ref: Any
    cand: Any
    atol: float | None = 0.0
    rtol: float | None = 0.0
    nonfinite: str = "fail"
    more: Table = field(default_factory=dict)
    is_named: bool = True
    bands: str | None = None
    argmax: bool = False
    decision: Table = field(default_factory=dict)
    flips: int = 0
    label: Sequence[Any] | None = None
    ids: Sequence[Any] | None = None

    @property
    def doors(self) -> tuple[str, ...]:
        is_decided = self.bands is not None or self.argmax
        is_plain = not self.flips and not self.decision and self.label is None
        doors = ["run", "run, gate tier"]
        if is_plain:
            doors += ["compare", "verify"]
        is_rule_for_all = np.asarray(self.ref).dtype.kind == "f" or not self.atol
        if is_plain and self.is_named and not is_decided and not self.more and is_rule_for_all:
            doors.append("assert_parity")
        return tuple(doors)

    def judge(self, door: str, folder: Path) -> Answer:
        if door == "assert_parity":
            return answer_assertion(self.ref, self.cand, self._rule())
        if door == "verify":
            return answer(self._verify)
        ref, cand = self._write(folder)
        if door == "compare":
            return answer(lambda: self._compare(ref, cand))
        tier = "gate" if door == "run, gate tier" else "full"
        return answer(lambda: paritygate.run(self._plan(ref, cand), out=None, stats=tier))

    def _rule(self) -> dict[str, Any]:
        given = {"atol": self.atol, "rtol": self.rtol, "nonfinite": self.nonfinite, **self.more}
        return {key: value for key, value in given.items() if value is not None}

    def _decision(self) -> dict[str, Any]:
        if self.bands is None and not self.argmax:
            return {}
        rule = {"bands": self.bands} if self.bands is not None else {"argmax": True}
        return {"decision": {"output": "y", **rule, **self.decision}}

    def _write(self, folder: Path) -> tuple[Path, Path]:
        ids = list(self.ids if self.ids is not None else range(100, 100 + len(self.ref)))
        ref = write_pack(folder / "ref.arrow", ids, outputs={"y": self.ref}, label=self.label)
        cand = write_pack(
            folder / "cand.arrow",
            ids[::-1],
            outputs={"y": np.asarray(self.cand)[::-1]},
            metadata={"sample_id": {"recorded by": "the candidate"}},
        )
        return ref, cand

    def _plan(self, ref: Path, cand: Path) -> dict[str, Any]:
        rule = self._rule()
        stage: dict[str, Any] = {"reference": "ref", "candidate": "cand"}
        stage |= {"outputs": {"y": rule}} if self.is_named else {"default": rule}
        if self.flips:
            stage["flips"] = {"decision": self.flips}
        return {
            "golden": str(ref),
            "runners": {"ref": "recorded", "cand": str(cand)},
            "stages": [stage],
            "decisions": self._decision(),
        }

    def _compare(self, ref: Path, cand: Path) -> Any:
        rule = self._rule()
        return paritygate.compare(
            ref,
            cand,
            **({"tolerances": {"y": rule}} if self.is_named else rule),
            bands=[f"y: {self.bands}"] if self.bands is not None else [],
            argmax=["y"] if self.argmax else [],
            out=None,
        )

    def _verify(self) -> Any:
        ref, cand = np.asarray(self.ref), np.asarray(self.cand)
        rule = self._rule()
        return paritygate.verify(
            lambda given: {"y": ref[given["row"]]},
            lambda given: {"y": cand[given["row"]]},
            {"row": np.arange(len(ref))},
            atol=rule.get("atol", 0.0),
            rtol=rule.get("rtol", 0.0),
            nonfinite=rule["nonfinite"],
            tolerances={"y": rule} if self.is_named else None,
            decisions=self._decision(),
        )


@dataclass(frozen=True)
class Recording:
    """A pack: ids, outputs, inputs and labels; `columns` as in `write_pack`."""

    ids: Any
    outputs: Table = field(default_factory=dict)
    inputs: Table = field(default_factory=dict)
    label: Any = None
    columns: Table = field(default_factory=dict)
    slices: Table = field(default_factory=dict)

    def write(self, path: Path, side: str) -> Path:
        """Write it; the side is noted in the file, so that equal recordings are two files."""
        return write_pack(
            path,
            self.ids,
            self.inputs,
            self.outputs,
            self.label,
            self.slices,
            columns=self.columns,
            metadata={"sample_id": {"recorded by": side}},
        )


@dataclass(frozen=True)
class Recordings:
    """Two packs, joined by id: the golden pack with the reference's outputs, and the candidate's.

    Attributes:
        rule: tolerance of every output, as the stage's default.
        plan: keys of the plan beside those, which then goes through `run` only.
        stage: further keys of the stage, likewise.
        runner: further keys of the candidate, likewise.
        options: further arguments of `run`, likewise.
    """

    ref: Recording
    cand: Recording
    rule: Table = field(default_factory=lambda: {"atol": 0.0, "rtol": 0.0})
    plan: Table = field(default_factory=dict)
    stage: Table = field(default_factory=dict)
    runner: Table = field(default_factory=dict)
    options: Table = field(default_factory=dict)

    @property
    def doors(self) -> tuple[str, ...]:
        is_plain = not (self.plan or self.stage or self.runner or self.options)
        return ("run", "compare") if is_plain else ("run",)

    def judge(self, door: str, folder: Path) -> Answer:
        ref = self.ref.write(folder / "ref.arrow", "reference")
        cand = self.cand.write(folder / "cand.arrow", "candidate")
        if door == "compare":
            return answer(lambda: paritygate.compare(ref, cand, **self.rule, out=None))
        runner = {"path": str(cand), **self.runner}
        stage = {"reference": "ref", "candidate": "cand", "default": dict(self.rule)}
        plan = {
            "golden": str(ref),
            "runners": {"ref": "recorded", "cand": runner},
            "stages": [{k: v for k, v in {**stage, **self.stage}.items() if v is not None}],
            **self.plan,
        }
        return answer(lambda: paritygate.run(plan, out=None, **self.options))
