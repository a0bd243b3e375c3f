"""Every pack is digested once, on a thread beside the comparison."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.packs import write_pack

import paritygate
from paritygate.golden import pack as pack_module
from paritygate.golden.pack import open_pack


def test_both_packs_are_digested_once_beside_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = np.arange(6, dtype=np.float32).reshape(3, 2)
    ref = write_pack(tmp_path / "ref.arrow", [1, 2, 3], outputs={"y": y})
    cand = write_pack(tmp_path / "cand.arrow", [3, 2, 1], outputs={"y": y[::-1]})
    packs = [open_pack([path], tmp_path) for path in (ref, cand)]
    expected = [pack.file_digests(cache=False)[0] for pack in packs]
    asked: list[tuple[Path, bool]] = []
    digest = pack_module.sha256_file

    def counted(path: Path, cache: bool = True) -> str:
        asked.append((path, threading.current_thread() is threading.main_thread()))
        return digest(path, cache)

    monkeypatch.setattr(pack_module, "sha256_file", counted)
    result = paritygate.compare(ref, cand, atol=0.0, rtol=0.0, out=None)
    assert result.verdict == "release"
    assert sorted(asked) == [(cand, False), (ref, False)]
    (named,) = result.summary["golden"]["files"]
    assert named["sha256"] == expected[0]
    made = result.summary["runners"]["candidate"]["digest"]
    assert made == packs[1].digest()
    for pack in packs:
        pack.close()
