"""The content digest says what the samples are and nothing of how they are stored."""

from __future__ import annotations

import hashlib
import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import naive_content as naive
from tests.packs import Container, write_pack, write_table

from paritygate.core.errors import GoldenError
from paritygate.golden import content as subject
from paritygate.golden.content import content_digest, leaf_of, prove_row
from paritygate.golden.merkle import Proof, Tree, prove

QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
COLUMNS: dict[str, tuple[Any, ...]] = {
    "sample_id": ("id", "string"),
    "in.m": ("tensor", "float32", 2),
    "in.flag": ("tensor", "bool", 0),
    "in.bf": ("tensor", "bfloat16", 1),
    "in.text": ("tensor", "string", 1),
    "out.boxes": ("tensor", "float64", 2),
    "label": ("plain", "int64"),
    "site": ("plain", "string"),
    "raw.bytes": ("plain", "binary"),
    "raw.list": ("plain", ("list", "int32")),
}
TYPES = {
    "sample_id": pa.string(),
    "in.m": pa.list_(pa.list_(pa.float32())),
    "in.flag": pa.bool_(),
    "in.bf": pa.list_(pa.uint16()),
    "in.text": pa.list_(pa.string()),
    "out.boxes": pa.list_(pa.list_(pa.float64())),
    "label": pa.int64(),
    "site": pa.string(),
    "raw.bytes": pa.binary(),
    "raw.list": pa.list_(pa.int32()),
}
FLOAT = st.floats(width=32, allow_nan=False)


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 9))
    found = []
    for row in range(count):
        boxes = draw(st.integers(0, 3))
        found.append(
            {
                "sample_id": f"s{row}",
                "in.m": [[draw(FLOAT) for _ in range(2)] for _ in range(3)],
                "in.flag": draw(st.booleans()),
                "in.bf": [draw(st.integers(0, 2**16 - 1)) for _ in range(2)],
                "in.text": [draw(st.text(max_size=3)) for _ in range(2)],
                "out.boxes": [[float(i)] * 4 for i in range(boxes)],
                "label": draw(st.integers(-5, 5)),
                "site": draw(st.none() | st.text(max_size=3)),
                "raw.bytes": draw(st.none() | st.binary(max_size=5)),
                "raw.list": draw(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3)),
            }
        )
    return found


def table_of(found: list[dict[str, Any]], types: dict[str, Any] = TYPES) -> pa.Table:
    fields = [
        pa.field(name, kind, metadata={"paritygate.dtype": "bfloat16"} if name == "in.bf" else None)
        for name, kind in types.items()
    ]
    arrays = [pa.array([row[f.name] for row in found], f.type) for f in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def digest(*paths: Path) -> str:
    return content_digest(paths, paths[0].parent, cache=False)


@QUICK
@given(rows(), st.data())
def test_digest_is_that_of_the_oracle_however_the_pack_is_stored(
    tmp_path: Path, found: list[dict[str, Any]], data: st.DataObject
) -> None:
    expected = naive.digest(COLUMNS, found)
    table = table_of(found)
    for container, codec in (("file", None), ("file", "zstd"), ("stream", None), ("parquet", None)):
        step = data.draw(st.integers(1, len(found)))
        path = write_table(tmp_path / f"p.{container}.arrow", table, step, container, codec)
        assert digest(path) == expected
    cut = data.draw(st.integers(0, len(found)))
    parts = [part for part in (table[:cut], table[cut:]) if len(part)]
    files = [write_table(tmp_path / f"{i}.arrow", part, 4) for i, part in enumerate(parts)]
    assert digest(*files) == expected
    assert digest(write_table(tmp_path / "shuffled.arrow", reordered(table), 3)) == expected


def reordered(table: pa.Table) -> pa.Table:
    """Columns in another order, and types that hold the same."""
    other = {
        "in.m": pa.large_list(pa.list_(pa.float32(), 2)),
        "site": pa.dictionary(pa.int8(), pa.string()),
        "sample_id": pa.large_string(),
        "raw.bytes": pa.large_binary(),
        "in.text": pa.list_(pa.string(), 2),
    }
    names = table.column_names[::-1]
    fields, columns = [], []
    for name in names:
        values, field = table.column(name).to_pylist(), table.schema.field(name)
        fields.append(field.with_type(other.get(name, field.type)))
        columns.append(pa.array(values, fields[-1].type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


@QUICK
@given(rows(), st.data())
def test_any_other_value_gives_another_digest(
    tmp_path: Path, found: list[dict[str, Any]], data: st.DataObject
) -> None:
    before = digest(write_table(tmp_path / "a.arrow", table_of(found), 4))
    row = data.draw(st.integers(0, len(found) - 1))
    column = data.draw(st.sampled_from(sorted(COLUMNS)))
    other = {
        "sample_id": "elsewhere",
        "in.m": [[1.5, 2.5]] * 3,
        "in.flag": not found[row]["in.flag"],
        "in.bf": [found[row]["in.bf"][0] ^ 1, 0],
        "in.text": ["else", "where"],
        "out.boxes": [*found[row]["out.boxes"], [0.0] * 4],
        "label": 77,
        "site": "elsewhere",
        "raw.bytes": b"elsewhere",
        "raw.list": [None, None, None, None],
    }
    found[row] = {**found[row], column: other[column]}
    assert digest(write_table(tmp_path / "b.arrow", table_of(found), 4)) != before


def test_tensor_types_of_one_content_have_one_digest(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    paths = [
        write_pack(tmp_path / f"{kind}.arrow", range(4), {"x": x}, tensor_type=kind)
        for kind in ("fixed_shape", "fixed_size_list")
    ]
    columns = {"sample_id": ("id", "int64"), "in.x": ("tensor", "float32", 2)}
    rows = [{"sample_id": i, "in.x": x[i].tolist()} for i in range(4)]
    assert {digest(path) for path in paths} == {naive.digest(columns, rows)}


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_dtype_shape_and_name_count(tmp_path: Path, dtype: str) -> None:
    x = np.zeros((2, 4), np.float32)
    packs = [{"x": x}, {"x": x.astype(dtype)}, {"x": x.reshape(2, 2, 2)}, {"y": x}, {}]
    found = [
        digest(write_pack(tmp_path / f"{i}.arrow", [0, 1], inputs))
        for i, inputs in enumerate(packs)
    ]
    assert len(set(found)) == len(packs)


def test_order_counts_and_files_do_not(tmp_path: Path) -> None:
    a = write_pack(tmp_path / "a.arrow", [1, 2, 3])
    b = write_pack(tmp_path / "b.arrow", [2, 1, 3])
    c = write_pack(tmp_path / "c.arrow", [1])
    d = write_pack(tmp_path / "d.arrow", [2, 3])
    assert digest(a) == digest(c, d) != digest(b)
    assert digest(d, c) not in (digest(a), digest(b))


def test_struct_date_and_decimal_columns_are_digested(tmp_path: Path) -> None:
    import datetime
    import decimal

    day = datetime.date(2026, 11, 29)
    table = pa.table(
        {
            "sample_id": [1, 2],
            "raw.image": [{"bytes": b"ab", "path": None}, None],
            "day": [day, None],
            "when": pa.array([datetime.datetime(2026, 1, 1), None], pa.timestamp("us")),  # noqa: DTZ001
            "price": [decimal.Decimal("1.50"), decimal.Decimal("2.25")],
            "nothing": pa.nulls(2),
        }
    )
    whole = write_table(tmp_path / "a.arrow", table, 2)
    assert digest(whole) == digest(write_table(tmp_path / "b.arrow", table, 1))
    assert digest(write_table(tmp_path / "c.arrow", table, 1, "parquet")) == digest(whole)


def test_a_map_has_no_digest(tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.int64())
    table = pa.table({"sample_id": [1], "raw.map": pa.array([[("a", 1)]], kind)})
    path = write_table(tmp_path / "a.arrow", table, 1)
    with pytest.raises(GoldenError, match=r"column 'raw.map': the type map<string, int64>"):
        digest(path)


def test_null_ids_and_null_elements_are_told_with_their_row(tmp_path: Path) -> None:
    none = write_table(tmp_path / "a.arrow", pa.table({"sample_id": [1, None]}), 1)
    with pytest.raises(GoldenError, match="row 1: the id is null"):
        digest(none)
    table = pa.table({"sample_id": [1, 2], "in.x": [[1.0, 2.0], [1.0, None]]})
    with pytest.raises(GoldenError, match=r"column 'in.x', row 1: null at element 1"):
        digest(write_table(tmp_path / "b.arrow", table, 2))


def test_root_is_that_of_the_published_vectors() -> None:
    """The test vectors of Certificate Transparency's reference implementation."""
    entries = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657"]
    entries.append("606162636465666768696a6b6c6d6e6f")
    tree = Tree()
    tree.add([hashlib.sha256(b"\0" + bytes.fromhex(entry)).digest() for entry in entries])
    assert tree.root().hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 100])
def test_root_and_proofs_of_every_size(count: int) -> None:
    leaves = [hashlib.sha256(bytes([n])).digest() for n in range(count)]
    for size in (1, 3, 8, 200):
        tree = Tree()
        for piece in itertools.batched(leaves, size) if hasattr(itertools, "batched") else [leaves]:
            tree.add(list(piece))
        assert tree.root() == naive.root(leaves)
    whole = naive.sha(b"\x02" + count.to_bytes(8, "big") + naive.root(leaves)).hex()
    for row in range(count):
        proof = prove([leaves[:2], leaves[2:]], row, count)
        assert proof.digest(leaves[row]) == whole
        assert proof.digest(naive.sha(b"other")) != whole
        for other in {0, row - 1, row + 1, count - 1} - {row}:
            moved = Proof(other, count, proof.path)
            try:
                assert moved.digest(leaves[row]) != whole
            except ValueError:
                pass
        for samples in (count - 1, count + 1):
            try:
                assert Proof(row, samples, proof.path).digest(leaves[row]) != whole
            except ValueError:
                pass


def test_a_sample_is_proved_by_itself(tmp_path: Path) -> None:
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    path = write_pack(tmp_path / "p.arrow", [f"s{i}" for i in range(10)], {"x": x}, label=range(10))
    proof, leaf = prove_row([path], tmp_path, 6)
    assert proof.digest(leaf) == digest(path)
    alone = write_pack(tmp_path / "one.arrow", ["s6"], {"x": x[6:7]}, label=[6])
    assert proof.digest(leaf_of([alone], tmp_path, 0)) == digest(path)
    forged = write_pack(tmp_path / "two.arrow", ["s6"], {"x": x[7:8]}, label=[6])
    assert proof.digest(leaf_of([forged], tmp_path, 0)) != digest(path)
    with pytest.raises(IndexError):
        prove_row([path], tmp_path, 10)


def test_digest_is_kept_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write_pack(tmp_path / "p.arrow", [1, 2])
    made = []
    close = subject.close_tree
    monkeypatch.setattr(subject, "close_tree", lambda *args: made.append(1) or close(*args))
    monkeypatch.setattr("paritygate.core.digest._SETTLED_NS", 0)
    first = content_digest([path], tmp_path)
    assert content_digest([path], tmp_path) == first
    assert len(made) == 1
    assert content_digest([path], tmp_path, cache=False) == first
    assert len(made) == 2
    write_pack(path, [1, 3])
    os.utime(path)
    assert content_digest([path], tmp_path) != first


@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_columns_of_one_name_are_refused(
    tmp_path: Path, container: Container, compression: str | None
) -> None:
    columns = [pa.array([1, 2]), pa.array([1.0, 2.0]), pa.array([1.0, 2.0])]
    table = pa.table(columns, ["sample_id", "in.x", "in.x"])
    path = write_table(tmp_path / "a.arrow", table, 2, container, compression)
    with pytest.raises(GoldenError, match="column 'in.x' occurs twice"):
        digest(path)
