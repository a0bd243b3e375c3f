"""Packs with the same ids in the same order are known as such, whatever their files look like."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs import Container, write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden import same_order
from paritygate.golden.ipc import MappedIpc
from paritygate.golden.pack import GoldenPack, open_pack
from paritygate.golden.same_order import is_same_order

IDS = st.one_of(
    st.lists(st.integers(-3, 3), max_size=12),
    st.lists(st.text("aböü\U0001f600", max_size=2), max_size=12),
)


def pack_of(path: Path, ids: Any, rows_per_batch: int = 3) -> GoldenPack:
    write_pack(path, ids, outputs={"y": np.zeros(len(ids))}, rows_per_batch=rows_per_batch)
    return open_pack([path.name], path.parent)


@given(IDS, st.data())
@settings(deadline=None, max_examples=80)
def test_it_is_equality_of_lists(
    tmp_path_factory: pytest.TempPathFactory, ids: list[object], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("order")
    others = data.draw(st.one_of(st.just(ids), st.permutations(ids), IDS))
    batches = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(same_order, "_STEP", data.draw(st.integers(1, 9)))
        patch.setattr(same_order, "_DROPPED_AT_ONCE", data.draw(st.integers(1, 9)))
        patch.setattr(same_order, "_SHARED", data.draw(st.sampled_from((1, 100))))
        with (
            pack_of(folder / "a.arrow", ids, batches[0]) as pack,
            pack_of(folder / "b.arrow", others, batches[1]) as like,
        ):
            kinds = pack.id_kind == like.id_kind
            assert is_same_order(pack, like) == (kinds and ids == others)


@pytest.mark.parametrize("ids", [[3, 1, 2], ["c", "a", "b"]])
def test_ids_in_the_order_of_another_pack_need_no_index(tmp_path: Path, ids: list[object]) -> None:
    with pack_of(tmp_path / "a.arrow", ids) as golden, pack_of(tmp_path / "b.arrow", ids) as pack:
        golden.scan_ids()
        scan = pack.scan_ids(like=golden)
        assert (scan.is_like, scan.is_ascending, scan.duplicates) == (True, False, 0)
        assert pack._index is None
        assert pack.index().rows(golden.ids(0, 3)).tolist() == [0, 1, 2]


RUNS = [
    [5, 6, 7, 8],
    [5, 7, 6, 8],
    [5, 6, 6, 8],
    [5, 6, 7, 9],
    [4, 5, 6, 7],
    [6, 7, 8],
    [5, 6, 7, 8, 9],
    [5, 5, 5, 5],
    [-(1 << 63), (1 << 63) - 1],
    [-(1 << 63), 1 - (1 << 63)],
    [5],
    [],
    ["5", "6", "7", "8"],
]


@pytest.mark.parametrize("container", ["file", "parquet"])
@pytest.mark.parametrize("their_container", ["file", "parquet"])
@pytest.mark.parametrize("theirs", RUNS)
@pytest.mark.parametrize("ours", RUNS[:1] + RUNS[8:11])
def test_ids_that_run_on_are_known_by_their_ends(
    tmp_path: Path,
    ours: list[int],
    theirs: list[object],
    container: Container,
    their_container: Container,
) -> None:
    for name, ids, form in (("a", ours, container), ("b", theirs, their_container)):
        y = np.zeros(len(ids))
        write_pack(tmp_path / name, ids, outputs={"y": y}, container=form, rows_per_batch=3)
    with open_pack(["a"], tmp_path) as golden, open_pack(["b"], tmp_path) as pack:
        is_run = ours == list(range(ours[0], ours[0] + len(ours))) and container == "file"
        assert golden.scan_ids().run_from == (ours[0] if is_run else None)
        scan = pack.scan_ids(allow_duplicates=True, like=golden)
        assert scan.is_like == (ours == theirs)
        assert scan.is_ascending == all(a < b for a, b in pairwise(theirs))  # type: ignore[operator]
        assert scan.duplicates == len(theirs) - len(set(theirs))


def test_ids_that_run_on_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[GoldenPack, int]] = []
    ids = GoldenPack.ids

    def noted(pack: GoldenPack, start: int, stop: int) -> object:
        read.append((pack, stop - start))
        return ids(pack, start, stop)

    with (
        pack_of(tmp_path / "a", range(100), 10) as golden,
        pack_of(tmp_path / "b", range(100), 10) as pack,
    ):
        golden.scan_ids()
        monkeypatch.setattr(GoldenPack, "ids", noted)
        assert pack.scan_ids(like=golden).is_like
        assert {one for one, _ in read} == {pack}
        assert sum(rows for _, rows in read) == 102  # and its ends once more


def test_a_repeated_id_in_place_of_another_one_is_found(tmp_path: Path) -> None:
    with (
        pack_of(tmp_path / "a.arrow", [1, 2, 3]) as golden,
        pack_of(tmp_path / "b.arrow", [1, 2, 2]) as pack,
    ):
        golden.scan_ids()
        scan = pack.scan_ids(allow_duplicates=True, like=golden)
        assert (scan.is_like, scan.duplicates) == (False, 1)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.dictionary(pa.int8(), pa.string())])
def test_a_null_id_is_told(tmp_path: Path, kind: pa.DataType) -> None:
    values = [1, None] if kind == pa.int64() else ["a", None]
    write_pack(tmp_path / "a.arrow", pa.array(values, kind), outputs={"y": np.zeros(2)})
    with (
        open_pack(["a.arrow"], tmp_path) as pack,
        open_pack(["a.arrow"], tmp_path) as like,
        pytest.raises(GoldenError, match="row 1: the id is null") as told,
    ):
        is_same_order(pack, like)
    assert told.value.code == "golden.null_id"


def test_a_fault_in_either_half_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_order, "_SHARED", 2)
    monkeypatch.setattr(same_order, "_STEP", 2)
    for row in range(6):
        values = [None if at == row else at for at in range(6)]
        write_pack(tmp_path / "a.arrow", pa.array(values), outputs={"y": np.zeros(6)})
        with (
            open_pack(["a.arrow"], tmp_path) as pack,
            open_pack(["a.arrow"], tmp_path) as like,
            pytest.raises(GoldenError, match=f"row {row}: the id is null"),
        ):
            is_same_order(pack, like)


@pytest.mark.parametrize("differs", [0, 600])
def test_once_a_half_differs_the_other_one_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differs: int
) -> None:
    for name in ("_SHARED", "_STEP", "_DROPPED_AT_ONCE"):
        monkeypatch.setattr(same_order, name, 1)
    read: set[int] = set()
    ids = GoldenPack.ids

    def slow(pack: GoldenPack, start: int, stop: int) -> object:
        read.add(start)
        time.sleep(1e-3)
        return ids(pack, start, stop)

    rows = list(range(1_200))
    rows[differs] = -1
    with pack_of(tmp_path / "a", rows, 400) as pack, pack_of(tmp_path / "b", range(1_200)) as like:
        monkeypatch.setattr(GoldenPack, "ids", slow)
        assert not is_same_order(pack, like)
    assert differs in read
    assert len(read) < 300


@pytest.mark.parametrize("container", ["file", "parquet"])
def test_only_what_is_mapped_is_read_in_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: Container
) -> None:
    monkeypatch.setattr(same_order, "_SHARED", 2)
    monkeypatch.setattr(same_order, "_STEP", 2)
    readers: set[str] = set()
    ids = GoldenPack.ids

    def read(pack: GoldenPack, start: int, stop: int) -> object:
        readers.add(threading.current_thread().name)
        return ids(pack, start, stop)

    path = write_pack(
        tmp_path / "a",
        range(40),
        outputs={"y": np.zeros(40)},
        rows_per_batch=4,
        container=container,
    )
    monkeypatch.setattr(GoldenPack, "ids", read)
    with open_pack([path], tmp_path) as pack, open_pack([path], tmp_path) as like:
        assert is_same_order(pack, like)
    assert len(readers) == (2 if container == "file" else 1)


def test_a_record_batch_is_looked_into_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[tuple[str, int]] = []
    load = MappedIpc._load

    def note(source: MappedIpc, number: int) -> pa.RecordBatch:
        loaded.append((source.path.name, number))
        return load(source, number)

    rows = 20_000
    ids = np.arange(70 * rows)
    with (
        pack_of(tmp_path / "a.arrow", ids, rows) as golden,
        pack_of(tmp_path / "b.arrow", ids, rows) as pack,
    ):
        monkeypatch.setattr(MappedIpc, "_load", note)
        golden.scan_ids()
        assert pack.scan_ids(like=golden).is_like
    # The first one was there since the pack was opened.
    assert sorted(loaded) == [(name, at) for name in ("a.arrow", "b.arrow") for at in range(1, 70)]
