"""`compare`: two recordings joined by id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import ParityError

Y = np.arange(24, dtype=np.float32).reshape(-1, 2)


def packs(folder: Path, order: np.ndarray, *, drop: int = 0, extra: int = 0) -> tuple[Path, Path]:
    ids = np.arange(12) * 5
    ref = write_pack(folder / "ref.arrow", ids, outputs={"y": Y}, rows_per_batch=5)
    keep = order[: len(order) - drop]
    cand_ids = np.concatenate([ids[keep], 1000 + np.arange(extra)])
    values = np.concatenate([Y[keep], np.zeros((extra, 2), np.float32)])
    cand = write_pack(folder / "cand.arrow", cand_ids, outputs={"y": values}, rows_per_batch=4)
    return ref, cand


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(12)))
def test_any_order_is_joined_by_id(tmp_path: Path, order: list[int]) -> None:
    result = paritygate.compare(*packs(tmp_path, np.array(order)), out=None)
    assert result.verdict == "release", result.explain()
    assert result.summary["stages"][0]["samples"]["compared"] == 12


def test_missing_and_extra_samples_hold(tmp_path: Path) -> None:
    result = paritygate.compare(*packs(tmp_path, np.arange(12), drop=3, extra=2), out=None)
    found = {r.code: r for r in result.reasons}
    assert set(found) == {"sample.missing", "sample.extra"}
    assert found["sample.missing"].count == 3
    assert found["sample.missing"].ids == (45, 50, 55)
    assert found["sample.extra"].count == 2
    samples = result.summary["stages"][0]["samples"]
    assert (samples["compared"], samples["missing"], samples["extra"]) == (9, 3, 2)


def test_duplicate_ids_hold_on_the_candidate_and_end_on_the_reference(tmp_path: Path) -> None:
    ref = write_pack(tmp_path / "a.arrow", [1, 2, 3], outputs={"y": Y[:3]})
    cand = write_pack(tmp_path / "b.arrow", [1, 2, 2, 3], outputs={"y": Y[[0, 1, 1, 2]]})
    result = paritygate.compare(ref, cand, out=None)
    assert "sample.duplicate" in [r.code for r in result.reasons]
    with pytest.raises(ParityError, match="2"):
        paritygate.compare(cand, ref, out=None)


@pytest.mark.parametrize("nothing", ["", [], ["b.arrow", ""]])
def test_an_empty_path_is_not_the_folder_that_one_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing: Any
) -> None:
    ref = write_pack(tmp_path / "a.arrow", [1, 2, 3], outputs={"y": Y[:3]})
    write_pack(tmp_path / "here/b.arrow", [1, 2, 3], outputs={"y": Y[:3] + 0})
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ParityError, match="candidate: is empty; name a file"):
        paritygate.compare(ref, nothing, out=None)
    with pytest.raises(ParityError, match="reference: is empty; name a file"):
        paritygate.compare(nothing, ref, out=None)


def test_columns_without_prefix_are_outputs(tmp_path: Path) -> None:
    import pyarrow as pa

    for name, delta in (("a", 0.0), ("b", 0.25)):
        table = pa.table({"sample_id": [1, 2], "score": pa.array([0.1 + delta, 0.5], pa.float32())})
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table)
    result = paritygate.compare(
        tmp_path / "a.arrow",
        tmp_path / "b.arrow",
        atol=0.5,
        rtol=0.0,
        bands=["score: accept < 0.2 <= review <= 0.8 < reject"],
        out=None,
    )
    assert [r.code for r in result.reasons] == ["decision.flip"]


def test_without_a_tolerance_floats_are_exact(tmp_path: Path) -> None:
    ref = write_pack(tmp_path / "a.arrow", [1], outputs={"y": Y[:1]})
    cand = write_pack(tmp_path / "b.arrow", [1], outputs={"y": np.nextafter(Y[:1], 9)})
    assert paritygate.compare(ref, cand, out=None).verdict == "hold"
    assert paritygate.compare(ref, cand, atol=1e-6, rtol=0.0, out=None).verdict == "release"


def test_a_pack_against_itself_holds(tmp_path: Path) -> None:
    ref, _ = packs(tmp_path, np.arange(12))
    result = paritygate.compare(ref, ref, out=None)
    assert [r.code for r in result.reasons] == ["policy.same_runner"]
    assert paritygate.compare(ref, ref, is_self=True, out=None).verdict == "release"


def test_int_ids_against_string_ids_cannot_be_judged(tmp_path: Path) -> None:
    ref = write_pack(tmp_path / "a.arrow", [1, 2], outputs={"y": Y[:2]})
    cand = write_pack(tmp_path / "b.arrow", ["1", "2"], outputs={"y": Y[:2]})
    with pytest.raises(ParityError, match="string"):
        paritygate.compare(ref, cand, out=None)


def test_outputs_of_one_side_only_hold(tmp_path: Path) -> None:
    ref = write_pack(tmp_path / "a.arrow", [1, 2], outputs={"y": Y[:2], "z": Y[:2]})
    cand = write_pack(tmp_path / "b.arrow", [1, 2], outputs={"y": Y[:2]})
    assert "output.missing" in [r.code for r in paritygate.compare(ref, cand, out=None).reasons]
    assert "output.missing" in [r.code for r in paritygate.compare(cand, ref, out=None).reasons]


def test_another_id_column_serves_both_sides(tmp_path: Path) -> None:
    ref = write_pack(tmp_path / "a.arrow", [7, 8], outputs={"y": Y[:2]}, id_column="uid")
    cand = write_pack(tmp_path / "b.arrow", [8, 7], outputs={"y": Y[[1, 0]]}, id_column="uid")
    assert paritygate.compare(ref, cand, id="uid", out=None).verdict == "release"
