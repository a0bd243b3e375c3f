"""Ids of a large pack are looked at by two threads, and found to ascend or not all the same."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.test_places import mapped_kib
from tests.packs import Container, write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden import ascending
from paritygate.golden.ascending import all_ascend, can_share
from paritygate.golden.ids import _pass_over
from paritygate.golden.pack import GoldenPack, open_pack

INTS = st.one_of(st.integers(-5, 30), st.integers(-(2**63), 2**63 - 1))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a small pack is a large one."""
    monkeypatch.setattr(ascending, "_SHARED", 1)
    monkeypatch.setattr(ascending, "_STEP", 2)
    monkeypatch.setattr(ascending, "_READ_AT_ONCE", 4)


def pack_of(folder: Path, ids: Any, per_batch: int = 3, **more: Any) -> GoldenPack:
    rows = len(ids)
    write_pack(
        folder / "a.arrow", ids, outputs={"y": np.zeros(rows)}, rows_per_batch=per_batch, **more
    )
    return open_pack(["a.arrow"], folder, slices=sorted(more.get("slices", ())))


@given(
    st.one_of(
        st.lists(INTS, max_size=30),
        st.lists(INTS, max_size=30, unique=True).map(sorted),
        st.lists(st.integers(0, 20), max_size=20).map(sorted),
    ),
    st.data(),
)
@settings(deadline=None, max_examples=40)
def test_it_is_the_order_of_numbers(
    tmp_path_factory: pytest.TempPathFactory, ids: list[int], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ascending, "_STEP", data.draw(st.integers(1, 9)))
        patch.setattr(ascending, "_READ_AT_ONCE", data.draw(st.integers(1, 9)))
        told: list[tuple[int, int]] = []
        folder = tmp_path_factory.mktemp("ids")
        with pack_of(folder, ids, data.draw(st.integers(1, 9))) as pack:
            found = all_ascend(pack, lambda start, stop: told.append((start, stop)))
        assert found == all(a < b for a, b in pairwise(ids))
        rows = [row for start, stop in told for row in range(start, stop)]
        assert rows == list(range(len(rows)))
        assert len(rows) == len(ids) or not found


@pytest.mark.usefixtures("small")
def test_a_scan_finds_what_it_finds_in_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = {"site": [f"s{at % 5}" for at in range(40)]}
    for ids in (range(40), [*range(39), 38], [3, *range(39)], [0, 0, *range(2, 40)]):
        with pack_of(tmp_path, list(ids), slices=sites) as pack:
            assert can_share(pack)
            shared = _pass_over(pack)
            monkeypatch.setattr(ascending, "_SHARED", 1 << 22)
            assert not can_share(pack)
            assert _pass_over(pack) == shared
            assert shared[0] == (ids == range(40))
            assert shared[1] == {"site": ("s0", "s1", "s2", "s3", "s4")}
            monkeypatch.setattr(ascending, "_SHARED", 1)


@pytest.mark.usefixtures("small")
def test_the_first_fault_is_told(tmp_path: Path) -> None:
    for row in range(9):
        ids = [None if at in (row, row + 1) else at for at in range(10)]
        with (
            pack_of(tmp_path, pa.array(ids)) as pack,
            pytest.raises(GoldenError, match=f"row {row}: the id is null"),
        ):
            pack.scan_ids()


@pytest.mark.usefixtures("small")
def test_once_one_does_not_ascend_nothing_more_is_read(tmp_path: Path) -> None:
    for wrong in range(1, 40):
        ids = list(range(40))
        ids[wrong] = -1
        told: list[int] = []
        with pack_of(tmp_path, ids, 40) as pack:
            assert not all_ascend(pack, lambda _, stop, told=told: told.append(stop))
        assert told[-1] == 8 * (wrong // 8 + 1)


@pytest.mark.usefixtures("small")
def test_two_threads_look_and_one_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lookers: set[str] = set()
    readers: set[str] = set()
    ascends, ids = ascending._Part.ascends.fget, GoldenPack.ids
    assert ascends is not None

    def look(part: Any) -> bool:
        lookers.add(threading.current_thread().name)
        return bool(ascends(part))

    def read(pack: GoldenPack, start: int, stop: int) -> Any:
        readers.add(threading.current_thread().name)
        return ids(pack, start, stop)

    monkeypatch.setattr(ascending._Part, "ascends", property(look))
    monkeypatch.setattr(GoldenPack, "ids", read)
    with pack_of(tmp_path, range(40)) as pack:
        assert pack.scan_ids().is_ascending
    assert (len(lookers), readers) == (2, {threading.current_thread().name})


@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
@pytest.mark.usefixtures("small")
def test_only_numbers_that_are_mapped_are_shared(tmp_path: Path, container: Container) -> None:
    with pack_of(tmp_path, range(10), container=container) as pack:
        assert can_share(pack) == (container != "parquet")
    with pack_of(tmp_path, list("abc"), container=container) as pack:
        assert not can_share(pack)


def test_what_was_looked_at_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascending, "_SHARED", 1)
    with pack_of(tmp_path, range(1_000_000), 100_000) as pack:
        assert all_ascend(pack, lambda _start, _stop: None)
        assert mapped_kib(tmp_path / "a.arrow") < 1_000
