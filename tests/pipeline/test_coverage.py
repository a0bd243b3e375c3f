"""What golden samples exercise: told of every run, and demanded by a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models import FLOAT, linear_softmax, save_model, scale_model
from tests.packs import write_pack

import paritygate
from paritygate.core.verdict import Reason

TOLERANCE = {"atol": 1e-6, "rtol": 0.0}


def plan_of(folder: Path, x: np.ndarray, **more: Any) -> dict[str, Any]:
    """`y = x`, float32, with a recording of it as the candidate."""
    folder.mkdir(exist_ok=True)
    write_pack(folder / "g.arrow", np.arange(len(x)), {"x": x})
    write_pack(folder / "c.arrow", np.arange(len(x)), outputs={"y": x})
    scale_model(folder / "m.onnx", width=x.shape[1])
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {"a": str(folder / "m.onnx"), "b": str(folder / "c.arrow")},
        "stages": [{"name": "s", "reference": "a", "candidate": "b", "outputs": {"y": TOLERANCE}}],
        **more,
    }


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32).reshape(-1, 1)


def uncovered(plan: dict[str, Any], **how: Any) -> list[Reason]:
    result = paritygate.run(plan, out=None, **how)
    assert {r.code for r in result.reasons} <= {"evidence.uncovered"}
    assert (result.verdict == "hold") == bool(result.reasons)
    return list(result.reasons)


BAND = {"band": {"output": "y", "bands": "low < 0.5 <= mid <= 2.0 < high"}}
SCORES = column(0.25, 0.5, 0.75, 2.0, 2.0, 3.0)


def test_edges_are_told_without_any_demand(tmp_path: Path) -> None:
    summary = paritygate.run(plan_of(tmp_path, SCORES, decisions=BAND), out=None).summary
    assert summary["coverage"]["decisions"]["s"]["band"]["edges"] == [
        {
            "edge": 0.5,
            "ties": 1,
            "below": {"decision": "low", "samples": 1, "nearest": 0.25},
            "above": {"decision": "mid", "samples": 5, "nearest": 0.0},
        },
        {
            "edge": 2.0,
            "ties": 2,
            "below": {"decision": "mid", "samples": 5, "nearest": 0.0},
            "above": {"decision": "high", "samples": 1, "nearest": 1.0},
        },
    ]


@pytest.mark.parametrize(
    ("demand", "told"),
    [
        ({"each_side": 1, "ties": 1}, []),
        (
            {"each_side": 2},
            [
                (
                    "decision 'band': 1 score of the reference on the side below edge 0.5 (low), "
                    "at least 2 are demanded (each_side)"
                ),
                (
                    "decision 'band': 1 score of the reference on the side above edge 2.0 (high), "
                    "at least 2 are demanded (each_side)"
                ),
            ],
        ),
        (
            {"ties": 2},
            [
                (
                    "decision 'band': 1 score of the reference exactly on edge 0.5, at least 2 are "
                    "demanded (ties)"
                )
            ],
        ),
        ({"within": 1.0}, []),
        (
            {"within": 0.5},
            [
                (
                    "decision 'band': no score of the reference within 0.5 on the side above edge "
                    "2.0 (high; the nearest 1 away), one is demanded (within)"
                )
            ],
        ),
    ],
)
def test_edges_are_demanded(tmp_path: Path, demand: dict[str, Any], told: list[str]) -> None:
    wanted = {"decisions": {"band": demand}}
    found = uncovered(plan_of(tmp_path, SCORES, decisions=BAND, require_coverage=wanted))
    assert [reason.message for reason in found] == told
    assert all((r.stage, r.decision) == ("s", "band") and r.next for r in found)


def test_a_stage_that_is_uncovered_holds_itself(tmp_path: Path) -> None:
    wanted = {"decisions": {"band": {"ties": 5}}}
    result = paritygate.run(
        plan_of(tmp_path, SCORES, decisions=BAND, require_coverage=wanted), out=None
    )
    assert [stage["verdict"] for stage in result.summary["stages"]] == ["hold"]


def test_scores_that_are_nan_cover_no_side(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        column(0.25, np.nan),
        decisions={"band": {"output": "y", "bands": "low < 0.5 <= high"}},
        require_coverage={"decisions": {"band": {"each_side": 1}}},
    )
    plan["stages"][0]["outputs"]["y"] = {**TOLERANCE, "nonfinite": "match"}
    (reason,) = uncovered(plan)
    assert "no scores of the reference on the side above edge 0.5 (high)" in reason.message


def test_classes_that_are_never_decided(tmp_path: Path) -> None:
    x = np.float32([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 2, 0]])
    decisions = {"class": {"output": "y", "argmax": True, "labels": ["a", "b", "c", "d"]}}
    wanted = {"decisions": {"class": {"each_class": 1, "ties": 2}}}
    plan = plan_of(tmp_path, x, decisions=decisions, require_coverage=wanted)
    ties, classes = uncovered(plan)
    assert "of 1 sample of the reference, at least 2 are demanded (ties)" in ties.message
    assert classes.message == (
        "decision 'class': 2 of 4 classes were decided fewer than 1 times by the reference "
        "(each_class): b 0x, d 0x"
    )
    told = paritygate.run(plan, out=None).summary["coverage"]["decisions"]["s"]["class"]
    assert told == {
        "classes": 4,
        "never": 2,
        "rarest": {"b": 0, "d": 0, "c": 1, "a": 2},
        "ties": 1,
    }


def test_top_k_counts_the_samples_in_which_a_class_is_among_the_first(tmp_path: Path) -> None:
    x = np.float32([[3, 2, 1, 0], [3, 1, 2, 0]])
    plan = plan_of(tmp_path, x, decisions={"best": {"output": "y", "topk": 2}})
    told = paritygate.run(plan, out=None).summary["coverage"]["decisions"]["s"]["best"]
    assert told["rarest"] == {"3": 0, "1": 1, "2": 1, "0": 2}


@pytest.mark.parametrize(("labels", "told"), [(["zero", "one", "two"], ["two 0x"]), (None, [])])
def test_values(tmp_path: Path, labels: list[str] | None, told: list[str]) -> None:
    ids = np.int64([0, 1, 1]).reshape(-1, 1)
    write_pack(tmp_path / "g.arrow", np.arange(3), outputs={"y": ids})
    write_pack(tmp_path / "c.arrow", np.arange(3), outputs={"y": ids})
    rule = {"output": "y", "equal": True, **({"labels": labels} if labels else {})}
    demand = {"values": 3, **({"each_class": 1} if labels else {})}
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {"a": "recorded", "b": str(tmp_path / "c.arrow")},
        "stages": [{"reference": "a", "candidate": "b", "outputs": {"y": TOLERANCE}, "self": True}],
        "decisions": {"kind": rule},
        "require_coverage": {"decisions": {"kind": demand}},
    }
    found = uncovered(plan)
    assert "2 different values, at least 3 are demanded" in found[-1].message
    assert [r.message.rpartition(": ")[2] for r in found[:-1]] == told


def test_batch_sizes(tmp_path: Path) -> None:
    batch = {"sizes": [1, 4, 8]}
    more = {"dims": {"batch": batch}, "require_coverage": {"batch_sizes": True}}
    assert uncovered(plan_of(tmp_path / "a", SCORES, **more)) == []
    batch["check_samples"] = 0
    (reason,) = uncovered(plan_of(tmp_path / "b", SCORES, **more))
    assert "runner 'a' ran no batch of 1, 4 samples" in reason.message
    assert "it ran batches of 8" in reason.message
    nine = column(*range(9))
    (reason,) = uncovered(plan_of(tmp_path / "c", nine, **more))
    assert "ran no batch of 4 samples" in reason.message


def test_a_recording_exercises_no_batch_size(tmp_path: Path) -> None:
    more = {"dims": {"batch": {"sizes": [1]}}, "require_coverage": {"batch_sizes": True}}
    plan = plan_of(tmp_path, SCORES, **more)
    write_pack(tmp_path / "r.arrow", np.arange(6), outputs={"y": SCORES})
    plan["runners"]["a"] = str(tmp_path / "r.arrow")
    (reason,) = uncovered({**plan, "stages": [{**plan["stages"][0], "self": True}]})
    assert "no runner ran in batches" in reason.message


@pytest.mark.parametrize(
    ("lengths", "told"),
    [
        ([1, 3], []),
        ([1, 2], ["its largest size 3, which [dims] approves (dims); 1 to 2 were seen"]),
        ([2], ["its smallest size 1 and its largest size 3, which [dims] approves (dims); 2 to 2"]),
    ],
)
def test_dims(tmp_path: Path, lengths: list[int], told: list[str]) -> None:
    import pyarrow as pa
    from onnx import helper

    samples = [[1.0] * length for length in lengths]
    column = pa.array(samples, pa.list_(pa.float32()))
    write_pack(tmp_path / "g.arrow", np.arange(len(samples)), columns={"in.x": column})
    sums = np.float32([sum(s) for s in samples]).reshape(-1, 1)
    write_pack(tmp_path / "c.arrow", np.arange(len(samples)), outputs={"y": sums})
    save_model(
        tmp_path / "m.onnx",
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)],
        {"x": (FLOAT, ["batch", "seq"])},
        {"y": (FLOAT, ["batch", 1])},
        {"axes": np.int64([1])},
    )
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "dims": {"seq": {"min": 1, "max": 3}},
        "inputs": {"x": {"shape": ["batch", "seq"]}},
        "runners": {"a": str(tmp_path / "m.onnx"), "b": str(tmp_path / "c.arrow")},
        "stages": [{"reference": "a", "candidate": "b", "outputs": {"y": TOLERANCE}}],
        "require_coverage": {"dims": True},
    }
    found = uncovered(plan)
    assert len(found) == len(told)
    assert all(part in reason.message for part, reason in zip(told, found, strict=True))
    seen = paritygate.run(plan, out=None).summary["coverage"]["dims"]["seq"]
    assert seen == {
        "approved": [1, 3],
        "seen": [min(lengths), max(lengths)],
        "samples": [1, 1],
    }


def test_ranges_zeros_and_constant_channels(tmp_path: Path) -> None:
    x = np.float32([[0.1, 5], [0.2, 6], [0.3, 7]])
    x[0, 0] = np.nextafter(np.float32(0.1), np.float32(1)) if np.float32(0.1) < 0.1 else x[0, 0]
    contract = {"range": [[0.1, 1.0], [0.0, 7.0]], "channels": ["cold", "hot"]}
    wanted = {"ranges": True, "zeros": True}
    plan = plan_of(tmp_path, x, inputs={"x": contract}, require_coverage=wanted)
    found = [reason.message for reason in uncovered(plan)]
    assert found == [  # the range of 'cold' rules zero out, so that none is demanded
        (
            "input 'x': no sample reaches the minimum of the range of 1 of 2 channels (ranges): "
            "hot (0)"
        ),
        (
            "input 'x': no sample reaches the maximum of the range of 1 of 2 channels (ranges): "
            "cold (1)"
        ),
    ]
    told = paritygate.run(plan, out=None).summary["coverage"]["inputs"]["x"]
    assert (told["minima_reached"], told["maxima_reached"], told["ends"]) == (1, 1, 2)
    assert told["channels"][1] == {
        "channel": "hot",
        "seen": [5.0, 7.0],
        "samples": [1, 1],
        "constant": None,
    }


def test_zeros_and_constants_of_an_input_without_a_contract(tmp_path: Path) -> None:
    wanted = {"zeros": True, "constant_channels": True}
    plan = plan_of(tmp_path, np.float32([[1, 2], [0, 3]]), require_coverage=wanted)
    assert [reason.message for reason in uncovered(plan)] == [
        "input 'x': all elements are zero in no sample (zeros)",
        "input 'x': all elements are the same in no sample (constant_channels)",
    ]
    plan = plan_of(tmp_path, np.float32([[1, 2], [0, 0]]), require_coverage=wanted)
    assert uncovered(plan) == []


def test_rejected_samples_cover_nothing(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        column(0.0, 1.0, 2.0),
        inputs={"x": {"range": [0.5, 2.0]}},
        require_coverage={"ranges": True},
    )
    result = paritygate.run(plan, out=None)
    assert [r.code for r in result.reasons] == ["sample.rejected", "evidence.uncovered"]
    assert result.summary["coverage"]["inputs"]["x"]["samples"] == 2


def test_a_part_of_a_pack_is_not_held_for_what_the_whole_one_has(tmp_path: Path) -> None:
    wanted = {"decisions": {"band": {"each_side": 2}}}
    plan = plan_of(tmp_path, SCORES, decisions=BAND, require_coverage=wanted)
    result = paritygate.run(plan, out=None, limit=3)
    assert result.verdict == "incomplete"
    assert any(line.startswith("coverage: ") for line in result.summary["not_judged"])


def test_a_replay_is_not_held_for_coverage(tmp_path: Path) -> None:
    wanted = {"decisions": {"band": {"each_side": 2}}}
    plan = plan_of(tmp_path, SCORES, decisions=BAND, require_coverage=wanted)
    write_pack(tmp_path / "c.arrow", np.arange(6), outputs={"y": SCORES + 1})
    run = paritygate.run(plan, out=tmp_path / "runs")
    assert run.folder is not None
    again = paritygate.replay(run.folder, out=tmp_path / "runs")
    assert "evidence.uncovered" not in {r.code for r in again.reasons}


def test_the_same_for_any_number_of_threads_and_any_cut(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(5000, 4)).astype(np.float32)
    write_pack(tmp_path / "g.arrow", np.arange(len(x)), {"x": x})
    linear_softmax(tmp_path / "a.onnx", seed=1)
    linear_softmax(tmp_path / "b.onnx", seed=1)
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "inputs": {"x": {"range": [-9.0, 9.0], "channels": ["a", "b", "c", "d"]}},
        "runners": {
            "a": {"model": str(tmp_path / "a.onnx"), "batch_size": 7},
            "b": {"model": str(tmp_path / "b.onnx"), "batch_size": 16},
        },
        "stages": [
            {
                "reference": "a",
                "candidate": "b",
                "outputs": {"probabilities": TOLERANCE},
                "self": True,
            }
        ],
        "decisions": {
            "class": {"output": "probabilities", "argmax": True},
            "each": {
                "output": "probabilities",
                "bands": "low < 0.2 <= high",
                "elementwise": True,
            },
        },
    }
    found = [
        paritygate.run(plan, out=None, threads=threads).summary["coverage"] for threads in (1, 3)
    ]
    assert found[0] == found[1]
    seen = found[0]["inputs"]["x"]["channels"]
    assert [c["seen"] for c in seen] == [
        [float(x[:, c].min()), float(x[:, c].max())] for c in range(4)
    ]
    edge = found[0]["decisions"]["a-b"]["each"]["edges"][0]
    assert edge["below"]["samples"] + edge["above"]["samples"] == 3 * len(x)
