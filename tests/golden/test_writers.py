"""Packs that pandas, polars, DuckDB and datasets wrote are read as what was written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.golden import writers

from paritygate.golden.pack import open_pack

ROOT = Path(__file__).parents[2]
PLAIN = ("scalar", "flag", "vector")
EXPECTED = {
    "scalar": writers.SCALAR,
    "flag": writers.FLAG,
    "vector": writers.VECTOR,
    "loose": writers.VECTOR,
    "matrix": writers.MATRIX,
    "cube": writers.CUBE,
    "volume": writers.VOLUME,
    "deep": writers.DEEP,
}
DEEP = (*PLAIN, "loose", "matrix", "cube", "volume", "deep")
PACKS = {
    "pandas": dict.fromkeys(("pandas.parquet", "pandas.feather", "plain.feather"), PLAIN),
    "polars": dict.fromkeys(
        ("polars.arrow", "old.arrow", "pieces.arrow", "polars.arrows", "polars.parquet"),
        (*PLAIN, "matrix", "cube"),
    ),
    "duckdb": {
        f"{codec}.parquet": (*PLAIN, "matrix", "cube")
        for codec in ("snappy", "zstd", "uncompressed")
    },
    "datasets": {"saved": DEEP, "datasets.parquet": DEEP},
}


def write(name: str, folder: Path) -> None:
    run("-m", "tests.golden.writers", name, str(folder), home=folder)


def run(*args: str, home: Path) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home / "home"), "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *args],
        cwd=ROOT,
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def check(path: Path, tensors: tuple[str, ...]) -> None:
    """Compare a pack with what was written."""
    with open_pack([path], path.parent, slices=["site"]) as pack:
        assert pack.scan_ids().samples == writers.ROWS
        assert pack.ids(0, writers.ROWS).tolist() == writers.IDS
        assert pack.labels(0, writers.ROWS).tolist() == writers.LABELS
        sites = pack.slice_values("site", 0, writers.ROWS)
        assert [sites.values[code] for code in sites.codes] == writers.SITES
        assert set(pack.inputs) == set(tensors)
        for name in tensors:
            values = EXPECTED[name]
            for low, high in ((0, writers.ROWS), (3, 9)):
                got = pack.input(name, low, high)
                assert (got.dtype, got.shape) == (values.dtype, values[low:high].shape)
                assert (got == values[low:high]).all()
        rows = pack.index().rows(np.array(writers.IDS[::-1], object))
        assert rows.tolist() == list(range(writers.ROWS))[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PACKS))
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    write(name, tmp_path)
    for pack, tensors in PACKS[name].items():
        check(tmp_path / pack, tensors)


@pytest.mark.slow
def test_types_that_datasets_registers_change_nothing(tmp_path: Path) -> None:
    write("datasets", tmp_path)
    script = (
        "import sys, datasets; from pathlib import Path\n"
        "from tests.golden import test_writers as t\n"
        "for name, tensors in t.PACKS['datasets'].items():\n"
        "    t.check(Path(sys.argv[1]) / name, tensors)"
    )
    run("-c", script, str(tmp_path), home=tmp_path)
