"""Axes, channels and units: what the plan says against what the pack says of itself."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models import scale_model
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import GoldenError, PlanError
from paritygate.golden.meaning import Meaning, encode_meaning, meaning_of

CHANNELS = ["vibration_rms", "bearing_temperature"]
UNITS = ["mm/s", "degC"]
X = np.random.default_rng(0).uniform(1, 9, (5, 2)).astype(np.float32)


def plan_of(
    folder: Path, said: dict[str, Any], contract: dict[str, Any], x: np.ndarray = X, **more: Any
) -> dict[str, Any]:
    metadata = {"in.x": {f"paritygate.{key}": json.dumps(v) for key, v in said.items()}}
    write_pack(folder / "g.arrow", np.arange(len(x)), {"x": x}, metadata=metadata)
    for name in ("a", "b"):
        scale_model(folder / f"{name}.onnx", width=2, metadata={"side": name})
    return {
        "golden": str(folder / "g.arrow"),
        "inputs": {"x": contract},
        "runners": {name: str(folder / f"{name}.onnx") for name in ("a", "b")},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
        **more,
    }


def problems(folder: Path, *args: Any, **more: Any) -> list[str]:
    with pytest.raises(PlanError) as caught:
        paritygate.run(plan_of(folder, *args, **more), out=None)
    assert caught.value.exit_code == 2
    return [str(p) for p in caught.value.problems]


UNREADABLE = (
    "inputs: the field metadata of x say nothing that can be read: paritygate.channels isn't a "
    "JSON list of texts (found '\"vibration\"')"
)
SAID = {"channels": CHANNELS, "units": UNITS, "axes": ["channel"]}
DECLARED = {"channels": CHANNELS, "units": UNITS, "axes": ["sample", "channel"]}


def test_what_agrees_is_judged_and_not_mentioned(tmp_path: Path) -> None:
    result = paritygate.run(plan_of(tmp_path, SAID, DECLARED), out=None)
    assert result.verdict == "release"
    assert not [n for n in result.summary["not_judged"] if "channels" in n or "units" in n]


@pytest.mark.parametrize("key", ["channels", "units"])
def test_a_swapped_pair_is_noticed(tmp_path: Path, key: str) -> None:
    swapped = {**DECLARED, key: DECLARED[key][::-1]}
    (told,) = problems(tmp_path, SAID, swapped)
    assert told.startswith(f"inputs.x.{key}: is {DECLARED[key][::-1]}")
    assert f"the pack's column says {SAID[key]} (paritygate.{key})" in told
    assert "the same in another order" in told


def test_another_unit_and_other_axes_all_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, {**SAID, "axes": ["time"]}, {**DECLARED, "units": ["mm/s", "degF"]})
    assert [f.split(":")[0] for f in found] == ["inputs.x.axes", "inputs.x.units"]
    assert "['mm/s', 'degF'], but the pack's column says ['mm/s', 'degC']" in found[1]


@pytest.mark.parametrize(
    ("ours", "theirs", "is_same"),
    [("degC", ["degC", "degC"], True), (["degC", "degC"], "degC", True), ("degC", "degF", False),
     ("degC", ["degC", "degF"], False), ("degC", ["degC"], True)],
)  # fmt: skip
def test_one_unit_stands_for_all(tmp_path: Path, ours: Any, theirs: Any, is_same: bool) -> None:
    if is_same:
        plan = plan_of(tmp_path, {"units": theirs}, {"units": ours})
        assert paritygate.run(plan, out=None).verdict == "release"
    else:
        assert len(problems(tmp_path, {"units": theirs}, {"units": ours})) == 1


def test_what_only_one_says_is_told(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, {"units": UNITS}, {"channels": CHANNELS, "range": [0, 10]})
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release"
    told = result.summary["not_judged"]
    assert "inputs: channels of x are declared, but the pack doesn't say them" in told
    assert "inputs: units of x are said by the pack, but not by the plan" in told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            {"channels": CHANNELS},
            ["inputs: channels of x are said by the pack, but not by the plan"],
        ),
        (
            {"channels": [*CHANNELS, "third"], "units": ["mm/s"]},
            [
                "inputs: the pack says 3 channels of x, which has 2 channels",
                "inputs: channels, units of x are said by the pack, but not by the plan",
            ],
        ),
        (
            {"channels": "vibration"},
            [UNREADABLE],
        ),
        ({}, []),
    ],
)
def test_what_the_pack_alone_says_is_told_without_a_contract(
    tmp_path: Path, said: dict[str, Any], told: list[str]
) -> None:
    plan = plan_of(tmp_path, said, {})
    del plan["inputs"]
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release"
    words = ("by the pack", "the pack says", "field metadata")
    assert [n for n in result.summary["not_judged"] if any(w in n for w in words)] == told


@pytest.mark.parametrize("wrong", ["vibration", "[1, 2]", '"text"', "[" * 5000, "{}"])
def test_metadata_that_say_nothing_readable(tmp_path: Path, wrong: str) -> None:
    plan = plan_of(tmp_path, {}, DECLARED)
    write_pack(
        tmp_path / "g.arrow", range(5), {"x": X}, metadata={"in.x": {"paritygate.channels": wrong}}
    )
    with pytest.raises(PlanError, match="paritygate.channels isn't a JSON list of texts"):
        paritygate.run(plan, out=None)
    with pytest.raises(GoldenError, match="paritygate.channels isn't a JSON list"):
        paritygate.draft_contract(tmp_path / "g.arrow")


def test_outputs_that_the_pack_records(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, {}, {"range": [0, 10]}, outputs={"y": {"units": "V"}})
    write_pack(
        tmp_path / "g.arrow", range(5), {"x": X}, {"y": X},
        metadata={"out.y": {"paritygate.units": '"mV"', "paritygate.channels": '["p", "q"]'}},
    )  # fmt: skip
    with pytest.raises(PlanError) as caught:
        paritygate.run(plan, out=None)
    (told,) = caught.value.problems
    assert told.path == "outputs.y.units"
    assert "['V'], but the pack's column says ['mV']" in told.message
    plan["outputs"] = {"y": {"channels": ["p", "q", "r"]}}
    with pytest.raises(PlanError, match="has 3 names for 2 channels"):
        paritygate.run(plan, out=None)


def test_columns_side_by_side_are_channels(tmp_path: Path) -> None:
    csv = tmp_path / "t.csv"
    csv.write_text("sample_id,rms,temp,risk\n0,1.5,20,0.1\n1,2.5,30,0.2\n")
    built = paritygate.build_from(
        tmp_path / "g.arrow", csv, inputs=["x:float32=rms,temp"], outputs=["y:float32=risk"],
        units={"x": ["mm/s", "degC"], "out.y": "1"},
    )  # fmt: skip
    draft = tomllib.loads(paritygate.draft_contract(built.path))
    assert draft["inputs"]["x"]["channels"] == ["rms", "temp"]
    assert draft["inputs"]["x"]["units"] == ["mm/s", "degC"]
    assert draft["inputs"]["x"]["range"] == [[1.5, 2.5], [20.0, 30.0]]
    assert draft["outputs"]["y"]["units"] == "1"
    named = paritygate.build_from(
        tmp_path / "h.arrow", csv, inputs=["x:float32=rms,temp"], channels={"x": ["a", "b"]},
        axes={"x": ["channel"]},
    )  # fmt: skip
    found = tomllib.loads(paritygate.draft_contract(named.path))["inputs"]["x"]
    assert (found["channels"], found["axes"]) == (["a", "b"], ["sample", "channel"])
    again = paritygate.build_from(tmp_path / "i.arrow", named.path)
    assert again.digest == named.digest
    kept = tomllib.loads(paritygate.draft_contract(again.path))["inputs"]["x"]
    assert kept["channels"] == ["a", "b"]
    with pytest.raises(PlanError, match="--units: no tensor is called 'z'"):
        paritygate.build_from(tmp_path / "j.arrow", csv, inputs=["x=rms,temp"], units={"z": "m"})


def test_a_draft_has_ranges_along_the_channel_axis(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    samples = [{"sample_id": i, "in.x": x[i]} for i in range(2)]
    built = paritygate.build_pack(
        tmp_path / "g.arrow", samples, axes={"x": ["channel", "time"]},
        channels={"x": ["u", "v", "w"]},
    )  # fmt: skip
    draft = tomllib.loads(paritygate.draft_contract(built.path))["inputs"]["x"]
    assert draft["range"] == [[0, 15], [4, 19], [8, 23]]
    assert draft["axes"] == ["sample", "channel", "time"]
    plan = {"inputs": {"x": draft}, "golden": str(built.path), "runners": {
        "a": {"kind": "null", "echo": {"y": "x"}}, "b": {"kind": "null", "echo": {"y": "x"}}},
        "stages": [{"reference": "a", "candidate": "b", "self": True, "outputs": {
            "y": {"atol": 0, "rtol": 0}}}]}  # fmt: skip
    assert paritygate.run(plan, out=None).verdict == "release"


def test_a_rejected_shard_says_the_same(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SAID, {**DECLARED, "range": [[0, 5], [0, 5]]})
    result = paritygate.run(plan, out=tmp_path / "runs")
    draft = paritygate.draft_contract(result.folder / "rejected-00000.arrow")
    assert tomllib.loads(draft)["inputs"]["x"]["channels"] == CHANNELS


def test_metadata_round_trip() -> None:
    said = {"axes": ["a", "channel"], "channels": ["ü", "v"], "units": "m"}
    assert meaning_of(encode_meaning(**said)) == Meaning(("a", "channel"), ("ü", "v"), "m")
    assert meaning_of({}) == Meaning()
