"""Samples that break the contract: found before anything runs, each with its first violation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.core.tensors import Array
from paritygate.core.violation import Violation
from paritygate.golden.pack import GoldenPack
from paritygate.tally.stage import FIRST, Hits

if TYPE_CHECKING:
    from paritygate.comparison.rows import Ids
    from paritygate.pipeline.input_contract import InputContract
    from paritygate.pipeline.shape_contract import ShapeContract

Outcome = Literal["rejected", "as_expected", "not_rejected"]


class Rejected(Struct, frozen=True):
    """A sample that was not run, and why.

    Attributes:
        outcome: "as_expected" where the pack expects it; "not_rejected" where the pack does, but
            the sample breaks nothing.
    """

    ordinal: int
    sample_id: int | str
    violation: Violation
    outcome: Outcome = "rejected"


def hits_of(rejected: Sequence[Rejected], outcome: Outcome) -> Hits:
    """How many there are of an outcome, and the first few."""
    some = [(r.ordinal, r.sample_id) for r in rejected if r.outcome == outcome]
    return Hits(len(some), tuple(some[:FIRST]))


def find_rejected(
    pack: GoldenPack,
    contracts: Sequence[InputContract],
    shapes: ShapeContract,
    ordinals: npt.NDArray[np.int64],
    ids: Ids,
    inputs: Mapping[str, Array],
) -> list[Rejected]:
    """Samples of one shape whose inputs break a contract, in the order given.

    Args:
        pack: read for inputs that haven't been.
        contracts: of the inputs.
        shapes: what their shapes must satisfy.
        ordinals: `(n,)` rows over all golden files, at least one.
        ids: `(n,)` of these samples.
        inputs: name -> `(n, *shape)`, as far as they have been read.
    """
    misshapen = _misshapen(pack, shapes, int(ordinals[0]))
    if misshapen is not None:
        pairs = zip(ordinals.tolist(), ids.tolist(), strict=True)
        return [Rejected(ordinal, sample_id, misshapen) for ordinal, sample_id in pairs]
    found: dict[int, Rejected] = {}
    for contract in contracts:
        if contract.asks_nothing:
            continue
        array = inputs.get(contract.name)
        if array is None:
            array = pack.take_input(contract.name, ordinals)
        broken = contract.check(array)
        for row, first, count in broken.each() if broken is not None else ():
            if row not in found:
                violation = contract.describe(array[row, ...], first, count)
                sample_id = ids[row : row + 1].tolist()[0]
                found[row] = Rejected(int(ordinals[row]), sample_id, violation)
    return [found[row] for row in sorted(found)]


def _misshapen(pack: GoldenPack, contract: ShapeContract, at: int) -> Violation | None:
    shapes = {name: pack.input_shapes(name, at, at + 1)[0].tolist() for name in contract.dims}
    return contract.violation(shapes)
