"""Boundary samples: how near they come to an edge, by the runtime itself; and all the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pyarrow as pa
import pytest
from onnx import TensorProto, helper
from tests.models import FLOAT, linear_softmax, save_model, scale_model, sigmoid_score
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import GoldenError, PlanError

TOLERANCE = {"atol": 1e-6, "rtol": 0.0}
WEIGHT, BIAS = (1.5, -0.7, 0.3, 0.11), 0.2
BANDS = {"disposition": {"output": "score", "bands": "accept < 0.2 <= review <= 0.8 < reject"}}


def plan_of(folder: Path, x: np.ndarray, output: str = "score", **more: Any) -> dict[str, Any]:
    """Of the model `m.onnx`, which has to be there, against itself."""
    write_pack(folder / "g.arrow", np.arange(len(x)), {"x": x})
    stage = {"reference": "a", "candidate": "b", "outputs": {output: TOLERANCE}, "self": True}
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {"a": str(folder / "m.onnx"), "b": str(folder / "m.onnx")},
        "stages": [stage],
        **more,
    }


def normal(rows: int, width: int = 4, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)


def made(plan: dict[str, Any], folder: Path, **how: Any) -> tuple[list[dict[str, Any]], list[str]]:
    found = paritygate.make_boundary(plan, folder / "b.arrow", **how)
    rows = pa.ipc.open_file(folder / "b.arrow").read_all().to_pylist()
    assert found.built.samples == len(rows)
    return rows, [text for _, text in found.lines]


def answers(folder: Path, rows: list[dict[str, Any]]) -> np.ndarray:
    """By the runtime alone, in batches of 64 as the search makes them."""
    x = np.array([row["in.x"] for row in rows], np.float32)
    padded = np.concatenate([x, np.repeat(x[-1:], 64 - len(x), axis=0)])
    session = ort.InferenceSession(folder / "m.onnx", providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {"x": padded})[0][: len(x)]
    return found


def of(rows: list[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["sample_id"].startswith(part)]


def test_both_sides_of_every_edge_lie_where_the_runtime_says(tmp_path: Path) -> None:
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    rows, lines = made(plan_of(tmp_path, normal(200), decisions=BANDS), tmp_path)
    for edge in (0.2, 0.8):
        exact = np.float32(edge)
        for word, sign in (("below", -1), ("above", 1)):
            some = of(rows, f"edge-disposition-{edge}-{word}")
            assert len(some) == 1
            score = answers(tmp_path, some)[0, 0]
            assert np.sign(np.float64(score) - np.float64(exact)) == sign
            # The crossing is known: w x + b = ln(edge / (1 - edge)).
            logit = np.dot(np.float64(some[0]["in.x"]), np.float32(WEIGHT)) + np.float32(BIAS)
            assert abs(logit - np.log(edge / (1 - edge))) < 2e-6
            told = f"{abs(np.float64(score) - np.float64(exact)):.6g} away"
            assert some[0]["boundary"].endswith(told)
            assert any(f"edge disposition-{edge}: " in line and told in line for line in lines)
        for row in of(rows, f"edge-disposition-{edge}-tie"):
            assert answers(tmp_path, [row])[0, 0] == exact


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    plan = plan_of(tmp_path, normal(50), decisions=BANDS)
    digests = [
        paritygate.make_boundary(plan, tmp_path / f"{n}.arrow").built.digest for n in range(2)
    ]
    assert digests[0] == digests[1]


def test_more_samples_a_side(tmp_path: Path) -> None:
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    rows, _ = made(plan_of(tmp_path, normal(50), decisions=BANDS), tmp_path, per_side=4)
    for word in ("below", "above"):
        some = of(rows, f"edge-disposition-0.2-{word}")
        assert len({tuple(row["in.x"]) for row in some}) == 4
        distances = [abs(s - np.float32(0.2)) for s in answers(tmp_path, some)[:, 0].tolist()]
        assert distances == sorted(distances)


def test_ties_of_argmax(tmp_path: Path) -> None:
    linear_softmax(tmp_path / "m.onnx", seed=3)
    decisions = {"class": {"output": "probabilities", "argmax": True, "labels": ["x", "y", "z"]}}
    plan = plan_of(tmp_path, normal(100), "probabilities", decisions=decisions)
    rows, lines = made(plan, tmp_path)
    for at, name in enumerate("xyz"):
        (inside,), (outside,) = (
            of(rows, f"edge-class-{name}-in"),
            of(rows, f"edge-class-{name}-out"),
        )
        assert answers(tmp_path, [inside])[0].argmax() == at
        assert answers(tmp_path, [outside])[0].argmax() != at
        for row in of(rows, f"edge-class-{name}-tie"):
            first, second = np.sort(answers(tmp_path, [row])[0])[:-3:-1]
            assert first == second
        assert any(line.startswith(f"edge class-{name}: in ") for line in lines)


def test_an_edge_that_no_sample_lies_beyond_is_said(tmp_path: Path) -> None:
    sigmoid_score(tmp_path / "m.onnx", (0.0,) * 4, 0.0)
    rows, lines = made(plan_of(tmp_path, normal(20), decisions=BANDS), tmp_path)
    assert of(rows, "edge-") == []
    assert [line for line in lines if "all samples at hand lie on one side" in line] == [
        f"decision disposition, edge {edge}: all samples at hand lie on one side, so that there "
        "was nothing to search between"
        for edge in (0.2, 0.8)
    ]


def test_a_tie_that_cannot_be_reached_is_not_faked(tmp_path: Path) -> None:
    """`y = 2 floor(x) + 1`, odd always, never 2."""
    nodes = [
        helper.make_node("Floor", ["x"], ["f"]),
        helper.make_node("Mul", ["f", "two"], ["d"]),
        helper.make_node("Add", ["d", "one"], ["score"]),
    ]
    shape = {"x": (FLOAT, ["batch", 1])}
    constants = {"two": np.float32(2), "one": np.float32(1)}
    save_model(tmp_path / "m.onnx", nodes, shape, {"score": (FLOAT, ["batch", 1])}, constants)
    plan = plan_of(
        tmp_path,
        np.float32([[0.5], [1.5]]),
        decisions={"d": {"output": "score", "bands": "low < 2.0 <= high"}},
    )
    rows, lines = made(plan, tmp_path)
    assert any("below 1 away, above 1 away, no exact tie was found" in line for line in lines)
    below, above = of(rows, "edge-d-2.0-below")[0]["in.x"], of(rows, "edge-d-2.0-above")[0]["in.x"]
    assert of(rows, "edge-d-2.0-tie") == []
    assert below[0] < 1.0 <= above[0]


def test_a_budget_is_kept_and_told(tmp_path: Path) -> None:
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    plan = plan_of(tmp_path, normal(20), decisions=BANDS)
    _, lines = made(plan, tmp_path, budget=10)
    told = [line for line in lines if line.startswith("edge disposition")]
    assert len(told) == 2
    assert all("(10 samples tried)" in line for line in told)
    assert not any("one step of one element" in line for line in told)
    with pytest.raises(PlanError, match="budget: is 0"):
        paritygate.make_boundary(plan, tmp_path / "c.arrow", budget=0)
    assert not (tmp_path / "c.arrow").exists()


def test_places_and_top_k(tmp_path: Path) -> None:
    scale_model(tmp_path / "m.onnx")
    decisions = {
        "each": {"output": "y", "bands": "low < 0.5 <= high", "elementwise": True},
        "best": {"output": "y", "topk": 2},
    }
    rows, _ = made(plan_of(tmp_path, normal(60), "y", decisions=decisions), tmp_path)
    (tie,) = of(rows, "edge-each-0.5-tie")
    assert 0.5 in tie["in.x"]
    some = of(rows, "edge-best-")
    assert {row["sample_id"].rsplit("-", 2)[1] for row in some} == {"in", "out", "tie"}
    for row in of(rows, "edge-best-"):
        if "-tie-" in row["sample_id"]:
            values = np.sort(row["in.x"])[::-1]
            assert values[1] == values[2]


def test_whole_numbers_bools_and_values(tmp_path: Path) -> None:
    """`y = x > 3` of integers: the decision is the value itself, so that it has no distance."""
    save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Greater", ["x", "three"], ["y"])],
        {"x": (TensorProto.INT64, ["batch", 1])},
        {"y": (TensorProto.BOOL, ["batch", 1])},
        {"three": np.int64(3)},
    )
    plan = plan_of(
        tmp_path,
        np.int64([[-1000], [2**40]]),
        "y",
        decisions={"kind": {"output": "y", "equal": True}},
    )
    rows, _ = made(plan, tmp_path)
    found = sorted(row["in.x"][0] for row in of(rows, "edge-kind-"))
    assert found == [3, 4]


def test_neighbours_where_nothing_tells_the_distance(tmp_path: Path) -> None:
    """From 1e30 down to 3 no part of the segment is fine enough: the last way is by steps."""
    save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Greater", ["x", "three"], ["y"])],
        {"x": (FLOAT, ["batch", 1])},
        {"y": (TensorProto.BOOL, ["batch", 1])},
        {"three": np.float32(3)},
    )
    plan = plan_of(
        tmp_path,
        np.float32([[1e30], [2e30], [3e30], [0]]),
        "y",
        decisions={"kind": {"output": "y", "equal": True}},
    )
    rows, lines = made(plan, tmp_path)
    found = sorted(np.float32(row["in.x"][0]) for row in of(rows, "edge-kind-"))
    assert found == [np.float32(3), np.nextafter(np.float32(3), np.float32(4))]
    assert any("both sides are one step of one element apart" in line for line in lines)


def test_a_recorded_reference_answers_nothing_new(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, normal(5), decisions=BANDS)
    write_pack(tmp_path / "r.arrow", np.arange(5), outputs={"score": np.zeros((5, 1), np.float32)})
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    plan["runners"]["a"] = str(tmp_path / "r.arrow")
    rows, lines = made(plan, tmp_path)
    assert of(rows, "edge-") == []
    assert any("its reference 'a' is a recording" in line for line in lines)


CONTRACT = {"range": [[0.1, 1.0], [-2.0, 7.0], [0.0, 0.0], [-1.0, 1.0]], "channels": list("abcd")}


def test_ends_of_ranges_zeros_and_what_is_beyond(tmp_path: Path) -> None:
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    x = np.float32([[0.5, 1, 0, 0.25], [0.9, -1, 0, -0.25], [9, 0, 0, 0]])
    plan = plan_of(tmp_path, x, inputs={"x": CONTRACT}, decisions=BANDS)
    rows, lines = made(plan, tmp_path)
    assert "zeros: not of x, whose range has no zero in it" in lines
    for at, name in enumerate("abcd"):
        low, high = (np.float32(v) for v in CONTRACT["range"][at])
        low = np.nextafter(low, np.float32(9)) if low < CONTRACT["range"][at][0] else low
        for word, value in (("min", low), ("max", high)):
            (row,) = of(rows, f"{word}-x-{name}")
            assert row["in.x"][at] == value
            assert row["expect"] is None
        (below,), (above,) = of(rows, f"reject-below-x-{name}"), of(rows, f"reject-above-x-{name}")
        assert below["in.x"][at] == np.nextafter(low, np.float32(-9))
        assert above["in.x"][at] == np.nextafter(high, np.float32(9))
    beyond = of(rows, "reject-")
    assert len(beyond) == 3 + 8
    assert {row["expect"] for row in beyond} == {"reject"}
    assert all(row["in.x"][0] < 8 for row in rows if row["expect"] is None)


def test_a_run_on_the_pack_covers_what_is_demanded(tmp_path: Path) -> None:
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    wanted = {
        "decisions": {"disposition": {"each_side": 3, "within": 1e-6}},
        "batch_sizes": True,
        "ranges": True,
        "zeros": True,
        "constant_channels": True,
    }
    plan = plan_of(
        tmp_path,
        np.clip(normal(50), -3, 3),
        inputs={"x": {"range": [-3.0, 3.0]}},
        dims={"batch": {"sizes": [1, 8], "check_samples": 0}},
        decisions=BANDS,
        require_coverage=wanted,
    )
    assert paritygate.run(plan, out=None).verdict == "hold"
    made(plan, tmp_path, per_side=3)
    result = paritygate.run({**plan, "golden": str(tmp_path / "b.arrow")}, out=None)
    assert result.verdict == "release", result.reasons
    (stage,) = result.summary["stages"]
    assert stage["samples"]["as_expected"] == 5
    assert stage["samples"]["rejected"] == 0


def test_every_corner_of_two_dims_and_one_beyond(tmp_path: Path) -> None:
    samples = [[[1.0] * 3] * 2, [[2.0] * 2] * 2]
    column = pa.array(samples, pa.list_(pa.list_(pa.float32())))
    write_pack(tmp_path / "g.arrow", np.arange(2), columns={"in.x": column})
    save_model(
        tmp_path / "m.onnx",
        [helper.make_node("ReduceSum", ["x", "axes"], ["score"], keepdims=0)],
        {"x": (FLOAT, ["batch", "rows", "cols"])},
        {"score": (FLOAT, ["batch"])},
        {"axes": np.int64([1, 2])},
    )
    stage = {"reference": "a", "candidate": "b", "outputs": {"score": TOLERANCE}, "self": True}
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "dims": {"rows": {"min": 1, "max": 2}, "cols": {"min": 2, "max": 5}},
        "inputs": {"x": {"shape": ["batch", "rows", "cols"]}},
        "runners": {"a": str(tmp_path / "m.onnx"), "b": str(tmp_path / "m.onnx")},
        "stages": [stage],
        "require_coverage": {"dims": True},
    }
    rows, _ = made(plan, tmp_path)

    def shape(row: dict[str, Any]) -> tuple[int, ...]:
        return tuple(row["in.x"]["shape"])

    assert {shape(row) for row in of(rows, "dims-")} == {(1, 2), (1, 5), (2, 2), (2, 5)}
    beyond = {row["sample_id"]: shape(row) for row in of(rows, "reject-dims")}
    assert {k: v[0 if "rows" in k else 1] for k, v in beyond.items()} == {
        "reject-dims-rows=0": 0,
        "reject-dims-rows=3": 3,
        "reject-dims-cols=1": 1,
        "reject-dims-cols=6": 6,
    }
    result = paritygate.run({**plan, "golden": str(tmp_path / "b.arrow")}, out=None)
    assert result.verdict == "release", result.reasons


def test_the_columns_that_a_plan_reads_are_there(tmp_path: Path) -> None:
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    x = normal(9)
    write_pack(
        tmp_path / "named.arrow",
        [f"s{n}" for n in range(9)],
        columns={"feat": pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 4)},
        slices={"site": ["a"] * 9},
        label=["accept"] * 9,
        id_column="name",
    )
    plan = plan_of(tmp_path, x, inputs={"x": {"column": "feat"}}, decisions=BANDS)
    plan |= {"golden": str(tmp_path / "named.arrow"), "id": "name", "slices": ["site"]}
    rows, _ = made(plan, tmp_path)
    assert {"name", "feat", "site", "label", "boundary", "expect"} <= set(rows[0])
    result = paritygate.run({**plan, "golden": str(tmp_path / "b.arrow")}, out=None)
    assert result.verdict == "release", result.reasons


@pytest.mark.parametrize("expect", ["expect", "must"])
def test_golden_samples_beside_them(tmp_path: Path, expect: str) -> None:
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    x = normal(9)
    plan = plan_of(tmp_path, x, inputs={"x": {"range": [-9.0, 9.0]}}, decisions=BANDS)
    write_pack(
        tmp_path / "g.arrow",
        np.arange(9),
        {"x": np.concatenate([x[:8], [[9, 9, 9, 10]]]).astype(np.float32)},
        {"score": np.zeros((9, 1), np.float32)},
        label=np.arange(9) % 3,
        slices={"site": [*"abcdabc", None, "d"]},
        columns={expect: pa.array([None] * 8 + ["reject"])},
    )
    plan |= {"slices": ["site"], "dims": {"batch": {"sizes": [1, 8]}}}
    plan |= {} if expect == "expect" else {"expect": expect}
    rows, lines = made(plan, tmp_path, with_golden=True)
    golden = [row for row in rows if row["boundary"] == "golden"]
    assert [row["sample_id"] for row in golden] == [str(n) for n in range(9)]
    assert [row["site"] for row in golden] == [*"abcdabc", None, "d"]
    assert [row["label"] for row in golden] == [n % 3 for n in range(9)]
    assert [row[expect] for row in golden] == [None] * 8 + ["reject"]
    assert np.array_equal([row["in.x"] for row in golden[:8]], x[:8])
    assert rows[: len(golden)] == golden
    assert "9 golden" in lines[0]
    result = paritygate.run({**plan, "golden": str(tmp_path / "b.arrow")}, out=None)
    assert result.verdict == "release", result.reasons
    assert result.summary["stages"][0]["samples"]["as_expected"] == 1 + 5


def test_what_is_expected_in_one_file_is_not_lost_beside_another(tmp_path: Path) -> None:
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    plan = plan_of(tmp_path, normal(9), inputs={"x": {"range": [-9.0, 9.0]}})
    write_pack(tmp_path / "g.arrow", [f"s{n}" for n in range(9)], {"x": normal(9)})
    made(plan, tmp_path)
    plan["golden"] = [str(tmp_path / "g.arrow"), str(tmp_path / "b.arrow")]
    with pytest.raises(GoldenError, match="g.arrow: has no column 'expect' of texts, which"):
        paritygate.run(plan, out=None)


def test_nothing_is_made_of_samples_that_break_the_contract(tmp_path: Path) -> None:
    sigmoid_score(tmp_path / "m.onnx", WEIGHT, BIAS)
    plan = plan_of(tmp_path, normal(5) + 100, inputs={"x": {"range": [-1.0, 1.0]}})
    with pytest.raises(GoldenError, match="none of the samples looked at satisfies"):
        paritygate.make_boundary(plan, tmp_path / "b.arrow")
    assert not (tmp_path / "b.arrow").exists()
