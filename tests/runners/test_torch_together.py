"""Several exported programs are loaded at once, as the two sides of a plan are."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests import torch_models  # noqa: E402

from paritygate.runners.torch_export import load_exported  # noqa: E402


@pytest.mark.slow
def test_programs_are_loaded_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = torch_models.exported(torch_models.Twice(), tmp_path / "m.pt2", torch.zeros(2, 4))
    load, is_loading, met = torch.export.load, threading.Lock(), threading.Barrier(2)

    def alone(*args: Any) -> Any:
        assert is_loading.acquire(blocking=False), "torch was loading another program"
        try:
            threading.Event().wait(0.02)
            return load(*args)
        finally:
            is_loading.release()

    def meet_and_load(_: int) -> str:
        met.wait()
        return load_exported(path).form

    monkeypatch.setattr(torch.export, "load", alone)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(meet_and_load, range(2))
    assert first == second
