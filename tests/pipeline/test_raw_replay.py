"""`replay = "raw"`: preprocessing is run over raw records and judged against the golden inputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.frontends.command import invoke
from tests.models import save_model
from tests.packs import Container, tensor_column, write_pack

import paritygate
from paritygate.core.errors import GoldenError, ParityError, PlanError, RunnerLoadError

N = 40
IMAGES = np.random.default_rng(3).integers(0, 256, (N, 4, 5, 3), dtype=np.uint8)
GAIN = np.array([0.229, 0.224, 0.225], np.float32)
GOLDEN = np.moveaxis(IMAGES.astype(np.float32) / np.float32(255) / GAIN, -1, 1)
GOOD = """
import numpy as np
GAIN = np.array([0.229, 0.224, 0.225], np.float32)
def images(raw):
    x = raw["image"].astype(np.float32) / np.float32(255) / GAIN
    return {"x": np.ascontiguousarray(np.moveaxis(x, -1, 1))}
"""


def make(
    folder: Path,
    code: str = GOOD,
    preprocessing: str = 'python = "prepare:images"',
    *,
    container: Container = "file",
    replay: str = 'replay = "raw"',
    golden: np.ndarray = GOLDEN,
    columns: dict[str, pa.Array] | None = None,
    top: str = "",
) -> Path:
    """A pack of raw images and what was made of them, a model, and a plan."""
    from onnx import TensorProto, helper

    raw = {"raw.image": tensor_column(IMAGES, "fixed_shape")} if columns is None else columns
    write_pack(
        folder / "golden.pack",
        range(100, 100 + N),
        {"x": golden},
        columns=raw,
        rows_per_batch=16,
        container=container,
    )
    save_model(
        folder / "m.onnx",
        [helper.make_node("ReduceMean", ["x"], ["y"], axes=[1, 2, 3], keepdims=0)],
        {"x": (TensorProto.FLOAT, ["batch", 3, 4, 5])},
        {"y": (TensorProto.FLOAT, ["batch"])},
    )
    (folder / "prepare.py").write_text(code)
    plan = folder / "plan.toml"
    plan.write_text(
        f"""\
name = "images"
golden = "golden.pack"
{replay}
{top}
[runners]
a = {{ model = "m.onnx", batch_size = 8 }}
b = {{ model = "m.onnx", batch_size = 16 }}
[[stages]]
name = "model"
reference = "a"
candidate = "b"
self = true
outputs.y = {{ atol = 1e-3, rtol = 0 }}
[decisions.bright]
output = "y"
bands = "dark < 2.0 <= bright"
[preprocessing]
{preprocessing}
"""
    )
    return plan


def stage_of(summary: Any, name: str = "preprocessing") -> dict[str, Any]:
    return next(s for s in summary["stages"] if s["name"] == name)


@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
def test_preprocessing_that_gives_the_golden_inputs_is_released(
    tmp_path: Path, container: Container
) -> None:
    result = paritygate.run(make(tmp_path, container=container), out=tmp_path / "runs")
    assert result.verdict == "release", result.explain()
    stage = stage_of(result.summary)
    assert stage["samples"]["compared"] == N
    assert list(stage["outputs"]) == ["x"]
    assert stage["outputs"]["x"]["elements"] == GOLDEN.size
    assert stage["decisions"] == {}
    assert not any("preprocessing: no decision" in text for text in result.not_judged)
    assert result.summary["runners"]["preprocessing"]["raw"] == {
        "image": "extension<arrow.fixed_shape_tensor[value_type=uint8, shape=[4,5,3]]>"
    }


SCALED = GOOD.replace("np.float32(255)", "np.float32(256)")
SWAPPED = GOOD.replace('raw["image"]', 'raw["image"][..., [2, 1, 0]]')
WIDE = GOOD.replace("astype(np.float32)", "astype(np.float64)").replace("np.float32(255)", "255")
CAST = WIDE.replace("return {", "x = x.astype(np.float32); return {")
ONE = GOOD.replace("    return", "    x[-1, 0, 0, 0] = np.nextafter(x[-1, 0, 0, 0], 9)\n    return")


@pytest.mark.parametrize(
    ("code", "reason", "failed"),
    [
        (SCALED, "tolerance.exceeded", N),
        (SWAPPED, "tolerance.exceeded", N),
        (WIDE, "dtype.mismatch", N),
        (CAST, "tolerance.exceeded", None),
        (ONE, "tolerance.exceeded", 1),
    ],
    ids=["scaled", "swapped", "float64", "cast", "one step"],
)
def test_another_preprocessing_holds(
    tmp_path: Path, code: str, reason: str, failed: int | None
) -> None:
    result = paritygate.run(make(tmp_path, code), out=tmp_path / "runs")
    assert result.verdict == "hold"
    assert {(r.code, r.stage, r.output) for r in result.reasons} == {(reason, "preprocessing", "x")}
    (found,) = result.reasons
    assert found.count == failed or (failed is None and 0 < (found.count or 0) <= N)
    assert stage_of(result.summary, "model")["verdict"] == "release"


@pytest.mark.parametrize(
    ("tolerance", "verdict"),
    [
        ("inputs.x = { atol = 0, rtol = 1e-6 }", "release"),
        ("inputs.x = { atol = 0, rtol = 1e-9 }", "hold"),
    ],
)
def test_an_input_may_have_a_tolerance(tmp_path: Path, tolerance: str, verdict: str) -> None:
    plan = make(tmp_path, CAST, f'python = "prepare:images"\n{tolerance}')
    assert paritygate.run(plan, out=None).verdict == verdict


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        ("{}", "output.missing", "'x'"),
        ("None", "runner.error", "returned a NoneType"),
        ("{'x': x[:-1]}", "runner.error", "its first axis must be the batch of 8 samples"),
        ("{'z': x}", "output.missing", "'x'"),
        ("{'x': np.moveaxis(x, 1, -1)}", "shape.mismatch", "'x'"),
        ("1 / 0", "runner.disagreement", "ZeroDivisionError"),
        ("{'x': list(raw)[9]}", "runner.disagreement", "IndexError"),
        ("{'x': np.full_like(x, np.nan)}", "nonfinite.candidate", "'x'"),
    ],
)
def test_what_is_no_set_of_inputs_holds(
    tmp_path: Path, answer: str, reason: str, words: str
) -> None:
    code = GOOD.replace("    return {", f"    return {answer}\n    return {{")
    code = code.replace("    return", "    x = np.moveaxis(x, -1, 1)\n    return", 1)
    plan = make(tmp_path, code, 'python = "prepare:images"\nbatch_size = 8')
    result = paritygate.run(plan, out=None)
    assert result.verdict == "hold"
    assert any(r.code == reason and words in r.message for r in result.reasons), result.explain()
    assert stage_of(result.summary)["verdict"] == "hold"


def test_an_input_that_is_not_prepared_holds_until_it_is_ignored(tmp_path: Path) -> None:
    plan = make(tmp_path)
    write_pack(
        tmp_path / "golden.pack",
        range(N),
        {"x": GOLDEN, "age": np.ones(N, np.float32)},
        columns={"raw.image": tensor_column(IMAGES, "fixed_shape")},
    )
    held = paritygate.run(plan, out=None)
    assert [(r.code, r.output) for r in held.reasons] == [("output.missing", "age")]
    plan.write_text(plan.read_text() + 'ignore = ["age"]\n')
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()
    assert "stage preprocessing: output age is ignored by the plan" in result.not_judged


def test_the_function_is_given_raw_records_and_nothing_else(tmp_path: Path) -> None:
    code = GOOD.replace("    x =", "    assert list(raw) == ['image'], list(raw)\n    x =", 1)
    assert paritygate.run(make(tmp_path, code), out=None).verdict == "release"


def test_a_raw_column_that_is_an_input_itself_is_refused(tmp_path: Path) -> None:
    columns = {"raw.image": tensor_column(GOLDEN, "fixed_shape")}
    plan = make(tmp_path, columns=columns, golden=GOLDEN)
    write_pack(tmp_path / "golden.pack", range(N), columns=columns)
    plan.write_text(plan.read_text() + '[inputs.x]\ncolumn = "raw.image"\n')
    with pytest.raises(RunnerLoadError, match=r"in\.x is a raw column itself"):
        paritygate.run(plan, out=None)


def test_a_pack_without_raw_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match=r"no column is named raw\.NAME") as error:
        paritygate.run(make(tmp_path, columns={}), out=None)
    assert error.value.exit_code == 2
    plan = make(tmp_path, preprocessing='python = "prepare:images"\ncolumns = ["imaeg"]')
    with pytest.raises(ParityError, match=r"did you mean 'image'\?"):
        paritygate.run(plan, out=None)


@pytest.mark.parametrize(
    ("preprocessing", "words"),
    [
        ('python = "prepare:imagse"', r"has no 'imagse'; did you mean 'images'\?"),
        ('python = "nowhere:f"', "no module 'nowhere'"),
        ('python = "prepare"', "preprocessing.python: write it as 'module:function'"),
        ('python = "prepare:images"\nbatch = false\nbatch_size = 4', "batch_size belongs to"),
        ('python = "prepare:images"\ninput.x = { atol = 1 }', "did you mean 'inputs'"),
        ('python = "prepare:images"\ninputs.x = { atol = 1 }', "atol and rtol belong together"),
        ('python = "prepare:images"\noutputs = ["x", "x"]', "names an output twice"),
    ],
)
def test_a_table_that_is_wrong(tmp_path: Path, preprocessing: str, words: str) -> None:
    with pytest.raises(ParityError, match=words) as error:
        paritygate.run(make(tmp_path, preprocessing=preprocessing), out=None)
    assert error.value.exit_code == 2


def test_a_replay_without_a_function_is_refused(tmp_path: Path) -> None:
    plan = make(tmp_path)
    plan.write_text(plan.read_text().partition("[preprocessing]")[0])
    with pytest.raises(PlanError, match=r"replay: is \"raw\", but no \[preprocessing\]"):
        paritygate.run(plan, out=None)
    plan.write_text(plan.read_text().replace("a = {", "prepared = {").replace('"a"', '"prepared"'))
    plan.write_text(plan.read_text() + '[preprocessing]\npython = "prepare:images"\n')
    with pytest.raises(PlanError, match=r"runners\.prepared: is the name of a side"):
        paritygate.run(plan, out=None)


def test_without_a_replay_the_verdict_says_so(tmp_path: Path) -> None:
    result = paritygate.run(make(tmp_path, SCALED, replay=""), out=None)
    assert result.verdict == "release"
    assert any("prepare:images was not run" in text for text in result.not_judged)


def test_damage_in_raw_columns_is_refused(tmp_path: Path) -> None:
    texts = pa.array(["plain text"] * N)
    plan = make(
        tmp_path, columns={"raw.image": tensor_column(IMAGES, "fixed_shape"), "raw.t": texts}
    )
    pack = tmp_path / "golden.pack"
    pack.write_bytes(pack.read_bytes().replace(b"plain text", b"pl\xff\xfen text", 1))
    with pytest.raises((RunnerLoadError, GoldenError), match=r"golden\.pack: damaged"):
        paritygate.run(plan, out=None)


RECORD = """
import numpy as np
def one(raw):
    assert isinstance(raw["name"], str) and isinstance(raw["blob"], bytes)
    values = np.frombuffer(raw["blob"], np.int16).astype(np.float32)
    return {"x": values * np.float32(0.5), "n": np.int64(len(raw["name"]))}
"""


def records(folder: Path, code: str = RECORD) -> Path:
    rng = np.random.default_rng(1)
    signals = rng.integers(-9, 9, (N, 6), dtype=np.int16)
    names = [f"{'s' * (i % 5)}" for i in range(N)]
    write_pack(
        folder / "g.arrow",
        [f"s{i}" for i in rng.permutation(N)],
        {
            "x": signals.astype(np.float32) * np.float32(0.5),
            "n": np.array([len(n) for n in names]),
        },
        columns={
            "raw.name": pa.array(names),
            "raw.blob": pa.array([s.tobytes() for s in signals]),
        },
    )
    (folder / "prep.py").write_text(code)
    plan = folder / "p.toml"
    plan.write_text(
        'golden = "g.arrow"\nreplay = "raw"\n[preprocessing]\npython = "prep:one"\nbatch = false\n'
    )
    return plan


def test_one_record_a_call_and_no_other_stage(tmp_path: Path) -> None:
    result = paritygate.run(records(tmp_path), out=None)
    assert result.verdict == "release", result.explain()
    assert set(stage_of(result.summary)["outputs"]) == {"x", "n"}


def test_a_record_that_can_not_be_prepared_costs_itself_alone(tmp_path: Path) -> None:
    code = RECORD.replace(
        "    values", "    if raw['name'] == 'ssss': raise KeyError(3)\n    values"
    )
    result = paritygate.run(records(tmp_path, code), out=None)
    (reason,) = result.reasons
    assert (reason.code, reason.count) == ("runner.disagreement", N // 5)
    assert stage_of(result.summary)["samples"]["compared"] == N - N // 5


def test_samples_that_the_contract_rejects_are_left_out_and_the_others_keep_their_records(
    tmp_path: Path,
) -> None:
    plan = records(tmp_path)
    plan.write_text(plan.read_text() + "[inputs.x]\nrange = [-4.0, 4.0]\n")
    result = paritygate.run(plan, out=None)
    assert {r.code for r in result.reasons} == {"sample.rejected"}
    assert 0 < stage_of(result.summary)["samples"]["compared"] < N


def test_answers_that_depend_on_the_batch_hold(tmp_path: Path) -> None:
    code = """
import numpy as np
def images(raw):
    x = raw["image"].astype(np.float32)
    return {"x": np.ascontiguousarray(np.moveaxis(x - x.mean(), -1, 1))}
"""
    images = IMAGES.astype(np.float32)
    golden = np.moveaxis(
        np.concatenate([part - part.mean() for part in np.split(images, N // 8)]), -1, 1
    )
    plan = make(tmp_path, code, golden=golden, top="[dims]\nbatch = { sizes = [4, 8, 16] }\n")
    plan.write_text(plan.read_text() + "batch_size = 8\n")
    result = paritygate.run(plan, out=None)
    coupled = [r.message for r in result.reasons if r.code == "runner.batch_coupled"]
    assert any("'preprocessing'" in message for message in coupled), result.explain()


def test_samples_of_different_shape(tmp_path: Path) -> None:
    lengths = [1 + i % 5 for i in range(N)]
    raw = [np.arange(n, dtype=np.int32) + i for i, n in enumerate(lengths)]
    write_pack(
        tmp_path / "g.arrow",
        range(N),
        columns={
            "raw.signal": pa.array([r.tolist() for r in raw], pa.list_(pa.int32())),
            "in.x": pa.array([(r / 2).tolist() for r in raw], pa.list_(pa.float32())),
        },
        rows_per_batch=9,
    )
    code = """
import numpy as np
def f(raw):
    return {"x": [(r / 2).astype(np.float32) for r in raw["signal"]]}
"""
    (tmp_path / "prep.py").write_text(code)
    plan = tmp_path / "p.toml"
    plan.write_text(
        'golden = "g.arrow"\nreplay = "raw"\n[dims]\nseq = { min = 1, max = 9 }\n'
        '[inputs.x]\nshape = ["batch", "seq"]\n[preprocessing]\npython = "prep:f"\n'
    )
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()
    assert stage_of(result.summary)["outputs"]["x"]["elements"] == sum(lengths)
    (tmp_path / "prep.py").write_text(code.replace("r / 2", "r[::-1] / 2"))
    held = paritygate.run(plan, out=None)
    assert {r.code for r in held.reasons} == {"tolerance.exceeded"}
    assert held.reasons[0].count == N - N // 5  # a sample of one element is its own reverse


def test_what_decisions_have_to_cover_is_not_asked_of_inputs(tmp_path: Path) -> None:
    plan = make(tmp_path)
    demand = "[require_coverage.decisions.bright]\neach_side = 1\n"
    plan.write_text(plan.read_text().replace("2.0", "2.2") + demand)
    result = paritygate.run(plan, out=None)
    assert not [r for r in result.reasons if r.stage == "preprocessing"], result.explain()


def test_any_number_of_threads_counts_the_same(tmp_path: Path) -> None:
    plan = make(tmp_path, CAST)
    found = [
        json.dumps(stage_of(paritygate.run(plan, out=None, threads=n).summary)["outputs"])
        for n in (1, 3)
    ]
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_command_tells_and_failing_samples_run_again_beside_their_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, ONE)
    monkeypatch.chdir(tmp_path)
    done = invoke("run", "plan.toml")
    assert done.exit_code == 1, done.stderr
    assert "stage preprocessing" in done.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    explained = invoke("explain", str(folder), "139")
    assert explained.exit_code == 0, explained.stderr
    assert "prepares this record otherwise" in " ".join(explained.stdout.split())
    assert "order of channels" in " ".join(done.stdout.split())
    alone = invoke("replay", str(folder))
    assert alone.exit_code == 2
    assert "replay --with-batch reads them from the golden pack" in " ".join(alone.stderr.split())
    beside = invoke("replay", str(folder), "--with-batch")
    assert beside.exit_code == 1, beside.stderr
    assert invoke("check", "plan.toml").exit_code == 0


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("columns = []", "preprocessing.columns: is empty; name raw columns"),
        ("inputs.xx = { atol = 1, rtol = 0 }", "preprocessing.inputs.xx: the golden pack has no"),
        ('ignore = ["xx"]', "preprocessing.ignore: the golden pack has no input 'xx'; known: x"),
    ],
)
def test_names_that_mean_nothing_are_problems_of_the_plan(
    tmp_path: Path, more: str, told: str
) -> None:
    plan = make(tmp_path, preprocessing=f'python = "prepare:images"\n{more}')
    with pytest.raises(PlanError, match=re.escape(told)):
        paritygate.run(plan, out=None)
