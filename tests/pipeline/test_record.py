"""Recordings: what was answered, bit for bit, with where it comes from; whole or not there."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from onnx import TensorProto, helper
from tests import models
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import FolderError, PlanError, RunnerLoadError
from paritygate.golden.recording import RESERVED, encode_recording, read_recording

N, WIDTH = 1_000, 4


def samples(n: int = N) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(n, WIDTH)).astype(np.float32)


def plan_of(folder: Path, *, n: int = N, ids: Any = None, **changes: Any) -> dict[str, Any]:
    """Two scale models over a pack, in batches of 64, with absolute paths."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = np.arange(n) * 3 if ids is None else ids
    golden = write_pack(folder / "golden.arrow", ids, {"x": samples(n)}, rows_per_batch=300)
    ref = models.scale_model(folder / "ref.onnx", 2.0)
    cand = models.scale_model(folder / "cand.onnx", 2.001)
    return {
        "name": "twice",
        "golden": str(golden),
        "runners": {
            "ref": {"model": str(ref), "batch_size": 64},
            "cand": {"model": str(cand), "batch_size": 64},
        },
        "stages": [
            {
                "name": "only",
                "reference": "ref",
                "candidate": "cand",
                "outputs": {"y": {"atol": 1e-3, "rtol": 1e-3}},
            }
        ],
        **changes,
    }


def table_of(path: Path) -> pa.Table:
    return pa.ipc.open_file(path).read_all()


def told_by(path: Path) -> dict[str, Any]:
    """The metadata, at both ends of the file."""
    head = pa.ipc.read_schema(pa.py_buffer(path.read_bytes()[8:]))
    foot = pa.ipc.open_file(path).schema
    texts = {schema.metadata[b"paritygate.recording"] for schema in (head, foot)}
    assert len(texts) == 1
    return dict(json.loads(texts.pop()))


def tensors_of(table: pa.Table, column: str) -> np.ndarray:
    return table[column].combine_chunks().to_numpy_ndarray()


@pytest.mark.parametrize("threads", [1, 3])
def test_every_answer_is_there_in_pack_order(tmp_path: Path, threads: int) -> None:
    plan = plan_of(tmp_path)
    made = paritygate.record(plan, "ref", out=tmp_path / "ref.arrow", threads=threads)
    assert (made.verdict, made.exit_code, made.path) == (None, 0, tmp_path / "ref.arrow")
    table = table_of(tmp_path / "ref.arrow")
    assert table.column_names == ["sample_id", "out.y"]
    assert table["sample_id"].to_pylist() == (np.arange(N) * 3).tolist()
    session = onnxruntime.InferenceSession(tmp_path / "ref.onnx")
    (wanted,) = session.run(None, {"x": samples()})
    assert tensors_of(table, "out.y").tobytes() == wanted.tobytes()
    assert sorted(p.name for p in tmp_path.iterdir() if "arrow" in p.name) == [
        "golden.arrow",
        "ref.arrow",
    ]


def test_it_says_where_it_comes_from(tmp_path: Path) -> None:
    import hashlib

    plan = plan_of(tmp_path)
    made = paritygate.record(plan, "ref", out=tmp_path / "ref.arrow")
    told = told_by(tmp_path / "ref.arrow")
    run = paritygate.run(plan, out=None)
    assert told["golden"] == {"digest": run.summary["golden"]["digest"], "samples": N}
    assert told["plan"] == run.summary["plan"]["digest"] == made.summary["plan"]["digest"]
    runner = run.summary["runners"]["ref"]
    assert told["runner"]["identity"] == runner["identity"]
    assert told["runner"]["facts"]["model"]["digest"] == runner["model"]["digest"]
    assert told["runner"]["batch_size"] == 64
    assert told["samples"] == {
        "asked": N,
        "recorded": N,
        "rejected": 0,
        "raised": 0,
        "missing": 0,
        "as_expected": 0,
    }
    assert told["environment"]["versions"] == run.summary["environment"]["versions"]
    content = (tmp_path / "ref.arrow").read_bytes()
    found = made.summary["recording"]
    assert found["sha256"] == hashlib.sha256(content).hexdigest()
    assert found["bytes"] == len(content)
    assert found["outputs"] == {"y": "y: float32[batch, 4]"}


def tally_of(result: paritygate.RunResult) -> object:
    (stage,) = result.summary["stages"]
    return {key: stage[key] for key in ("samples", "outputs", "decisions", "verdict")}


def test_judged_from_recordings_it_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    live = paritygate.run(plan, out=None)
    for name in ("ref", "cand"):
        paritygate.record(plan, name, out=tmp_path / f"{name}.arrow")
        plan["runners"][name] = {"kind": "recorded", "path": str(tmp_path / f"{name}.arrow")}
    again = paritygate.run(plan, out=None)
    assert tally_of(again) == tally_of(live)
    assert "batch sizes: ref in the batches of this run only; it was recorded in batches of 64" in (
        again.not_judged
    )
    compared = paritygate.compare(
        tmp_path / "ref.arrow",
        tmp_path / "cand.arrow",
        tolerances={"y": {"atol": 1e-3, "rtol": 1e-3}},
        out=None,
    )
    assert tally_of(compared)["outputs"] == tally_of(live)["outputs"]  # type: ignore[index]


KINDS = {
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "int4": TensorProto.INT4,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
}


def cast_model(path: Path, kind: int) -> Path:
    node = helper.make_node("Cast", ["x"], ["y"], to=kind)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])],
        [helper.make_tensor_value_info("y", kind, ["batch", WIDTH])],
    )
    opset = [helper.make_opsetid("", 21)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()
    )
    return path


@pytest.mark.parametrize("dtype", KINDS)
def test_outputs_of_every_dtype_come_back(tmp_path: Path, dtype: str) -> None:
    model = cast_model(tmp_path / "cast.onnx", KINDS[dtype])
    x = np.rint(3 * samples(50))
    write_pack(tmp_path / "golden.arrow", np.arange(50), {"x": x})
    plan = {
        "golden": str(tmp_path / "golden.arrow"),
        "runners": {"live": str(model), "then": "recorded"},
        "stages": [{"reference": "then", "candidate": "live", "outputs": {"y": {}}}],
    }
    plan["stages"][0]["outputs"]["y"] = {"atol": 0.0, "rtol": 0.0}  # type: ignore[index]
    paritygate.record(plan, "live", out=tmp_path / "live.arrow")
    native = getattr(ml_dtypes, dtype, None) or (object if dtype == "string" else np.dtype(dtype))
    field = table_of(tmp_path / "live.arrow").schema.field("out.y")
    is_bits = dtype in ("bfloat16", "float8_e4m3fn", "int4")
    assert (field.metadata or {}).get(b"paritygate.dtype") == (dtype.encode() if is_bits else None)
    plan["runners"]["then"] = {"path": str(tmp_path / "live.arrow")}  # type: ignore[index]
    plan["stages"][0]["self"] = True  # type: ignore[index]
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()
    assert result.summary["stages"][0]["samples"]["compared"] == 50
    if dtype not in ("string", "bool"):
        stored = tensors_of(table_of(tmp_path / "live.arrow"), "out.y")
        bits = stored if not is_bits or dtype == "int4" else stored.view(native)
        assert (bits.astype(np.float64) == x.astype(native).astype(np.float64)).all()


VARYING = """
import numpy as np
def boxes(inputs):
    x = inputs["x"]
    return {"boxes": [row[: int(abs(row[0]) * 2) % 4] for row in x], "n": x.sum(axis=1)}
"""


def test_answers_of_varying_shape_come_back(tmp_path: Path) -> None:
    (tmp_path / "side.py").write_text(VARYING)
    write_pack(tmp_path / "golden.arrow", np.arange(200), {"x": samples(200)})
    plan = {
        "golden": str(tmp_path / "golden.arrow"),
        "dims": {"found": {"min": 0, "max": 4}},
        "outputs": {"boxes": {"shape": ["batch", "found"]}},
        "runners": {"live": {"call": "side:boxes", "folder": str(tmp_path)}, "then": "recorded"},
        "stages": [
            {
                "reference": "then",
                "candidate": "live",
                "self": True,
                "default": {"atol": 0.0, "rtol": 0.0},
            }
        ],
    }
    paritygate.record(plan, "live", out=tmp_path / "live.arrow")
    rows = table_of(tmp_path / "live.arrow")["out.boxes"].combine_chunks().to_pylist()
    lengths = [int(abs(row[0]) * 2) % 4 for row in samples(200)]
    assert [len(row["data"]) for row in rows] == lengths
    plan["runners"]["then"] = {"path": str(tmp_path / "live.arrow")}  # type: ignore[index]
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()


def test_samples_of_varying_shape_are_recorded_in_pack_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=int(n)).astype(np.float32) for n in rng.integers(1, 6, size=300)]
    column = pa.array([row.tolist() for row in rows], pa.list_(pa.float32()))
    write_pack(tmp_path / "golden.arrow", np.arange(300), columns={"in.x": column})
    (tmp_path / "side.py").write_text("def f(inputs):\n    return {'y': 2 * inputs['x']}\n")
    plan = {
        "golden": str(tmp_path / "golden.arrow"),
        "dims": {"n": {"min": 1, "max": 5}},
        "inputs": {"x": {"shape": ["batch", "n"]}},
        "outputs": {"y": {"shape": ["batch", "n"]}},
        "runners": {"f": {"call": "side:f", "folder": str(tmp_path)}, "then": "recorded"},
        "stages": [
            {"reference": "f", "candidate": "then", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
    }
    made = paritygate.record(plan, "f", out=tmp_path / "f.arrow", threads=2)
    assert made.exit_code == 0
    table = table_of(tmp_path / "f.arrow")
    assert table["sample_id"].to_pylist() == list(range(300))
    found = [row["data"] for row in table["out.y"].combine_chunks().to_pylist()]
    assert found == [(2 * row).tolist() for row in rows]


RAISING = """
def f(inputs):
    x = inputs["x"]
    if (x[:, 0] > 2.0).any():
        raise ValueError("too large")
    return {"y": 2 * x}
"""


def raising_plan(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "side.py").write_text(RAISING)
    plan = plan_of(tmp_path)
    call = {"call": "side:f", "folder": str(tmp_path), "batch_size": 10}
    plan["runners"]["f"] = call
    plan["inputs"] = {"x": {"range": [-3.0, 3.0]}}
    return plan


def test_samples_without_an_answer_are_told_and_missed_later(tmp_path: Path) -> None:
    plan = raising_plan(tmp_path)
    x = samples()
    is_rejected = (np.abs(x) > 3).any(axis=1)
    made = paritygate.record(plan, "f", out=tmp_path / "f.arrow", threads=2)
    told = told_by(tmp_path / "f.arrow")["samples"]
    assert (made.verdict, made.exit_code) == ("hold", 1)
    assert [r.code for r in made.reasons] == ["sample.rejected", "runner.error"]
    assert "too large" in made.reasons[1].message
    assert told["rejected"] == int(is_rejected.sum())
    assert 0 < told["raised"] < N
    assert sum(told[key] for key in ("rejected", "raised", "recorded")) == told["asked"] == N
    table = table_of(tmp_path / "f.arrow")
    assert table.num_rows == told["recorded"]
    rows = np.array(table["sample_id"].to_pylist()) // 3
    assert tensors_of(table, "out.y").tobytes() == (2 * x[rows]).tobytes()
    plan["runners"]["cand"] = {"path": str(tmp_path / "f.arrow")}
    result = paritygate.run(plan, out=None)
    assert "sample.missing" in [r.code for r in result.reasons]
    assert any(
        "the runner raised for" in note and "too large" in note for note in result.not_judged
    )


def coupled_plan(folder: Path, x: np.ndarray, sizes: tuple[int, int]) -> dict[str, Any]:
    """Two models that subtract the mean of their batch; values beyond 8 are rejected."""
    folder.mkdir()
    plan = plan_of(folder, n=1)
    write_pack(folder / "golden.arrow", np.arange(len(x)), {"x": x})
    for name, size in zip(("ref", "cand"), sizes, strict=True):
        model = models.less_its_mean(folder / f"{name}.onnx", x.shape[1])
        plan["runners"][name] = {"model": str(model), "batch_size": size}
    plan["inputs"] = {"x": {"range": [-8.0, 8.0]}}
    plan["stages"][0] |= {"self": True, "outputs": {"y": {"atol": 10.0, "rtol": 0.0}}}
    return plan | {"max_rejected": 1}


def recorded_otherwise(plan: dict[str, Any], folder: Path) -> np.ndarray:
    """Samples that `record` has another answer to than the run that kept its outputs."""
    run = paritygate.run(plan, out=folder / "runs", keep_outputs=True)
    made = paritygate.record(plan, "ref", out=folder / "alone.arrow")
    assert (run.verdict, made.exit_code, run.folder is None) == ("release", 0, False)
    paths = Path(run.folder or "", "outputs", "ref.arrow"), folder / "alone.arrow"
    kept, alone = map(table_of, paths)
    assert kept["sample_id"].to_pylist() == alone["sample_id"].to_pylist()
    differs = (tensors_of(kept, "out.y") != tensors_of(alone, "out.y")).any(axis=1)
    return np.array(kept["sample_id"].to_pylist())[differs]


@pytest.mark.slow
def test_batches_are_those_of_a_run_but_after_a_rejected_sample(tmp_path: Path) -> None:
    """As README.md says of recordings."""
    x = np.random.default_rng(5).normal(size=(30_000, 4)).astype(np.float32)
    clean = coupled_plan(tmp_path / "clean", x, (64, 48))
    assert not recorded_otherwise(clean, tmp_path / "clean").size
    x[5] = 9.0
    plan = coupled_plan(tmp_path / "rejected", x, (64, 48))
    found = recorded_otherwise(plan, tmp_path / "rejected")
    assert found.size
    assert found.min() > 5
    large = x[:130, :1].repeat(40_000, axis=1) / 9
    whole = coupled_plan(tmp_path / "whole", large, (32, 64))
    assert not recorded_otherwise(whole, tmp_path / "whole").size
    parts = coupled_plan(tmp_path / "parts", large, (10, 64))
    assert recorded_otherwise(parts, tmp_path / "parts").min() >= 60


@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize("rejected", [0, 1])
def test_a_recording_says_that_a_run_may_cut_other_batches(
    tmp_path: Path, size: int, rejected: int
) -> None:
    x = samples()
    x[np.abs(x) > 8] = 0
    x[5, :rejected] = 9.0
    plan = coupled_plan(tmp_path / "plan", x, (size, 48))
    paritygate.record(plan, "ref", out=tmp_path / "ref.arrow")
    plan["runners"]["ref"] = {"path": str(tmp_path / "ref.arrow")}
    (told,) = (n for n in paritygate.run(plan, out=None).not_judged if "batch_coupled" in n)
    tells = "; since samples were rejected, a run may put others together in a batch" in told
    assert tells == (rejected > 0 and size > 1)


def test_nothing_answered_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "side.py").write_text("def f(inputs):\n    raise ValueError('never')\n")
    plan = plan_of(tmp_path)
    plan["runners"]["f"] = {"call": "side:f", "folder": str(tmp_path)}
    made = paritygate.record(plan, "f", out=tmp_path / "f.arrow")
    assert (made.exit_code, made.path) == (1, None)
    assert [r.code for r in made.reasons] == ["runner.error", "evidence.empty"]
    assert not list(tmp_path.glob("f.arrow*"))


def test_an_empty_pack_is_a_hold(tmp_path: Path) -> None:
    made = paritygate.record(plan_of(tmp_path, n=0), "ref", out=tmp_path / "f.arrow")
    assert (made.exit_code, [r.code for r in made.reasons]) == (1, ["evidence.empty"])


def test_a_part_is_incomplete_and_told(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    made = paritygate.record(plan, "cand", out=tmp_path / "c.arrow", limit=100)
    assert (made.verdict, made.exit_code) == ("incomplete", 3)
    assert table_of(tmp_path / "c.arrow").num_rows == 100
    plan["runners"]["cand"] = {"path": str(tmp_path / "c.arrow")}
    result = paritygate.run(plan, out=None)
    assert result.verdict == "hold"
    assert "sample.missing" in [r.code for r in result.reasons]
    note = f"recording cand: it was made of the first 100 of {N} samples"
    assert note in result.not_judged


def test_a_recording_of_another_pack_is_refused(tmp_path: Path) -> None:
    plan, other = plan_of(tmp_path / "one"), plan_of(tmp_path / "two", n=N - 1)
    paritygate.record(other, "cand", out=tmp_path / "c.arrow")
    plan["runners"]["cand"] = {"path": str(tmp_path / "c.arrow")}
    with pytest.raises(RunnerLoadError, match=r"recorded from another golden pack .*digest") as e:
        paritygate.run(plan, out=None)
    assert (e.value.code, e.value.exit_code) == ("golden.other_pack", 2)
    report = paritygate.check(plan)
    assert report.exit_code == 2
    table = table_of(tmp_path / "c.arrow").replace_schema_metadata(None)
    pq.write_table(table, tmp_path / "c.parquet")
    plan["runners"]["cand"] = {"path": str(tmp_path / "c.parquet")}
    result = paritygate.run(plan, out=None)
    assert "recording cand: doesn't say of which golden samples it was made" in result.not_judged
    pq.write_table(table_of(tmp_path / "c.arrow"), tmp_path / "kept.parquet")
    plan["runners"]["cand"] = {"path": str(tmp_path / "kept.parquet")}
    with pytest.raises(RunnerLoadError, match="another golden pack"):
        paritygate.run(plan, out=None)


def test_two_recordings_of_different_packs_are_not_compared(tmp_path: Path) -> None:
    for name, n in (("one", N), ("two", N - 1)):
        paritygate.record(plan_of(tmp_path / name, n=n), "ref", out=tmp_path / f"{name}.arrow")
    with pytest.raises(RunnerLoadError, match="another golden pack"):
        paritygate.compare(tmp_path / "one.arrow", tmp_path / "two.arrow", out=None)


def test_a_recording_is_the_same_thing_as_what_was_recorded(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    paritygate.record(plan, "ref", out=tmp_path / "one.arrow")
    paritygate.record(plan, "ref", out=tmp_path / "two.arrow", limit=N)
    plan["runners"]["cand"] = {"path": str(tmp_path / "one.arrow")}
    codes = [r.code for r in paritygate.run(plan, out=None).reasons]
    assert codes == ["policy.same_runner"]
    plan["runners"]["ref"] = {"path": str(tmp_path / "two.arrow")}
    assert [r.code for r in paritygate.run(plan, out=None).reasons] == ["policy.same_runner"]


def test_recorded_elsewhere_it_is_another_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    paritygate.record(plan, "ref", out=tmp_path / "one.arrow")
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    plan["runners"]["cand"] = {"path": str(tmp_path / "one.arrow")}
    assert paritygate.run(plan, out=None).verdict == "release"


def test_a_model_that_changes_meanwhile_holds_then_and_later(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    model = Path(plan["runners"]["cand"]["model"])
    content = model.read_bytes()

    def replace(event: object) -> None:
        if type(event).__name__ == "Progress" and model.read_bytes() == content:
            models.scale_model(model, 5.0)

    made = paritygate.record(plan, "cand", out=tmp_path / "c.arrow", observer=replace)
    assert [r.code for r in made.reasons] == ["evidence.changed"]
    plan["runners"]["cand"] = {"path": str(tmp_path / "c.arrow")}
    result = paritygate.run(plan, out=None)
    assert "evidence.changed" in [r.code for r in result.reasons]


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    before = (tmp_path / "golden.arrow").read_bytes()
    with pytest.raises(FolderError, match="is there already"):
        paritygate.record(plan, "ref", out=tmp_path / "golden.arrow")
    assert (tmp_path / "golden.arrow").read_bytes() == before


def test_an_unknown_runner_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"no runner is named 'rf'; did you mean 'ref'"):
        paritygate.record(plan_of(tmp_path), "rf", out=tmp_path / "r.arrow")
    with pytest.raises(PlanError, match="--limit: is -1"):
        paritygate.record(plan_of(tmp_path), "ref", out=tmp_path / "r.arrow", limit=-1)


def test_a_failure_midway_leaves_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)

    def fail(event: object) -> None:
        if type(event).__name__ == "Progress":
            raise RuntimeError("observer")

    with pytest.raises(RuntimeError, match="observer"):
        paritygate.record(plan, "ref", out=tmp_path / "r.arrow", observer=fail)
    assert not list(tmp_path.glob("r.arrow*"))
    working = [t for t in threading.enumerate() if re.fullmatch(r"paritygate-(read|\d+)", t.name)]
    assert not working


def test_a_constant_of_another_runner_is_no_fault(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    plan["runners"]["more"] = str(models.add_constant(tmp_path / "more.onnx"))
    plan["constants"] = {"c": {"dtype": "float32", "value": 1.0}}
    assert paritygate.record(plan, "ref", out=tmp_path / "r.arrow").exit_code == 0


def metadata_of(recording: Mapping[str, Any]) -> dict[bytes, bytes]:
    return {b"paritygate.recording": json.dumps(recording).encode()}


def test_metadata_fit_their_room_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    paritygate.record(plan_of(tmp_path), "ref", out=tmp_path / "r.arrow")
    told = told_by(tmp_path / "r.arrow")
    told["runner"]["facts"]["huge"] = "é" * RESERVED
    told["environment"]["variables"] = {"ORT_X": "y" * RESERVED}
    recording = read_recording(metadata_of(told))
    assert recording is not None
    text = encode_recording(recording)
    assert len(text) == RESERVED
    kept = json.loads(text)
    assert "huge" not in kept["runner"]["facts"]
    assert kept["runner"]["facts"]["model"] == told["runner"]["facts"]["model"]
    for change in ({"version": 2}, {"golden": {"digest": "x", "samples": 1}}, {"plan": 7}):
        with pytest.raises(ValueError, match=r"newer than 1|are damaged: (golden\.digest|plan)"):
            read_recording(metadata_of({**told, **change}))
    assert read_recording({}) is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"samples": {"asked": 7}}, "samples of 7 that were asked for don't add up"),
        ({"samples": {"raised": 1}}, "don't add up"),
        ({"golden": {"samples": 2}}, "more than the 2 of its golden pack"),
        ({"version": 0}, "version is 0"),
        ({"environment": {"python": float("nan")}}, "JSON"),
        ({"runner": {"facts": {"model": float("inf")}}}, "JSON"),
    ],
)
def test_metadata_that_no_recording_has_are_damaged(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    paritygate.record(plan_of(tmp_path), "ref", out=tmp_path / "r.arrow")
    told = told_by(tmp_path / "r.arrow")
    assert read_recording(metadata_of(told)) is not None
    for key, value in change.items():
        told[key] = {**told[key], **value} if isinstance(value, dict) else value
    with pytest.raises(ValueError, match=f"are damaged: .*{says}"):
        read_recording(metadata_of(told))
