"""What is said of the machine, and of builds of onnxruntime that overwrite each other."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import zipfile
from pathlib import Path

import onnxruntime
import pytest

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
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert onnxruntime_distributions() == {"onnxruntime": "1.0"}
    # What is put there meanwhile is seen, too.
    _install(tmp_path, "onnxruntime_gpu", "onnxruntime/__init__.py")
    assert onnxruntime_distributions() == {"onnxruntime": "1.0", "onnxruntime_gpu": "1.0"}


@pytest.mark.parametrize(
    ("record", "owns"),
    [
        ("a.py,,\r\nonnxruntime/__init__.py,sha256=x,1\r\n", True),
        ('"onnxruntime/__init__.py",,\n', True),
        ("onnxruntime/__init__.pyi,,\nlike/onnxruntime/__init__.py,,\n", False),
        ("", False),
    ],
)
def test_an_owner_lists_the_file_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: str, owns: bool
) -> None:
    _install(tmp_path, "build", "x")
    (tmp_path / "build-1.0.dist-info" / "RECORD").write_bytes(record.encode())
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert onnxruntime_distributions() == ({"build": "1.0"} if owns else {})


def test_an_older_format_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "old.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: old\nVersion: 2\n")
    (info / "SOURCES.txt").write_text("setup.py\nonnxruntime/__init__.py\n")
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert onnxruntime_distributions() == {"old": "2"}


def test_a_build_that_lies_elsewhere_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "zipped", "onnxruntime/__init__.py")
    found = list(importlib.metadata.distributions(path=[str(tmp_path)]))
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: found)
    monkeypatch.setattr(sys, "path", [])
    assert onnxruntime_distributions() == {"zipped": "1.0"}


def test_of_two_of_one_name_the_first_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, version in (("a", "1.20"), ("b", "1.9")):
        (tmp_path / folder).mkdir()
        _install(tmp_path / folder, "build", "onnxruntime/__init__.py")
        info = tmp_path / folder / "build-1.0.dist-info"
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: build\nVersion: {version}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a"), str(tmp_path / "b")])
    assert onnxruntime_distributions() == {"build": "1.20"}


@pytest.mark.parametrize("content", [None, b"Name: \xff\n"])
def test_metadata_that_lack_or_cannot_be_read_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    _install(tmp_path, "build", "./onnxruntime/__init__.py")
    metadata = tmp_path / "build-1.0.dist-info" / "METADATA"
    metadata.unlink() if content is None else metadata.write_bytes(content)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert set(onnxruntime_distributions().values()) == {"unknown"}


def test_a_second_build_in_an_archive_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    _install(tmp_path / "plain", "build", "onnxruntime/__init__.py")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        told = "Metadata-Version: 2.1\nName: zipped\nVersion: 2\n"
        archive.writestr("zipped-2.dist-info/METADATA", told)
        archive.writestr("zipped-2.dist-info/RECORD", "onnxruntime/__init__.py,,\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "plain"), str(tmp_path / "more.zip")])
    assert onnxruntime_distributions() == {"build": "1.0", "zipped": "2"}
