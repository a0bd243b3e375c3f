"""Copies that share their blocks with the originals, on a file system that can."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from paritygate.admission.staging import stage_file

MIB = 1 << 20


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    """A small file system that shares blocks."""
    make = shutil.which("mkfs.xfs")
    if make is None:
        pytest.skip("mkfs.xfs isn't installed")
    image, folder = tmp_path / "image", tmp_path / "mounted"
    with image.open("wb") as file:
        file.truncate(320 * MIB)
    folder.mkdir()
    subprocess.run([make, "-q", "-m", "reflink=1", str(image)], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user or machine can't mount a file")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
def test_a_copy_takes_no_room_and_keeps_what_it_held(
    xfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (xfs / "staging").mkdir()
    monkeypatch.setenv("PARITYGATE_STAGING", str(xfs / "staging"))
    source, content = xfs / "w.bin", os.urandom(150 * MIB)
    source.write_bytes(content)
    assert shutil.disk_usage(xfs).free < len(content)
    with stage_file(source) as held:
        assert held.value.is_clone
        assert held.value.sha256 == hashlib.sha256(content).hexdigest()
        with source.open("r+b") as file:
            file.write(b"x" * MIB)
        os.truncate(source, 2 * MIB)
        assert held.value.path.read_bytes() == content
    assert list((xfs / "staging").iterdir()) == []
