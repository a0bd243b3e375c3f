"""Raw columns of any Arrow type, as pyarrow alone reads them, whatever the container."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs import Container, write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden.raw import RawRecords

CONTAINERS = ["file", "stream", "parquet"]
N = 23


def variable() -> pa.Array:
    shapes = [[1 + i % 3, 2] for i in range(N)]
    data = pa.array([[float(j) for j in range(2 * n)] for n, _ in shapes], pa.list_(pa.float32()))
    return pa.StructArray.from_arrays(
        [data, pa.array(shapes, pa.list_(pa.int32(), 2))], ["data", "shape"]
    )


COLUMNS: dict[str, Any] = {
    "int16": pa.array(range(N), pa.int16()),
    "float16": pa.array(np.arange(N, dtype=np.float16)),
    "flag": pa.array([i % 3 == 0 for i in range(N)]),
    "text": pa.array([f"ü{i}" for i in range(N)]),
    "view": pa.array([f"longer than twelve {i}" for i in range(N)], pa.string_view()),
    "kind": pa.array(list("abc") * 7 + ["a", "b"]).dictionary_encode(),
    "binary": pa.array([bytes([i]) * i for i in range(N)]),
    "when": pa.array([datetime.date(2024, 1, 1 + i) for i in range(N)]),
    "money": pa.array([decimal.Decimal(i) / 4 for i in range(N)], pa.decimal128(12, 2)),
    "struct": pa.array([{"a": i, "b": [1, None]} for i in range(N)]),
    "list": pa.array([list(range(i % 4)) for i in range(N)], pa.list_(pa.int32())),
    "even": pa.array([[1.0, 2.0]] * N),
    "points": pa.array(
        [[[1.0 * i, 2.0]] * (i % 3 + 1) for i in range(N)], pa.list_(pa.list_(pa.float32(), 2))
    ),
    "uneven": pa.array([[[1], [1, 2]]] * N),
    "holes": pa.array([1.5, None] * 11 + [2.5]),
    "shaped": variable(),
}
FIXED = {"int16": np.int16, "float16": np.float16, "flag": np.bool_}
ARRAYS = {"list": np.int32, "even": np.float64, "points": np.float32, "shaped": np.float32}


def make(path: Path, container: Container, rows_per_batch: int = 7) -> Path:
    columns = {f"raw.{name}": array for name, array in COLUMNS.items()}
    tensors = np.arange(N * 6, dtype=np.uint8).reshape(N, 2, 3)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(tensors.reshape(-1)), 6)
    tensor = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.uint8(), (2, 3)), flat)
    return write_pack(
        path,
        range(N),
        {"x": np.zeros((N, 2), np.float32)},
        columns={**columns, "raw.tensor": tensor},
        rows_per_batch=rows_per_batch,
        container=container,
    )


def opened(*paths: Path, names: tuple[str, ...] = ()) -> RawRecords:
    return RawRecords(list(paths), "sample_id", names)


@pytest.mark.parametrize("container", CONTAINERS)
@settings(max_examples=15, deadline=None)
@given(rows=st.lists(st.integers(0, N - 1), min_size=1, max_size=40))
def test_rows_are_what_pyarrow_reads(
    tmp_path_factory: pytest.TempPathFactory, container: Container, rows: list[int]
) -> None:
    path = make(tmp_path_factory.mktemp("raw") / "p", container)
    raw = opened(path)
    found = raw.take(np.array(rows))
    raw.close()
    assert raw.samples == N
    assert (found["tensor"] == np.arange(N * 6, dtype=np.uint8).reshape(N, 2, 3)[rows]).all()
    assert found["tensor"].dtype == np.uint8
    for name, column in COLUMNS.items():
        wanted = [column[row].as_py() for row in rows]
        values = found[name]
        assert len(values) == len(rows)
        if name in FIXED:
            assert values.dtype == FIXED[name]
            assert values.tolist() == wanted
        elif name in ARRAYS:
            assert values.dtype == object
            assert {value.dtype for value in values} == {np.dtype(ARRAYS[name])}
            if name == "shaped":
                shapes = [tuple(v["shape"]) for v in wanted]
                assert [value.shape for value in values] == shapes
                wanted = [v["data"] for v in wanted]
                assert [value.reshape(-1).tolist() for value in values] == wanted
            else:
                assert [value.tolist() for value in values] == wanted
        else:
            assert values.dtype == object
            assert values.tolist() == wanted


def test_a_column_with_a_null_anywhere_is_read_the_same_everywhere(tmp_path: Path) -> None:
    path = make(tmp_path / "p", "file")
    raw = opened(path)
    first = raw.take(np.array([0]))["holes"]  # no null here
    assert first.dtype == object
    assert first.tolist() == [1.5]


def test_several_files_follow_one_another(tmp_path: Path) -> None:
    paths = [make(tmp_path / "a", "file"), make(tmp_path / "b", "parquet", 3)]
    raw = opened(*paths)
    rows = np.array([N - 1, N, 2 * N - 1, 0])
    assert raw.take(rows)["text"].tolist() == [f"ü{i % N}" for i in rows.tolist()]


def test_only_the_columns_that_are_named_are_read(tmp_path: Path) -> None:
    raw = opened(make(tmp_path / "p", "file"), names=("text", "int16"))
    assert list(raw.take(np.array([1, 2]))) == ["text", "int16"]


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = make(tmp_path / "p", "file")
    with pytest.raises(GoldenError, match=r"p: no raw column 'raw\.txet'; did you mean 'text'\?"):
        opened(path, names=("txet",))
    bare = write_pack(tmp_path / "q", [1], {"x": np.zeros((1, 1))})
    with pytest.raises(GoldenError, match=r"q: no column is named raw\.NAME"):
        opened(bare)
    with pytest.raises(GoldenError, match=r"q: no raw column 'raw\.int16'; .*no raw column at all"):
        opened(path, bare)
    other = write_pack(tmp_path / "r", [1], columns={"raw.text": pa.array([1])})
    with pytest.raises(GoldenError, match=r"r: column 'raw\.text' is int64, .* has string"):
        opened(path, other, names=("text",))


@pytest.mark.parametrize("container", CONTAINERS)
def test_texts_that_are_not_utf8_are_refused_when_the_pack_is_opened(
    tmp_path: Path, container: Container
) -> None:
    path = write_pack(
        tmp_path / "p",
        range(3),
        columns={"raw.t": pa.array(["a", "plain text", "c"])},
        container=container,
    )
    path.write_bytes(path.read_bytes().replace(b"plain text", b"plain\xff\xfeext"))
    with pytest.raises(GoldenError, match="p: damaged"):
        opened(path)
