"""Samples of different shape in one pack: what is judged depends on plan and pack only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from tests import models

import paritygate
from paritygate.core.errors import GoldenError, ParityError, PlanError
from paritygate.golden.pack import open_pack
from paritygate.pipeline import buckets
from paritygate.pipeline.execute import Options, execute

Arrays = Sequence[np.ndarray]


def nested(arrays: Arrays) -> pa.Array:
    """A column of nested lists."""
    kind: pa.DataType = pa.from_numpy_dtype(arrays[0].dtype)
    for _ in range(arrays[0].ndim):
        kind = pa.list_(kind)
    return pa.array([a.tolist() for a in arrays], kind)


def stored(arrays: Arrays) -> tuple[pa.Array, pa.Field]:
    """A column of `arrow.variable_shape_tensor`, written as its specification says."""
    kind = pa.struct(
        [
            pa.field("data", pa.list_(pa.from_numpy_dtype(arrays[0].dtype))),
            pa.field("shape", pa.list_(pa.int32(), arrays[0].ndim)),
        ]
    )
    rows = [{"data": a.ravel().tolist(), "shape": list(a.shape)} for a in arrays]
    meta = {"ARROW:extension:name": "arrow.variable_shape_tensor", "ARROW:extension:metadata": "{}"}
    return pa.array(rows, kind), pa.field("x", kind, metadata=meta)


def write(path: Path, columns: dict[str, Any], rows_per_batch: int = 1_000_000) -> Path:
    """Ids from 0 up, and columns of arrays: stacked ones as tensors, lists as nested lists."""
    arrays, fields = [], []
    first = next(iter(columns.values()))
    count = len(first[0] if isinstance(first, tuple) else first)
    columns = {"sample_id": np.arange(count, dtype=np.int64), **columns}
    for name, values in columns.items():
        if isinstance(values, tuple):
            array, field = values
            field = field.with_name(name)
        elif isinstance(values, list):
            array = nested(values)
            field = pa.field(name, array.type)
        else:
            array = (
                pa.array(values)
                if values.ndim == 1
                else pa.FixedShapeTensorArray.from_numpy_ndarray(values)
            )
            field = pa.field(name, array.type)
        arrays.append(array)
        fields.append(field)
    table = pa.record_batch(arrays, schema=pa.schema(fields))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for at in range(0, count, rows_per_batch):
            writer.write_batch(table.slice(at, rows_per_batch))
    return path


def sequences(lengths: Sequence[int], seed: int = 0, width: int = 2) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, width)).astype(np.float32) for n in lengths]


SIDES = """
import numpy as np
SEEN = []

def ref(given):
    x = given["x"]
    SEEN.append(x.shape)
    return {"y": x * np.float32(2), "total": x.sum(axis=(1, 2), dtype=np.float64)}

def cand(given):
    x = given["x"]
    y = x * np.float32(2)
    y[x > 1] += np.float32(0.25)
    return {"y": y, "total": x.sum(axis=(1, 2), dtype=np.float64)}
"""


def plan_of(folder: Path, batch_size: int = 4, high: int = 64, **more: Any) -> dict[str, Any]:
    (folder / "sides.py").write_text(SIDES, encoding="utf-8")
    return {
        "golden": "g.arrow",
        "dims": {"seq": {"min": 0, "max": high}},
        "inputs": {"x": {"shape": ["batch", "seq", 2]}},
        "outputs": {"y": {"shape": ["batch", "seq", 2]}},
        "runners": {
            n: {"call": f"sides:{n}", "batch_size": batch_size, "thread_safe": True}
            for n in ("ref", "cand")
        },
        "stages": [
            {"reference": "ref", "candidate": "cand", "default": {"atol": 0.0, "rtol": 0.0}}
        ],
        **more,
    }


def run(folder: Path, plan: dict[str, Any], threads: int = 1, out: Path | None = None) -> Any:
    return execute(paritygate.load_plan(plan, folder=folder), Options(out=out, threads=threads))


def test_every_sample_is_judged_in_its_own_shape(tmp_path: Path) -> None:
    x = sequences([3, 5, 3, 0, 5, 1, 3, 3, 3, 8, 0])
    write(tmp_path / "g.arrow", {"in.x": x}, rows_per_batch=4)
    outcome = run(tmp_path, plan_of(tmp_path), threads=2)
    stage = outcome.summary["stages"][0]
    bad = [i for i, a in enumerate(x) if (a > 1).any()]
    assert stage["samples"]["compared"] == len(x)
    y = stage["outputs"]["y"]
    assert y["failing_samples"] == len(bad)
    assert y["elements"] == sum(a.size for a in x)
    assert y["failing_elements"] == sum(int((a > 1).sum()) for a in x)
    assert y["empty_samples"] == 2
    assert stage["outputs"]["total"]["failing_samples"] == 0
    (reason,) = outcome.judgement.reasons
    assert (reason.code, reason.count, reason.ids) == (
        "tolerance.exceeded",
        len(bad),
        tuple(bad[:5]),
    )


@pytest.mark.parametrize("kind", ["nested", "stored"])
@pytest.mark.parametrize("rows_per_batch", [1, 3, 100])
def test_columns_that_vary_are_read_as_written(
    tmp_path: Path, kind: str, rows_per_batch: int
) -> None:
    x = sequences([3, 0, 3, 2, 7, 2, 2])
    y = [
        np.arange(i * j).reshape(i, j) > 2
        for i, j in [(1, 2), (0, 3), (2, 2), (4, 1), (1, 2), (0, 0), (3, 3)]
    ]
    columns = (
        {"in.x": x, "out.y": y} if kind == "nested" else {"in.x": stored(x), "out.y": stored(y)}
    )
    write(tmp_path / "g.arrow", columns, rows_per_batch)
    with open_pack(["g.arrow"], tmp_path, varying=["x"]) as pack:
        pack.scan_ids()
        assert pack.inputs["x"].shape == (None, 2)
        assert pack.outputs["y"].shape == (None, None)
        for start in range(7):
            for stop in range(start, 8):
                for at, found in enumerate(pack.output("y", start, stop)):
                    want = y[start + at]
                    if kind == "nested" and not len(want):
                        want = want.reshape(0, 0)  # lists don't say how wide they would be
                    assert found.shape == want.shape
                    assert found.tolist() == want.tolist()
        for rows in ([0, 2], [5, 3, 6], [4]):
            taken = pack.take_input("x", np.array(rows, np.int64))
            assert taken.tobytes() == np.stack([x[r] for r in rows]).tobytes()
        shapes = pack.input_shapes("x", 1, 6)
        assert shapes.tolist() == [list(a.shape) for a in x[1:6]]
        some = pack.take_output("y", np.array([6, 0, 2], np.int64))
        assert [a.tolist() for a in some] == [y[i].tolist() for i in (6, 0, 2)]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lengths=st.lists(st.sampled_from([0, 1, 2, 3, 9]), min_size=1, max_size=40),
    batch_size=st.sampled_from([1, 2, 4, 7]),
    threads=st.integers(1, 4),
    rows_per_batch=st.integers(1, 41),
    window=st.sampled_from([1, 5, 16, 65_536]),
)
def test_bits_depend_on_plan_and_pack_only(
    tmp_path: Path,
    lengths: list[int],
    batch_size: int,
    threads: int,
    rows_per_batch: int,
    window: int,
) -> None:
    x = sequences(lengths, seed=len(lengths))
    write(tmp_path / "g.arrow", {"in.x": x if any(lengths) else stored(x)}, rows_per_batch)
    plain = run(tmp_path, plan_of(tmp_path, 1)).tally.to_json()["stages"]
    before = buckets.WINDOW_SAMPLES
    buckets.WINDOW_SAMPLES = window
    try:
        found = run(tmp_path, plan_of(tmp_path, batch_size), threads).tally.to_json()["stages"]
    finally:
        buckets.WINDOW_SAMPLES = before
    assert found == plain
    errors = [np.float64(0.25) * int((a > 1).sum()) for a in x]
    stage = found["ref-cand"]
    assert stage["compared"] == len(x)
    assert stage["outputs"]["y"]["failing_samples"] == sum(e > 0 for e in errors)


def test_blocks_hold_one_shape_in_pack_order(tmp_path: Path, monkeypatch: Any) -> None:
    lengths = [2, 5, 2, 2, 5, 1, 2, 2, 5, 2]
    write(tmp_path / "g.arrow", {"in.x": sequences(lengths)})
    monkeypatch.setattr(buckets, "WINDOW_SAMPLES", 6)
    with open_pack(["g.arrow"], tmp_path, varying=["x"]) as pack:
        pack.scan_ids()
        blocks = buckets.bucket_blocks(pack, ["x"], 10, lambda _: 2)
    got = [(b.bucket, b.ordinals().tolist(), b.done_until) for b in blocks]
    assert got == [
        (0, [0, 2], 0),
        (0, [3], 0),
        (1, [1, 4], 0),
        (2, [5], 6),
        (0, [6, 7], 6),
        (0, [9], 6),
        (1, [8], 10),
    ]
    assert [b.number for b in blocks] == list(range(7))


def test_a_window_holds_so_many_bytes(tmp_path: Path, monkeypatch: Any) -> None:
    write(tmp_path / "g.arrow", {"in.x": sequences([1, 2, 1, 50, 1, 1])})
    monkeypatch.setattr(buckets, "WINDOW_BYTES", 40)
    with open_pack(["g.arrow"], tmp_path, varying=["x"]) as pack:
        pack.scan_ids()
        blocks = buckets.bucket_blocks(pack, ["x"], 6, lambda _: 8)
    assert [b.ordinals().tolist() for b in blocks] == [[0, 2], [1], [3], [4, 5]]


def test_batches_are_cut_from_samples_of_one_shape(tmp_path: Path) -> None:
    seen: list[tuple[int, ...]] = []

    def call(given: Any) -> Any:
        seen.append(given["x"].shape)
        return {"y": given["x"]}

    from paritygate.pipeline.prepare import CallableRunner

    write(tmp_path / "g.arrow", {"in.x": sequences([3, 1, 3, 3, 1, 3, 3])})
    plan = plan_of(tmp_path, dims={"seq": {"min": 0, "max": 9}, "batch": {"sizes": [2]}})
    plan["stages"][0]["self"] = True
    plan["runners"] = {n: {"call": "a:b"} for n in ("ref", "cand")}
    options = Options(callables={n: CallableRunner(call) for n in ("ref", "cand")}, threads=1)
    outcome = execute(paritygate.load_plan(plan, folder=tmp_path), options)
    assert outcome.judgement.verdict == "release"
    assert sorted(seen) == sorted([(2, 3, 2)] * 6 + [(2, 1, 2)] * 2)


def test_shapes_out_of_bounds_are_rejected(tmp_path: Path) -> None:
    x = sequences([3, 9, 3, 1, 9])
    write(tmp_path / "g.arrow", {"in.x": x})
    outcome = run(tmp_path, plan_of(tmp_path, high=8), out=tmp_path / "runs")
    stage = outcome.summary["stages"][0]
    assert stage["samples"]["rejected"] == 2
    reason = next(r for r in outcome.judgement.reasons if r.code == "sample.rejected")
    assert reason.ids == (1, 4)
    with pa.ipc.open_file(str(outcome.folder / "rejected-00000.arrow")) as reader:
        rows = reader.read_all().to_pylist()
    assert [(r["sample_id"], r["code"], r["index"], r["value"], r["high"]) for r in rows] == [
        (1, "contract.shape", 0, 9, 8),
        (4, "contract.shape", 0, 9, 8),
    ]


def test_one_name_is_one_size_in_all_inputs_of_a_sample(tmp_path: Path) -> None:
    x = sequences([3, 4, 2])
    mask = [np.ones(n, np.float32) for n in (3, 5, 2)]
    write(tmp_path / "g.arrow", {"in.x": x, "in.mask": mask})
    plan = plan_of(tmp_path)
    plan["inputs"]["mask"] = {"shape": ["batch", "seq"]}
    outcome = run(tmp_path, plan)
    reason = next(r for r in outcome.judgement.reasons if r.code == "sample.rejected")
    assert reason.ids == (1,)


def test_failing_samples_of_all_shapes_are_a_golden_pack(tmp_path: Path) -> None:
    x = sequences([3, 5, 0, 2, 5, 1], seed=3)
    for array in x:
        array.reshape(-1)[:1] = 2.0
    write(tmp_path / "g.arrow", {"in.x": x})
    outcome = run(tmp_path, plan_of(tmp_path), out=tmp_path / "runs")
    (shard,) = (outcome.folder / "failures").glob("*-00000.arrow")
    with open_pack([shard], tmp_path, varying=["x"], outputs={"r": "ref.y", "c": "cand.y"}) as pack:
        pack.scan_ids()
        ids = pack.ids(0, pack.samples).tolist()
        assert ids == [0, 1, 3, 4, 5]
        for at, sample in enumerate(ids):
            assert pack.input("x", at, at + 1)[0].tolist() == x[sample].tolist()
            ref = next(iter(pack.output("r", at, at + 1)))
            assert ref.tolist() == (x[sample] * 2).tolist()
    again = run(tmp_path, plan_of(tmp_path, golden=str(shard)))
    assert again.summary["stages"][0]["samples"]["failed"] == 5


def test_what_varies_without_a_name_says_how_to_name_it(tmp_path: Path) -> None:
    write(tmp_path / "g.arrow", {"in.x": sequences([3, 4])})
    plan = plan_of(tmp_path, inputs={}, outputs={}, dims={})
    with pytest.raises(GoldenError, match=r'inputs.NAME.shape = \["batch", "seq"\]'):
        run(tmp_path, plan)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"dims": {}}, "no dim is named 'seq' in [dims]"),
        (
            {"dims": {"seq": {"min": 0, "max": 9}, "sqe": {"min": 0, "max": 9}}},
            "dims.sqe: no shape",
        ),
        ({"dims": {"seq": {"min": 5, "max": 4}}}, "min <= max"),
        ({"dims": {"bacth": {"sizes": [4]}}}, "dims.bacth: only batch has sizes"),
        ({"dims": {"seq": {"min": 0}}}, "dims.seq.max: is missing"),
        ({"inputs": {"x": {"shape": ["batch", "seq", 3]}}}, "but the pack's is ['batch', '?', 2]"),
        ({"inputs": {"x": {"shape": ["batch", "seq"]}}}, "but the pack's is ['batch', '?', 2]"),
    ],
)
def test_plans_that_contradict(tmp_path: Path, more: dict[str, Any], told: str) -> None:
    write(tmp_path / "g.arrow", {"in.x": sequences([3, 4])})
    with pytest.raises(PlanError) as caught:
        run(tmp_path, plan_of(tmp_path, **more))
    assert told in str(caught.value)


def test_uneven_lists_are_no_tensor(tmp_path: Path) -> None:
    kind = pa.list_(pa.list_(pa.float32()))
    column = pa.array([[[1.0, 2.0]], [[1.0, 2.0], [3.0]]], kind)
    write(tmp_path / "g.arrow", {"in.x": (column, pa.field("x", kind))})
    with pytest.raises(
        GoldenError, match=r"sample 1 .*lists of 2 and 1 side by side|lists of 1 and 2"
    ):
        run(tmp_path, plan_of(tmp_path))


@pytest.mark.parametrize("value", [[None], [[1.0, None]], None])
def test_nulls_in_what_varies_are_found(tmp_path: Path, value: Any) -> None:
    kind = pa.list_(pa.list_(pa.float32()))
    column = pa.array([[[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]], value], kind)
    write(tmp_path / "g.arrow", {"in.x": (column, pa.field("x", kind))})
    with pytest.raises(GoldenError, match=r"sample 2 .*null") as caught:
        run(tmp_path, plan_of(tmp_path))
    assert caught.value.code == "golden.null_value"


def test_a_model_with_a_free_sequence(tmp_path: Path) -> None:
    for name, level in (("a", "all"), ("b", "disabled")):
        models.save_model(
            tmp_path / f"{name}.onnx",
            [helper.make_node("Softmax", ["x"], ["y"], axis=1)],
            {"x": (models.FLOAT, ["batch", "seq", 2])},
            {"y": (models.FLOAT, ["batch", "seq", 2])},
            metadata={"level": level},
        )
    x = sequences([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5])
    write(tmp_path / "g.arrow", {"in.x": x, "out.y": [_softmax(a) for a in x]})
    plan = plan_of(tmp_path, high=9)
    plan["runners"] = {
        "ref": {"kind": "recorded"},
        "cand": {"model": str(tmp_path / "b.onnx"), "batch_size": 4},
    }
    plan["stages"][0]["default"] = {"atol": 1e-6, "rtol": 0.0}
    outcome = run(tmp_path, plan, threads=2)
    assert outcome.judgement.verdict == "release", outcome.judgement.reasons
    assert outcome.summary["stages"][0]["outputs"]["y"]["elements"] == sum(a.size for a in x)


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=0))
    return (powers / powers.sum(axis=0)).astype(np.float32)


def test_errors_exit_with_2(tmp_path: Path) -> None:
    write(tmp_path / "g.arrow", {"in.x": sequences([3, 4])})
    with pytest.raises(ParityError) as caught:
        run(tmp_path, plan_of(tmp_path, dims={}))
    assert caught.value.exit_code == 2


def test_a_permuted_tensor_is_refused(tmp_path: Path) -> None:
    array, field = stored(sequences([3, 4]))
    meta = {**(field.metadata or {}), b"ARROW:extension:metadata": b'{"permutation": [1, 0]}'}
    write(tmp_path / "g.arrow", {"in.x": (array, field.with_metadata(meta))})
    with pytest.raises(GoldenError, match="permutation"):
        run(tmp_path, plan_of(tmp_path))


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=30),
    window=st.sampled_from([1, 4, 100]),
    threads=st.integers(1, 3),
)
def test_the_ids_files_are_in_pack_order(
    tmp_path: Path, lengths: list[int], window: int, threads: int
) -> None:
    x = sequences(lengths, seed=sum(lengths))
    for array in x:
        array.reshape(-1)[:1] = 2.0
    write(tmp_path / "g.arrow", {"in.x": stored(x)})
    before = buckets.WINDOW_SAMPLES
    buckets.WINDOW_SAMPLES = window
    try:
        plan = plan_of(tmp_path, 2, high=3)
        outcome = run(tmp_path, plan, threads, out=tmp_path / "runs")
    finally:
        buckets.WINDOW_SAMPLES = before
    failed = [i for i, n in enumerate(lengths) if 0 < n < 4]
    rejected = [i for i, n in enumerate(lengths) if n > 3]
    for pattern, ids in (("failures/*-ids.arrow", failed), ("rejected-*.arrow", rejected)):
        found = list(outcome.folder.glob(pattern))
        assert bool(found) == bool(ids)
        for path in found:
            with pa.ipc.open_file(str(path)) as reader:
                assert reader.read_all().column("sample_id").to_pylist() == ids
