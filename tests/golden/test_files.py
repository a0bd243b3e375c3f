"""Folders as packs, mixed formats in one pack, names that say nothing about the format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.packs import write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden.pack import open_pack


def test_a_folder_is_all_pack_files_in_it_by_path(tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    for number, name in enumerate(("b/2.arrow", "b/10.arrow", "a.arrows", "b.feather", "part-0")):
        container = "stream" if number % 2 else "file"
        write_pack(folder / name, [number], {"x": np.ones((1, 2))}, container=container)
    for name in (".hidden.arrow", ".cache/p.arrow"):
        write_pack(folder / name, [99])
    (folder / "state.json").write_text("{}")
    (folder / "b/again").symlink_to(folder)
    expected = [2, 3, 1, 0, 4]
    for pattern in ("pack", "pack/", str(folder), folder):
        pack = open_pack([pattern], tmp_path)
        assert pack.ids(0, 5).tolist() == expected
        assert [file.rows for file in pack.files] == [1] * 5
    assert open_pack(["."], folder).ids(0, 5).tolist() == expected


def test_the_bytes_decide_and_not_the_name(tmp_path: Path) -> None:
    write_pack(tmp_path / "0.arrows", [1, 2])
    write_pack(tmp_path / "1.arrow", [3], container="stream")
    write_pack(tmp_path / "2.json", [4])
    assert open_pack(["0*", "1*", "2*"], tmp_path).ids(0, 4).tolist() == [1, 2, 3, 4]


def test_an_empty_pack_file_in_a_folder_is_told(tmp_path: Path) -> None:
    write_pack(tmp_path / "pack/0.arrow", [1])
    (tmp_path / "pack/1.arrow").write_bytes(b"")
    with pytest.raises(GoldenError, match=r"1\.arrow: the file is empty"):
        open_pack(["pack"], tmp_path)


def test_a_folder_that_may_not_be_listed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pack(tmp_path / "pack/0.arrow", [1])
    (tmp_path / "pack/locked").mkdir()

    def refuse(path: str | Path) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    import os

    scandir = os.scandir
    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(GoldenError, match="locked: can't be opened"):
        open_pack(["pack"], tmp_path)
