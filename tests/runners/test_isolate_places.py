"""Where a runner runs: other interpreters, all kinds of tensors, settings that conflict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from msgspec.structs import replace
from tests import models
from tests.frontends.command import invoke
from tests.packs import write_pack
from tests.runners.contract import context_of, golden_inputs, make_batch, spec_of

import paritygate
from paritygate.core.errors import ParityError, RunnerLoadError
from paritygate.core.ragged import Ragged
from paritygate.core.tensors import ColumnSpec
from paritygate.runners.isolate.runner import IsolatedRunner
from paritygate.runners.layout import Layout
from paritygate.runners.registry import parse_runner, prepare

BLOCK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyarrow", "numba", "scipy", "typer", "rich", "pandas"}:
            raise ModuleNotFoundError(f"{name} isn't here", name=name)
sys.meta_path.insert(0, Refuse())
"""


def environment(folder: Path, *, packages: bool = True) -> Path:
    """Another environment, which has our packages but not all of them; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    if packages:
        (site / "ours.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        (site / "sitecustomize.py").write_text(BLOCK)
    return folder / "bin" / "python"


def pair(folder: Path, isolate: object, **stage: Any) -> dict[str, Any]:
    """One model on both sides, the candidate isolated."""
    models.scale_model(folder / "m.onnx", 2.0)
    write_pack(folder / "g.arrow", np.arange(40), {"x": golden_inputs()})
    candidate = {"model": "m.onnx", "isolate": isolate}
    return {
        "golden": "g.arrow",
        "runners": {"ref": {"model": "m.onnx"}, "cand": candidate},
        "stages": [
            {
                "reference": "ref",
                "candidate": "cand",
                "default": {"atol": 0, "rtol": 0},
                **stage,
            }
        ],
    }


@pytest.mark.slow
def test_another_interpreter_needs_few_packages_and_is_the_same_thing(tmp_path: Path) -> None:
    python = environment(tmp_path / "env")
    plan = pair(tmp_path, {"interpreter": "env/bin/python"})
    loaded = paritygate.load_plan(plan, folder=tmp_path)
    result = paritygate.run(loaded, out=tmp_path / "runs")
    assert [r.code for r in result.reasons] == ["policy.same_runner"]
    told = result.summary["runners"]["cand"]["isolation"]
    assert told["interpreter"] == str(python)
    assert result.folder is not None
    saved = (result.folder / "plan.toml").read_text()
    assert f'interpreter = "{python}"' in saved


@pytest.mark.slow
def test_other_packages_make_another_function(tmp_path: Path) -> None:
    environment(tmp_path / "env")
    (site,) = tmp_path.glob("env/lib/python*/site-packages")
    (site / "extra-1.0.dist-info").mkdir()
    (site / "extra-1.0.dist-info" / "METADATA").write_text("Name: extra\nVersion: 1.0\n")
    (tmp_path / "side.py").write_text("def f(d):\n    return {'y': d['x']}\n")
    tables = [{"call": "side:f", "isolate": {"interpreter": "env/bin/python"}}, "side:f"]
    with (
        prepare(spec_of(tables[0]), context_of(tmp_path)) as there,
        prepare(spec_of(tables[1]), context_of(tmp_path)) as here,
    ):
        assert there.identity != here.identity


@pytest.mark.slow
@pytest.mark.parametrize(
    ("python", "says"),
    [
        ("none/bin/python", "can't be started"),
        ("bare/bin/python", "it needs numpy, msgspec, pydantic"),
    ],
)
def test_an_interpreter_that_is_no_use_is_a_fault_of_the_plan(
    tmp_path: Path, python: str, says: str
) -> None:
    environment(tmp_path / "bare", packages=False)
    spec = spec_of({"model": "m.onnx", "isolate": {"interpreter": python}})
    models.scale_model(tmp_path / "m.onnx")
    with pytest.raises(RunnerLoadError, match=says) as caught:
        prepare(spec, context_of(tmp_path))
    assert caught.value.is_plan_fault


KINDS = """
import numpy as np, ml_dtypes
def f(d):
    x = d["x"]
    n = len(x)
    return {
        "text": np.array([[f"é {v:.3f}", ""] for v in x[:, 0]], object),
        "bfloat": x.astype(ml_dtypes.bfloat16),
        "tiny": x.astype(ml_dtypes.float8_e5m2),
        "four": (np.arange(n) % 8).astype(ml_dtypes.int4),
        "none": np.zeros((n, 0, 3), np.int16),
        "flag": x > 0,
        "boxes": [np.arange(4 * i, dtype=np.float64).reshape(i, 4) for i in range(n)],
        "words": [np.array(["a"] * (i + 1), object) for i in range(n)],
        "big": np.repeat(x, 5_000, axis=1),
        "turned": np.asfortranarray(x),
        "id": d["x"][:, 0].view(np.uint32),
    }
"""


@pytest.mark.slow
def test_every_kind_of_tensor_goes_over_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "side.py").write_text(KINDS)
    spec = spec_of({"call": "side:f", "isolate": "process"})
    layout = Layout(dims={"boxes": ["n", 4], "words": ["n"]})
    context = replace(context_of(tmp_path), layout=layout)
    plain = prepare(replace(spec, isolation=None), context)
    with prepare(spec, context) as runner, plain:
        ours, theirs = runner.session(), plain.session()
        for size in (3, 40, 3):
            batch = make_batch(golden_inputs()[:size])
            with ours.run(batch) as found, theirs.run(batch) as wanted:
                assert list(found.outputs) == list(wanted.outputs)
                for name, want in wanted.outputs.items():
                    have = found.outputs[name]
                    pairs = [(have, want)]
                    if isinstance(want, Ragged):
                        assert isinstance(have, Ragged)
                        assert (have.dtype, have.ndim) == (want.dtype, want.ndim)
                        pairs = list(zip(have.arrays, want.arrays, strict=True))
                    for a, b in pairs:
                        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
                        assert a.tolist() == b.tolist() or a.tobytes() == b.tobytes(), name


@pytest.mark.slow
def test_texts_constants_and_narrow_inputs_go_in(tmp_path: Path) -> None:
    (tmp_path / "side.py").write_text(
        "import numpy as np\n"
        "def f(d):\n"
        "    assert d['k'].tolist() == ['a', 'ß'] and d['b'].dtype.name == 'bfloat16'\n"
        "    return {'y': d['t'], 'b': d['b'] + d['b']}\n"
    )
    texts = np.array(["x", "", "ü" * 50_000], object)
    narrow = np.array([[1.5], [np.nan], [-0.0]], ml_dtypes.bfloat16)
    constant = np.array(["a", "ß"], object)
    columns = {"t": ColumnSpec("t", "string", ()), "b": ColumnSpec("b", "bfloat16", (1,))}
    context = context_of(tmp_path, constants={"k": constant}, inputs=columns)
    batch = replace(make_batch(texts, name="t"), inputs={"t": texts, "b": narrow})
    batch = replace(batch, ids=np.array(["i", "ï", "id"], object))
    spec = spec_of({"call": "side:f", "isolate": "process"})
    with prepare(spec, context) as runner, runner.session().run(batch) as lease:
        assert lease.outputs["y"].tolist() == texts.tolist()
        assert lease.outputs["b"].tobytes() == (narrow + narrow).tobytes()


@pytest.mark.slow
def test_views_and_sample_axes_are_those_of_the_runner(tmp_path: Path) -> None:
    plan = pair(tmp_path, "process", self=True)
    for table in plan["runners"].values():
        table["outputs"] = {"y": {"transform": "sigmoid", "select": [1, 0]}}
    result = paritygate.run(paritygate.load_plan(plan, folder=tmp_path), out=None)
    assert result.verdict == "release", result.explain()
    assert result.summary["runners"]["cand"]["views"] == result.summary["runners"]["ref"]["views"]


def flushing(folder: Path, isolate: object = None) -> dict[str, Any]:
    """x * 1 over denormals, by a runner that flushes them and by one that doesn't."""
    plan = pair(folder, isolate)
    models.scale_model(folder / "m.onnx", 1.0)
    x = np.full((40, 4), 1e-40, np.float32)
    write_pack(folder / "g.arrow", np.arange(40), {"x": x})
    cand = plan["runners"]["cand"]
    cand["session_options"] = {"session.set_denormal_as_zero": "1"}
    if isolate is None:
        del cand["isolate"]
    return plan


@pytest.mark.slow
def test_settings_of_the_whole_process_are_isolated_by_default(tmp_path: Path) -> None:
    loaded = paritygate.load_plan(flushing(tmp_path), folder=tmp_path)
    result = paritygate.run(loaded, out=None)
    assert {r.code for r in result.reasons} == {"tolerance.exceeded"}
    assert result.summary["stages"][0]["outputs"]["y"]["max_abs_error"]["value"] == pytest.approx(
        1e-40, rel=1e-4
    )
    why = result.summary["runners"]["cand"]["isolation"]["why"]
    assert "denormals=flushed" in why
    assert "isolation" not in result.summary["runners"]["ref"]


def test_and_can_not_be_kept_in_this_process(tmp_path: Path) -> None:
    loaded = paritygate.load_plan(flushing(tmp_path, isolate=False), folder=tmp_path)
    with pytest.raises(ParityError, match=r"runners\.cand\.isolate: is false") as caught:
        paritygate.run(loaded, out=None)
    assert caught.value.exit_code == 2


@pytest.mark.slow
def test_run_isolates_every_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = pair(tmp_path, False, self=True)
    write_pack(tmp_path / "g.arrow", np.arange(40), {"x": golden_inputs()}, {"y": golden_inputs()})
    plan["runners"]["kept"] = "recorded"
    plan["stages"].append({**plan["stages"][0], "name": "k", "reference": "kept"})
    Path("plan.toml").write_text(paritygate.toml_text(plan))
    done = invoke("run", "plan.toml", "--isolate", "--json")
    runners = json.loads(done.stdout)["runners"]
    assert {name: told.get("isolation", {}).get("why") for name, told in runners.items()} == {
        "ref": "--isolate",
        "cand": "--isolate",
        "kept": None,
    }


def test_what_is_wrong_with_isolate_is_told_at_once() -> None:
    wrong = {"memory_limit": "much", "max_crash": 1, "batch_timeout_s": 0, "interpreter": ""}
    _, problems = parse_runner("int8", {"model": "m.onnx", "isolate": wrong}, Path())
    told = {p.path: p.message for p in problems}
    assert set(told) == {f"runners.int8.isolate.{key}" for key in wrong}
    assert '"4 GiB"' in told["runners.int8.isolate.memory_limit"]
    assert "did you mean 'max_crashes'?" in told["runners.int8.isolate.max_crash"]
    _, (problem,) = parse_runner("r", {"kind": "recorded", "isolate": "process"}, Path())
    assert "runs no code of a model" in problem.message
    _, (problem,) = parse_runner("r", {"model": "m.onnx", "isolate": "thread"}, Path())
    assert "found 'thread'" in problem.message


@pytest.mark.slow
def test_a_worker_has_its_own_memory_and_folder(tmp_path: Path) -> None:
    (tmp_path / "side.py").write_text(
        "import os\nimport numpy as np\n"
        "def f(d):\n    return {'y': np.full(len(d['x']), os.getpid())}\n"
    )
    with prepare(spec_of({"call": "side:f", "isolate": "process"}), context_of(tmp_path)) as runner:
        assert isinstance(runner, IsolatedRunner)
        with runner.session().run(make_batch(golden_inputs()[:2])) as lease:
            assert set(lease.outputs["y"].tolist()) == {runner.worker().pid} != {os.getpid()}
