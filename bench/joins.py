"""Ids joined: look-ups in a pack's index against a dict and against NumPy in memory.

Both sides begin with the ids as they lie in a pack and end with the row of every wanted id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from bench.make import pack
from bench.measure import Row, Scale, in_turn, seconds

from paritygate.golden.pack import open_pack

SAMPLES = 1_000_000
BLOCK = 8_192

Kind = Literal["ascending ints", "shuffled ints", "strings"]


@dataclass(frozen=True)
class Join:
    """All ids of a pack are looked up in another order, block by block."""

    kind: Kind

    @property
    def name(self) -> str:
        return f"join, {self.kind}"

    @property
    def labels(self) -> tuple[str, ...]:
        return (f"{self.name}, dict", f"{self.name}, NumPy")

    def measure(self, scale: Scale) -> list[Row]:
        samples = scale.size(SAMPLES, 2_000)
        rng = np.random.default_rng(26)
        numbers = np.arange(samples) if self.kind == "ascending ints" else rng.permutation(samples)
        ids: Any = [f"case-{n:08d}" for n in numbers] if self.kind == "strings" else numbers
        path = pack(scale.folder / "join.arrow", ids)
        stored = np.array(ids, dtype=object if self.kind == "strings" else np.int64)
        wanted = stored[rng.permutation(samples)]
        blocks = [wanted[at : at + BLOCK] for at in range(0, samples, BLOCK)]

        def ours() -> None:
            with open_pack([path], scale.folder) as golden:
                golden.scan_ids()
                index = golden.index()
                for block in blocks:
                    assert (index.rows(block) >= 0).all()

        def with_dict() -> None:
            rows = {id_: row for row, id_ in enumerate(stored.tolist())}
            for block in blocks:
                np.array([rows[id_] for id_ in block.tolist()])

        def with_numpy() -> None:
            order = np.argsort(stored, kind="stable")
            ordered = stored[order]
            for block in blocks:
                order[np.searchsorted(ordered, block)]

        works = {"ours": ours, "dict": with_dict, "numpy": with_numpy}
        timed = {name: (lambda work=work: seconds(work)) for name, work in works.items()}
        found = in_turn(scale, timed)
        path.unlink()
        us = {name: [1e6 * s / samples for s in values] for name, values in found.items()}
        unit = "µs/id"
        return [
            Row.against(self.labels[0], us["ours"], unit, us["dict"], "dict in memory"),
            Row.against(self.labels[1], us["ours"], unit, us["numpy"], "NumPy sort and search"),
        ]
