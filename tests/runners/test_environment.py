"""What is said of the machine, and of builds of onnxruntime that overwrite each other."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import onnxruntime
import pytest

from paritygate.runners import environment
from paritygate.runners.environment import (
    describe_cpu,
    describe_environment,
    onnxruntime_distributions,
    onnxruntime_problem,
)


def test_environment_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("ORT_SOMETHING", "1")
    monkeypatch.setenv("HOME_SECRET", "x")
    found = json.loads(json.dumps(describe_environment()))
    assert found["versions"]["onnxruntime"] == onnxruntime.__version__
    assert found["variables"]["OMP_NUM_THREADS"] == "3"
    assert found["variables"]["ORT_SOMETHING"] == "1"
    assert "HOME_SECRET" not in found["variables"]
    assert found["cpu"]["cores"] == os.cpu_count()


def test_cpu_of_a_known_file(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(
        "processor : 0\nmodel name : Some: CPU\nflags : fpu avx2 avx512_vnni amx_int8 sse\n\n"
        "processor : 1\nmodel name : Other\nflags : none\n"
    )
    found = describe_cpu(file)
    assert found["model"] == "Some: CPU"
    assert found["flags"] == ["amx_int8", "avx2", "avx512_vnni"]
    assert describe_cpu(tmp_path / "absent")["flags"] == []


def test_one_build_is_fine() -> None:
    assert len(onnxruntime_distributions()) == 1
    assert onnxruntime_problem(onnxruntime_distributions()) is None


def test_none_or_two_are_a_problem() -> None:
    assert "isn't installed" in str(onnxruntime_problem({}))
    text = str(onnxruntime_problem({"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.31.0"}))
    assert "onnxruntime 1.31.1 and onnxruntime-gpu 1.31.0 are installed together" in text


def _install(folder: Path, name: str, owned: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"{owned},,\n")


def test_two_builds_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, "onnxruntime", "onnxruntime/__init__.py")
    _install(tmp_path, "onnxruntime_extensions", "onnxruntime_extensions/__init__.py")
    real = environment.importlib.metadata.distributions
    monkeypatch.setattr(
        environment.importlib.metadata, "distributions", lambda: real(path=[str(tmp_path)])
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert onnxruntime_distributions() == {"onnxruntime": "1.0"}
    # What is put there meanwhile is seen, too.
    _install(tmp_path, "onnxruntime_gpu", "onnxruntime/__init__.py")
    assert onnxruntime_distributions() == {"onnxruntime": "1.0", "onnxruntime_gpu": "1.0"}
