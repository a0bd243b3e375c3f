"""Packs built and checked: rows a second, of small samples and of large ones.

The baseline of a build writes the same table with pyarrow, checking nothing; that of a check hashes
every row of the same array with hashlib.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench.make import pack, random_values
from bench.measure import Row, Scale, in_turn, seconds

import paritygate

BYTES = 256 << 20
MOST = 1_000_000

Work = Callable[[], None]
Verb = Literal["build", "check"]


@dataclass(frozen=True)
class Packs:
    """One verb over samples of so many float32 values."""

    verb: Verb
    width: int

    @property
    def name(self) -> str:
        return f"pack {self.verb}, {4 * self.width} bytes a sample"

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name,)

    def measure(self, scale: Scale) -> list[Row]:
        samples = scale.size(min(MOST, BYTES // (4 * self.width)), 1_000)
        x = random_values(samples, (self.width,))
        measure = self._build if self.verb == "build" else self._check
        return [measure(scale, x)]

    def _build(self, scale: Scale, x: np.ndarray) -> Row:
        columns = {
            "sample_id": pa.array(np.arange(len(x))),
            "in.x": pa.FixedShapeTensorArray.from_numpy_ndarray(x),
        }
        source = scale.folder / "source.parquet"
        table = pa.table(columns)
        pq.write_table(table, source, compression="none")
        out = scale.folder / "built.arrow"

        def ours() -> None:
            built = paritygate.build_from(out, source)
            assert built.samples == len(x)

        def plain() -> None:
            with pa.ipc.new_file(out, table.schema) as writer:
                for batch in pq.ParquetFile(source).iter_batches(16_384):
                    writer.write_batch(batch.cast(table.schema))

        row = self._row(scale, len(x), ours, plain, "pyarrow, unchecked")
        source.unlink()
        out.unlink()
        return row

    def _check(self, scale: Scale, x: np.ndarray) -> Row:
        path = pack(scale.folder / "checked.arrow", np.arange(len(x)), {"x": x})

        def ours() -> None:
            report = paritygate.check_pack(path)
            assert report.exit_code == 0, report.problems

        def plain() -> None:
            data, size = memoryview(x.reshape(-1).view(np.uint8)), 4 * self.width
            for at in range(0, len(data), size):
                hashlib.sha256(data[at : at + size]).digest()

        row = self._row(scale, len(x), ours, plain, "SHA-256 of each row")
        path.unlink()
        return row

    def _row(self, scale: Scale, samples: int, ours: Work, plain: Work, what: str) -> Row:
        works = {"ours": ours, "plain": plain}
        timed = {name: (lambda work=work: seconds(work)) for name, work in works.items()}
        found = in_turn(scale, timed)
        us = {name: [1e6 * s / samples for s in values] for name, values in found.items()}
        return Row.against(self.name, us["ours"], "µs/sample", us["plain"], what)
