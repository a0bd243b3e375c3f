"""Packs built from tables, arrays and samples: what went in comes out, or it is told where not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

import paritygate
from paritygate.core.errors import FolderError, GoldenError, PlanError
from paritygate.golden.pack import open_pack

QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
DTYPES = ["float32", "float64", "float16", "int8", "int64", "uint16", "bool", "bfloat16"]


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def table(path: Path, columns: dict[str, Any], rows: int = 3) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


@QUICK
@given(st.data(), st.sampled_from(DTYPES), st.integers(1, 7))
def test_samples_in_memory_come_back(
    tmp_path: Path, data: st.DataObject, dtype: str, count: int
) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    bits = np.dtype(np.uint16) if dtype == "bfloat16" else kind
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=2)))
    x = data.draw(hn.arrays(bits, (count, *shape))).view(kind)
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    boxes = [np.arange(4 * n, dtype=np.float32).reshape(n, 4) for n in lengths]
    samples = [
        {"sample_id": f"s{i}", "in.x": x[i], "out.boxes": boxes[i], "label": i, "site": "a"}
        for i in range(count)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paritygate.golden.build_samples._ROWS", 3)
        path = tmp_path / "p.arrow"
        built = paritygate.build_pack(path, samples, varying=["out.boxes"])
    assert built.samples == count
    with open_pack([path], tmp_path, slices=["site"]) as pack:
        pack.scan_ids()
        got = pack.input("x", 0, count)
        assert got.dtype == kind
        assert got.tobytes() == x.tobytes()
        assert pack.ids(0, count).tolist() == [f"s{i}" for i in range(count)]
        assert pack.labels(0, count).tolist() == list(range(count))
        for i, box in enumerate(boxes):
            assert np.array_equal(pack.output("boxes", i, i + 1)[0], box)
    assert pa.ipc.open_file(path).schema.metadata == {b"paritygate.content": built.digest.encode()}
    report = paritygate.check_pack(path)
    assert report.exit_code == 0
    assert f"content digest {built.digest}, as recorded when it was written" in str(report.lines)


def test_a_path_in_a_folder_is_relative_to_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    samples = [{"sample_id": k, "in.x": np.ones(3, np.float32)} for k in range(2)]
    for path in ("sub/g.arrow", "./sub/../sub/h.arrow", "i.arrow"):
        assert paritygate.build_pack(path, samples).path == Path(path)
    assert left(tmp_path / "sub") == ["g.arrow", "h.arrow"]
    with pytest.raises(GoldenError, match=r"^sub/j.arrow"):
        paritygate.build_pack("sub/j.arrow", [samples[0], samples[0]])
    assert left(tmp_path / "sub") == ["g.arrow", "h.arrow"]


def test_columns_side_by_side_cast_and_kept(tmp_path: Path) -> None:
    columns = {
        "key": ["a", "b", "c", "d"],
        "age": [1, 2, 3, 4],
        "bmi": [0.1, 0.2, 0.3, 0.4],
        "truth": [0, 1, 1, 0],
        "site": pa.array(["n", "s", None, "n"]).dictionary_encode(),
        "score": [0.5, 0.25, 0.125, 1.0],
    }
    source = table(tmp_path / "t.parquet", columns)
    paritygate.build_from(
        tmp_path / "p.arrow",
        source,
        inputs=["features:float32=age,bmi", "age=age", "one:int8=age,"],
        outputs=["score:float32=score"],
        id="key",
        label="truth",
        keep=["site"],
    )
    with open_pack([tmp_path / "p.arrow"], tmp_path, slices=["site"]) as pack:
        pack.scan_ids()
        expected = np.array([[1, 0.1], [2, 0.2], [3, 0.3], [4, 0.4]], np.float32)
        assert np.array_equal(pack.input("features", 0, 4), expected)
        assert pack.input("features", 0, 4).dtype == np.float32
        assert pack.input("age", 0, 4).tolist() == [1, 2, 3, 4]
        assert pack.input("one", 0, 4).tolist() == [[1], [2], [3], [4]]
        assert pack.input("one", 0, 4).dtype == np.int8
        assert pack.output("score", 0, 4).dtype == np.float32
        assert pack.labels(0, 4).tolist() == [0, 1, 1, 0]
        assert pack.slice_values("site", 0, 4).values == ["n", "s", "(null)"]


def test_columns_with_the_names_of_a_pack_are_taken_as_they_are(tmp_path: Path) -> None:
    a = table(tmp_path / "0.parquet", {"sample_id": [1, 2], "in.x": [[1.0], [2.0]], "no": [1, 2]})
    table(tmp_path / "1.parquet", {"sample_id": [3], "in.x": [[3.0]], "no": [3]})
    built = paritygate.build_from(tmp_path / "p.arrow", str(tmp_path / "*.parquet"))
    assert built.samples == 3
    assert pa.ipc.open_file(tmp_path / "p.arrow").schema.names == ["sample_id", "in.x"]
    assert a.exists()


def test_csv_is_read_in_the_dtype_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sample_id,a,b,site\nx,0.1,1,n\ny,16777217,2,\n", encoding="utf-8")
    paritygate.build_from(tmp_path / "p.arrow", path, inputs=["f:float32=a,b"], keep=["site"])
    with open_pack([tmp_path / "p.arrow"], tmp_path, slices=["site"]) as pack:
        expected = [[np.float32(0.1), 1], [np.float32(16777217), 2]]
        assert np.array_equal(pack.input("f", 0, 2), np.array(expected, np.float32))


def test_infinite_values_of_a_csv_are_those_that_it_says(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sample_id,a\nx,inf\ny,-Inf\nz,3.4e38\n", encoding="utf-8")
    paritygate.build_from(tmp_path / "p.arrow", path, inputs=["f:float32=a"])
    with open_pack([tmp_path / "p.arrow"], tmp_path) as pack:
        assert pack.input("f", 0, 3).tolist() == [np.inf, -np.inf, float(np.float32(3.4e38))]


@pytest.mark.parametrize("dtype", ["", ":float64"])
def test_a_number_that_no_float_holds_is_told_far_into_a_csv(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "t.csv"
    rows = 700_000  # more than a block, of some text each
    lines = [f"s{i:07},{'inf' if i == 5 else '0.5'}" for i in range(rows)]
    lines[rows - 2] = "last,1e400"
    path.write_text("sample_id,a\n" + "\n".join(lines) + "\n", encoding="utf-8")
    assert path.stat().st_size > 8 << 20
    with pytest.raises(GoldenError, match=f"row {rows - 2}: double can't hold '1e400'"):
        paritygate.build_from(tmp_path / "p.arrow", path, inputs=[f"f{dtype}=a"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sample_id,a\nx,1\ny,\n", "column 'a', row 1: has no value"),
        ("sample_id,a\nx,1\ny,nan\n", "column 'a', row 1: has no value"),
        ("sample_id,a\nx,1\ny,abc\n", "abc"),
        ("sample_id,a\nx,1\nx,2\n", "id 'x' of row 1 is also that of row 0"),
        ("sample_id,a\nx,1\ny,1e39\n", "column 'a', row 1: float can't hold '1e39'; name a wider"),
        ("sample_id,a\nx,-3.5e38\ny,inf\n", "column 'a', row 0: float can't hold '-3.5e38'"),
        ("sample_id,a\nx,1\n,2,3\n", "Expected 2 columns, got 3"),
        ("key,a\nx,1\n", "no id column 'sample_id'"),
        ("sample_id,b\nx,1\n", "no column 'a'|Column 'a'"),
        ("sample_id,a\n", "no sample"),
    ],
)
def test_a_bad_csv_is_told_and_leaves_nothing(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GoldenError, match=told):
        paritygate.build_from(tmp_path / "p.arrow", path, inputs=["f:float32=a"])
    assert left(tmp_path) == ["t.csv"]


@pytest.mark.parametrize(
    ("values", "dtype", "told"),
    [
        ([1, 300], "int8", "row 1: is 300, which is no int8"),
        ([0, -1], "uint64", "row 1: is -1"),
        ([1.0, 1.5], "int32", "row 1: is 1.5"),
        ([1.0, 1e39], "float32", "row 1: is 1e[+]39"),
        ([1.0, 500.0], "float8_e4m3fn", "row 1: is 500.0"),
        ([0, 2], "bool", "row 1: is 2"),
        ([7, 8], "int4", "row 1: is 8"),
        (["a", "b"], "float32", "texts aren't cast"),
        ([[1.0], [2.0]], "float32", "plain numbers"),
        ([1.0, None], None, "row 1: has no value"),
    ],
)
def test_what_a_dtype_can_not_hold_is_told(
    tmp_path: Path, values: list[Any], dtype: str | None, told: str
) -> None:
    source = table(tmp_path / "t.parquet", {"sample_id": [1, 2], "a": values})
    spec = "x=a" if dtype is None else f"x:{dtype}=a"
    with pytest.raises(GoldenError, match=told):
        paritygate.build_from(tmp_path / "p.arrow", source, inputs=[spec])


def test_arrays_of_numpy(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    y = np.array([1, 2, 3, 4], ">i4")
    names = np.array(["a", "bb", "c", "d"])
    np.savez(tmp_path / "a.npz", **{"x": x, "out.y": y, "sample_id": names})
    np.savez_compressed(tmp_path / "b.npz", **{"x": x, "out.y": y, "sample_id": names})
    (tmp_path / "c").mkdir()
    for name, array in {"x": x, "out.y": y, "sample_id": names}.items():
        np.save(tmp_path / "c" / f"{name}.npy", array)
    digests = set()
    for source in ("a.npz", "b.npz", "c"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("paritygate.golden.read_tables._ROWS", 3)
            built = paritygate.build_from(tmp_path / "p.arrow", tmp_path / source)
        digests.add(built.digest)
    assert len(digests) == 1
    with open_pack([tmp_path / "p.arrow"], tmp_path) as pack:
        assert np.array_equal(pack.input("x", 0, 4), x)
        assert pack.output("y", 0, 4).tolist() == [1, 2, 3, 4]
        assert pack.ids(0, 4).tolist() == names.tolist()


def test_arrays_that_can_not_be_a_pack(tmp_path: Path) -> None:
    def refused(told: str, **arrays: Any) -> None:
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(GoldenError, match=told):
            paritygate.build_from(tmp_path / "p.arrow", tmp_path / "a.npz", make_ids=True)

    refused("several lengths .x 2, y 3", x=np.zeros(2), y=np.zeros(3))
    refused("no axis of samples", x=np.float32(1))
    refused("Fortran order", x=np.asfortranarray(np.zeros((2, 3))))
    refused("holds complex128", x=np.zeros(2, complex))
    refused("holds object", x=np.array([{}, {}], object))
    (tmp_path / "b.npz").write_bytes(b"nothing")
    with pytest.raises(GoldenError, match="b.npz: can't be read"):
        paritygate.build_from(tmp_path / "p.arrow", tmp_path / "b.npz", make_ids=True)
    np.save(tmp_path / "x.npy", np.zeros((4, 8)))
    cut = tmp_path / "x.npy"
    cut.write_bytes(cut.read_bytes()[:-8])
    with pytest.raises(GoldenError, match="ends before its last sample"):
        paritygate.build_from(tmp_path / "p.arrow", tmp_path, inputs=["x=x"], make_ids=True)
    assert "p.arrow" not in left(tmp_path)


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({"sample_id": 2}, "sample 1: not the columns of the first one .in.x"),
        ({"sample_id": 2, "in.x": np.zeros(3, np.float32)}, r"sample 1: in.x has the shape \(3,\)"),
        ({"sample_id": 2, "in.x": np.zeros(2)}, "in.x is float64, that of the first is float32"),
        ({"sample_id": 2, "in.x": np.zeros(2, complex)}, "in.x is complex128"),
        ({"sample_id": 1, "in.x": np.zeros(2, np.float32)}, "id 1 of row 1 is also that of row 0"),
    ],
)
def test_samples_that_differ_are_told(tmp_path: Path, second: dict[str, Any], told: str) -> None:
    first = {"sample_id": 1, "in.x": np.zeros(2, np.float32)}
    with pytest.raises(GoldenError, match=told):
        paritygate.build_pack(tmp_path / "p.arrow", [first, second])
    assert left(tmp_path) == []


def test_ids_are_made_only_when_asked_for(tmp_path: Path) -> None:
    samples = [{"in.x": np.zeros(1)}, {"in.x": np.ones(1)}]
    with pytest.raises(GoldenError, match="make_ids=True"):
        paritygate.build_pack(tmp_path / "p.arrow", samples)
    built = paritygate.build_pack(tmp_path / "p.arrow", iter(samples), make_ids=True)
    with open_pack([built.path], tmp_path) as pack:
        assert pack.ids(0, 2).tolist() == [0, 1]
    with pytest.raises(GoldenError, match="no sample was given"):
        paritygate.build_pack(tmp_path / "p.arrow", [])


def test_an_exception_of_the_samples_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "p.arrow"
    paritygate.build_pack(path, [{"sample_id": 1}])
    before = path.read_bytes()

    def samples() -> Iterator[dict[str, Any]]:
        yield {"sample_id": 2}
        raise KeyError("from the user's code")

    with pytest.raises(KeyError):
        paritygate.build_pack(path, samples())
    assert path.read_bytes() == before
    assert left(tmp_path) == ["p.arrow"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="can't be written"):
        paritygate.build_pack(tmp_path / "no" / "p.arrow", [{"sample_id": 1}])


@pytest.mark.parametrize("spec", ["x", "=a", "x=", "x:flot32=a"])
def test_specs_that_can_not_be_read(tmp_path: Path, spec: str) -> None:
    source = table(tmp_path / "t.parquet", {"sample_id": [1], "a": [1.0]})
    with pytest.raises(PlanError):
        paritygate.build_from(tmp_path / "p.arrow", source, inputs=[spec])


def test_a_long_name_moves_the_digest_and_it_is_still_found(tmp_path: Path) -> None:
    samples = [{"sample_id": 1, **{f"in.{'x' * 900}{i}": np.zeros(1) for i in range(1500)}}]
    built = paritygate.build_pack(tmp_path / "p.arrow", samples)
    recorded = pa.ipc.open_file(built.path).schema.metadata[b"paritygate.content"]
    assert recorded.decode() == built.digest == paritygate.pack_digest(built.path)


def test_a_pack_that_was_changed_is_told(tmp_path: Path) -> None:
    built = paritygate.build_pack(tmp_path / "p.arrow", [{"sample_id": i} for i in range(9)])
    with pa.ipc.open_file(built.path) as reader:
        kept, schema = reader.read_all()[:5], reader.schema
    with pa.ipc.new_file(built.path, schema) as writer:
        writer.write_table(kept)
    report = paritygate.check_pack(built.path)
    assert report.exit_code == 1
    assert f"but it was written with {built.digest}" in str(report.problems)


MEMORY = """
import resource, sys
import numpy as np
import paritygate
rows = int(sys.argv[2])
zeros = np.zeros(256, np.float32)
samples = ({"in.x": zeros + i} for i in range(rows))
paritygate.build_pack(sys.argv[1], samples, make_ids=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_samples(tmp_path: Path) -> None:
    peaks = []
    for rows in (40_000, 160_000):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(tmp_path / "p.arrow"), str(rows)],
            capture_output=True,
            text=True,
            check=True,
            env=dict(os.environ),
        )
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 32_000, peaks


def test_an_archive_that_holds_an_array_twice_is_refused(tmp_path: Path) -> None:
    import zipfile

    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.write(tmp_path / "x.npy", "x.npy")
    with pytest.raises(GoldenError, match=r"a\.npz: holds the array 'x' twice"):
        paritygate.build_from(tmp_path / "p.arrow", tmp_path / "a.npz", make_ids=True)


def test_a_header_that_is_code_is_told_in_words(tmp_path: Path) -> None:
    header = b"__import__('os').abort()".ljust(117) + b"\n"
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x.npy").write_bytes(whole[:10] + header + whole[128:])
    with pytest.raises(GoldenError, match="its header can't be read; save it with np.save") as e:
        paritygate.build_from(tmp_path / "p.arrow", tmp_path / "d", make_ids=True)
    assert "ast." not in str(e.value)


@pytest.mark.slow
def test_a_folder_that_datasets_saved(tmp_path: Path) -> None:
    from tests.golden import writers
    from tests.golden.test_writers import write

    write("datasets", tmp_path)
    specs = ["m=in.matrix", "v=in.vector", "d=in.deep"]
    source = tmp_path / "saved"
    paritygate.build_from(tmp_path / "p.arrow", source, inputs=specs, keep=["site"])
    with open_pack([tmp_path / "p.arrow"], tmp_path, slices=["site"]) as pack:
        pack.scan_ids()
        assert pack.ids(0, writers.ROWS).tolist() == writers.IDS
        for name, expected in (("m", writers.MATRIX), ("v", writers.VECTOR), ("d", writers.DEEP)):
            assert np.array_equal(pack.input(name, 0, writers.ROWS), expected)


def test_files_of_a_saved_folder_follow_its_own_order(tmp_path: Path) -> None:
    schema = pa.schema({"sample_id": pa.int64()})
    for name, ids in (("a", [1, 2]), ("b", [3])):
        with pa.ipc.new_stream(tmp_path / f"{name}.arrow", schema) as writer:
            writer.write(pa.record_batch({"sample_id": ids}))
    state: dict[str, Any] = {"_data_files": [{"filename": "b.arrow"}, {"filename": "a.arrow"}]}
    (tmp_path / "state.json").write_text(json.dumps(state))
    paritygate.build_from(tmp_path / "p.out", tmp_path)
    with open_pack([tmp_path / "p.out"], tmp_path) as pack:
        assert pack.ids(0, 3).tolist() == [3, 1, 2]
    (tmp_path / "state.json").write_text(json.dumps({**state, "_indices_data_files": [1]}))
    with pytest.raises(GoldenError, match="flatten_indices"):
        paritygate.build_from(tmp_path / "q.out", tmp_path)
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(GoldenError, match="state.json: can't be read"):
        paritygate.build_from(tmp_path / "q.out", tmp_path)
    (tmp_path / "dataset_dict.json").write_text("{}")
    (tmp_path / "train").mkdir()
    with pytest.raises(GoldenError, match=r"several splits .train"):
        paritygate.build_from(tmp_path / "q.out", tmp_path)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_the_row_is_that_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr("paritygate.golden.read_tables._ROWS", 2)
    columns = pa.table({"sample_id": range(9), "a": [1.0] * 7 + [None, 1.0]})
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pq.write_table(columns, path, row_group_size=4)
    elif suffix == "arrow":
        with pa.ipc.new_file(path, columns.schema) as writer:
            writer.write_table(columns, max_chunksize=4)
    else:
        pa.csv.write_csv(columns, path)
    for spec in ("x=a", "x=a,", "x:float32=a"):
        with pytest.raises(GoldenError, match="column 'a', row 7: has no value"):
            paritygate.build_from(tmp_path / "p.arrow", path, inputs=[spec])


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["7", "-8", "0"], [7, -8, 0]),
        (["007", "8", "9"], ["007", "8", "9"]),
        (["1", "a", "9"], ["1", "a", "9"]),
        (["1", "9223372036854775808", "9"], ["1", "9223372036854775808", "9"]),
        (["1.0", "2", "3"], ["1.0", "2", "3"]),
        (["true", "NA", "null"], ["true", "NA", "null"]),
    ],
)
def test_ids_of_a_csv_come_back_as_they_were_written(
    tmp_path: Path, ids: list[str], expected: list[Any]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("key,a\n" + "".join(f"{i},1\n" for i in ids), encoding="utf-8")
    paritygate.build_from(tmp_path / "p.arrow", path, inputs=["x=a"], id="key")
    with open_pack([tmp_path / "p.arrow"], tmp_path) as pack:
        assert pack.ids(0, 3).tolist() == expected


def test_ids_of_several_csv_files_are_of_one_kind(tmp_path: Path) -> None:
    for name, ids in (("0", "1"), ("1", "007")):
        (tmp_path / f"{name}.csv").write_text(f"sample_id,a\n{ids},1\n", encoding="utf-8")
    told = r"1.csv: column 'sample_id', row 0: the id '007' is no number as the first ids are"
    sources = [tmp_path / "0.csv", tmp_path / "1.csv"]
    with pytest.raises(GoldenError, match=told):
        paritygate.build_from(tmp_path / "p.arrow", sources, inputs=["x=a"])
    assert paritygate.build_from(tmp_path / "p.arrow", sources[::-1], inputs=["x=a"]).samples == 2
    (tmp_path / "0.csv").write_text("sample_id,a\nx,1\n,2\n", encoding="utf-8")
    with pytest.raises(GoldenError, match="row 1: the id '' is empty"):
        paritygate.build_from(tmp_path / "p.arrow", sources[0], inputs=["x=a"])


def test_samples_of_a_csv_are_numbered_only_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
    given = {"sources": tmp_path / "t.csv", "inputs": ["x=a,b"]}
    with pytest.raises(GoldenError, match="number the samples by --make-ids"):
        paritygate.build_from(tmp_path / "p.arrow", **given)
    paritygate.build_from(tmp_path / "p.arrow", **given, make_ids=True)
    with open_pack([tmp_path / "p.arrow"], tmp_path) as pack:
        assert pack.ids(0, 2).tolist() == [0, 1]
    with pytest.raises(PlanError, match="not both"):
        paritygate.build_from(tmp_path / "p.arrow", **given, make_ids=True, id="a")
