"""What a plan declares of one side's output: applied in order, recorded, refused where it can't."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from pydantic import ValidationError
from tests import models
from tests import naive_decisions as naive
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import ParityError, PlanError
from paritygate.runners.registry import parse_runner
from paritygate.runners.views import View

EXACT = {"atol": 0.0, "rtol": 0.0}
CLOSE = {"atol": 1e-6, "rtol": 1e-6}


# --- the steps, against plain NumPy --------------------------------------------------------------


@st.composite
def declared(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    keys: dict[str, Any] = {}
    order = draw(st.permutations(range(1, len(shape) + 1)))
    if draw(st.booleans()):
        keys["transpose"] = (0, *order)
    else:
        order = range(1, len(shape) + 1)
    seen = [shape[axis - 1] for axis in order]
    axis = draw(st.integers(1, len(seen)))
    if draw(st.booleans()):
        index = st.integers(0, seen[axis - 1] - 1)
        keys["select"] = draw(
            index | st.lists(index, min_size=1, max_size=3, unique=True).map(tuple)
        )
        keys["axis"] = axis if draw(st.booleans()) else axis - len(seen) - 1
        picked = keys["select"]
        seen[axis - 1 : axis] = [] if isinstance(picked, int) else [len(picked)]
    if draw(st.booleans()):
        keys["reshape"] = draw(st.sampled_from((("batch", math.prod(seen)), ("batch", *seen, 1))))
    return shape, keys


@settings(deadline=None, max_examples=200)
@given(case=declared(), rows=st.integers(0, 3))
def test_a_view_is_what_numpy_makes_of_it(case, rows):
    shape, keys = case
    view = View.model_validate(keys)
    array = np.arange(rows * math.prod(shape), dtype=np.int64).reshape(rows, *shape)
    seen = array.transpose(keys["transpose"]) if "transpose" in keys else array
    if "select" in keys:
        picks = [slice(None)] * seen.ndim
        picked = keys["select"]
        picks[keys["axis"]] = picked if isinstance(picked, int) else list(picked)
        seen = seen[tuple(picks)]
    if "reshape" in keys:
        seen = seen.reshape((rows, *keys["reshape"][1:]))
    found = view.apply(array)
    assert found.shape == (rows, *view.shape(shape))
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, seen)
    assert View.model_validate(view.to_plan()) == view


def test_a_transform_is_rounded_to_the_dtype_of_the_output():
    rows = np.array([[1.0, 2.0, -70000.0]], np.float32)
    found = View(transform="softmax").apply(rows)
    assert found.dtype == np.float32
    exact = [float(p) for p in naive.softmax(rows[0].tolist())]
    np.testing.assert_array_equal(found, np.array([exact]).astype(np.float32))
    score = View(transform="softmax", select=1).apply(rows)
    assert score.tolist() == [np.float32(exact[1])]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"transpose": [1, 0]}, "starts with 0"),
        ({"transpose": [0, 2]}, "names each axis once"),
        ({"select": []}, "is empty"),
        ({"select": [2, 0, 0]}, "names an index twice"),
        ({"select": -1}, "greater than or equal to 0"),
        ({"axis": 1}, "axis belongs to select and softmax"),
        ({"axis": 0, "select": 1}, "0 is the samples"),
        ({"reshape": [2, "batch"]}, 'starts with "batch"'),
        ({"reshape": ["batch", "n"]}, "fixed numbers"),
        ({"transform": "relu"}, "'softmax' or 'sigmoid'"),
        ({"selct": 1}, "did you mean 'select'"),
    ],
)
def test_all_that_is_wrong_with_a_view_is_told_at_its_path(keys, words):
    table = {"model": "m.onnx", "outputs": {"score": keys, "y": {"select": "x"}}, "batch": 1}
    spec, problems = parse_runner("cand", table, Path())
    assert spec is None
    told = [str(p) for p in problems]
    assert any(t.startswith("runners.cand.outputs.score") and words in t for t in told), told
    assert any(t.startswith("runners.cand.outputs.y.select") for t in told), told
    assert any(t.startswith("runners.cand.batch") for t in told), told


@pytest.mark.parametrize(
    ("keys", "dims", "words"),
    [
        ({"transpose": (0, 2, 1)}, (3,), "names 3 axes, but a batch has [batch, 3]"),
        ({"select": 2}, (2,), "select is 2, but the axis has 2 (0 to 1)"),
        ({"select": 0, "axis": 2}, (2,), "axis is 2, but there is [batch, 2]"),
        ({"select": 0}, (), "axis is -1, but there is [batch]"),
        ({"reshape": ("batch", 3)}, (2,), "needs as many elements"),
    ],
)
def test_a_view_that_does_not_fit(keys, dims, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        View.model_validate(keys).apply(np.zeros((2, *dims)))


def test_symbolic_dims_stay_open():
    view = View(transpose=(0, 2, 1), select=1, axis=1)
    assert view.shape(("time", 4)) == ("time",)
    assert View(reshape=("batch", 8)).shape(("time", 4)) == (8,)


def test_views_are_frozen():
    with pytest.raises(ValidationError):
        View(select=1).select = 2


# --- real models ---------------------------------------------------------------------------------


def save(path: Path, nodes: Any, outputs: Any, initializers: Any = None) -> Path:
    return models.save_model(
        path, nodes, {"x": (models.FLOAT, ["batch", 4])}, outputs, initializers
    )


WEIGHT = np.random.default_rng(3).normal(size=(4, 2)).astype(np.float32)
NODE = helper.make_node


def probabilities(path: Path) -> Path:
    return save(
        path,
        [NODE("MatMul", ["x", "w"], ["z"]), NODE("Softmax", ["z"], ["p"], axis=-1)],
        {"p": (models.FLOAT, ["batch", 2])},
        {"w": WEIGHT},
    )


def logits(path: Path) -> Path:
    return save(
        path,
        [NODE("MatMul", ["x", "w"], ["z"])],
        {"z": (models.FLOAT, ["batch", 2])},
        {"w": WEIGHT},
    )


def score(path: Path) -> Path:
    """The second probability as a sigmoid of the difference, of shape [batch]."""
    return save(
        path,
        [
            NODE("MatMul", ["x", "d"], ["z"]),
            NODE("Sigmoid", ["z"], ["s"]),
            NODE("Reshape", ["s", "flat"], ["score"]),
        ],
        {"score": (models.FLOAT, ["batch"])},
        {"d": WEIGHT[:, 1:] - WEIGHT[:, :1], "flat": np.array([-1])},
    )


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    return write_pack(tmp_path / "g.arrow", np.arange(20), {"x": x})


def plan_of(
    golden: Path, ref: Any, cand: Any, output: str = "score", **more: Any
) -> dict[str, Any]:
    return {
        "golden": str(golden),
        "runners": {"ref": ref, "cand": cand},
        "stages": [{"reference": "ref", "candidate": "cand", "outputs": {output: CLOSE}}],
        **more,
    }


def run(plan: Any) -> Any:
    return paritygate.run(plan, out=None)


def test_one_column_of_probabilities_against_a_score(tmp_path, golden):
    ref, cand = str(score(tmp_path / "r.onnx")), str(probabilities(tmp_path / "c.onnx"))
    view = {"from": "p", "select": 1}
    bands = {"d": {"output": "score", "bands": "no < 0.5 <= yes"}}
    good = run(plan_of(golden, ref, {"model": cand, "outputs": {"score": view}}, decisions=bands))
    assert (good.verdict, good.reasons) == ("release", ())
    assert good.summary["runners"]["cand"]["views"] == {"score": view}
    assert any("output score is seen as" in line for line in good.summary["not_judged"])
    table = good.summary["plan"]["canonical"]["runners"]["cand"]
    assert table["outputs"] == {"score": view}
    other = {"from": "p", "select": 0}
    bad = run(plan_of(golden, ref, {"model": cand, "outputs": {"score": other}}, decisions=bands))
    assert {r.code for r in bad.reasons} == {"tolerance.exceeded", "decision.flip"}


def test_logits_against_probabilities(tmp_path, golden):
    ref, cand = str(probabilities(tmp_path / "r.onnx")), str(logits(tmp_path / "c.onnx"))
    view = {"from": "z", "transform": "softmax"}
    result = run(plan_of(golden, ref, {"model": cand, "outputs": {"p": view}}, "p"))
    assert result.verdict == "release"
    plain = run(plan_of(golden, ref, {"model": cand, "outputs": {"p": "z"}}, "p"))
    assert plain.verdict == "hold"


def test_channels_last_against_channels_first(tmp_path):
    x = np.random.default_rng(1).normal(size=(6, 3, 4, 5)).astype(np.float32)
    golden = write_pack(tmp_path / "g.arrow", np.arange(6), {"x": x})
    io = {"x": (models.FLOAT, ["batch", 3, 4, 5])}
    ref = models.save_model(
        tmp_path / "r.onnx", [NODE("Abs", ["x"], ["y"])], io, {"y": (models.FLOAT, io["x"][1])}
    )
    cand = models.save_model(
        tmp_path / "c.onnx",
        [NODE("Abs", ["x"], ["a"]), NODE("Transpose", ["a"], ["y"], perm=[0, 2, 3, 1])],
        io,
        {"y": (models.FLOAT, ["batch", 4, 5, 3])},
    )
    plain = run(plan_of(golden, str(ref), str(cand), "y"))
    (reason,) = plain.reasons
    assert reason.code == "shape.mismatch"
    assert "runners.cand.outputs.y = { transpose = [0, 3, 1, 2] }" in reason.next
    declared = {"model": str(cand), "outputs": {"y": {"transpose": [0, 3, 1, 2]}}}
    assert run(plan_of(golden, str(ref), declared, "y")).verdict == "release"


def test_a_view_that_contradicts_the_model_is_a_fault_of_the_plan(tmp_path, golden):
    ref, cand = str(score(tmp_path / "r.onnx")), str(probabilities(tmp_path / "c.onnx"))
    table = {"model": cand, "outputs": {"score": {"from": "p", "select": 2}}}
    with pytest.raises(ParityError, match="select is 2, but the axis has 2") as error:
        run(plan_of(golden, ref, table))
    assert error.value.exit_code == 2
    assert "runners.cand.outputs.score" in str(error.value)


def test_the_canonical_plan_says_the_same_again(tmp_path, golden):
    cand = {"model": str(probabilities(tmp_path / "c.onnx"))}
    cand["outputs"] = {"score": {"from": "p", "select": [1], "reshape": ["batch"]}}
    plan = paritygate.load_plan(plan_of(golden, "recorded", cand, dims={"batch": {"sizes": [4]}}))
    again = paritygate.load_plan(plan.canonical())
    assert again.digest() == plan.digest()
    assert again.runners["cand"] == plan.runners["cand"]
    assert paritygate.load_plan(paritygate.load_plan(plan.canonical()).canonical()).digest()
    cand["outputs"]["score"]["select"] = [0]
    other = paritygate.load_plan(plan_of(golden, "recorded", cand, dims={"batch": {"sizes": [4]}}))
    assert other.digest() != plan.digest()


def test_a_model_against_itself_proves_nothing_whatever_is_declared_of_it(tmp_path, golden):
    model = str(score(tmp_path / "m.onnx"))
    view = {"score": {"reshape": ["batch", 1]}}
    both = {"model": model, "outputs": view}
    plan = plan_of(
        golden, {"model": model, "outputs": {"score": {"reshape": ["batch", 1, 1]}}}, both
    )
    result = run(plan)
    assert "policy.same_runner" in {r.code for r in result.reasons}
    identities = {side["identity"] for side in result.summary["runners"].values()}
    assert len(identities) == 2


def test_a_declaration_may_be_set_over_a_plan(tmp_path, golden):
    cand = str(probabilities(tmp_path / "c.onnx"))
    plan = plan_of(golden, str(score(tmp_path / "r.onnx")), cand)
    for overrides in (
        ['runners.cand.outputs.score={from = "p", select = 1}'],
        ["runners.cand.outputs.score.from=p", "runners.cand.outputs.score.select=1"],
    ):
        loaded = paritygate.load_plan(plan, overrides=overrides)
        assert run(loaded).verdict == "release"


# --- the other kinds -----------------------------------------------------------------------------


def test_recorded_outputs(tmp_path):
    values = np.random.default_rng(2).normal(size=(9, 3)).astype(np.float32)
    ref = write_pack(tmp_path / "r.arrow", np.arange(9), outputs={"y": values})
    cand = write_pack(
        tmp_path / "c.arrow", np.arange(9)[::-1], outputs={"z": values[::-1, [2, 0, 1]]}
    )
    table = {"path": str(cand), "outputs": {"y": {"from": "z", "select": [1, 2, 0]}}}
    assert run(plan_of(ref, "recorded", table, "y")).verdict == "release"
    table["outputs"]["y"]["select"] = [0, 1, 2]
    assert run(plan_of(ref, "recorded", table, "y")).verdict == "hold"


SIDES = """
import numpy as np

def ref(given):
    return {"y": given["x"] * 2, "z": given["x"][:, :1]}

def cand(given):
    return {"y": np.ascontiguousarray((given["x"] * 2)[:, ::-1]), "z": given["x"][:, 0]}
"""


def test_functions(tmp_path, golden):
    (tmp_path / "sides.py").write_text(SIDES)
    table = {"call": "sides:cand", "outputs": {"y": {"select": [3, 2, 1, 0]}, "z": {}}}
    plan = plan_of(golden, "sides:ref", table, "y")
    plan["stages"][0]["outputs"]["z"] = CLOSE
    loaded = paritygate.load_plan(plan, folder=tmp_path)
    assert loaded.canonical()["runners"]["cand"]["outputs"] == table["outputs"]
    (reason,) = run(loaded).reasons
    assert (reason.code, reason.output) == ("shape.mismatch", "z")
    assert 'runners.cand.outputs.z = { reshape = ["batch", 1] }' in reason.next
    table["outputs"]["z"] = {"reshape": ["batch", 1]}
    assert run(paritygate.load_plan(plan, folder=tmp_path)).verdict == "release"
    table["outputs"]["z"] = {"reshape": ["batch", 2]}
    (reason,) = [r for r in run(paritygate.load_plan(plan, folder=tmp_path)).reasons
                 if r.code == "runner.error"]  # fmt: skip
    assert "runners.cand.outputs.z: reshape to [batch, 2] needs" in reason.message
    table["outputs"] = {"y": "x"}
    with pytest.raises(PlanError, match="a function names its outputs itself"):
        paritygate.load_plan(plan, folder=tmp_path)


def test_zeros(golden):
    null = {"kind": "null", "outputs": {"y": {"dtype": "float32", "shape": [2], "select": 0}}}
    other = {"kind": "null", "outputs": {"y": {"dtype": "float32"}}}
    assert run(plan_of(golden, null, other, "y")).verdict == "release"


# --- what is suggested ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ref", "cand", "told"),
    [
        ((1,), (), 'runners.cand.outputs.y = { reshape = ["batch", 1] }'),
        ((), (1,), 'runners.cand.outputs.y = { reshape = ["batch"] }'),
        ((3, 1, 2), (1, 3, 2), 'runners.cand.outputs.y = { reshape = ["batch", 3, 1, 2] }'),
        ((), (2,), "runners.cand.outputs.y = { select = 1 }"),
        ((2,), (), "runners.ref.outputs.y = { select = 1 }"),
        ((1,), (3,), 'runners.cand.outputs.y = { select = 1, reshape = ["batch", 1] }'),
        ((3, 4, 5), (4, 5, 3), "runners.cand.outputs.y = { transpose = [0, 3, 1, 2] }"),
        ((4, 5, 3), (3, 4, 5), "runners.cand.outputs.y = { transpose = [0, 2, 3, 1] }"),
        ((2, 3, 3, 5), (5, 2, 3, 3), "runners.cand.outputs.y = { transpose = [0, 2, 3, 4, 1] }"),
        ((4,), (5,), None),
        ((2, 6), (3, 4), None),
        ((2, 3), (6,), None),
    ],
)
def test_only_what_makes_the_shapes_agree_is_suggested(tmp_path, ref, cand, told):
    sides = [np.zeros((3, *shape), np.float32) for shape in (ref, cand)]
    paths = [
        write_pack(tmp_path / f"{i}.arrow", np.arange(3), outputs={"y": side})
        for i, side in enumerate(sides)
    ]
    plan = plan_of(paths[0], "recorded", str(paths[1]), "y")
    (reason,) = run(plan).reasons
    assert reason.code == "shape.mismatch"
    if told is None:
        assert "declare" not in reason.next
        return
    assert told in reason.next
    name, _, rest = told.removeprefix("runners.").partition(".outputs.y = ")
    view = tomllib.loads(f"view = {rest}")["view"]
    side = {"ref": {"kind": "recorded"}, "cand": {"path": str(paths[1])}}
    runners = {**side, name: {**side[name], "outputs": {"y": view}}}
    codes = {r.code for r in run({**plan, "runners": runners}).reasons}
    assert "shape.mismatch" not in codes
