"""Answers of batches put together: where they are, or copied, the values are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.comparison.rows import SampleRows
from paritygate.core.tensors import Array
from paritygate.pipeline.gather import Gather
from paritygate.runners.base import Lease
from paritygate.tally.stage import Hits

ROWS = 12


def values(rows: int = ROWS) -> Array:
    return np.arange(3.0 * rows, dtype=np.float32).reshape(rows, 3)


def gather(rows: int = ROWS) -> tuple[Gather, list[Any]]:
    made: list[Any] = []

    def buffer(output: str, count: int, like: Array) -> Array:
        made.append(np.full((count, *like.shape[1:]), -1, like.dtype))
        return made[-1]

    ids = np.arange(rows)
    return Gather(SampleRows(0, ids, ids, {}, {}, Hits()), buffer), made


def take(into: Gather, at: int, part: Array, *, lasting: bool = True, valid: int = -1) -> bool:
    lease = Lease({"y": part}, is_lasting=lasting)
    return into.take(at, len(part) if valid < 0 else valid, lease, is_whole=False)


def test_answers_that_follow_one_another_in_memory_stay_there() -> None:
    whole = values()
    into, copies = gather()
    assert not any(take(into, at, whole[at : at + 4]) for at in (0, 4, 8))  # no lease is held on to
    found = into.side(4).outputs["y"]
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, whole)
    assert np.shares_memory(found, whole)
    assert not found.flags.writeable
    assert not copies


def test_a_part_of_a_larger_array_stays_too() -> None:
    whole = values(40)
    into, copies = gather()
    for at in (0, 6):
        take(into, at, whole[7 + at : 13 + at])
    assert np.array_equal(into.side(6).outputs["y"], whole[7:19])
    assert not copies


def test_answers_that_may_be_overwritten_are_copied() -> None:
    buffer = np.empty((ROWS, 3), np.float32)
    into, copies = gather()
    for at in (0, 4, 8):
        buffer[:4] = values()[at : at + 4]
        assert not take(into, at, buffer[:4], lasting=False)
    assert np.array_equal(into.side(4).outputs["y"], values())
    assert len(copies) == 1


@given(
    starts=st.lists(st.integers(0, 3), min_size=3, max_size=3),
    own=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_whatever_the_answers_are_views_of(starts: list[int], own: list[bool]) -> None:
    """Batches from anywhere in one array, in copies of their own, in any mixture."""
    whole = np.random.default_rng(0).normal(size=(ROWS + 4, 3))
    into, _ = gather()
    parts = []
    for number, (start, is_own) in enumerate(zip(starts, own, strict=True)):
        part = whole[start + 4 * number : start + 4 * number + 4]
        parts.append(part.copy() if is_own else part)
        take(into, 4 * number, parts[-1])
    assert np.array_equal(into.side(4).outputs["y"], np.concatenate(parts))


def test_a_batch_that_failed_between_leaves_a_gap() -> None:
    whole = values()
    into, _ = gather()
    take(into, 0, whole[:4])
    into.fail(range(4, 8), "boom", "runner.error")
    take(into, 8, whole[4:8])  # goes on in memory, but belongs to other samples
    side = into.side(4)
    found = side.outputs["y"]
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found[:4], whole[:4])
    assert np.array_equal(found[8:], whole[4:8])
    assert side.answered.tolist() == [True] * 4 + [False] * 4 + [True] * 4


@pytest.mark.parametrize("at", [4, 8])
def test_what_looks_different_is_put_into_one_list(at: int) -> None:
    whole = values()
    into, _ = gather()
    for start in (0, 4, 8):
        part = whole[start : start + 4]
        take(into, start, part[:, :2].copy() if start == at else part)
    found = into.side(4).outputs["y"]
    shapes = [found[i : i + 1].arrays[0].shape for i in range(ROWS)]  # type: ignore[union-attr]
    assert shapes == [(2,) if at <= i < at + 4 else (3,) for i in range(ROWS)]


def test_a_padded_tail_is_cut() -> None:
    whole = values()
    into, _ = gather(10)
    take(into, 0, whole[:8])
    take(into, 8, np.concatenate([whole[8:10], whole[9:10], whole[9:10]]), valid=2)
    assert np.array_equal(into.side(8).outputs["y"], whole[:10])


def test_room_is_made_once_and_what_was_written_to_it_counts() -> None:
    into, copies = gather()
    like = {"y": values(4)}
    room = into.room(like)
    assert room is not None
    assert room["y"].shape == (ROWS, 3)
    again = into.room({"y": np.zeros((2, 3), np.float32)})
    assert again is not None
    assert again["y"] is room["y"]
    room["y"][:4] = values()[:4]
    assert into.filled(room)
    for at in (4, 8):
        take(into, at, values()[at : at + 4])  # it would stay where it is, were it the first
    assert np.array_equal(into.side(4).outputs["y"], values())
    assert len(copies) == 1


@pytest.mark.parametrize(
    "like",
    [
        {},
        {"y": np.zeros((4, 2), np.float32)},
        {"y": np.zeros((4, 3, 1), np.float32)},
        {"y": np.zeros((4, 3), np.float64)},
        {"z": np.zeros((4, 3), np.float32)},
        {"y": np.zeros((4, 3), np.float32), "z": np.zeros((4, 3), np.float32)},
    ],
)
@pytest.mark.parametrize("is_lasting", [False, True])
def test_there_is_no_room_for_answers_unlike_the_others(
    like: dict[str, Array], is_lasting: bool
) -> None:
    into, _ = gather()
    take(into, 0, values()[:4], lasting=is_lasting)
    assert into.room(like) is None
    assert (into.room({"y": values(4)}) is None) == is_lasting


def test_room_ends_with_an_answer_of_another_shape() -> None:
    into, _ = gather()
    room = into.room({"y": values(4)})
    assert room is not None
    room["y"][:4] = values()[:4]
    assert into.filled(room)
    take(into, 4, np.ones((4, 2), np.float32))
    assert not into.filled(room)
    assert into.room({"y": values(4)}) is None
    ragged = into.side(4).outputs["y"]
    assert [row.shape for row in ragged.arrays[:5]] == [(3,)] * 4 + [(2,)]  # type: ignore[union-attr]


def test_room_that_nothing_was_written_to_is_no_output() -> None:
    into, _ = gather()
    assert into.room({"y": values(4)}) is not None
    into.fail(range(ROWS), "raised", "runner.error")
    side = into.side(4)
    assert not side.outputs
    assert not side.answered.any()
