from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs import Container, TensorType, write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden.pack import GoldenPack, open_pack

DTYPES = (
    *("float16", "float32", "float64", "bool", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)


def random_values(seed: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Arbitrary bit patterns, NaN payloads among them."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.random.default_rng(seed).integers(0, 256, size, np.uint8).tobytes()
    if dtype == "bool":
        return (np.frombuffer(raw, np.uint8) > 127).reshape(shape)
    return np.frombuffer(raw, dtype).reshape(shape).copy()


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def mapped_ranges(path: Path) -> list[tuple[int, int]]:
    """Where the kernel says that this process has the file mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    ends = [line.split()[0].split("-") for line in lines if line.endswith(str(path))]
    return [(int(low, 16), int(high, 16)) for low, high in ends]


def lies_in(path: Path, array: np.ndarray) -> bool:
    at = address(array)
    return any(low <= at and at + array.nbytes <= high for low, high in mapped_ranges(path))


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(0, 3), max_size=3).map(tuple),
    rows=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    per_batch=st.integers(1, 5),
    stored=st.sampled_from(["fixed_shape", "fixed_size_list"]),
    compression=st.sampled_from([None, "zstd"]),
    container=st.sampled_from(["file", "stream", "parquet"]),
    data=st.data(),
)
def test_reads_back_every_span(
    dtype: str,
    shape: tuple[int, ...],
    rows: list[int],
    per_batch: int,
    stored: TensorType,
    compression: str | None,
    container: Container,
    data: st.DataObject,
) -> None:
    total = sum(rows)
    if container == "parquet" and 0 in shape:
        container = "stream"  # Arrow doesn't read such tensors from Parquet
    values = random_values(total, dtype, (total, *shape))
    ids = np.arange(total) * 3
    with tempfile.TemporaryDirectory() as name:
        start = 0
        for number, count in enumerate(rows):
            part = slice(start, start + count)
            write_pack(
                Path(name) / f"{number}.arrow",
                ids[part],
                {"x": values[part]},
                {"y": values[part][::-1]},
                rows_per_batch=per_batch,
                tensor_type=stored,
                compression=compression,
                container=container,
            )
            start += count
        with open_pack(["*.arrow"], Path(name)) as pack:
            assert pack.samples == total
            assert [file.rows for file in pack.files] == rows
            assert (pack.inputs["x"].dtype, pack.inputs["x"].shape) == (dtype, shape)
            low = data.draw(st.integers(0, total))
            high = data.draw(st.integers(low, total))
            for got in (pack.input("x", low, high), pack.tensor("in.x", low, high)):
                assert same_bits(got, values[low:high])
                assert got.flags.c_contiguous
                assert got.flags.aligned
                assert not got.flags.writeable
            assert same_bits(np.asarray(pack.ids(low, high)), ids[low:high])
            if total:
                wanted = data.draw(st.lists(st.integers(0, total - 1), max_size=12))
                every = np.concatenate([pack.output("y", i, i + 1) for i in range(total)])
                taken = pack.take_output("y", np.array(wanted, np.int64))
                assert same_bits(taken, every[wanted])
                assert not taken.flags.writeable


@pytest.mark.parametrize("stored", ["fixed_shape", "fixed_size_list"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_a_span_within_a_record_batch_is_the_mapped_file(
    tmp_path: Path, stored: TensorType, shape: tuple[int, ...]
) -> None:
    values = random_values(1, "float32", (10, *shape))
    path = write_pack(
        tmp_path / "p.arrow",
        range(10),
        {"x": values},
        {"y": values},
        rows_per_batch=5,
        tensor_type=stored,
    )
    pack = open_pack([path], tmp_path)
    whole = pack.input("x", 0, 5)
    assert lies_in(path, whole)
    assert address(pack.input("x", 2, 4)) == address(whole) + 2 * whole.strides[0]
    assert lies_in(path, np.asarray(pack.ids(5, 10)))
    assert lies_in(path, pack.take_output("y", np.arange(6, 9)))
    across = pack.input("x", 4, 6)
    assert not lies_in(path, across)
    assert same_bits(across, values[4:6])


def test_lists_of_one_length_are_tensors(tmp_path: Path) -> None:
    values = random_values(2, "int16", (6, 2, 3))
    nested = pa.array(values.tolist(), pa.list_(pa.large_list(pa.int16())))
    path = write_pack(tmp_path / "p.arrow", range(6), columns={"in.x": nested}, rows_per_batch=4)
    pack = open_pack([path], tmp_path)
    pack.scan_ids()
    assert pack.inputs["x"].shape == (2, 3)
    assert same_bits(pack.input("x", 1, 6), values[1:])


def test_arrays_stay_valid_after_close(tmp_path: Path) -> None:
    values = random_values(3, "float64", (8, 16))
    path = write_pack(tmp_path / "p.arrow", range(8), {"x": values})
    pack = open_pack([path], tmp_path)
    held = pack.input("x", 0, 8)
    pack.close()
    del pack
    assert same_bits(held, values)


def test_dropped_pages_are_read_again(tmp_path: Path) -> None:
    values = random_values(4, "float64", (64, 1024))
    path = write_pack(tmp_path / "p.arrow", range(64), {"x": values}, rows_per_batch=40)
    pack = open_pack([path], tmp_path)
    held = pack.input("x", 0, 40)
    for stop in (10, 45, 20, 64, 1_000):
        pack.done_until(stop)
        assert same_bits(pack.input("x", 0, 64), values)
    assert same_bits(held, values[:40])


def test_files_stand_in_the_order_of_patterns_then_paths(tmp_path: Path) -> None:
    for name, first in (("b/2", 30), ("b/10", 20), ("a", 10)):
        write_pack(tmp_path / f"{name}.arrow", [first])
    write_pack(tmp_path / "b/.hidden.arrow", [99])
    pack = open_pack(["b/*.arrow", tmp_path / "a.arrow"], tmp_path)
    assert pack.ids(0, 3).tolist() == [20, 30, 10]
    assert [f.path.name for f in pack.files] == ["10.arrow", "2.arrow", "a.arrow"]
    assert all(f.bytes == f.path.stat().st_size for f in pack.files)
    absolute = open_pack([f"{tmp_path}/**/*.arrow"], Path("/"))
    assert absolute.ids(0, 3).tolist() == [10, 20, 30]
    assert pack.place(1) == (tmp_path / "b/2.arrow", 0)


def test_a_name_with_glob_characters_is_a_name(tmp_path: Path) -> None:
    write_pack(tmp_path / "p[1].arrow", [7])
    assert open_pack(["p[1].arrow"], tmp_path).ids(0, 1).tolist() == [7]


@pytest.mark.parametrize("rows", [[0], [0, 0], [0, 3], [2, 0, 3]])
def test_empty_files_open(tmp_path: Path, rows: list[int]) -> None:
    for number, count in enumerate(rows):
        write_pack(tmp_path / f"{number}.arrow", range(number * 10, number * 10 + count))
    pack = open_pack(["*.arrow"], tmp_path)
    assert pack.samples == sum(rows)
    assert pack.scan_ids().is_ascending
    assert pack.ids(0, pack.samples).tolist() == [
        number * 10 + i for number, count in enumerate(rows) for i in range(count)
    ]
    assert pack.index().rows(np.array([1_000], np.int64)).tolist() == [-1]


def test_columns_by_name(tmp_path: Path) -> None:
    x = random_values(5, "float32", (4, 2))
    path = write_pack(
        tmp_path / "p.arrow",
        ["a", "b", "c", "d"],
        {"x": x},
        {"y": x},
        label=["u", "v", "u", "v"],
        id_column="key",
        columns={"features": pa.array([1.0, 2.0, 3.0, 4.0]), "raw.text": pa.array(list("wxyz"))},
        metadata={"in.x": {"units": "mm/s"}},
    )
    pack = open_pack(
        [path],
        tmp_path,
        id_column="key",
        inputs={"f": "features"},
        outputs={"score": "features"},
    )
    assert set(pack.inputs) == {"x", "f"}
    assert set(pack.outputs) == {"y", "score"}
    assert pack.inputs["x"].metadata == {"units": "mm/s"}
    assert str(pack.inputs["f"]) == "f: float64[batch]"
    assert pack.input("f", 1, 3).tolist() == [2.0, 3.0]
    assert pack.ids(0, 2).tolist() == ["a", "b"]
    assert (pack.id_kind, pack.label) == ("string", "string")
    assert pack.labels(1, 3).tolist() == ["v", "u"]


def test_every_column_may_be_an_output(tmp_path: Path) -> None:
    columns = {"score": pa.array([0.5, 0.25]), "raw.text": pa.array(["a", "b"])}
    path = write_pack(
        tmp_path / "p.arrow",
        [1, 2],
        {"x": np.zeros(2)},
        label=[0, 1],
        slices={"site": ["s", "t"]},
        columns=columns,
    )
    assert dict(open_pack([path], tmp_path).outputs) == {}
    pack = open_pack([path], tmp_path, slices=["site"], outputs_from="all", extra_labels=["label"])
    assert list(pack.outputs) == ["score"]
    prefixed = write_pack(
        tmp_path / "q.arrow",
        [1, 2],
        outputs={"y": np.zeros(2)},
        columns={"score": columns["score"]},
    )
    assert list(open_pack([prefixed], tmp_path, outputs_from="all").outputs) == ["y"]


def test_labels_and_ids_widen_without_loss(tmp_path: Path) -> None:
    path = write_pack(
        tmp_path / "p.arrow",
        pa.array([5, 4_294_967_295], pa.uint32()),
        label=pa.array([True, False]),
        columns={"truth": pa.array(["a", "b"]).dictionary_encode()},
    )
    pack = open_pack([path], tmp_path, extra_labels=["truth"])
    assert pack.ids(0, 2).tolist() == [5, 4_294_967_295]
    assert pack.ids(0, 2).dtype == np.int64
    assert pack.labels(0, 2).tolist() == [1, 0]
    assert pack.labels(0, 2, column="truth").tolist() == ["a", "b"]
    assert dict(pack.labels_of) == {"label": "int64", "truth": "string"}


def test_a_label_column_of_another_type_is_told(tmp_path: Path) -> None:
    path = write_pack(tmp_path / "p.arrow", [1, 2], label=pa.array([0.5, 1.5]))
    pack = open_pack([path], tmp_path)
    assert pack.label is None
    assert "double" in pack.label_note


def test_slice_values(tmp_path: Path) -> None:
    columns = {
        "site": pa.array(["n", None, "s", "n", "null"]),
        "dict": pa.array(["n", None, "s", "n", "s"]).dictionary_encode(),
        "count": pa.array([3, 3, None, 1, -2]),
        "flag": pa.array([True, None, False, True, True]),
        "day": pa.array([0, 1, None, 0, 1], pa.date32()),
    }
    path = write_pack(tmp_path / "p.arrow", range(5), columns=columns, rows_per_batch=2)
    pack = open_pack([path], tmp_path, slices=list(columns))

    def values(name: str, start: int = 0, stop: int = 5) -> list[str]:
        got = pack.slice_values(name, start, stop)
        assert got.codes.dtype == np.int32
        assert len(set(got.values)) == len(got.values)
        return [got.values[code] for code in got.codes]

    assert values("site") == ["n", "(null)", "s", "n", "null"]
    assert values("dict") == ["n", "(null)", "s", "n", "s"]
    assert values("count") == ["3", "3", "(null)", "1", "-2"]
    assert values("flag") == ["true", "(null)", "false", "true", "true"]
    assert values("day") == ["1970-01-01", "1970-01-02", "(null)", "1970-01-01", "1970-01-02"]
    assert values("site", 1, 3) == ["(null)", "s"]
    assert values("site", 2, 2) == []
    assert pack.scan_ids().slice_values["count"] == ("3", "(null)", "1", "-2")


def test_a_slice_value_called_like_null_is_refused(tmp_path: Path) -> None:
    site = pa.array(["n", None, "s", "(null)", "null"])
    for name, column in (("a", site), ("b", site.dictionary_encode())):
        path = tmp_path / f"{name}.arrow"
        write_pack(path, range(5), columns={"site": column}, rows_per_batch=2)
        pack = open_pack([path], tmp_path, slices=["site"])
        with pytest.raises(
            GoldenError, match=r"slice column 'site', row 3: the text '\(null\)'"
        ) as e:
            pack.scan_ids()
        assert e.value.code == "golden.slice_values"


def test_digest_is_of_the_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for folder, ids in (("a", [1, 2]), ("b", [1, 2]), ("c", [2, 1])):
        for number, id_ in enumerate(ids):
            write_pack(tmp_path / folder / f"{number}.arrow", [id_])
    digests = [open_pack([f"{name}/*.arrow"], tmp_path).digest() for name in "abc"]
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]
    assert len(digests[0]) == 64
    pack = open_pack(["a/0.arrow"], tmp_path)
    assert pack.file_digests() == open_pack(["b/0.arrow"], tmp_path).file_digests(cache=False)


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (2, 1), (0, 4), (4, 4)])
def test_a_span_outside_of_the_pack_is_refused(tmp_path: Path, start: int, stop: int) -> None:
    pack = open_pack([write_pack(tmp_path / "p.arrow", [1, 2, 3], {"x": np.ones(3)})], tmp_path)
    with pytest.raises(IndexError):
        pack.input("x", start, stop)


@pytest.mark.parametrize("rows", [[0, -1], [1, 3]])
def test_rows_outside_of_the_pack_are_refused(tmp_path: Path, rows: list[int]) -> None:
    path = write_pack(tmp_path / "p.arrow", [1, 2, 3], outputs={"y": np.ones(3)})
    with pytest.raises(IndexError):
        open_pack([path], tmp_path).take_output("y", np.array(rows))


@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_threads_read_the_same(
    tmp_path: Path, compression: str | None, container: Container
) -> None:
    values = random_values(6, "float32", (600, 5))
    ids = [f"s{i}" for i in np.random.default_rng(0).permutation(600)]
    path = write_pack(
        tmp_path / "p.arrow",
        ids,
        {"x": values},
        {"y": values},
        rows_per_batch=7,
        compression=compression,
        container=container,
    )
    pack, wrong = open_pack([path], tmp_path), []

    def read(seed: int, pack: GoldenPack) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(12):
            low, high = sorted(rng.integers(0, 601, 2).tolist())
            rows = rng.permutation(600)[:50]
            good = same_bits(pack.input("x", low, high), values[low:high])
            good &= same_bits(pack.take_output("y", rows), values[rows])
            good &= bool((pack.index().rows(pack.take_ids(rows)) == rows).all())
            pack.done_until(high)
            if not good:
                wrong.append((seed, low, high))

    threads = [threading.Thread(target=read, args=(seed, pack)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
