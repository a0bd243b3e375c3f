"""Why a provider isn't in force, told from the libraries that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paritygate.gpu.driver import NoCudaError
from paritygate.runners.ort_libraries import why_not_in_force
from paritygate.runners.ort_placement import find_misplaced

CUDA = "CUDAExecutionProvider"
NEEDED = "libcublasLt.so.13: cannot open shared object file: No such file or directory"


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    for name in ("shared", "cuda"):
        (tmp_path / f"libonnxruntime_providers_{name}.so").touch()
    return tmp_path


def no_chips() -> Any:
    raise NoCudaError("no NVIDIA driver is installed")


def test_a_library_that_cant_be_loaded_is_named(libraries: Path) -> None:
    def load(path: str, mode: int = 0) -> None:
        if path.endswith("_cuda.so"):
            raise OSError(NEEDED)

    found = why_not_in_force(CUDA, libraries, load, no_chips)
    assert found == f"a library that it needs can't be loaded: {NEEDED}"


def test_libraries_that_load_need_a_gpu(libraries: Path) -> None:
    loaded: list[str] = []
    found = why_not_in_force(
        CUDA, libraries, lambda path, mode=0: loaded.append(Path(path).name), no_chips
    )
    assert found == "there is no GPU to run it on: no NVIDIA driver is installed"
    assert loaded == [f"libonnxruntime_providers_{name}.so" for name in ("shared", "cuda")]
    assert why_not_in_force(CUDA, libraries, lambda *_: None, list) == ""


def test_nothing_is_said_of_a_provider_that_has_no_library_of_its_own(tmp_path: Path) -> None:
    def refuse(*_: object) -> Any:
        raise AssertionError("looked for")

    assert why_not_in_force(CUDA, tmp_path, refuse, refuse) == ""
    assert why_not_in_force("OpenVINOExecutionProvider", tmp_path, refuse, refuse) == ""


def test_what_holds_says_why_the_provider_isnt_in_force() -> None:
    cpu = "CPUExecutionProvider"
    (found,) = find_misplaced("m", [CUDA, cpu], [cpu], None, [], lambda name: f"{name}'s reason")
    assert found.code == "placement.downgraded"
    assert found.message == (
        f"{CUDA} was asked for but isn't in force ({CUDA}'s reason); the model runs on {cpu}"
    )
