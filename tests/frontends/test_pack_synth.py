"""`paritygate pack synth`: bounds on the command line, and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper
from tests.frontends.command import invoke
from tests.models import FLOAT, save_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": (FLOAT, ["batch", "seq"])},
        {"y": (FLOAT, ["batch", "seq"])},
    )


@pytest.mark.parametrize(("dim", "samples"), [("seq=1..8", 15), ("seq=4", 5)])
def test_it_says_that_it_is_no_evidence(model: Path, dim: str, samples: int) -> None:
    pack = model.parent / "s.arrow"
    result = invoke("pack", "synth", model, "-o", pack, "--dim", dim)
    assert result.exit_code == 0, result.output
    assert f"{samples} samples, content digest" in result.stdout
    assert "no acceptance evidence" in result.stdout
    checked = invoke("pack", "check", pack)
    assert checked.exit_code == 1
    assert "evidence.synthetic" in checked.stdout


@pytest.mark.parametrize(
    ("dims", "told"),
    [
        ([], "'seq' is open in the graph; give its bounds: --dim seq=1..512"),
        (["seq"], "'seq': write NAME=LOW..HIGH, such as seq=1..512"),
        (["seq=1.2"], "'seq=1.2': write NAME=LOW..HIGH"),
        (["seq=9..1"], "seq is 9 to 1"),
    ],
)
def test_bounds_that_are_none(model: Path, dims: list[str], told: str) -> None:
    pack = model.parent / "s.arrow"
    args = [part for dim in dims for part in ("--dim", dim)]
    result = invoke("pack", "synth", model, "-o", pack, *args)
    assert result.exit_code == 2
    assert told in result.output
    assert not pack.exists()
