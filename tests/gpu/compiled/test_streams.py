"""The stream of copies, as the driver is asked for it; of the driver there is a stand-in."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest
from numba.cuda.cudadrv import driver as bindings

from paritygate.gpu import staging

HANDLE = 4711


def test_copies_have_a_stream_that_the_kernels_dont_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_driver: Any = bindings
    asked: list[tuple[str, int]] = []
    queue: list[tuple[Any, int]] = []

    def create(flag: int) -> int:
        asked.append(("create", flag))
        return HANDLE

    stand_in = SimpleNamespace(cuStreamCreate=create, cuStreamDestroy=object())
    context = SimpleNamespace(
        deallocations=SimpleNamespace(add_item=lambda end, handle: queue.append((end, handle)))
    )
    made = of_driver.Context.create_external_stream
    monkeypatch.setattr(of_driver, "driver", stand_in)
    cuda = SimpleNamespace(
        current_context=lambda: context, external_stream=lambda pointer: made(None, pointer)
    )
    monkeypatch.setattr(staging, "cuda", cuda)
    stream: Any = staging.copying_stream()
    assert asked == [("create", int(of_driver.binding.CUstream_flags.CU_STREAM_NON_BLOCKING))]
    assert of_driver._stream_handle(stream) == HANDLE
    assert queue == []
    del stream
    gc.collect()
    assert queue == [(stand_in.cuStreamDestroy, HANDLE)]
