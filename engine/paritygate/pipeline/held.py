"""A pack held against the contract of a plan, without any model: streamed, as a run would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from paritygate.core.plan import Plan
from paritygate.core.text import clean
from paritygate.golden.check_words import Status
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.contract import check_outputs, input_contracts
from paritygate.pipeline.expect import expect_column, hold_to_expected, must_reject
from paritygate.pipeline.impute import imputations, impute_inputs
from paritygate.pipeline.input_contract import InputContract
from paritygate.pipeline.reject import Outcome, Rejected, find_rejected
from paritygate.pipeline.shape_contract import ShapeContract

_STEP = 4_096
_TOLD = 10


class Held(Struct):
    """What a contract makes of the samples of a pack.

    Attributes:
        allowed: samples that may break it.
        inputs: that have a contract.
        counts: samples that aren't run, by outcome.
        by_name: of those that nobody expects, by the input that is at fault first.
        first: the first ones, by input; "" stands for those that were to be rejected in vain.
    """

    allowed: int
    inputs: tuple[str, ...]
    counts: Counter[Outcome] = field(default_factory=Counter)
    by_name: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[Rejected]] = field(default_factory=dict)

    def add(self, one: Rejected) -> None:
        """Count a sample that isn't run."""
        self.counts[one.outcome] += 1
        if one.outcome == "as_expected":
            return
        name = one.violation.input
        self.by_name[name] += one.outcome == "rejected"
        some = self.first.setdefault(name, [])
        if len(some) < _TOLD:
            some.append(one)

    def by_input(self) -> dict[str, Any]:
        """Count and first ids of the samples that nobody expects to be rejected, by input."""
        return {
            name: {
                "count": self.by_name[name],
                "first": [r.sample_id for r in self.first.get(name, ())],
            }
            for name in dict.fromkeys([*self.inputs, *(n for n in self.by_name if n)])
        }

    def summary(self) -> dict[str, Any]:
        """Counts for programs."""
        return {
            "rejected": self.counts["rejected"],
            "allowed": self.allowed,
            "as_expected": self.counts["as_expected"],
            "not_rejected": self.counts["not_rejected"],
        }


def hold_to_contract(plan: Plan, pack: GoldenPack) -> Held:
    """Hold every sample of a scanned pack against the contract of a plan.

    Raises:
        PlanError: the plan contradicts the pack.
        GoldenError: a value that can't be read.
    """
    contracts = input_contracts(plan, pack.inputs)
    check_outputs(plan, pack.outputs)
    shapes, column = ShapeContract.of(plan), expect_column(plan, pack)
    some = imputations(plan, pack.inputs)
    held = Held(plan.table.max_rejected, tuple(contract.name for contract in contracts))
    for start, stop in pack.batch_spans(_STEP):
        ids = pack.ids(start, stop)
        rows = np.arange(start, stop, dtype=np.int64)
        found: list[Rejected] = []
        for group in _groups(pack, contracts, shapes, start, stop):
            part = rows[group], ids[group]
            inputs, _ = impute_inputs(some, pack, part[0], {})
            found += find_rejected(pack, contracts, shapes, *part, inputs)
        if column is not None:
            must = must_reject(pack, column, start, stop, None)
            found = hold_to_expected(found, must, rows, ids)
        for one in sorted(found, key=lambda r: r.ordinal):
            held.add(one)
        pack.done_until(stop)
    return held


def describe_held(held: Held) -> list[tuple[Status, str]]:
    """Status and sentence of each input, and of what the pack expects."""
    return [*_inputs(held), *_expected(held)]


def _groups(
    pack: GoldenPack, contracts: list[InputContract], shapes: ShapeContract, start: int, stop: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Offsets of the samples of one shape each."""
    names = dict.fromkeys([*(c.name for c in contracts), *shapes.dims])
    varying = [name for name in names if not pack.inputs[name].is_fixed]
    if not varying:
        yield np.arange(stop - start, dtype=np.int64)
        return
    sizes = np.concatenate([pack.input_shapes(name, start, stop) for name in varying], axis=1)
    _, of = np.unique(sizes, axis=0, return_inverse=True)
    for number in range(int(of.max()) + 1):
        yield np.flatnonzero(of.reshape(-1) == number)


def _inputs(held: Held) -> Iterator[tuple[Status, str]]:
    is_allowed = held.counts["rejected"] <= held.allowed
    for name in held.by_input():
        count = held.by_name[name]
        if not count:
            yield "ok", f"input {name}: every sample is within the plan's contract"
            continue
        verb = "sample breaks" if count == 1 else "samples break"
        some = held.first[name]
        told = ", ".join(repr(r.sample_id) for r in some) + (", ..." if count > len(some) else "")
        worst = f"{some[0].sample_id!r}: {clean(some[0].violation)}"
        within = f" ({held.allowed} allowed)" if held.allowed else ""
        text = f"input {name}: {count} {verb} the plan's contract{within}: {told}; {worst}"
        yield "note" if is_allowed else "fail", text


def _expected(held: Held) -> Iterator[tuple[Status, str]]:
    good, bad = held.counts["as_expected"], held.counts["not_rejected"]
    if not good + bad:
        return
    if not bad:
        yield "ok", f"all {good} samples that are expected to be rejected break the contract"
        return
    some = ", ".join(repr(r.sample_id) for r in held.first[""])
    more = ", ..." if bad > len(held.first[""]) else ""
    told = f"{bad} of {good + bad} samples that are expected to be rejected satisfy the contract"
    yield "fail", f"contract.not_rejected: {told}: {some}{more}"
