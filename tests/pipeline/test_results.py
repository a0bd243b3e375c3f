"""Results are handed over some at once, and none is left behind."""

from __future__ import annotations

import threading
import time

import pytest

from paritygate.pipeline.results import Results

LONG_S = 5.0


def test_the_taker_is_woken_for_some_at_once_and_for_the_last() -> None:
    results: Results[int] = Results(wake_at=3, last=5)
    for number in range(2):
        results.put(number)
    started = time.perf_counter()
    assert results.take(0.02) == [0, 1]  # waits in vain, and takes what is there
    assert time.perf_counter() - started >= 0.02
    for number in (2, 3, 4):
        results.put(number)
    started = time.perf_counter()
    assert results.take(LONG_S) == [2, 3, 4]
    assert time.perf_counter() - started < LONG_S / 2
    assert results.take(0.0) == []


def test_what_is_fewer_than_some_is_handed_over_if_it_is_the_last() -> None:
    results: Results[int] = Results(wake_at=100, last=2)
    results.put(0)
    results.put(1)
    started = time.perf_counter()
    assert results.take(LONG_S) == [0, 1]
    assert time.perf_counter() - started < LONG_S / 2


def test_what_ended_a_thread_wakes_at_once() -> None:
    results: Results[int] = Results(wake_at=100, last=100)
    error = ValueError("ended")
    threading.Timer(0.01, results.fail, [error]).start()
    assert results.take(LONG_S) == [error]


@pytest.mark.parametrize("wake_at", [1, 7])
def test_all_results_of_all_threads_arrive(wake_at: int) -> None:
    each, threads = 200, 4
    results: Results[tuple[int, int]] = Results(wake_at, each * threads)

    def put(thread: int) -> None:
        for number in range(each):
            results.put((thread, number))

    workers = [threading.Thread(target=put, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    found: list[object] = []
    while len(found) < each * threads:
        found += results.take(LONG_S)
    assert set(found) == {(thread, number) for thread in range(threads) for number in range(each)}
    for worker in workers:
        worker.join()
