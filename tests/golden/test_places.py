"""Tensors of mapped files are read where they were noted to lie, as Arrow would read them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.test_pack import lies_in, same_bits
from tests.packs import Container, write_pack

from paritygate.core.errors import GoldenError
from paritygate.core.tensors import Array, ColumnSpec
from paritygate.golden import ids, places
from paritygate.golden.pack import GoldenPack, open_pack

ROWS = 120
DTYPES = ("float16", "float32", "float64", "int8", "uint16", "int64", "bool")


def values_of(dtype: str, shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(3).integers(0, 100, (ROWS, *shape)).astype(dtype)


@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
@pytest.mark.parametrize("rows", [7, 40, ROWS])
def test_what_was_noted_is_what_arrow_reads(
    tmp_path: Path, container: Container, rows: int
) -> None:
    outputs = {
        f"{dtype}{len(shape)}": values_of(dtype, shape)
        for dtype in DTYPES
        for shape in ((), (3,), (2, 0), (2, 5))
    }
    texts = pa.array([f"s{i % 9}" for i in range(ROWS)])
    path = write_pack(
        tmp_path / "p",
        range(ROWS),
        outputs=outputs,
        columns={"out.t": texts},
        rows_per_batch=rows,
        container=container,
    )
    spans = [(0, ROWS), (0, rows), (3, 5), (rows - 2, min(ROWS, rows + 3)), (11, 97), (9, 9)]
    with open_pack([path], tmp_path) as scanned, open_pack([path], tmp_path) as unscanned:
        scanned.scan_ids()
        for name in unscanned.outputs:
            for start, stop in spans:
                ours = scanned.output(name, start, stop)
                theirs = unscanned.output(name, start, stop)
                assert isinstance(ours, np.ndarray)
                assert not ours.flags.writeable
                if name == "t":
                    assert ours.tolist() == texts[start:stop].to_pylist()
                else:
                    assert same_bits(ours, outputs[name][start:stop])
                    assert same_bits(ours, np.asarray(theirs))


def test_one_record_batch_stays_where_it_is_and_several_go_where_they_are_told(
    tmp_path: Path,
) -> None:
    y = values_of("float32", (5,))
    path = write_pack(tmp_path / "p", range(ROWS), outputs={"y": y}, rows_per_batch=7)
    room = np.zeros((ROWS, 5), np.float32)
    asked: list[int] = []

    def make_room(rows: int, like: Array) -> Array:
        asked.append(rows)
        assert (like.dtype, like.shape[1:]) == (room.dtype, (5,))
        return room

    with open_pack([path], tmp_path) as pack:
        pack.scan_ids()
        assert lies_in(path, np.asarray(pack.output("y", 7, 14, make_room)))
        assert not asked
        found = pack.output("y", 3, 90, make_room)
        assert asked == [87]
        assert np.shares_memory(found, room)
        assert same_bits(found, y[3:90])
        assert room.flags.writeable


def test_samples_of_several_files(tmp_path: Path) -> None:
    y = values_of("float64", ())
    for name, part in (("a", slice(0, 50)), ("b", slice(50, ROWS))):
        ids = np.arange(ROWS)[part]
        write_pack(tmp_path / f"{name}.arrow", ids, outputs={"y": y[part]}, rows_per_batch=20)
    with open_pack(["*.arrow"], tmp_path) as pack:
        pack.scan_ids()
        for start, stop in ((0, ROWS), (45, 55), (50, 70), (10, 50), (49, 50)):
            assert same_bits(np.asarray(pack.output("y", start, stop)), y[start:stop])


def test_large_record_batches_are_noted_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "_STEP", 7)
    y = values_of("int16", (3,))
    path = write_pack(tmp_path / "p", range(ROWS), outputs={"y": y}, rows_per_batch=40)
    with open_pack([path], tmp_path) as pack:
        pack.scan_ids()
        assert same_bits(np.asarray(pack.output("y", 0, ROWS)), y)
        assert lies_in(path, np.asarray(pack.output("y", 42, 79)))


def test_a_null_beyond_the_first_part_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "_STEP", 7)
    y = pa.array([None if row == 30 else float(row) for row in range(ROWS)])
    path = write_pack(tmp_path / "p", range(ROWS), columns={"out.y": y})
    with open_pack([path], tmp_path) as pack, pytest.raises(GoldenError, match="30"):
        pack.scan_ids()


def test_what_was_noted_in_part_is_not_known() -> None:
    whole = np.arange(80, dtype=np.uint8)
    spec = ColumnSpec("y", "uint8", (2,))
    known = places.Places([whole, None], [0, 0, 1], [0, 10, 20, 30])
    known.note("y", spec, 0, whole[:20].reshape(10, 2))
    assert known.read("y", spec, 3, 9, None).tolist() == whole[6:18].reshape(6, 2).tolist()
    for start, stop in ((3, 12), (10, 12), (3, 3), (25, 27)):
        assert known.read("y", spec, start, stop, None) is None
    assert known.read("z", spec, 3, 9, None) is None
    known.note("y", spec, 10, whole[60:80].reshape(10, 2))
    assert known.read("y", spec, 9, 12, None).tolist() == [[18, 19], [60, 61], [62, 63]]
    known.note("y", spec, 20, whole[:20].reshape(10, 2))
    assert known.read("y", spec, 15, 25, None) is None
    elsewhere = places.Places([whole], [0], [0, 10])
    for values in (np.zeros((10, 2), np.uint8), whole[70:].reshape(5, 2)):
        elsewhere.note("y", spec, 0, values)
        assert elsewhere.read("y", spec, 0, 1, None) is None


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4)), min_size=1, max_size=9))
@settings(deadline=None)
def test_pieces_are_copied_end_to_end(pieces: list[tuple[int, int]]) -> None:
    whole = np.arange(64, dtype=np.uint8)
    begins, sizes = map(list, zip(*pieces, strict=True))
    into = np.zeros(sum(sizes), np.uint8)
    places._copy(whole, begins, sizes, into)
    expected = [value for begin, size in pieces for value in range(begin, begin + size)]
    assert into.tolist() == expected


def mapped_kib(path: Path) -> int:
    """Resident memory of a mapped file."""
    maps = Path("/proc/self/smaps").read_text()
    found = re.findall(rf"{re.escape(str(path))}\n(?:\w+: .*\n)*?Rss: +(\d+) kB", maps)
    assert found
    return sum(map(int, found))


@pytest.mark.parametrize("rows", [1000, 4_500, 30_000])
def test_what_was_read_is_let_go_of_in_whole_record_batches_and_in_parts(
    tmp_path: Path, rows: int
) -> None:
    samples = 30_000
    y = np.ones((samples, 400), np.float32)
    path = write_pack(tmp_path / "p", range(samples), outputs={"y": y}, rows_per_batch=rows)

    def read(pack: GoldenPack, start: int, stop: int) -> None:
        pack.ids(start, stop)
        np.asarray(pack.output("y", start, stop)).sum()

    with open_pack([path], tmp_path) as pack:
        pack.scan_ids()
        pack.done_with(0, samples)
        assert mapped_kib(path) <= 256
        read(pack, 0, samples)
        assert mapped_kib(path) > 40_000
        pack.done_with(0, 16_000)
        assert 19_000 < mapped_kib(path) < 25_000
        pack.done_with(16_000, samples)
        assert mapped_kib(path) <= 256
        for start in range(0, samples, 7_000):
            read(pack, start, min(start + 7_000, samples))
            pack.done_with(start, min(start + 7_000, samples))
            assert mapped_kib(path) <= 512
