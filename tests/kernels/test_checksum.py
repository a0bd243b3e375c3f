"""Bytes are copied whole, and their sum is that of whoever adds the words up one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paritygate.kernels.checksum import copy_summed


def naive_sum(data: bytes, first: int) -> int:
    padded = data + bytes(-len(data) % 8)
    words = [int.from_bytes(padded[k : k + 8], "little") for k in range(0, len(padded), 8)]
    return int(sum(word * (2 * (first + k) + 1) for k, word in enumerate(words)) % 2**64)


def copied(data: bytes, first: int, start: int = 0) -> tuple[bytes, int]:
    """What is copied from bytes that begin somewhere in memory, and the sum of it."""
    source = np.frombuffer(bytes(start) + data, np.uint8)[start:]
    into = np.full(-(-len(data) // 8) * 8, 77, np.uint8)
    total = int(copy_summed(source, into, into.view(np.uint64), first)) % 2**64
    return into.tobytes(), total


@given(st.binary(max_size=200), st.integers(0, 2**40), st.integers(0, 7))
def test_the_sum_is_that_of_all_words(data: bytes, first: int, start: int) -> None:
    assert copied(data, first, start) == (data + bytes(-len(data) % 8), naive_sum(data, first))


def test_more_than_a_part_at_once() -> None:
    data = np.random.default_rng(4).bytes(2 * 8 * (1 << 15) + 13)
    assert copied(data, 3) == (data + bytes(3), naive_sum(data, 3))


@given(st.binary(min_size=16, max_size=64), st.data())
def test_a_word_that_changes_and_words_that_change_places_are_noticed(
    data: bytes, draw: st.DataObject
) -> None:
    _, total = copied(data, 0)
    at = draw.draw(st.integers(0, len(data) - 1))
    changed = bytearray(data)
    changed[at] ^= draw.draw(st.integers(1, 255))
    assert copied(bytes(changed), 0)[1] != total
    swapped = data[8:16] + data[:8] + data[16:]
    assert (copied(swapped, 0)[1] != total) == (swapped != data)
