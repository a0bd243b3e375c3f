from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs import write_pack

from paritygate.core.errors import FolderError, GoldenError
from paritygate.golden import ids as ids_module
from paritygate.golden import pack as pack_module
from paritygate.golden.pack import GoldenPack, open_pack

INTS = st.one_of(st.integers(-5, 30), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
IDS = st.one_of(
    st.lists(INTS, max_size=40),
    st.lists(INTS, max_size=40, unique=True),
    st.lists(INTS, max_size=40, unique=True).map(sorted),
    st.lists(st.integers(0, 20), max_size=20).map(sorted),
    st.lists(TEXTS, max_size=40),
    st.lists(st.sampled_from("abcdef"), max_size=8).map(sorted),
    st.lists(TEXTS, max_size=40, unique=True),
    st.lists(TEXTS, max_size=40, unique=True).map(sorted),
)


def write(folder: Path, ids: list, files: int, per_batch: int) -> GoldenPack:
    kind = pa.string() if ids and isinstance(ids[0], str) else pa.int64()
    cut = -(-len(ids) // files) or 1
    for number in range(files):
        part = pa.array(ids[number * cut : (number + 1) * cut], kind)
        write_pack(folder / f"{number}.arrow", part, rows_per_batch=per_batch)
    return open_pack(["*.arrow"], folder)


def as_ids(ids: list, like: GoldenPack) -> np.ndarray:
    return np.array(ids, np.int64 if like.id_kind == "int64" else object)


def first_rows(ids: list) -> dict:
    rows: dict = {}
    for row, id_ in enumerate(ids):
        rows.setdefault(id_, row)
    return rows


@settings(max_examples=150, deadline=None)
@given(
    ids=IDS,
    files=st.integers(1, 3),
    per_batch=st.integers(1, 20),
    step=st.sampled_from([3, 65_536]),
    collide=st.sampled_from([0, 1, 3]),
    is_large=st.booleans(),
    data=st.data(),
)
def test_scan_and_index_agree_with_a_dict(
    ids: list,
    files: int,
    per_batch: int,
    step: int,
    collide: int,
    is_large: bool,
    data: st.DataObject,
) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr(ids_module, "_STEP", step)
        patch.setattr(ids_module, "_BUCKET", step)
        if is_large:
            for module in (ids_module, pack_module):
                patch.setattr(module, "_RESIDENT", 0)
            patch.setattr(ids_module, "_FEW", 1)
        if collide:
            patch.setattr(ids_module, "hash_string", lambda text: (len(text) % collide) << 61)
        pack = write(Path(name), ids, files, per_batch)
        rows = first_rows(ids)
        again = [(id_, rows[id_], row) for row, id_ in enumerate(ids) if rows[id_] != row]
        scan = pack.scan_ids(allow_duplicates=True)
        assert scan.samples == len(ids)
        assert scan.is_ascending == all(low < high for low, high in pairwise(ids))
        assert scan.duplicates == len(again)
        told = [(found.id, found.first_row, found.row) for found in scan.first_duplicates]
        assert told == again[:10]
        other = st.text(max_size=3) if pack.id_kind == "string" else INTS
        known = st.sampled_from(ids) if ids else st.nothing()
        wanted = data.draw(st.lists(st.one_of(known, other), max_size=30))
        index = pack.index()
        expected = [rows.get(id_, -1) for id_ in wanted]
        assert index.rows(as_ids(wanted, pack)).tolist() == expected
        places = [row for row in expected if row >= 0]
        assert pack.take_ids(np.array(places, np.int64)).tolist() == [ids[row] for row in places]
        if again:
            with pytest.raises(GoldenError) as error:
                pack.scan_ids()
            assert error.value.code == "golden.duplicate_id"
            assert repr(again[0][0]) in str(error.value)
        pack.close()


def test_the_ends_of_int64_are_found(tmp_path: Path) -> None:
    ids = [2**63 - 1, 0, -(2**63), -1]
    for order in (ids, sorted(ids)):
        pack = write(tmp_path, order, 1, 2)
        assert pack.index().rows(np.array(ids)).tolist() == [order.index(id_) for id_ in ids]


def test_keys_of_ints_are_a_bijection_that_spreads() -> None:
    keys = ids_module.keys_of(np.arange(-50_000, 50_000))
    assert len(np.unique(keys)) == 100_000
    counts = np.bincount((keys >> np.uint64(58)).astype(np.int64), minlength=64)
    assert counts.min() > 0.8 * 100_000 / 64


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_a_large_shuffled_pack(tmp_path: Path, kind: str) -> None:
    order = np.random.default_rng(3).permutation(300_000)
    ids = order if kind == "int64" else np.array([f"s{i}" for i in order], object)
    pack = open_pack([write_pack(tmp_path / "p.arrow", ids, rows_per_batch=70_001)], tmp_path)
    assert pack.scan_ids().duplicates == 0
    some = np.random.default_rng(4).permutation(300_000)[:5_000]
    assert (pack.index().rows(ids[some]) == some).all()


def test_a_duplicate_in_another_file_is_named_with_both_rows(tmp_path: Path) -> None:
    write_pack(tmp_path / "a.arrow", ["x", "y", "z"])
    write_pack(tmp_path / "b.arrow", ["v", "w", "y", "x"])
    with pytest.raises(GoldenError, match="id 'y' of row 2 is also that of row 1 of") as error:
        open_pack(["*.arrow"], tmp_path).scan_ids()
    assert error.value.code == "golden.duplicate_id"
    assert str(tmp_path / "a.arrow") in str(error.value)
    assert str(tmp_path / "b.arrow") in str(error.value)
    assert "2 rows repeat an id" in str(error.value)


@pytest.mark.parametrize("ids", [[1, 2], ["a", "b"]])
def test_ids_of_another_type_cannot_be_joined(tmp_path: Path, ids: list) -> None:
    pack = open_pack([write_pack(tmp_path / "p.arrow", ids)], tmp_path)
    other = np.array(["a"], object) if pack.id_kind == "int64" else np.array([1])
    with pytest.raises(GoldenError, match="can't be joined") as error:
        pack.index().rows(other)
    assert error.value.code == "golden.id_type"


def test_the_index_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    pack = write(tmp_path, [3, 1, 2], 1, 2)
    assert pack.index().rows(np.array([1, 2, 3])).tolist() == [1, 2, 0]
    assert list(folder.iterdir()) == []


def test_no_room_for_the_index_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(FolderError, match="missing"):
        write(tmp_path, [3, 1, 2], 1, 2).scan_ids()


def test_a_thousand_slice_values_are_the_limit(tmp_path: Path) -> None:
    texts = [f"v{i}" for i in range(1_001)]
    good = write_pack(tmp_path / "good.arrow", range(2_000), slices={"site": (texts[:1_000] * 2)})
    scan = open_pack([good], tmp_path, slices=["site"]).scan_ids()
    assert scan.slice_values["site"] == tuple(texts[:1_000])
    bad = write_pack(tmp_path / "bad.arrow", range(1_001), slices={"site": texts})
    with pytest.raises(GoldenError, match=r"bad.arrow: slice column 'site'.*1000") as error:
        open_pack([bad], tmp_path, slices=["site"]).scan_ids()
    assert error.value.code == "golden.slice_values"
