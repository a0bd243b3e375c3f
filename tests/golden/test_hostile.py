"""Packs cut short, damaged anywhere, or of an absurd form: one clear sentence, never a crash."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.frontends.command import execute
from tests.golden.hostile import CONTAINERS, read_pack, rich_pack
from tests.packs import Container, write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden.pack import open_pack

ROOT = Path(__file__).parents[2]
COLUMNS = 12_000


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_file_cut_short_is_refused_wherever_it_is_cut(
    tmp_path: Path, container: Container, compression: str | None
) -> None:
    whole = rich_pack(tmp_path / "whole", container, compression).read_bytes()
    path = tmp_path / "cut.pack"
    for percent in range(100):
        path.write_bytes(whole[: len(whole) * percent // 100])
        with pytest.raises(GoldenError, match=r"cut\.pack") as error:
            read_pack(path)
        assert len(str(error.value)) < 1_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "seed", "rounds"), [("hostile", 1, 300), ("hostile_check", 3, 100)]
)
def test_damage_is_refused_or_read_as_another_reader_reads_it(
    tmp_path: Path, module: str, seed: int, rounds: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.golden.{module}", str(tmp_path), str(seed), str(rounds)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    refused = {tuple(kind): float(share) for *kind, share in lines}
    assert set(refused) == set(itertools.product(CONTAINERS, ("None", "zstd")))
    for kind, share in refused.items():
        assert 1 / 3 < share < 1, kind


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_damaged_pack_ends_a_command_with_a_sentence(
    tmp_path: Path, container: Container
) -> None:
    path = write_pack(tmp_path / "g.pack", [1, 2], outputs={"y": np.ones(2)}, container=container)
    write_pack(tmp_path / "c.arrow", [1, 2], outputs={"y": np.ones(2)})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + content[len(content) // 2 + 8 :])
    done = execute("compare", "g.pack", "c.arrow", cwd=tmp_path)
    assert done.returncode == 2
    assert "g.pack: " in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "runs") == ["c.arrow", "g.pack"]
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_name_of_ten_megabytes_is_refused(tmp_path: Path, container: Container) -> None:
    table = pa.table({"sample_id": [1, 2], "in.x" + "y" * 10_000_000: [1.0, 2.0]})
    path = tmp_path / "p"
    if container == "parquet":
        pq.write_table(table, path)
    else:
        make = pa.ipc.new_file if container == "file" else pa.ipc.new_stream
        with make(path, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(GoldenError, match="has 10000004 characters and begins with") as error:
        open_pack([path], tmp_path)
    assert error.value.code == "golden.schema"
    assert len(str(error.value)) < 500


def wide(path: Path, container: Container, prefix: str, columns: int) -> Path:
    names = ["sample_id", *(f"{prefix}{i}" for i in range(columns))]
    batch = pa.record_batch([pa.array([1, 2]), *[pa.array([1.0, 2.0])] * columns], names)
    if container == "parquet":
        pq.write_table(pa.Table.from_batches([batch]), path, use_dictionary=False)
    else:
        make = pa.ipc.new_file if container == "file" else pa.ipc.new_stream
        with make(path, batch.schema) as writer:
            writer.write(batch)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("prefix", ["c", "in.c"])
def test_tens_of_thousands_of_columns(tmp_path: Path, container: Container, prefix: str) -> None:
    path = wide(tmp_path / "p", container, prefix, COLUMNS)
    started = time.process_time()
    with open_pack([path], tmp_path) as pack:
        pack.scan_ids()
        assert len(pack.inputs) == (COLUMNS if prefix == "in.c" else 0)
    with pytest.raises(
        GoldenError, match="no id column 'id'; the columns are: sample_id,"
    ) as error:
        open_pack([path], tmp_path, id_column="id")
    assert len(str(error.value)) < 1_000
    assert time.process_time() - started < 8


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    "column", [{"naame": pa.array([1, 2])}, {"other": pa.array([{"naame": 1}, {"naame": 2}])}]
)
def test_a_name_that_is_not_utf8_is_refused(
    tmp_path: Path, container: Container, column: dict[str, pa.Array]
) -> None:
    path = write_pack(tmp_path / "p.pack", [1, 2], columns=column, container=container)
    path.write_bytes(path.read_bytes().replace(b"naame", b"na\xff\xfee"))
    with pytest.raises(GoldenError, match=r"p\.pack: damaged"):
        read_columns(path)


def read_columns(path: Path) -> None:
    with open_pack([path], path.parent) as pack:
        pack.scan_ids()


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    ("column", "old", "new"),
    [
        ("sample_id", b"plain text", b"plain\xff\xfeext"),
        ("label", b"plain text", b"plain\xff\xfeext"),
        ("site", b"plain text", b"plain\xff\xfeext"),
    ],
)
def test_texts_that_are_not_utf8_are_refused(
    tmp_path: Path, container: Container, column: str, old: bytes, new: bytes
) -> None:
    texts = {name: [f"{name} {i}" for i in range(3)] for name in ("sample_id", "label", "site")}
    texts[column][1] = old.decode()
    path = write_pack(
        tmp_path / "p.pack",
        texts["sample_id"],
        label=texts["label"],
        slices={"site": texts["site"]},
        container=container,
    )
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    with (
        pytest.raises(GoldenError, match=r"p\.pack: damaged"),
        open_pack([path], tmp_path, slices=["site"]) as pack,
    ):
        pack.scan_ids()


@pytest.mark.parametrize("container", ["file", "stream"])
@pytest.mark.parametrize("code", [2, 100, -1, -100])
@pytest.mark.parametrize("column", ["sample_id", "label", "kind"])
def test_codes_outside_of_a_dictionary_are_refused(
    tmp_path: Path, container: Container, code: int, column: str
) -> None:
    codes = np.array([0, 1, 0, 1, 1, 0, 1, 0], np.int16)
    texts = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(["u", "v"]))
    columns = {"kind": texts if column == "kind" else pa.array(list("abababab"))}
    path = write_pack(
        tmp_path / "p.pack",
        texts if column == "sample_id" else range(8),
        label=texts if column == "label" else list(range(8)),
        columns=columns,
        container=container,
    )
    bad = codes.copy()
    bad[5] = code
    content = path.read_bytes()
    assert content.count(codes.tobytes()) == 1
    path.write_bytes(content.replace(codes.tobytes(), bad.tobytes()))
    with (
        pytest.raises(GoldenError, match=r"p\.pack: damaged"),
        open_pack([path], tmp_path, slices=["kind"]) as pack,
    ):
        pack.scan_ids(allow_duplicates=True)


@pytest.mark.parametrize(
    "kind",
    [
        pa.null(),
        pa.binary(),
        pa.timestamp("us"),
        pa.decimal128(10, 2),
        pa.struct({"a": pa.int32()}),
        pa.map_(pa.string(), pa.int32()),
        pa.uuid(),
        pa.json_(),
        pa.bool8(),
        pa.opaque(pa.int32(), "kind", "vendor"),
        pa.dense_union([pa.field("a", pa.int32()), pa.field("b", pa.string())]),
        pa.run_end_encoded(pa.int32(), pa.float32()),
        pa.month_day_nano_interval(),
        pa.list_(pa.binary()),
    ],
    ids=str,
)
@pytest.mark.parametrize("container", ["file", "stream"])
def test_types_that_are_no_tensors_are_told(
    tmp_path: Path, kind: pa.DataType, container: Container
) -> None:
    schema = pa.schema({"sample_id": pa.int64(), "other": kind, "in.x": kind})
    make = pa.ipc.new_file if container == "file" else pa.ipc.new_stream
    make(tmp_path / "p.pack", schema).close()
    with pytest.raises(
        GoldenError, match=r"p\.pack: input column 'in\.x': .* isn't supported"
    ) as e:
        open_pack(["p.pack"], tmp_path)
    assert e.value.code == "golden.column_type"
    with pytest.raises(GoldenError, match="'other'") as error:
        open_pack(["p.pack"], tmp_path, id_column="other")
    assert error.value.code == "golden.id_type"
