"""Input contracts: which axis the channels are on, exact integers, counts that must agree."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import PlanError
from paritygate.core.tables import InputTable
from paritygate.core.tensors import ColumnSpec
from paritygate.pipeline.contract import make_contract


def plan_of(folder: Path, x: np.ndarray, **contract: Any) -> dict[str, Any]:
    n = len(x)
    write_pack(folder / "g.arrow", np.arange(n), {"x": x}, {"y": np.zeros(n)})
    write_pack(folder / "c.arrow", np.arange(n), outputs={"y": np.zeros(n)})
    return {
        "golden": str(folder / "g.arrow"),
        "inputs": {"x": contract},
        "runners": {"a": "recorded", "b": str(folder / "c.arrow")},
        "stages": [
            {"reference": "a", "candidate": "b", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
    }


def rejected(folder: Path, x: np.ndarray, **contract: Any) -> list[dict[str, Any]]:
    result = paritygate.run(plan_of(folder, x, **contract), out=folder / "runs")
    assert result.folder is not None
    path = result.folder / "rejected-00000.arrow"
    return pa.ipc.open_file(path).read_all().to_pylist() if path.exists() else []


def problems(folder: Path, x: np.ndarray, **contract: Any) -> list[str]:
    with pytest.raises(PlanError) as caught:
        paritygate.run(plan_of(folder, x, **contract), out=None)
    return [str(p) for p in caught.value.problems]


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_range_per_channel_is_for_the_axis_of_that_name(tmp_path: Path, axis: int) -> None:
    axes = ["sample", "a", "b", "c"]
    axes[axis] = "channel"
    pairs = [[0.0, 1.0], [10.0, 11.0]]
    x = np.empty((8, 2, 2, 2), np.float32)
    for place in itertools.product(range(2), repeat=3):
        x[(slice(None), *place)] = pairs[place[axis - 1]][1]
    for sample, place in enumerate(itertools.product(range(2), repeat=3)):
        if sample % 2:
            x[(sample, *place)] += 1
    found = rejected(tmp_path, x, axes=axes, range=pairs)
    assert [r["sample_id"] for r in found] == [1, 3, 5, 7]
    for row in found:
        place = np.unravel_index(row["index"], (2, 2, 2))
        low, high = pairs[place[axis - 1]]
        assert (row["low"], row["high"], row["value"]) == (low, high, high + 1)
        assert row["index"] == row["sample_id"]


def test_without_axes_channels_are_last(tmp_path: Path) -> None:
    x = np.float32([[[0, 5], [1, 6]], [[0, 5], [6, 1]]])
    found = rejected(tmp_path, x, range=[[0.0, 1.0], [5.0, 6.0]])
    assert [(r["sample_id"], r["index"]) for r in found] == [(1, 2)]


X = np.zeros((2, 3, 4), np.float32)
PAIR = [0.0, 1.0]


@pytest.mark.parametrize(
    ("contract", "told"),
    [
        ({"axes": ["sample", "channel"]}, "axes: names 2 axes, but the pack's is ['batch', 3, 4]"),
        ({"axes": ["channel", "a", "b"]}, "axes: names every axis once, the samples first"),
        ({"axes": ["sample", "a", "a"]}, "axes: names every axis once"),
        ({"axes": ["sample", "channel", "a"], "channels": ["u"] * 4}, "has 4 names for 3 channels"),
        ({"axes": ["sample", "a", "channel"], "units": ["mm"] * 3}, "has 3 units for 4 channels"),
        ({"axes": ["sample", "channel", "a"], "range": [PAIR] * 4}, "has 4 pairs for 3 channels"),
        ({"range": [PAIR] * 3}, "has 3 pairs for 4 channels (last axis)"),
        ({"channels": ["u"] * 3}, "has 3 names for 4 channels (last axis)"),
        ({"axes": ["sample", "a", "b"], "units": ["mm"] * 4}, "has no 'channel', of which units"),
    ],
)
def test_counts_that_contradict(tmp_path: Path, contract: dict[str, Any], told: str) -> None:
    (found,) = problems(tmp_path, X, **contract)
    assert found.startswith("inputs.x.")
    assert told in found


def test_all_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, X, channels=["u"], units=["mm"], range=[PAIR], shape=["batch", 3])
    assert len(found) == 4


@pytest.mark.parametrize(
    "contract",
    [
        {"axes": ["sample", "height", "width"], "range": PAIR, "units": "mm"},
        {
            "axes": ["sample", "channel", "time"],
            "channels": ["u", "v", "w"],
            "units": ["mm", "mm", "mm"],
            "range": [PAIR] * 3,
        },
    ],
)
def test_contracts_that_hold(tmp_path: Path, contract: dict[str, Any]) -> None:
    assert rejected(tmp_path, X, **contract) == []


def test_one_value_a_sample_has_one_channel(tmp_path: Path) -> None:
    x = np.float32([0.0, 2.0])
    found = rejected(tmp_path, x, axes=["sample"], range=PAIR)
    assert [r["sample_id"] for r in found] == [1]
    assert rejected(tmp_path, x, range=[[0.0, 2.0]]) == []
    assert "2 pairs for 1 channels" in problems(tmp_path, x, range=[PAIR, PAIR])[0]


def test_large_integers_are_not_rounded(tmp_path: Path) -> None:
    limit = 2**53
    x = np.array([[limit], [limit + 1], [limit + 2], [-limit - 1]], np.int64)
    assert [r["sample_id"] for r in rejected(tmp_path, x, range=[-limit, limit])] == [1, 2, 3]
    found = rejected(tmp_path, x, range=[-limit - 1, limit + 1])
    assert [r["sample_id"] for r in found] == [2]


_BOUND = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, 255, 256]),
)


@given(
    st.lists(_BOUND, min_size=2, max_size=2),
    st.sampled_from(["int8", "uint8", "int64", "uint64"]),
    st.data(),
)
def test_integers_are_compared_as_python_does(
    bounds: list[float], dtype: str, data: st.DataObject
) -> None:
    low, high = sorted(bounds)
    info = np.iinfo(dtype)
    near = [int(min(max(b, info.min), info.max)) for b in (low, high)]
    ints = st.one_of(
        st.integers(int(info.min), int(info.max)),
        st.sampled_from([min(max(v + d, info.min), info.max) for v in near for d in (-1, 0, 1)]),
    )
    values = [int(v) for v in data.draw(st.lists(ints, min_size=1, max_size=9))]
    table = InputTable.model_validate({"range": [low, high]})
    contract = make_contract("x", table, ColumnSpec("x", dtype, ()))
    found = contract.violations(np.array(values, dtype))
    assert found.tolist() == [not low <= v <= high for v in values]


def test_a_plan_says_the_same_with_and_without_a_point() -> None:
    said = [InputTable.model_validate({"range": r}).model_dump_json() for r in ([0, 1], PAIR)]
    assert said[0] == said[1]
