"""Recordings: ids that are strange or repeated, columns that are or aren't compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs import write_pack

import paritygate


def plain_pack(path: Path, **columns: list[Any]) -> Path:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    return write_pack(path, range(len(next(iter(columns.values())))), columns=arrays)


def samples_of(result: paritygate.RunResult) -> dict[str, int]:
    counts: dict[str, int] = result.summary["stages"][0]["samples"]
    return counts


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.booleans())
@settings(max_examples=25)
def test_an_id_is_extra_once(
    tmp_path_factory: pytest.TempPathFactory, ids: list[int], as_text: bool
) -> None:
    folder = tmp_path_factory.mktemp("extra")
    known = [3, 4, 5, 6]
    name = (lambda i: f"id {i}") if as_text else (lambda i: i)
    write_pack(folder / "a.arrow", [name(i) for i in known], outputs={"y": np.zeros(4)})
    write_pack(
        folder / "b.arrow",
        [name(i) for i in ids],
        outputs={"y": np.zeros(len(ids))},
        rows_per_batch=4,
    )
    counts = samples_of(paritygate.compare(folder / "a.arrow", folder / "b.arrow", out=None))
    assert counts["extra"] == len(set(ids) - set(known))
    assert counts["duplicate"] == len(ids) - len(set(ids))
    assert counts["missing"] == len(set(known) - set(ids))


def test_a_column_named_label_is_compared(tmp_path: Path) -> None:
    a = plain_pack(tmp_path / "a.arrow", score=[0.5, 0.25], label=[0, 1])
    b = plain_pack(tmp_path / "b.arrow", score=[0.5, 0.25], label=[0, 2])
    result = paritygate.compare(a, b, out=None)
    assert result.verdict == "hold"
    assert [(r.code, r.output) for r in result.reasons] == [("tolerance.exceeded", "label")]


def test_a_label_that_the_plan_names_is_none(tmp_path: Path) -> None:
    a = plain_pack(tmp_path / "a.arrow", score=[0.5, 0.25], truth=[0, 1], site=["s", "t"])
    b = plain_pack(tmp_path / "b.arrow", score=[0.5, 0.25], truth=[0, 2], site=["s", "u"])
    plan = {
        "golden": str(a),
        "label": "truth",
        "slices": ["site"],
        "outputs_from": "all",
        "runners": {
            "a": {"kind": "recorded"},
            "b": {"kind": "recorded", "path": str(b), "outputs_from": "all"},
        },
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0.0, "rtol": 0.0}}],
    }
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()
    assert list(result.summary["stages"][0]["outputs"]) == ["score"]
    facts = result.summary["runners"]
    assert facts["a"]["skipped_columns"] == []
    assert facts["b"]["skipped_columns"] == ["truth", "site"]


def test_columns_that_are_not_compared_are_told(tmp_path: Path) -> None:
    for name in "ab":
        write_pack(
            tmp_path / f"{name}.arrow",
            [1, 2],
            {"x": np.zeros(2)},
            columns={"score": pa.array([0.5, 0.25]), "raw.text": pa.array(["a", name])},
        )
    result = paritygate.compare(tmp_path / "a.arrow", tmp_path / "b.arrow", out=None)
    for facts in result.summary["runners"].values():
        assert facts["skipped_columns"] == ["in.x", "raw.text"]
