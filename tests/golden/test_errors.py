"""Every way in which a pack can be unusable: the code, and what the sentence names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.packs import Container, write_pack, write_table

from paritygate.core.errors import GoldenError
from paritygate.golden.pack import GoldenPack, open_pack

CONTAINERS = ["file", "stream", "parquet"]


@dataclass(frozen=True)
class Case:
    """A pack that must be refused with this code, in a sentence that has these words."""

    name: str
    write: Callable[[Path], object]
    code: str
    words: tuple[str, ...]
    options: dict[str, object] | None = None


def column(name: str, array: pa.Array, ids: object = None) -> Callable[[Path], object]:
    rows = range(len(array)) if ids is None else ids
    return lambda folder: write_pack(folder / "p.arrow", rows, columns={name: array})


def two(first: dict[str, object], second: dict[str, object]) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        write_pack(folder / "p.arrow", **{"ids": [1, 2], **first})
        write_pack(folder / "q.arrow", **{"ids": [3, 4], **second})

    return write


def raw(content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "p.arrow").write_bytes(content)


def twice_the_same_name(folder: Path) -> None:
    batch = pa.record_batch([pa.array([1]), pa.array([1.0]), pa.array([2.0])], list("abb"))
    with pa.ipc.new_file(folder / "p.arrow", batch.schema) as writer:
        writer.write(batch)


FLOATS = np.zeros((2, 3), np.float32)
OPEN_CASES = [
    Case("empty file", raw(b""), "golden.unreadable", ("p.arrow", "empty")),
    Case("text", raw(b"sample_id,x\n1,2\n"), "golden.format", ("p.arrow", "no pack file")),
    Case("magic of Parquet alone", raw(b"PAR1"), "golden.unreadable", ("p.arrow", "truncated")),
    Case("magic of Parquet twice", raw(b"PAR1" * 3), "golden.unreadable", ("p.arrow", "damaged")),
    Case("encrypted Parquet", raw(b"PARE" * 4), "golden.format", ("p.arrow", "encrypted Parquet")),
    Case("magic of a stream alone", raw(b"\xff" * 4), "golden.unreadable", ("p.arrow", "damaged")),
    Case("gzip", raw(b"\x1f\x8b\x08\0"), "golden.format", ("p.arrow", "compressed by gzip")),
    Case("Feather 1", raw(b"FEA1\0\0\0\0"), "golden.format", ("p.arrow", "Feather", "version 1")),
    Case("magic alone", raw(b"ARROW1"), "golden.unreadable", ("p.arrow", "truncated")),
    Case("magic twice", raw(b"ARROW1\0\0ARROW1"), "golden.unreadable", ("p.arrow", "damaged")),
    Case(
        "no id",
        column("sample_idx", pa.array([1, 2]), [1, 2]),
        "golden.missing_column",
        ("p.arrow", "'sampleid'", "sample_id, sample_idx", "did you mean 'sample_id'"),
        {"id_column": "sampleid"},
    ),
    Case(
        "float ids",
        lambda folder: write_pack(folder / "p.arrow", [1.0, 2.0]),
        "golden.id_type",
        ("p.arrow", "'sample_id'", "double", "int64 or string"),
    ),
    Case(
        "uint64 ids",
        lambda folder: write_pack(folder / "p.arrow", pa.array([1, 2], pa.uint64())),
        "golden.id_type",
        ("p.arrow", "uint64"),
    ),
    Case(
        "bool ids",
        lambda folder: write_pack(folder / "p.arrow", [True, False]),
        "golden.id_type",
        ("p.arrow", "bool"),
    ),
    Case(
        "int and string ids",
        two({}, {"ids": ["a", "b"]}),
        "golden.id_type",
        ("q.arrow", "p.arrow", "string", "int64"),
    ),
    Case(
        "int and string ids in a file without rows",
        two({}, {"ids": pa.array([], pa.string())}),
        "golden.id_type",
        ("q.arrow", "p.arrow", "string", "int64"),
    ),
    Case(
        "column missing in a file",
        two({"inputs": {"x": FLOATS}}, {}),
        "golden.schema",
        ("q.arrow", "'in.x'", "p.arrow"),
    ),
    Case(
        "column only in the second file",
        two({}, {"outputs": {"y": FLOATS}}),
        "golden.schema",
        ("q.arrow", "'out.y'", "p.arrow"),
    ),
    Case(
        "other dtype",
        two({"inputs": {"x": FLOATS}}, {"inputs": {"x": FLOATS.astype(np.float64)}}),
        "golden.schema",
        ("q.arrow", "'in.x'", "float64[batch, 3]", "float32[batch, 3]"),
    ),
    Case(
        "other shape",
        two({"inputs": {"x": FLOATS}}, {"inputs": {"x": FLOATS[:, :2]}}),
        "golden.schema",
        ("q.arrow", "'in.x'", "float32[batch, 2]", "float32[batch, 3]"),
    ),
    Case(
        "other units",
        two(
            {"inputs": {"x": FLOATS}, "metadata": {"in.x": {"units": "mm/s"}}},
            {"inputs": {"x": FLOATS}, "metadata": {"in.x": {"units": "in/s"}}},
        ),
        "golden.schema",
        ("q.arrow", "'in.x'", "mm/s", "in/s"),
    ),
    Case(
        "labels of other type",
        two({"label": [1, 2]}, {"label": ["a", "b"]}),
        "golden.schema",
        ("q.arrow", "'label'", "string", "int64"),
    ),
    Case(
        "same name twice",
        twice_the_same_name,
        "golden.schema",
        ("p.arrow", "'b' occurs twice"),
        {"id_column": "a"},
    ),
    Case(
        "bytes",
        column("in.x", pa.array([b"a", b"b"])),
        "golden.column_type",
        ("p.arrow", "'in.x'", "binary isn't supported", "bfloat16"),
    ),
    Case(
        "list of bytes",
        column("out.y", pa.array([[b"a"], [b"b"]])),
        "golden.column_type",
        ("p.arrow", "'out.y'", "binary", "list"),
    ),
    Case(
        "bfloat16 in another storage type",
        lambda folder: write_pack(
            folder / "p.arrow",
            [1, 2],
            {"x": np.zeros(2, np.uint32)},
            metadata={"in.x": {"paritygate.dtype": "bfloat16"}},
        ),
        "golden.column_type",
        ("p.arrow", "'in.x'", "bfloat16", "uint16", "uint32"),
    ),
    Case(
        "input named in the plan",
        column("features", pa.array([1.0, 2.0])),
        "golden.missing_column",
        ("p.arrow", "input", "'feature'", "did you mean 'features'"),
        {"inputs": {"x": "feature"}},
    ),
    Case(
        "a column of bytes among outputs",
        column("site", pa.array([b"a", b"b"])),
        "golden.column_type",
        ("p.arrow", "'site'", "out.<name>"),
        {"outputs_from": "all"},
    ),
    Case(
        "no slice column",
        column("site", pa.array(["a", "b"])),
        "golden.missing_column",
        ("p.arrow", "slice", "'sites'", "did you mean 'site'"),
        {"slices": ["sites"]},
    ),
    Case(
        "float slices",
        column("site", pa.array([1.5, 2.5])),
        "golden.slice_type",
        ("p.arrow", "'site'", "double"),
        {"slices": ["site"]},
    ),
    Case(
        "nested slices",
        column("site", pa.array([["a"], ["b"]])),
        "golden.slice_type",
        ("p.arrow", "'site'", "list"),
        {"slices": ["site"]},
    ),
    Case(
        "no label column",
        column("truth", pa.array([1, 2])),
        "golden.missing_column",
        ("p.arrow", "label", "'truths'", "did you mean 'truth'"),
        {"label_column": "truths"},
    ),
    Case(
        "float labels",
        column("truth", pa.array([1.0, 2.0])),
        "golden.label_type",
        ("p.arrow", "'truth'", "double"),
        {"label_column": "truth"},
    ),
]

IDS = ["one", "two", "three", "four"]
SCAN_CASES = [
    Case(
        "null id",
        lambda folder: write_pack(
            folder / "p.arrow", pa.array(["a", "b", "c", None]), rows_per_batch=3
        ),
        "golden.null_id",
        ("p.arrow", "'sample_id'", "row 3"),
    ),
    Case(
        "null int id",
        lambda folder: write_pack(folder / "p.arrow", pa.array([1, None, 3])),
        "golden.null_id",
        ("p.arrow", "'sample_id'", "row 1"),
    ),
    Case(
        "null scalar",
        column("in.x", pa.array([1.0, 2.0, None, 4.0]), IDS),
        "golden.null_value",
        ("p.arrow", "'in.x'", "sample three", "row 2"),
    ),
    Case(
        "null tensor",
        column("out.y", pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int32(), 2)), IDS),
        "golden.null_value",
        ("p.arrow", "'out.y'", "sample two"),
    ),
    Case(
        "null element",
        column("in.x", pa.array([[1, 2], [3, 4], [3, 4], [5, None]], pa.list_(pa.int8(), 2)), IDS),
        "golden.null_value",
        ("p.arrow", "'in.x'", "sample four", "element 1"),
    ),
    Case(
        "null bool",
        column("in.x", pa.array([True, None, True, False]), IDS),
        "golden.null_value",
        ("p.arrow", "'in.x'", "sample two"),
    ),
    Case(
        "lists of several lengths",
        column("in.x", pa.array([[1.0, 2.0], [1.0, 2.0], [1.0], [1.0, 2.0]]), IDS),
        "golden.shape",
        ("p.arrow", "'in.x'", "sample three", "a list of 1", "has 2"),
    ),
    Case(
        "inner lists of several lengths, same total",
        column("in.x", pa.array([[[1.0], [2.0]], [[1.0, 2.0], []], [[1.0], [2.0]]]), IDS[:3]),
        "golden.shape",
        ("p.arrow", "'in.x'", "sample two", "has 1"),
    ),
    Case(
        "null label",
        lambda folder: write_pack(folder / "p.arrow", IDS, label=[1, 2, None, 4]),
        "golden.null_label",
        ("p.arrow", "'label'", "sample three"),
    ),
]


def store_as(container: Container, folder: Path) -> None:
    """Store the files of a folder in another format, those that are Arrow IPC files."""
    for path in folder.glob("*.arrow"):
        if container != "file" and path.read_bytes()[:8] == b"ARROW1\0\0":
            with pa.OSFile(str(path)) as file, suppress(pa.ArrowInvalid):
                reader = pa.ipc.open_file(file)
                rows = reader.get_batch(0).num_rows if reader.num_record_batches else 1
                write_table(path, reader.read_all(), max(1, rows), container)


def check(error: GoldenError, case: Case) -> None:
    assert error.code == case.code
    assert [word for word in case.words if word not in str(error)] == []


@pytest.mark.parametrize("case", OPEN_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("container", CONTAINERS)
def test_is_refused_on_opening(tmp_path: Path, case: Case, container: Container) -> None:
    case.write(tmp_path)
    store_as(container, tmp_path)
    with pytest.raises(GoldenError) as error:
        open_pack(["*.arrow"], tmp_path, **(case.options or {}))
    check(error.value, case)


@pytest.mark.parametrize("case", SCAN_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("container", CONTAINERS)
def test_is_refused_by_the_scan(tmp_path: Path, case: Case, container: Container) -> None:
    case.write(tmp_path)
    store_as(container, tmp_path)
    pack = open_pack(["*.arrow"], tmp_path)
    with pytest.raises(GoldenError) as error:
        pack.scan_ids()
    check(error.value, case)


@pytest.mark.parametrize("case", SCAN_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("container", CONTAINERS)
def test_is_refused_by_a_read_without_a_scan(
    tmp_path: Path, case: Case, container: Container
) -> None:
    case.write(tmp_path)
    store_as(container, tmp_path)
    pack = open_pack(["*.arrow"], tmp_path)
    with pytest.raises(GoldenError) as error:
        read_columns(pack)
    check(error.value, case)


@pytest.mark.parametrize(
    ("patterns", "code", "words"),
    [
        (["*.parquet"], "golden.no_match", "'*.parquet'"),
        ([], "golden.no_match", "no file is named"),
        (["q.arrow"], "golden.missing_file", "q.arrow"),
        (["folder"], "golden.no_match", "folder has no pack file in it"),
        (["broken"], "golden.unreadable", "broken/q.arrow: can't be opened"),
        (["whole", "p.arrow"], "golden.duplicate_file", "p.arrow"),
        (["p.arrow", "*.arrow"], "golden.duplicate_file", "p.arrow"),
        (["p.arrow", "folder/../p.arrow"], "golden.duplicate_file", "p.arrow"),
        (["link.arr?w", "p.arrow"], "golden.duplicate_file", "link.arrow"),
        (["n" * 300], "golden.unreadable", "File name too long"),
        (["**.arrow" + "[z-a]**"], "golden.no_match", "'**.arrow[z-a]**'"),
        (["pipe"], "golden.unreadable", "pipe isn't a regular file"),
    ],
)
def test_patterns(tmp_path: Path, patterns: list[str], code: str, words: str) -> None:
    write_pack(tmp_path / "p.arrow", [1])
    for name in ("folder", "broken", "whole"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder/notes.txt").write_text("no pack")
    (tmp_path / "broken/q.arrow").symlink_to(tmp_path / "gone.arrow")
    (tmp_path / "whole/link").symlink_to(tmp_path / "p.arrow")
    (tmp_path / "link.arrow").symlink_to(tmp_path / "p.arrow")
    with pytest.raises(GoldenError) as error:
        open_pack(patterns, tmp_path)
    assert error.value.code == code
    assert words in str(error.value)


def read_columns(pack: GoldenPack) -> None:
    for name in pack.inputs:
        pack.input(name, 0, pack.samples)
    for name in pack.outputs:
        pack.output(name, 0, pack.samples)
    for column_name in pack.labels_of:
        pack.labels(0, pack.samples, column_name)
    for column_name in pack.slices:
        pack.slice_values(column_name, 0, pack.samples)
    pack.ids(0, pack.samples)


def read_all(path: Path) -> None:
    with open_pack([path], path.parent, slices=["site", "kind"]) as pack:
        pack.scan_ids()
        read_columns(pack)
        pack.index().rows(pack.ids(0, pack.samples))


def test_a_null_id_is_told_by_a_gather_too(tmp_path: Path) -> None:
    path = write_pack(tmp_path / "p.arrow", pa.array(["a", None, "c"]))
    with pytest.raises(GoldenError, match="row 1: the id is null") as error:
        open_pack([path], tmp_path).take_ids(np.array([2, 1, 0]))
    assert error.value.code == "golden.null_id"


def patched(whole: bytes, old: bytes, new: bytes) -> list[bytes]:
    """The file with one occurrence of some bytes replaced, for every occurrence."""
    places = [at for at in range(len(whole)) if whole.startswith(old, at)]
    return [whole[:at] + new + whole[at + len(old) :] for at in places]


def read_each(folder: Path, versions: list[bytes]) -> int:
    """Read every version in a process of its own; how many of them were refused."""
    assert versions
    for number, content in enumerate(versions):
        (folder / f"{number}.patched").write_bytes(content)
    script = (
        "import sys; from pathlib import Path; from tests.golden.test_errors import refusals; "
        "print(refusals(sorted(Path(sys.argv[1]).glob('*.patched'))))"
    )
    return int(run(script, folder))


def refusals(paths: list[Path]) -> int:
    """How many of these packs are refused; the others are read."""
    count = 0
    for path in paths:
        try:
            read_all(path)
        except GoldenError:
            count += 1
    return count


def run(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_wrong_number_of_rows_never_leads_out_of_a_column(
    tmp_path: Path, compression: str | None
) -> None:
    path = write_pack(
        tmp_path / "p.arrow",
        range(70_001),
        {"x": np.zeros((70_001, 2))},
        slices={"site": ["a"] * 70_001, "kind": ["b"] * 70_001},
        compression=compression,
    )
    old = (70_001).to_bytes(8, "little")
    for rows in (1_000, 1 << 24, (1 << 64) - 5):
        versions = patched(path.read_bytes(), old, rows.to_bytes(8, "little"))
        assert len(versions) >= 5
        assert read_each(tmp_path, versions) >= len(versions) - 2


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_offsets_that_point_out_of_the_file_are_refused(
    tmp_path: Path, compression: str | None
) -> None:
    # Three offsets are too few to shrink, so that zstd stores them as they are.
    path = write_pack(
        tmp_path / "p.arrow",
        range(2),
        slices={"site": ["abcdef", "uvwxyz"], "kind": ["b", "b"]},
        columns={"in.x": pa.array([[1.0] * 5] * 2)},
        compression=compression,
    )
    versions = []
    for size in (5, 6):
        offsets = np.arange(0, 3 * size, size, np.int32)
        for shift in (1_000_000_000, -size, -1_000_000_000):
            bad = (offsets + np.int32(shift)).tobytes()
            versions += patched(path.read_bytes(), offsets.tobytes(), bad)
    assert len(versions) == 6
    assert read_each(tmp_path, versions) == 6


def test_a_span_with_wild_offsets_is_refused_without_a_scan(tmp_path: Path) -> None:
    path = write_pack(tmp_path / "p.arrow", range(4), columns={"in.x": pa.array([[1.0] * 5] * 4)})
    good = np.array([0, 5, 10, 15, 20], np.int32)
    bad = good + np.array([0, 1, 1, 0, 0], np.int32) * 1_000_000_000
    (content,) = patched(path.read_bytes(), good.tobytes(), bad.tobytes())
    path.write_bytes(content)
    script = (
        "import sys; from pathlib import Path\n"
        "from paritygate.core.errors import GoldenError\n"
        "from paritygate.golden.pack import open_pack\n"
        "try:\n    open_pack(['p.arrow'], Path(sys.argv[1])).input('x', 1, 2)\n"
        "except GoldenError as error:\n    print(error.code)"
    )
    assert run(script, tmp_path).strip() == "golden.unreadable"


def test_announced_nulls_that_are_not_there_are_refused(tmp_path: Path) -> None:
    nulls = pa.array([None if i in (3, 5, 6) else 1.0 for i in range(321)])
    path = write_pack(tmp_path / "p.arrow", range(321), columns={"in.x": nulls})
    announced = np.array([321, 3]).tobytes()
    bits = nulls.buffers()[0].to_pybytes()[:40]
    (whole,) = patched(path.read_bytes(), bits, b"\xff" * 40)
    assert announced in whole
    path.write_bytes(whole)
    with pytest.raises(GoldenError, match="3 nulls are announced") as error:
        open_pack([path], tmp_path).scan_ids()
    assert error.value.code == "golden.unreadable"
