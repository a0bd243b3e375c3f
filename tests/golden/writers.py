"""Packs as other programs write them: `python -m tests.golden.writers NAME FOLDER`.

Each in a process of its own: what these libraries register, warn of and cache stays there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 11
RNG = np.random.default_rng(29)
IDS = [f"sample {i}" for i in RNG.permutation(ROWS)]
SITES = ["north", "a site whose name is longer than a view holds", "south"] * 3 + ["north"] * 2
LABELS = [int(i) for i in RNG.integers(0, 3, ROWS)]
SCALAR = RNG.standard_normal(ROWS)
FLAG = RNG.random(ROWS) > 0.5
VECTOR = RNG.standard_normal((ROWS, 4)).astype(np.float32)
MATRIX = RNG.integers(-9, 9, (ROWS, 2, 3)).astype(np.int32)
CUBE = RNG.standard_normal((ROWS, 1, 2, 3))
VOLUME = RNG.integers(0, 255, (ROWS, 2, 1, 2, 1)).astype(np.uint8)
DEEP = RNG.standard_normal((ROWS, 1, 2, 1, 2, 1)).astype(np.float32)


def pandas(folder: Path) -> None:
    """Columns of Python lists and of scalars; a category; an index that is no column."""
    import pandas as pd

    frame = pd.DataFrame(
        {
            "sample_id": IDS,
            "site": pd.Categorical(SITES),
            "label": LABELS,
            "in.scalar": SCALAR,
            "in.flag": FLAG,
            "in.vector": list(VECTOR),
        },
        index=range(5, 5 + ROWS),
    )
    frame.to_parquet(folder / "pandas.parquet", row_group_size=4)
    frame.reset_index(drop=True).to_feather(folder / "pandas.feather")
    frame.reset_index(drop=True).to_feather(folder / "plain.feather", compression="uncompressed")


def polars(folder: Path) -> None:
    """Fixed arrays and lists of any depth; string views; a categorical."""
    import polars as pl

    frame = pl.DataFrame(
        {
            "sample_id": IDS,
            "site": pl.Series(SITES, dtype=pl.Categorical),
            "label": LABELS,
            "in.scalar": SCALAR,
            "in.flag": FLAG,
            "in.vector": pl.Series(VECTOR.tolist(), dtype=pl.List(pl.Float32)),
            "in.matrix": pl.Series(MATRIX, dtype=pl.Array(pl.Int32, (2, 3))),
            "in.cube": pl.Series(CUBE, dtype=pl.Array(pl.Float64, (1, 2, 3))),
        }
    )
    frame.write_ipc(folder / "polars.arrow")
    frame.write_ipc(folder / "old.arrow", compat_level=pl.CompatLevel.oldest(), compression="zstd")
    frame.write_ipc(folder / "pieces.arrow", record_batch_size=4)
    frame.write_ipc_stream(folder / "polars.arrows")
    frame.write_parquet(folder / "polars.parquet", row_group_size=4)


def duckdb(folder: Path) -> None:
    """Lists, arrays and an enum, written by COPY."""
    import duckdb as db

    link = db.connect()
    link.execute(
        "create type place as enum ('north', 'a site whose name is longer than a view holds', "
        "'south'); create table t (sample_id varchar, site place, label int, "
        '"in.scalar" double, "in.flag" boolean, "in.vector" float[4], "in.matrix" integer[3][2], '
        '"in.cube" double[][][])'
    )
    columns: list[Any] = [SCALAR, FLAG, VECTOR, MATRIX, CUBE]
    rows = zip(IDS, SITES, LABELS, *(column.tolist() for column in columns), strict=True)
    link.executemany("insert into t values (?, ?, ?, ?, ?, ?, ?, ?)", [list(row) for row in rows])
    for codec in ("snappy", "zstd", "uncompressed"):
        link.execute(f"copy t to '{folder}/{codec}.parquet' (format parquet, codec '{codec}')")


def datasets(folder: Path) -> None:
    """Array2D to Array5D, lists of a fixed length and not, class labels; saved in several files."""
    import datasets as ds

    arrays = {"matrix": MATRIX, "cube": CUBE, "volume": VOLUME, "deep": DEEP}
    kinds = [ds.Array2D, ds.Array3D, ds.Array4D, ds.Array5D]
    features: dict[str, Any] = {
        "sample_id": ds.Value("string"),
        "site": ds.Value("string"),
        "label": ds.ClassLabel(num_classes=3),
        "in.scalar": ds.Value("float64"),
        "in.flag": ds.Value("bool"),
        "in.vector": ds.List(ds.Value("float32"), length=4),
        "in.loose": ds.List(ds.Value("float32")),
    }
    for kind, (name, values) in zip(kinds, arrays.items(), strict=True):
        features[f"in.{name}"] = kind(values.shape[1:], str(values.dtype))
    data = ds.Dataset.from_dict(
        {
            "sample_id": IDS,
            "site": SITES,
            "label": LABELS,
            "in.scalar": SCALAR,
            "in.flag": FLAG,
            "in.vector": VECTOR,
            "in.loose": VECTOR.tolist(),
            **{f"in.{name}": values for name, values in arrays.items()},
        },
        features=ds.Features(features),
    )
    data.save_to_disk(folder / "saved", num_shards=3)
    data.to_parquet(folder / "datasets.parquet", batch_size=4)


if __name__ == "__main__":
    {"pandas": pandas, "polars": polars, "duckdb": duckdb, "datasets": datasets}[sys.argv[1]](
        Path(sys.argv[2])
    )
