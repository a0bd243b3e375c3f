"""Bombs, absurd shapes and files that aren't what they say: one sentence, exit 2, little memory."""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from onnx import TensorProto
from tests.golden.child import Ended, check_refused, run_command
from tests.packs import Container, write_pack

import paritygate
from paritygate.core.errors import GoldenError, ParityError
from paritygate.golden.pack import open_pack

MIB = 1 << 20
# What is refused unpacks to more than 256 MiB; without a bound it is read, which takes more memory.
FLOATS = 9 << 23  # of 288 MiB


def check(folder: Path, name: str) -> Ended:
    return run_command("pack", "check", name, cwd=folder)


def refused(read: Callable[[], object], *words: str) -> None:
    """In this process, for what needs no memory to speak of."""
    with pytest.raises(ParityError) as error:
        read()
    assert error.value.exit_code == 2
    assert len(str(error.value)) < 1_500
    for word in words:
        assert word in str(error.value)


# --- packs -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_page_of_288_mebibytes_in_a_small_file(tmp_path: Path) -> None:
    values = pa.array(np.zeros(FLOATS, np.float32))
    column = pa.ListArray.from_arrays(pa.array([0, FLOATS], pa.int32()), values)
    table = pa.table({"sample_id": [1], "in.x": column})
    path = tmp_path / "p.parquet"
    pq.write_table(table, path, compression="zstd", use_dictionary=False, data_page_size=1 << 30)
    del values, column, table
    assert path.stat().st_size < MIB
    check_refused(check(tmp_path, path.name), "p.parquet", "in.x", "unpacks to", peak_mib=1_700)


@pytest.mark.slow
def test_rows_without_end_in_a_small_file(tmp_path: Path) -> None:
    schema = pa.schema({"sample_id": pa.int64(), "in.x": pa.float32()})
    n = 1 << 24
    zeros = pa.table([np.zeros(n, np.int64), np.zeros(n, np.float32)], schema=schema)
    with pq.ParquetWriter(tmp_path / "p.parquet", schema, compression="zstd") as writer:
        for _ in range(16):  # ids of 2 GiB
            writer.write_table(zeros, row_group_size=n)
    del zeros
    assert (tmp_path / "p.parquet").stat().st_size < 16 * MIB
    check_refused(check(tmp_path, "p.parquet"), "have the id of the row before")


@pytest.mark.slow
def test_lists_that_grow_after_the_first_row(tmp_path: Path) -> None:
    rows, width = 9, FLOATS // 9
    ends = np.concatenate([[0, 0], np.arange(1, rows + 1) * width]).astype(np.int32)
    column = pa.ListArray.from_arrays(pa.array(ends), pa.array(np.zeros(rows * width, np.float32)))
    table = pa.table({"sample_id": range(rows + 1), "in.x": column})
    pq.write_table(table, tmp_path / "p.parquet", compression="zstd")
    del table, column
    check_refused(check(tmp_path, "p.parquet"), "unpacks to", peak_mib=1_400)


@pytest.mark.slow
@pytest.mark.parametrize("container", ["file", "stream"])
def test_a_compressed_batch_of_288_mebibytes(tmp_path: Path, container: Container) -> None:
    write_pack(
        tmp_path / "p",
        [1],
        {"x": np.zeros((1, FLOATS), np.float32)},
        container=container,
        compression="zstd",
    )
    assert (tmp_path / "p").stat().st_size < MIB
    check_refused(check(tmp_path, "p"), "unpacks to", peak_mib=850)


@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
@pytest.mark.parametrize(
    "metadata",
    [
        {"shape": [1 << 62, 1 << 62]},
        {"shape": [1 << 62, 4]},
        {"shape": [-2, -2]},
        {"shape": [3, 3]},
        {"shape": []},
        {"shape": [2, 2], "permutation": [0, 7]},
        {"shape": [2, 2], "permutation": [0, 0]},
        {"shape": "2,2"},
        {"shape": [2, 2], "dim_names": ["a"]},
        {},
        "[" * 10_000,
    ],
    ids=str,
)
def test_a_tensor_of_an_absurd_shape(tmp_path: Path, container: Container, metadata: Any) -> None:
    said = metadata if isinstance(metadata, str) else json.dumps(metadata)
    named = {
        "ARROW:extension:name": "arrow.fixed_shape_tensor",
        "ARROW:extension:metadata": said,
    }
    column = pa.array([[1.0, 2.0, 3.0, 4.0]] * 2, pa.list_(pa.float32(), 4))
    path = write_pack(
        tmp_path / "p",
        [1, 2],
        columns={"in.x": column},
        metadata={"in.x": named},
        container=container,
    )

    def read() -> None:
        with open_pack([path], tmp_path) as pack:
            pack.scan_ids()
            assert pack.inputs["x"].sample_bytes == 16  # it was taken for what it is stored as

    try:
        read()
    except GoldenError as error:
        assert "p: " in str(error)
        assert len(str(error)) < 1_500


@pytest.mark.parametrize("container", ["file", "stream"])
@pytest.mark.parametrize("where", ["in.l", "in.v", "raw.t", "raw.l"])
@pytest.mark.parametrize("offset", [-1, 1 << 30, 2])
def test_offsets_that_lead_nowhere(
    tmp_path: Path, container: Container, where: str, offset: int
) -> None:
    marks = {"in.l": 171, "in.v": 172, "raw.t": 173, "raw.l": 174}
    lists = {
        name: pa.ListArray.from_arrays(
            pa.array([0, 3, mark, mark, mark], pa.int32()), pa.array(np.zeros(mark, np.float32))
        )
        for name, mark in marks.items()
    }
    shapes = pa.array([[3], [169], [0], [0]], pa.list_(pa.int32(), 1))
    lists["in.v"] = pa.StructArray.from_arrays([lists["in.v"], shapes], ["data", "shape"])
    texts = pa.array(["abc", "x" * 170, "", ""])
    columns = {
        "out.l": lists["in.l"],
        "out.v": lists["in.v"],
        "raw.t": texts,
        "raw.l": lists["raw.l"],
    }
    path = write_pack(tmp_path / "p", range(4), columns=columns, container=container)
    content, word = path.read_bytes(), np.array([0, 3, marks[where]], np.int32).tobytes()
    assert content.count(word) == 1
    damaged = np.array([0, 3, offset], np.int32)
    path.write_bytes(content.replace(word, damaged.tobytes()))

    def read() -> None:
        from paritygate.golden.raw import RawRecords

        RawRecords([path], "sample_id", ()).take(np.arange(4))
        with open_pack([path], tmp_path) as pack:
            pack.scan_ids()

    refused(read, "p: ", "amaged")


# --- ONNX's test data --------------------------------------------------------------------------


def test_data(folder: Path, proto: Any) -> Callable[[], object]:
    (folder / "test_data_set_0").mkdir(exist_ok=True)
    (folder / "test_data_set_0" / "input_0.pb").write_bytes(proto.SerializeToString())
    return lambda: paritygate.import_pack(folder / "p.arrow", folder)


test_data.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "dims", "raw", "words"),
    [
        (TensorProto.FLOAT, [1 << 60], b"\0" * 12, "'x' says to be float[1152921504606846976]"),
        (TensorProto.FLOAT, [1 << 32, 1 << 32], b"", "says to be float[4294967296, 4294967296]"),
        (TensorProto.INT4, [1 << 40], b"\0", "says to be int4"),
        (TensorProto.STRING, [1 << 60], b"", "says to be string"),
        (TensorProto.FLOAT, [-1], b"\0\0\0\0", "says to be float[-1]"),
        (TensorProto.FLOAT, [1 << 61, 0, 0], b"", ""),
    ],
    ids=range(6),
)
def test_a_tensor_that_says_to_be_larger_than_it_is(
    tmp_path: Path, kind: int, dims: list[int], raw: bytes, words: str
) -> None:
    proto = TensorProto(name="x", data_type=kind, dims=dims, raw_data=raw)
    refused(test_data(tmp_path, proto), words)


@pytest.mark.parametrize("held", [0, 1, 11, 13])
def test_a_tensor_with_other_bytes_than_its_shape_needs(tmp_path: Path, held: int) -> None:
    proto = TensorProto(name="x", data_type=TensorProto.FLOAT, dims=[3], raw_data=b"\0" * held)
    refused(test_data(tmp_path, proto), "input_0.pb")


def external(location: str, **said: int) -> TensorProto:
    proto = TensorProto(name="x", data_type=TensorProto.FLOAT, dims=[4])
    proto.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **said}.items():
        proto.external_data.add(key=key, value=str(value))
    return proto


@pytest.mark.parametrize("how", ["..", "absolute", "link", "linked folder", "folder", "none"])
def test_data_outside_of_the_folder_are_not_read(tmp_path: Path, how: str) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 16)
    folder = tmp_path / "test_data_set_0"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "inner").symlink_to(tmp_path)
    locations = {
        "..": "../secret",
        "absolute": str(tmp_path / "secret"),
        "link": "link",
        "linked folder": "inner/secret",
        "folder": ".",
        "none": "",
    }
    refused(test_data(tmp_path, external(locations[how])), "isn't a file in this folder")


@pytest.mark.parametrize("said", [{}, {"length": 1 << 40}, {"offset": 1 << 50}, {"length": 8}])
def test_data_beside_that_are_far_too_many_or_few(tmp_path: Path, said: dict[str, int]) -> None:
    (tmp_path / "test_data_set_0").mkdir()
    with (tmp_path / "test_data_set_0" / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    refused(
        test_data(tmp_path, external("sparse", **said)),
        "bytes for it" if said.get("length") != 8 else "",
    )


@pytest.mark.parametrize("name", ["input_0.pb", "inputs.json", "a.csv", "a.npz"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "test_data_set_0"
    folder.mkdir()
    os.mkfifo(folder / name)
    if name.endswith((".pb", ".json")):
        source = folder if name.endswith(".pb") else folder / name
        ended = run_command("pack", "import", source, "-o", "p.arrow", cwd=tmp_path, limit_s=30)
    else:
        ended = run_command(
            "pack",
            "build",
            folder / name,
            "-o",
            "p.arrow",
            "--input",
            "x=a",
            "--make-ids",
            cwd=tmp_path,
            limit_s=30,
        )
    check_refused(ended, "isn't a regular file")


# --- Polygraphy's JSON --------------------------------------------------------------------------


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("unpickled",)


def npy(array: Any, **more: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **more)
    return buffer.getvalue()


def header(shape: str, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def zipped(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        npy(np.array([Evil()], object), allow_pickle=True),
        pickle.dumps(Evil()),
        zipped(npy(np.array([Evil()], object), allow_pickle=True)),
        header("(1099511627776,)") + b"\0" * 16,
        header("(4611686018427387904, 4)") + b"\0" * 16,
        header("(-4,)") + b"\0" * 16,
        header("(2,)") + b"\0" * 4,
        header("(" + "(" * 500 + ")" * 500 + ",)") + b"\0" * 4,
        header("(1,)", "'|V1073741824'") + b"\0" * 4,
        header("(1,)", "[('a', '<f4')]") + b"\0" * 4,
        header("(1,)", "'<U1'") + b"\0\xd8\0\0",
        b"",
        b"\x93NUMPY",
    ],
    ids=range(13),
)
def test_arrays_of_polygraphy_are_never_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    array = {"array": base64.b64encode(data).decode(), "polygraphy_class": "ndarray"}
    (tmp_path / "i.json").write_text(json.dumps([{"x": array}]))
    refused(lambda: paritygate.import_pack("p.arrow", "i.json"), "i.json", "'x'")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["i.json"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '[{"x": ' * 5_000,
        "[1e999]",
        '[{"x": {"array": "%%%"}}]',
        "\0",
        "[" + "1," * 10 + "1]",
        '{"polygraphy_class": "RunResults", "lst": [[{}, []]]}',
        '{"polygraphy_class": "RunResults", "lst": [["a", [{"outputs": {"y": 1}}]]]}',
    ],
    ids=lambda text: text[:30],
)
def test_a_json_of_anything(tmp_path: Path, text: str) -> None:
    (tmp_path / "i.json").write_text(text)
    refused(lambda: paritygate.import_pack(tmp_path / "p.arrow", tmp_path / "i.json"), "i.json")


# --- arrays and tables ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        npy(np.array([Evil()], object), allow_pickle=True),
        header("(3, 4611686018427387904)") + b"\0" * 64,
        header("(3, -4)") + b"\0" * 64,
        header("(-3, 4)") + b"\0" * 64,
        header("(1152921504606846976,)") + b"\0" * 64,
        header("(3, 4)") + b"\0" * 47,
        header("(3, 1073741824)") + b"\0" * 64,
        header("()") + b"\0" * 4,
        header("(3,)", "'O'") + b"\0" * 64,
        header("(1,)", "'<U1'") + b"\xff\xff\x11\0",
        header("(1,)", "'>U1'") + b"\0\0\xdc\0",
        header("(3,)", "'<M8[s]'") + b"\0" * 64,
        b"\x93NUMPY\x09\x00" + b"\0" * 64,
    ],
    ids=range(13),
)
@pytest.mark.parametrize("packed", [False, True])
def test_arrays_that_are_not_what_their_header_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, packed: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.npy").write_bytes(data)
    (tmp_path / "a.npz").write_bytes(zipped(data))
    source = "a.npz" if packed else "a"
    refused(lambda: paritygate.build_from("p.arrow", source, make_ids=True), source)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "a.npz"]


@pytest.mark.slow
def test_an_archive_that_unpacks_to_more_than_a_gigabyte(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        file.write(header("(1, 300000000)"))
        for _ in range(150):
            file.write(b"\0" * 8_000_000)
    assert (tmp_path / "a.npz").stat().st_size < 5 * MIB
    ended = run_command("pack", "build", "a.npz", "-o", "p.arrow", "--make-ids", cwd=tmp_path)
    check_refused(ended, "a.npz", "a sample of it has 1200000000 bytes")


def test_a_table_with_zero_bytes_and_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text in (
        b"sample_id,a\n1,\0\n",
        b"sample_id,a\n1,2\n1,2,3\n",
        b"sample_id,a\n1,x\n",
        b"\0\0\0",
        b"sample_id,a\n1,\xff\xfe\n",
        b"sample_id,a,a\n1,2,3\n",
        b"",
        b"sample_id,a\n1\n",
        b'sample_id,a\n"1,2\n',
    ):
        path.write_bytes(text)
        refused(
            lambda: paritygate.build_from(tmp_path / "p.arrow", path, inputs=["x:float32=a"]),
            "a.csv",
        )


@pytest.mark.slow
def test_a_line_of_a_gigabyte(tmp_path: Path) -> None:
    with (tmp_path / "a.csv").open("wb") as file:
        file.write(b"sample_id,a\n1,")
        for _ in range(128):
            file.write(b"7" * (8 << 20))
        file.write(b"\n")
    ended = run_command("pack", "build", "a.csv", "-o", "p.arrow", "--input", "x=a", cwd=tmp_path)
    check_refused(ended, "a.csv", seconds=30)


@pytest.mark.parametrize("name", ["../x.arrow", "/etc/passwd", "..", ".", "", "sub/x.arrow"])
def test_a_saved_dataset_names_files_of_its_folder_only(tmp_path: Path, name: str) -> None:
    (tmp_path / "d").mkdir()
    for place in (tmp_path / "x.arrow", tmp_path / "d" / "x.arrow"):
        write_pack(place, [1], {"x": np.zeros((1, 2))})
    (tmp_path / "d" / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    refused(
        lambda: paritygate.build_from(tmp_path / "p.arrow", tmp_path / "d"),
        "state.json",
        "no file in this folder",
    )


# --- proofs -----------------------------------------------------------------------------------


def test_a_proof_of_anything(tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "p.arrow", [1, 2, 3], {"x": np.zeros((3, 2))})
    good = paritygate.prove_sample(pack, 2)
    digest, path = good["content_digest"], tmp_path / "proof.json"
    for key, value in (
        ("samples", 1 << 80),
        ("samples", 0),
        ("samples", True),
        ("samples", 3.0),
        ("row", -1),
        ("row", "1"),
        ("path", ["00"] * 2),
        ("path", "ab"),
        ("path", ["zz" * 32]),
        ("id", None),
        ("id", [1]),
        ("schema_version", 2),
        ("leaf", 7),
        ("path", ["00" * 32] * 1000),
        ("more", 1),
    ):
        path.write_text(json.dumps({**good, key: value}))
        refused(lambda: paritygate.verify_proof(path, pack, digest), "proof", key)
    for text in ("", "[" * 100_000, "{}", "[]", "1e999", "\0", '{"samples": Infinity}', "null"):
        path.write_text(text)
        refused(lambda: paritygate.verify_proof(path, pack, digest), "proof")
    path.write_text(json.dumps(good))
    assert paritygate.verify_proof(path, pack, digest)
