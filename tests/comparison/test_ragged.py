"""Answers whose shape varies from sample to sample, against a sample-by-sample oracle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from tests import models
from tests.pipeline.test_varying import stored, write

import paritygate
from paritygate.core.ragged import Ragged, as_tensor, repeat_last, stack_rows, varying_dims
from paritygate.pipeline.execute import Options, execute
from paritygate.pipeline.prepare import CallableRunner

FIXTURE = [HealthCheck.function_scoped_fixture]


def boxes(counts: Sequence[int], seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 4)).astype(np.float32) for n in counts]


def compare(folder: Path, ref: Any, cand: Any, **more: Any) -> Any:
    """Two recordings of one golden pack of numbers."""
    count = len(ref[0] if isinstance(ref, tuple) else ref)
    write(folder / "g.arrow", {"in.x": np.zeros(count, np.float32)})
    for name, values in (("r", ref), ("c", cand)):
        write(folder / f"{name}.arrow", {"out.boxes": values}, rows_per_batch=3)
    plan = {
        "golden": "g.arrow",
        "runners": {n: {"kind": "recorded", "path": f"{n}.arrow"} for n in "rc"},
        "stages": [
            {"reference": "r", "candidate": "c", "outputs": {"boxes": {"atol": 0.25, "rtol": 0.0}}}
        ],
        **more,
    }
    options = Options(out=folder / "runs", threads=2)
    return execute(paritygate.load_plan(plan, folder=folder), options)


def test_other_numbers_of_boxes_are_named(tmp_path: Path) -> None:
    ref = boxes([2, 0, 3, 1, 0, 2])
    cand = [a.copy() for a in ref]
    cand[2] = cand[2][:2]
    cand[4] = np.ones((1, 4), np.float32)
    cand[5][1, 3] += 1
    outcome = compare(tmp_path, stored(ref), stored(cand))
    mismatch, exceeded = outcome.judgement.reasons
    assert (mismatch.code, mismatch.ids) == ("shape.mismatch", (2, 4))
    assert "float32[batch, 3, 4], the candidate float32[batch, 2, 4]" in mismatch.message
    assert (exceeded.code, exceeded.ids) == ("tolerance.exceeded", (5,))
    stage = outcome.summary["stages"][0]
    assert stage["outputs"]["boxes"]["empty_samples"] == 1
    assert stage["outputs"]["boxes"]["elements"] == 4 * (2 + 0 + 1 + 2)
    assert stage["samples"]["failed"] == 3


def test_equal_answers_are_released(tmp_path: Path) -> None:
    ref = boxes([2, 0, 3, 1, 0, 2])
    assert compare(tmp_path, ref, ref).judgement.verdict == "hold"  # the same recording
    cand = [a + np.float32(0.125) for a in ref]
    assert compare(tmp_path, ref, cand).judgement.verdict == "release"


def test_nothing_at_all_is_no_evidence(tmp_path: Path) -> None:
    outcome = compare(tmp_path, stored(boxes([0, 0])), stored(boxes([0, 0], 2)))
    assert "evidence.empty" in {r.code for r in outcome.judgement.reasons}


def test_empty_samples_of_other_widths_differ(tmp_path: Path) -> None:
    ref = [np.zeros((0, 4), np.float32), np.ones((1, 4), np.float32)]
    cand = [np.zeros((0, 5), np.float32), np.ones((1, 4), np.float32)]
    (reason,) = compare(tmp_path, stored(ref), stored(cand)).judgement.reasons
    assert (reason.code, reason.ids) == ("shape.mismatch", (0,))


def test_missing_samples_beside_varying_ones(tmp_path: Path) -> None:
    ref = boxes([2, 0, 3, 1])
    outcome = compare(tmp_path, ref, ref[:3])
    assert {(r.code, r.ids) for r in outcome.judgement.reasons} == {("sample.missing", (3,))}
    assert outcome.summary["stages"][0]["outputs"]["boxes"]["elements"] == 20


@settings(max_examples=40, deadline=None, suppress_health_check=FIXTURE)
@given(data=st.data(), counts=st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_every_sample_is_judged_as_if_alone(
    tmp_path: Path, data: st.DataObject, counts: list[int]
) -> None:
    values = st.sampled_from([0.0, 0.25, 0.5, np.nan, np.inf, -np.inf, 1e30])
    ref, cand = [], []
    for count in counts:
        other = count if data.draw(st.integers(0, 4)) else data.draw(st.integers(0, 4))
        for side, rows in ((ref, count), (cand, other)):
            drawn = data.draw(st.lists(values, min_size=2 * rows, max_size=2 * rows))
            side.append(np.array(drawn, np.float32).reshape(rows, 2))
    outcome = compare(tmp_path, stored(ref), stored(cand))
    want = [r.shape != c.shape or not _is_good(r, c) for r, c in zip(ref, cand, strict=True)]
    stage = next(iter(outcome.tally.stages.values()))
    assert stage.failed == sum(want)
    elements = sum(r.size for r, c in zip(ref, cand, strict=True) if r.shape == c.shape)
    found = stage.outputs.get("boxes")
    assert (found.elements if found is not None else 0) == elements
    if stage.failed:
        ids = paritygate_ids(outcome.folder)
        assert ids == [i for i, bad in enumerate(want) if bad]


def _is_good(ref: np.ndarray, cand: np.ndarray) -> bool:
    """Of one sample, in plain Python."""
    pairs = zip(ref.ravel().tolist(), cand.ravel().tolist(), strict=True)
    return all(np.isfinite(r) and np.isfinite(c) and abs(c - r) <= 0.25 for r, c in pairs)


def paritygate_ids(folder: Path) -> list[int]:
    import pyarrow as pa

    (path,) = (folder / "failures").glob("*-ids.arrow")
    with pa.ipc.open_file(str(path)) as reader:
        return list(reader.read_all().column("sample_id").to_pylist())


def picked(folder: Path, name: str, extra: float = 0.0) -> Path:
    """x[1, n] -> the values above zero, as many as there are: `[found]`."""
    return models.save_model(
        folder / f"{name}.onnx",
        [
            helper.make_node("Greater", ["x", "zero"], ["is_above"]),
            helper.make_node("Reshape", ["is_above", "minus"], ["flat"]),
            helper.make_node("Compress", ["x", "flat"], ["some"]),
            helper.make_node("Add", ["some", "extra"], ["y"]),
        ],
        {"x": (models.FLOAT, [1, 6])},
        {"y": (models.FLOAT, ["found"])},
        {
            "zero": np.array(0, np.float32),
            "minus": np.array([-1], np.int64),
            "extra": np.array(extra, np.float32),
        },
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_a_model_that_finds_as_many_as_there_are(tmp_path: Path, threads: int) -> None:
    x = np.random.default_rng(5).normal(size=(50, 6)).astype(np.float32)
    x[7] = -1
    write(tmp_path / "g.arrow", {"in.x": x})
    picked(tmp_path, "a")
    picked(tmp_path, "b", 0.5)
    plan = {
        "golden": "g.arrow",
        "dims": {"found": {"min": 0, "max": 6}},
        "outputs": {"y": {"shape": ["found"]}},
        "runners": {n: {"model": str(tmp_path / f"{n}.onnx")} for n in "ab"},
        "stages": [
            {"reference": "a", "candidate": "b", "outputs": {"y": {"atol": 0.25, "rtol": 0.0}}}
        ],
    }
    outcome = execute(paritygate.load_plan(plan, folder=tmp_path), Options(threads=threads))
    stage = outcome.summary["stages"][0]
    assert stage["outputs"]["y"]["elements"] == int((x > 0).sum())
    assert stage["outputs"]["y"]["empty_samples"] == 1
    assert stage["samples"]["failed"] == 49
    (reason,) = outcome.judgement.reasons
    assert reason.code == "tolerance.exceeded"
    plan["dims"] = {"found": {"min": 0, "max": 5}}
    if (x > 0).all(axis=1).any():
        held = execute(paritygate.load_plan(plan, folder=tmp_path), Options(threads=threads))
        assert "shape.mismatch" in {r.code for r in held.judgement.reasons}


def test_shapes_that_depend_on_values_are_not_written_into_old_buffers(tmp_path: Path) -> None:
    """As many elements as before in another shape: ONNX Runtime must be asked, not the buffer."""
    models.save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("Cast", ["x"], ["dims"], to=7),
            helper.make_node("Reshape", ["dims", "two"], ["shape"]),
            helper.make_node("ConstantOfShape", ["shape"], ["y"]),
        ],
        {"x": (models.FLOAT, [1, 2])},
        {"y": (models.FLOAT, ["a", "b"])},
        {"two": np.array([2], np.int64)},
    )
    x = np.array([[2, 3], [3, 2], [6, 1], [0, 4], [2, 3]], np.float32)
    want = [np.zeros((int(a), int(b)), np.float32) for a, b in x]
    write(tmp_path / "g.arrow", {"in.x": x, "out.y": stored(want)})
    plan = {
        "golden": "g.arrow",
        "dims": {n: {"min": 0, "max": 9} for n in "ab"},
        "outputs": {"y": {"shape": ["a", "b"]}},
        "runners": {"r": {"kind": "recorded"}, "m": {"model": str(tmp_path / "m.onnx")}},
        "stages": [
            {"reference": "r", "candidate": "m", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
    }
    outcome = execute(paritygate.load_plan(plan, folder=tmp_path), Options(threads=1))
    assert outcome.judgement.verdict == "release", outcome.judgement.reasons


def functions(
    folder: Path, ref: Any, cand: Any, shape: Any = ("batch", "n", 2), **more: Any
) -> Any:
    write(folder / "g.arrow", {"in.x": np.arange(10, dtype=np.float32)})
    plan = {
        "golden": "g.arrow",
        "dims": {"n": {"min": 0, "max": 9}, "batch": {"sizes": [4]}}
        if shape
        else {"batch": {"sizes": [4]}},
        "outputs": {"y": {"shape": list(shape)}} if shape else {},
        "runners": {n: {"call": "a:b"} for n in ("ref", "cand")},
        "stages": [
            {"reference": "ref", "candidate": "cand", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
        **more,
    }
    calls = {"ref": CallableRunner(ref), "cand": CallableRunner(cand)}
    return execute(paritygate.load_plan(plan, folder=folder), Options(callables=calls, threads=1))


def lists(given: Any) -> Any:
    """As many rows as the number says, modulo 3."""
    return {"y": [np.full((int(v) % 3, 2), v, np.float32) for v in given["x"]]}


def test_a_function_may_answer_one_array_a_sample(tmp_path: Path) -> None:
    outcome = functions(tmp_path, lists, lambda given: lists(given))
    assert outcome.judgement.verdict == "release"
    y = outcome.summary["stages"][0]["outputs"]["y"]
    assert (y["elements"], y["empty_samples"]) == (2 * sum(v % 3 for v in range(10)), 4)


def test_undeclared_it_is_told_how_to_declare_it(tmp_path: Path) -> None:
    outcome = functions(tmp_path, lists, lambda given: lists(given), None)
    told = [r.message for r in outcome.judgement.reasons if r.code == "runner.error"]
    assert "where a dim may vary, name it: outputs.y.shape" in told[0]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda y: y[:3], "is a list of 3 arrays; it must be one a sample, which are 4"),
        (
            lambda y: [y[0], y[1].astype(np.float64), *y[2:]],
            "mixes float32 with 2 axes and float64",
        ),
        (lambda y: [y[0], y[1][0], *y[2:]], "mixes float32 with 2 axes and float32 with 1 axes"),
        (lambda y: [*y[:3], 3.0], "is a list, not a numpy array"),
        (lambda y: [*y[:3], np.ma.masked_array(y[3])], "is a list, not a numpy array"),
        (lambda y: [a.astype(">f4") for a in y], "has foreign byte order"),
        (lambda y: [np.ones((1, 3), np.float32)] * 4, "[1, 3] a sample but was"),
    ],
)
def test_lists_that_are_no_answer(tmp_path: Path, wrong: Any, told: str) -> None:
    outcome = functions(
        tmp_path, lists, lambda g: {"y": lists(g)["y"] if g["x"][0] == 0 else wrong(lists(g)["y"])}
    )
    messages = [r.message for r in outcome.judgement.reasons if r.code == "runner.error"]
    assert told in messages[0]


def test_classes_may_be_as_many_as_there_are(tmp_path: Path) -> None:
    decisions = {"d": {"output": "y", "argmax": True}}

    def classes(given: Any, at: int = -1) -> Any:
        rows = [np.zeros(2 + int(v) % 3, np.float32) for v in given["x"]]
        for row in rows:
            row[at] = 1
        return {"y": rows}

    outcome = functions(
        tmp_path, classes, lambda g: classes(g, 0), ("batch", "n"), decisions=decisions
    )
    found = outcome.summary["stages"][0]["decisions"]["d"]
    assert found["flips"] == 10
    assert found["matrix"] == {"1": {"0": 4}, "2": {"0": 3}, "3": {"0": 3}}


def test_decisions_on_each_element_of_what_varies(tmp_path: Path) -> None:
    decisions = {"d": {"output": "boxes", "bands": "low < 0 <= high", "elementwise": True}}
    ref = boxes([2, 0, 3, 1, 0, 2])
    cand = [a.copy() for a in ref]
    cand[2][1, 3] *= -1
    cand[5][0, :2] *= -1
    stage = {"reference": "r", "candidate": "c", "outputs": {"boxes": {"atol": 9.0, "rtol": 0.0}}}
    outcome = compare(tmp_path, stored(ref), stored(cand), decisions=decisions, stages=[stage])
    (reason,) = outcome.judgement.reasons
    assert (reason.code, reason.ids) == ("decision.flip", (2, 5))


def test_ragged_tensors() -> None:
    arrays = boxes([2, 0, 2])
    ragged = as_tensor(arrays)
    assert isinstance(ragged, Ragged)
    assert (len(ragged), ragged.ndim, varying_dims(ragged)) == (3, 3, (None, 4))
    assert (
        stack_rows(ragged, np.array([2, 0])).tobytes() == np.stack([arrays[2], arrays[0]]).tobytes()
    )
    longer = repeat_last(ragged[:2], 4)
    assert [a.shape for a in longer] == [(2, 4), (0, 4), (0, 4), (0, 4)]
    assert not isinstance(as_tensor([arrays[0], arrays[2]]), Ragged)


def test_sessions_keep_the_buffers_of_a_few_shapes_only(tmp_path: Path) -> None:
    from tests.runners.contract import make_batch, spec_of

    from paritygate.core.tensors import ColumnSpec
    from paritygate.runners.base import PrepareContext
    from paritygate.runners.registry import prepare

    models.save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": (models.FLOAT, ["batch", "seq"])},
        {"y": (models.FLOAT, ["batch", "seq"])},
    )
    columns = {"x": ColumnSpec("x", "float32", (None,), typical_elements=4)}
    context = PrepareContext(tmp_path, None, columns, check_models=False)
    with prepare(spec_of({"model": "m.onnx", "batch_size": 2}), context) as runner:
        session: Any = runner.session()
        for length in [*range(1, 40), 3, 2, 1]:
            x = np.full((2, length), length, np.float32)
            with session.run(make_batch(x)) as lease:
                assert np.array_equal(lease.outputs["y"], x)
        assert len(session._free) <= 8
