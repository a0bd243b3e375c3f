"""A runner that keeps the contract, and runners that each break it in one way."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paritygate.core.errors import RunnerError
from paritygate.core.tensors import Array, Batch, TensorSpec
from paritygate.runners.base import (
    Finding,
    Lease,
    Limits,
    PrepareContext,
    Runner,
    RunnerSession,
    RunnerSpec,
    describe_batch,
)
from paritygate.testing import RunnerContract


class Double(Runner):
    """y = 2 x."""

    limits_given = Limits(None, True)
    declared: Mapping[str, TensorSpec] | None = {"y": TensorSpec("y", "float32", ("batch", 4))}

    def __init__(self, spec: RunnerSpec) -> None:
        x = TensorSpec("x", "float32", ("batch", 4))
        self.options = repr(spec.options)
        super().__init__(
            spec.name,
            spec.kind,
            limits=self.limits_given,
            inputs={"x": x},
            outputs=self.declared,
            identity=self.digest(),
            facts=self.told(),
        )
        self.counter = itertools.count()
        self.shared = np.empty(0, np.float32)
        self.lock = threading.Lock()
        self.is_closed = False

    def digest(self) -> str:
        return hashlib.sha256(self.options.encode()).hexdigest()

    def told(self) -> dict[str, Any]:
        return {"factor": 2}

    def session(self) -> RunnerSession:
        return Session(self)

    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        return {"y": 2 * x}

    def absent(self, batch: Batch) -> dict[str, Array]:
        raise RunnerError(f"{describe_batch(self.name, batch)}: lacks the input 'x'")


class Session(RunnerSession):
    def _run_impl(self, batch: Batch) -> Lease:
        runner = self.runner
        assert isinstance(runner, Double)
        x = batch.inputs.get("x")
        return Lease(runner.absent(batch) if x is None else runner.answer(batch, x))


class Wrong(Double):
    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        return {"y": np.nextafter(2 * x, np.float32(np.inf))}


class WrongDtype(Double):
    declared = None

    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        return {"y": (2 * x).astype(np.float64)}


class OneMore(Double):
    declared = None

    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        return {"y": 2 * x, "z": x}


class Restless(Double):
    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        return {"y": 2 * x + next(self.counter)}


class OneBuffer(Double):
    """Answers with one buffer that the next batch overwrites."""

    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        if self.shared.shape != x.shape:
            self.shared = np.empty_like(x)
        np.multiply(x, 2, out=self.shared)
        return {"y": self.shared}


class FirstSizeOnly(Double):
    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        if len(x) < 8:
            return {"y": x}
        return {"y": 2 * x}


class NotThreadSafe(Double):
    """Raises where two batches run at once, though it says that they may."""

    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        if not self.lock.acquire(blocking=False):
            raise RunnerError("two at once")
        try:
            threading.Event().wait(0.001)
            return {"y": 2 * x}
        finally:
            self.lock.release()


class MeanOfBatch(Double):
    """The rows that a batch is padded with change the others."""

    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        same = np.all(x[1:] == x[:-1], axis=1)
        return {"y": 2 * x + np.float32(same.any())}


class Overwrites(Double):
    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        result = 2 * x
        x.flags.writeable = True
        x += 1
        return {"y": result}


class NewIds(Double):
    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        batch.ids[:] = 7
        return {"y": 2 * x}


class NoIdentity(Double):
    def digest(self) -> str:
        return "double"


class OwnIdentity(Double):
    def digest(self) -> str:
        return hashlib.sha256(str(id(self)).encode()).hexdigest()


class AnswersAnything(Double):
    def absent(self, batch: Batch) -> dict[str, Array]:
        return {"y": np.zeros((batch.size, 4), np.float32)}


class RaisesAnything(Double):
    def absent(self, batch: Batch) -> dict[str, Array]:
        raise KeyError("x")


class NamesNothing(Double):
    def absent(self, batch: Batch) -> dict[str, Array]:
        raise RunnerError("something is wrong")


class DiesOfAnError(Double):
    def absent(self, batch: Batch) -> dict[str, Array]:
        self.is_closed = True
        return super().absent(batch)

    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        if self.is_closed:
            raise RunnerError("it is over")
        return {"y": 2 * x}


class CloseRaises(Double):
    def close(self) -> None:
        if self.is_closed:
            raise ValueError("closed already")
        self.is_closed = True


class CloseWipes(OneBuffer):
    def close(self) -> None:
        self.shared[...] = 0


class ArrayFacts(Double):
    def told(self) -> dict[str, Any]:
        return {"factor": (2, 3)}  # JSON has lists only


class NanFacts(Double):
    def told(self) -> dict[str, Any]:
        return {"factor": float("nan")}


class DeclaresMore(Double):
    declared: Mapping[str, TensorSpec] | None = {
        "y": TensorSpec("y", "float32", ("batch", 4)),
        "z": TensorSpec("z", "float32", ("batch", 4)),
    }


class DeclaresOtherDims(Double):
    declared: Mapping[str, TensorSpec] | None = {"y": TensorSpec("y", "float32", ("batch", 7))}


class OneIdentity(Double):
    """The same identity whatever its options are."""

    def digest(self) -> str:
        return hashlib.sha256(b"double").hexdigest()


class NullIdentity(Double):
    def digest(self) -> str:
        return None  # type: ignore[return-value]


class NoRows(Double):
    limits_given = Limits((0,), True)


class NoLimits(Double):
    limits_given = None  # type: ignore[assignment]


class FindingsRaise(Double):
    def final_findings(self) -> tuple[Finding, ...]:
        raise ValueError("findings")


class FindingsNone(Double):
    def final_findings(self) -> tuple[Finding, ...]:
        return None  # type: ignore[return-value]


class FindingsLost(Double):
    def __init__(self, spec: RunnerSpec) -> None:
        super().__init__(spec)
        self.findings = (Finding("placement.downgraded", "runs on the CPU"),)

    def final_findings(self) -> tuple[Finding, ...]:
        return ()


class FindsItself(Double):
    """As a plug-in's runner tells of facts that can't be read any more."""

    def final_findings(self) -> tuple[Finding, ...]:
        return (Finding("runner.error", "facts can't be read"),)


class FixedSize(Double):
    """Not broken: it takes batches of 16 only."""

    limits_given = Limits((16,), False, is_fixed=True)

    def answer(self, batch: Batch, x: Array) -> dict[str, Array]:
        if len(x) != 16:
            raise RunnerError(f"{len(x)} rows")
        return {"y": 2 * x}


class Contract(RunnerContract):
    """The suite over one of the classes above."""

    def __init__(self, kind: type[Double]) -> None:
        self.kind = kind

    def table(self, folder: Path) -> object:
        return {"kind": "null", "echo": {"y": "x"}}

    def other_table(self, folder: Path) -> object:
        return {"kind": "null", "echo": {"y": "x", "z": "x"}}

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": 2 * inputs["x"]}

    def prepare(self, spec: RunnerSpec, context: PrepareContext) -> Runner:
        return self.kind(spec)


CHECKS = sorted(name for name in vars(RunnerContract) if name.startswith("test_"))
