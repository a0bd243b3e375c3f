"""Parquet files: in pieces of bounded size, in any order, and decoded a few times at most."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.test_pack import random_values, same_bits
from tests.packs import write_pack

from paritygate.core.errors import FolderError, GoldenError
from paritygate.golden import parquet
from paritygate.golden.pack import GoldenPack, open_pack
from paritygate.golden.parquet import ParquetSource


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few rows, and almost nothing kept."""
    monkeypatch.setattr(parquet, "_PIECE_BYTES", 2_000)
    monkeypatch.setattr(parquet, "_KEPT_BYTES", 1_000)


def decoded(pack: GoldenPack, column: str) -> tuple[int, int, bool]:
    """Pieces of the column, pieces decoded so far, and whether it was unpacked."""
    (source,) = pack._sources
    assert isinstance(source, ParquetSource)
    found = source._columns[column]
    return len(source.batch_rows), found._decoded, found._scratch is not None


def make(folder: Path, rows: int = 400, group: int = 150) -> tuple[np.ndarray, GoldenPack]:
    values = random_values(7, "float32", (rows, 3, 4))
    path = write_pack(
        folder / "p.parquet",
        np.random.default_rng(1).permutation(rows),
        {"x": values},
        {"y": values[::-1]},
        slices={"site": pa.array([f"s{i % 7}" for i in range(rows)]).dictionary_encode()},
        rows_per_batch=group,
        container="parquet",
    )
    return values, open_pack([path], folder, slices=["site"])


def jump_about(pack: GoldenPack) -> None:
    for start in np.random.default_rng(3).permutation(pack.samples).tolist():
        pack.output("y", start, start + 1)


@pytest.mark.usefixtures("tiny")
def test_a_row_group_is_read_in_pieces_each_once(tmp_path: Path) -> None:
    values, pack = make(tmp_path)
    pack.scan_ids()
    pieces, scanned, _ = decoded(pack, "in.x")
    assert pieces > 20
    assert scanned == pieces
    for start in range(0, 400, 16):
        stop = min(start + 16, 400)
        assert same_bits(pack.input("x", start, stop), values[start:stop])
        assert pack.slice_values("site", start, stop).values[0] == f"s{start % 7}"
        pack.done_until(stop)
    assert decoded(pack, "in.x") == (pieces, 2 * pieces, False)


@pytest.mark.usefixtures("tiny")
def test_jumps_unpack_a_column_before_they_cost_much(tmp_path: Path) -> None:
    values, pack = make(tmp_path)
    draw = np.random.default_rng(2)
    for _ in range(60):
        rows = draw.permutation(400)[:40]
        assert same_bits(pack.take_output("y", rows), values[::-1][rows])
    pieces, read, is_unpacked = decoded(pack, "out.y")
    assert is_unpacked
    assert read < 7 * pieces
    for start, stop in ((0, 400), (149, 151), (399, 400)):
        assert same_bits(pack.output("y", start, stop), values[::-1][start:stop])
        pack.done_with(start, stop)
    assert same_bits(pack.output("y", 0, 400), values[::-1])
    held = pack.output("y", 20, 22)
    pack.close()
    assert same_bits(held, values[::-1][20:22])


@pytest.mark.usefixtures("tiny")
def test_no_room_to_unpack_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, pack = make(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(FolderError, match="missing"):
        jump_about(pack)


FULL = """
import resource, sys
from pathlib import Path
from paritygate.core.errors import FolderError
from paritygate.golden import parquet
from tests.golden.test_parquet import jump_about
from paritygate.golden.pack import open_pack
parquet._PIECE_BYTES, parquet._KEPT_BYTES = 2_000, 1_000
resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))
try:
    jump_about(open_pack(["p.parquet"], Path(sys.argv[1])))
except FolderError as error:
    sys.stdout.write(str(error))
"""


def test_a_full_disk_while_a_column_is_unpacked_is_told(tmp_path: Path) -> None:
    make(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no room left while writing" in done.stdout, done.stderr


@pytest.mark.usefixtures("tiny")
def test_unpacking_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch").mkdir()
    _, pack = make(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    jump_about(pack)
    assert decoded(pack, "out.y")[2]
    assert list((tmp_path / "scratch").iterdir()) == []


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(0, 60),
    group=st.integers(1, 61),
    piece_bytes=st.sampled_from([1, 400, 3_000, 1 << 24]),
    spans=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=30),
    data=st.data(),
)
def test_any_order_reads_the_same(
    rows: int, group: int, piece_bytes: int, spans: list[tuple[int, int]], data: st.DataObject
) -> None:
    columns = {
        "in.x": [[float(i), -float(i)] for i in range(rows)],
        "in.b": [i % 3 == 0 for i in range(rows)],
        "in.n": [[[i, 1], [2, 3]] for i in range(rows)],
    }
    types = {
        "in.x": pa.list_(pa.float32()),
        "in.b": pa.bool_(),
        "in.n": pa.list_(pa.list_(pa.int8())),
    }
    arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
    table = pa.table({"sample_id": pa.array([f"i{i}" for i in range(rows)], pa.string()), **arrays})
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr(parquet, "_PIECE_BYTES", piece_bytes)
        patch.setattr(parquet, "_KEPT_BYTES", data.draw(st.sampled_from([0, 1 << 20])))
        pq.write_table(table, Path(name) / "p", row_group_size=group)
        pack = open_pack(["p"], Path(name))
        pack.scan_ids()
        for ends in spans:
            low, high = sorted(min(end, rows) for end in ends)
            for column in columns if rows else ():
                got = pack.input(column.removeprefix("in."), low, high)
                assert got.tolist() == columns[column][low:high]
            assert pack.ids(low, high).tolist() == [f"i{i}" for i in range(low, high)]


def dotted(folder: Path) -> Iterator[Path]:
    fields = {
        "sample_id": pa.array([1, 2]),
        "in": pa.array([{"x": 7.0}, {"x": 8.0}]),
        "in.x": pa.array([1.0, 2.0]),
        "in.x.y": pa.array([3.0, 4.0]),
    }
    for number in (1, -1):
        table = pa.table({name: fields[name] for name in list(fields)[::number]})
        pq.write_table(table, folder / f"{number}")
        yield folder / f"{number}"


def test_names_with_dots_are_not_paths(tmp_path: Path) -> None:
    for path in dotted(tmp_path):
        pack = open_pack([path], tmp_path)
        assert pack.input("x", 0, 2).tolist() == [1.0, 2.0]
        assert pack.input("x.y", 0, 2).tolist() == [3.0, 4.0]


def test_tensors_without_elements_are_refused(tmp_path: Path) -> None:
    path = write_pack(
        tmp_path / "p.parquet", [1, 2], {"x": np.zeros((2, 3, 0))}, container="parquet"
    )
    with pytest.raises(GoldenError, match=r"p\.parquet: column 'in\.x' .*Arrow IPC file") as error:
        open_pack([path], tmp_path)
    assert error.value.code == "golden.column_type"


def test_a_page_whose_checksum_is_wrong_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    values = np.arange(500, dtype=np.float64)
    table = pa.table({"sample_id": range(500), "in.x": values})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    at = content.index(values[100:105].tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(GoldenError, match=r"p\.parquet: damaged"):
        open_pack([path], tmp_path).scan_ids()
