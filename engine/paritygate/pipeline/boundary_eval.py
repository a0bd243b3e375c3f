"""What the reference of a decision answers to made inputs, and what is decided of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from paritygate.comparison.decide.function import Function
from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.rows import SampleRows
from paritygate.core.bands import Bands
from paritygate.core.dtypes import dtype_name
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.ragged import Ragged
from paritygate.core.tensors import Array, Block
from paritygate.pipeline.batches import Cut, ask
from paritygate.pipeline.span import Prepared
from paritygate.runners.base import RunnerSession
from paritygate.tally.decision import UNDEFINED
from paritygate.tally.stage import Hits

Sample = Mapping[str, Array]


class Seen(Struct, frozen=True):
    """What is decided of one sample.

    Attributes:
        key: equal for equal decisions; None: there is none (NaN, or the reference raised).
        margin: distance of what is decided from being decided otherwise; NaN where there is none.
    """

    key: Hashable | None
    margin: float


NOTHING = Seen(None, float("nan"))


class Reference:
    """One output of a reference, for samples of one shape; counts what it is asked.

    Attributes:
        asked: samples answered so far.
    """

    def __init__(self, prepared: Prepared, session: RunnerSession, output: str) -> None:
        self._session = session
        self._output = output
        self._cut = Cut.of(session.runner, prepared.plan.table.dims.batch)
        self.at_once = min(64, self._cut.size or 64)
        self.asked = 0

    def answer(self, samples: Sequence[Sample]) -> list[Array | None]:
        """The output of each sample; None where there is none."""
        self.asked += len(samples)
        count = len(samples)
        inputs = {}
        for name in samples[0]:
            stacked = np.stack([sample[name] for sample in samples])
            stacked.flags.writeable = False
            inputs[name] = stacked
        ids: Any = np.arange(count)
        rows = SampleRows(0, np.arange(count), ids, {}, {}, Hits())
        answers: list[Array | None] = []
        for batch in self._cut.batches(Block(0, 0, 0, count), rows, inputs):
            lease, _ = ask(self._session, batch)
            found = None if lease is None else lease.outputs.get(self._output)
            answers += (
                [None] * batch.valid
                if found is None
                else [np.array(found[at]) for at in range(batch.valid)]
            )
            if lease is not None:
                if isinstance(found, Ragged):
                    answers[-batch.valid :] = [None] * batch.valid
                lease.release()
        return answers


class Decider:
    """One decision of one place of an output, or of one edge of its bands."""

    def __init__(
        self, rule: DecisionRule, edge: int | None, place: int, function: Function | None
    ) -> None:
        self._rule = rule if edge is None else _one_edge(rule, edge)
        self._place = place
        self._function = function
        self._comparer: tuple[tuple[str, tuple[int, ...]], DecisionComparer] | None = None

    def decide(self, answers: Sequence[Array | None]) -> list[Seen]:
        """What is decided of each answer."""
        there = [at for at, answer in enumerate(answers) if answer is not None]
        seen = [NOTHING] * len(answers)
        if not there:
            return seen
        stacked = np.stack([a for a in answers if a is not None])
        rule, values = _at_place(self._rule, stacked, self._place)
        comparer = self._comparer_of(rule, values)
        _, detail = comparer.compare(values, values, np.arange(len(values)))
        for at, sample in enumerate(there):
            seen[sample] = Seen(self._key(detail, at), float(detail.margin[at]))
        return seen

    def _key(self, detail: Any, at: int) -> Hashable | None:
        if self._rule.equal or self._rule.python is not None:
            text: str = detail.tell(at)[0]
            return text
        code = detail.ref[at]
        if np.ndim(code) == 0:
            return None if code == UNDEFINED else int(code)
        if code[0] == UNDEFINED:
            return None
        ranked = tuple(int(c) for c in code)
        return ranked if self._rule.order == "ranked" else tuple(sorted(ranked))

    def name(self, key: Hashable) -> str:
        """A decision as text."""
        if isinstance(key, str) or self._comparer is None:
            return str(key)
        names = self._comparer[1].names
        codes = key if isinstance(key, tuple) else (key,)
        return "+".join(names[code] for code in codes)

    def _comparer_of(self, rule: DecisionRule, values: Array) -> DecisionComparer:
        dtype = "string" if values.dtype.kind in "OUT" else dtype_name(values.dtype)
        key = dtype, values.shape[1:]
        if self._comparer is None or self._comparer[0] != key:
            made = DecisionComparer(
                rule, Tolerance(), dtype, dtype, values.shape[1:], "gate", self._function
            )
            self._comparer = key, made
        return self._comparer[1]


def places_of(rule: DecisionRule, shape: Sequence[int]) -> int:
    """Decisions that a sample of this shape of the output has."""
    total = int(np.prod(shape, dtype=np.int64))
    if rule.elementwise:
        return total
    if rule.argmax or rule.topk is not None:
        axis = rule.axis if rule.axis >= 0 else rule.axis + len(shape) + 1
        return total // max(1, shape[axis - 1])
    return 1


def _at_place(rule: DecisionRule, values: Array, place: int) -> tuple[DecisionRule, Array]:
    """The rule and the values of one place of every sample."""
    if rule.elementwise:
        one = values.reshape(len(values), -1)[:, place : place + 1]
        return replace(rule, elementwise=False), np.ascontiguousarray(one)
    if rule.argmax or rule.topk is not None:
        moved = np.moveaxis(values, rule.axis, -1)
        rows = moved.reshape(len(values), -1, moved.shape[-1])[:, place]
        return replace(rule, axis=-1), np.ascontiguousarray(rows)
    return rule, values


def _one_edge(rule: DecisionRule, k: int) -> DecisionRule:
    bands = rule.bands
    assert bands is not None
    one = Bands(
        ("below", "above"), bands.edges[k : k + 1], bands.tie_up[k : k + 1], f"edge {k} of a rule"
    )
    return replace(rule, bands=one)
