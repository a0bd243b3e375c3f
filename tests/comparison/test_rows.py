"""The samples of a block: nothing is made of them before it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from paritygate.comparison.rows import SampleRows, all_of, is_all, none_of
from paritygate.tally.stage import Hits

START, COUNT = 40, 200


class Named:
    """Ids that remember what was read."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def ids(self, start: int, stop: int) -> np.ndarray:
        self.asked.append((start, stop))
        return np.arange(start, stop) * 7

    def take_ids(self, rows: np.ndarray) -> np.ndarray:
        self.asked.append(rows.tolist())
        return rows * 7


def rows_of(named: Named) -> SampleRows:
    return SampleRows(0, range(START, START + COUNT), named, {}, {}, Hits())


def test_few_ids_are_looked_up_by_themselves() -> None:
    named = Named()
    samples = rows_of(named)
    assert samples.ids_of(np.array([1, 5])).tolist() == [7 * 41, 7 * 45]
    assert named.asked == [[41, 45]]
    assert samples.ids_of(np.arange(100)).tolist() == (7 * np.arange(40, 140)).tolist()
    assert samples.ids.tolist() == (7 * np.arange(40, 240)).tolist()
    assert named.asked == [[41, 45], (40, 240)]


@pytest.mark.parametrize("is_range", [True, False])
def test_a_range_is_what_an_array_of_its_numbers_is(is_range: bool) -> None:
    numbers = np.arange(START, START + COUNT)
    ids = numbers * 3
    samples = SampleRows(
        0, range(START, START + COUNT) if is_range else numbers, ids, {}, {}, Hits()
    )
    at = np.array([0, 17, 199])
    assert samples.count == COUNT
    assert samples.ordinals.tolist() == numbers.tolist()
    assert samples.ordinals_of(at).tolist() == numbers[at].tolist()
    assert samples.ids_of(at).tolist() == ids[at].tolist()
    first, places = samples.counted()
    assert (first + places).tolist() == numbers.tolist()


def test_numbers_that_are_shared_are_not_written_to() -> None:
    _, places = rows_of(Named()).counted()
    with pytest.raises(ValueError, match="read-only"):
        places[0] = 1


def test_masks_of_all_and_of_none() -> None:
    assert is_all(all_of(3))
    assert not is_all(none_of(3))
    assert is_all(all_of(0))
    assert is_all(np.ones(3, np.bool_))
    assert not is_all(np.array([True, False, True]))
    assert all_of(3).tolist() == [True] * 3
    assert none_of(2).tolist() == [False] * 2
