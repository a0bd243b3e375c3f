"""Recorded outputs whose columns have a prefix of their own: the two sides of a failure shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models import scale_model
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import ParityError, PlanError

X = np.arange(24, dtype=np.float32).reshape(6, 4)
EXACT = {"atol": 0.0, "rtol": 0.0}


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """Samples 1, 3 and 5 failed: the candidate doubled them."""
    y = X.copy()
    y[1::2] *= 2
    write_pack(tmp_path / "ref.arrow", range(6), {"x": X}, {"y": X})
    write_pack(tmp_path / "cand.arrow", range(6), outputs={"y": y})
    held = paritygate.compare(tmp_path / "ref.arrow", tmp_path / "cand.arrow", out=tmp_path / "r")
    assert held.folder is not None
    return held.folder / "failures" / "comparison-00000.arrow"


def judge(shard: Path, ref: Any, cand: Any) -> Any:
    plan = {
        "golden": str(shard),
        "runners": {"ref": ref, "cand": cand},
        "stages": [{"reference": "ref", "candidate": "cand", "default": EXACT}],
    }
    return paritygate.run(plan, out=None)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("factor", "failed"), [(1.0, 0), (2.0, 3)])
def test_a_new_candidate_is_judged_against_a_shards_reference(
    shard: Path, factor: float, failed: int, named: bool
) -> None:
    model = scale_model(shard.parent / "new.onnx", factor)
    ref = {"kind": "recorded", "outputs_prefix": "ref."}
    result = judge(shard, {**ref, "path": str(shard)} if named else ref, str(model))
    samples = result.summary["stages"][0]["samples"]
    assert (samples["compared"], samples["failed"]) == (3, failed)
    assert result.verdict == ("hold" if failed else "release"), result.explain()


def test_both_sides_of_a_shard_are_two_recordings_of_one_file(shard: Path) -> None:
    sides = [{"kind": "recorded", "outputs_prefix": f"{side}."} for side in ("ref", "cand")]
    result = judge(shard, *sides)
    assert [r.code for r in result.reasons] == ["tolerance.exceeded"]
    assert result.summary["stages"][0]["samples"]["failed"] == 3
    same = judge(shard, sides[0], {**sides[0], "path": str(shard)})
    assert [r.code for r in same.reasons] == ["policy.same_runner"]


def test_what_cannot_be_meant_is_refused(shard: Path) -> None:
    with pytest.raises(PlanError, match="exclude each other"):
        judge(
            shard,
            {"kind": "recorded", "outputs_prefix": "ref.", "outputs_from": "all"},
            {"kind": "recorded"},
        )
    with pytest.raises(ParityError, match=r"columns named old\.NAME"):
        judge(shard, {"kind": "recorded", "outputs_prefix": "old."}, {"kind": "recorded"})
