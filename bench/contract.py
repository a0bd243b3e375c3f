"""The contract of an input checked against pure reading of the same mapped pack, block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bench.make import pack, random_values
from bench.measure import Row, Scale, in_turn, seconds

from paritygate.core.tables import InputTable
from paritygate.golden.pack import open_pack
from paritygate.pipeline.contract import make_contract

ELEMENTS = 64_000_000
BLOCK_BYTES = 1 << 20
LIMIT = 2.0  # at least half of what reading alone comes to


@dataclass(frozen=True)
class Contract:
    """A range for each channel of float32 samples, all of which keep it."""

    width: int

    @property
    def name(self) -> str:
        return f"contract, float32 x {self.width}"

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name,)

    def measure(self, scale: Scale) -> list[Row]:
        samples = max(1, scale.size(ELEMENTS, 40_000) // self.width)
        x = random_values(samples, (self.width,))
        path = pack(scale.folder / f"contract-{self.width}.arrow", np.arange(samples), {"x": x})
        pairs = [[-100.0 - channel, 100.0 + channel] for channel in range(self.width)]
        rows = max(1, BLOCK_BYTES // (4 * self.width))
        with open_pack([path], scale.folder) as opened:
            opened.scan_ids()
            table = InputTable.model_validate({"range": pairs})
            contract = make_contract("x", table, opened.inputs["x"])
            cuts = [(at, min(at + rows, samples)) for at in range(0, samples, rows)]

            def ours() -> None:
                for cut in cuts:
                    assert contract.check(opened.input("x", *cut)) is None

            def read() -> None:
                for cut in cuts:
                    opened.input("x", *cut).view(np.int32).max()

            works = {"ours": ours, "read": read}
            timed = {name: (lambda work=work: seconds(work)) for name, work in works.items()}
            found = in_turn(scale, timed)
        path.unlink()
        ns = {name: [1e9 * s / x.size for s in values] for name, values in found.items()}
        what = "reading the mapped pack"
        return [Row.against(self.name, ns["ours"], "ns/element", ns["read"], what, limit=LIMIT)]
