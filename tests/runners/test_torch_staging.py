"""PyTorch's files are loaded from private copies too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests import torch_models  # noqa: E402
from tests.runners.test_torch import answer, ready  # noqa: E402

from paritygate.admission import staging as staging_module  # noqa: E402
from paritygate.testing import sample_inputs  # noqa: E402


def test_a_program_is_copied_told_of_and_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "staging"
    root.mkdir()
    # A place that another test's runner still holds would be used on.
    monkeypatch.setattr(staging_module, "_store", staging_module._Store())
    monkeypatch.setenv("PARITYGATE_STAGING", str(root))
    path = torch_models.scripted(torch_models.Twice(), tmp_path / "m.pt")
    size = path.stat().st_size
    with ready(tmp_path, {"model": str(path)}) as runner:
        assert [p.name for p in root.rglob("*") if p.is_file()] == ["m.pt"]
        staging = runner.facts["staging"]
        assert isinstance(staging, dict)
        assert staging["bytes"] == size
        assert staging["seconds"] > 0
        path.write_bytes(b"no program any more")
        np.testing.assert_array_equal(answer(runner)["output"], 2 * sample_inputs()["x"])
        assert any(watched.is_changed() for watched in runner.watched)
    assert list(root.iterdir()) == []
