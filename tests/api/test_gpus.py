"""What `doctor` says of GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from paritygate.api import gpus
from paritygate.gpu.driver import Chip, NoCudaError

CHIP = Chip("A", "9.0", 1 << 30, "580.1", "13.0")


def set_up(
    patch: pytest.MonkeyPatch, chips: list[Chip], packages: dict[str, str], problem: str = ""
) -> list[Any]:
    def find() -> list[Chip]:
        if not chips:
            raise NoCudaError("no driver")
        return chips

    patch.setattr(gpus, "find_chips", find)
    patch.setattr(gpus, "gpu_packages", lambda: packages)
    patch.setattr(gpus, "_problem", lambda: problem)
    return list(gpus.describe_gpus())


def test_no_gpu_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set_up(monkeypatch, [], {}) == [
        ("note", "GPU", "none: no driver"),
        ("note", "GPU packages", "none installed"),
    ]


def test_a_gpu_without_a_compiler_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set_up(monkeypatch, [CHIP], {"cupy-cuda13x": "14.0"}) == [
        ("ok", "GPU 0", "A, compute capability 9.0, driver 580.1, CUDA 13.0, 1.0 GiB"),
        ("note", "GPU packages", "cupy-cuda13x 14.0"),
        ("note", "comparison on a GPU", "numba-cuda isn't installed; 'paritygate[gpu]' has it"),
    ]


@pytest.mark.parametrize(
    ("problem", "line"),
    [("", ("ok", "counts what the CPU counts")), ("broken", ("fail", "broken"))],
)
def test_a_gpu_that_is_tried(
    monkeypatch: pytest.MonkeyPatch, problem: str, line: tuple[str, str]
) -> None:
    found = set_up(monkeypatch, [CHIP], {"numba-cuda": "0.30"}, problem)
    assert found[-1] == (line[0], "comparison on a GPU", line[1])
