"""Names of the engine are imported when they are used, and nothing that they don't need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from tests import models
from tests.packs import write_pack

import paritygate
from paritygate import api


def test_every_name_is_there() -> None:
    for name in api.__all__:
        assert isinstance(getattr(api, name), FunctionType | type), name
    assert set(paritygate.__all__) <= set(api.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = api.nothing


RUN = """
import json, sys
import paritygate
ref, cand, out = sys.argv[1:]
paritygate.compare(ref, cand, atol=0.0, rtol=0.0, out=out, argmax=["y"])
needless = ["onnx", "onnxruntime", "pandas", "pyarrow.parquet", "scipy.special"]
needless += ["paritygate.golden.recording", "paritygate.pipeline.noise"]
needless += ["paritygate.pipeline.keeper", "paritygate.pipeline.probes"]
print(json.dumps([name for name in needless if name in sys.modules]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("ids", [[1, 2, 3], ["a", "b", "c"]])
def test_a_comparison_of_arrow_files_imports_no_runtime_no_pandas_and_no_parquet(
    tmp_path: Path, ids: list[object]
) -> None:
    y = np.ones((3, 2), np.float32)
    outputs = {"y": y, "is": y > 0}
    packs = [
        write_pack(tmp_path / f"{n}.arrow", ids, {"x": y}, outputs, slices={"of": ["p", None, "q"]})
        for n in "ab"
    ]
    command = [sys.executable, "-c", RUN, *map(str, packs), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


HELD = """
import json, sys
import paritygate
ref, cand, out = sys.argv[1:]
kept = {"golden": ref, "inputs": {"x": {"range": [0.0, 4.5]}}, "slices": ["of"]}
kept["runners"] = {"ref": {"kind": "recorded"}, "cand": {"kind": "recorded", "path": cand}}
kept["stages"] = [{"reference": "ref", "candidate": "cand", "default": {"atol": 0.0, "rtol": 0.0}}]
kept["decisions"] = {"class": {"output": "y", "argmax": True}}
run = paritygate.run(kept, out=out)
sample = json.load(open(run.folder / "summary.json"))["stages"][0]["samples"]
paritygate.explain(run.folder, json.loads(sys.stdin.read()))
again = paritygate.replay(run.folder, out=out)
print(json.dumps([run.verdict, sample["failed"], sample["rejected"], again.verdict]))
print(json.dumps([name for name in ("onnx", "onnxruntime", "pandas") if name in sys.modules]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("ids", [[1, 2, 3], ["a", "b", "c"]])
def test_what_is_held_explained_and_replayed_imports_no_runtime_and_no_pandas(
    tmp_path: Path, ids: list[object]
) -> None:
    pytest.importorskip("pandas")
    y = np.arange(6, dtype=np.float32).reshape(3, 2)
    slices = {"of": ["p", None, "q"]}
    packs = [
        write_pack(
            tmp_path / f"{name}.arrow", ids, {"x": y}, {"y": out, "is": out > 2}, slices=slices
        )
        for name, out in (("a", y), ("b", -y))
    ]
    command = [sys.executable, "-c", HELD, *map(str, packs), str(tmp_path)]
    asked = json.dumps(ids[1])
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told == [["hold", 2, 1, "hold"], []]


CALL = """
import json, sys
import paritygate
name, needless, *args = sys.argv[1:]
getattr(paritygate, name)(*args)
print(json.dumps([name for name in json.loads(needless) if name in sys.modules]))
"""
RUNTIMES = ("onnx", "onnxruntime", "pandas")
JUDGING = ("paritygate.judge", "paritygate.pipeline.execute", "scipy.special")
COMPARING = ("numba", "paritygate.comparison.elements", *JUDGING)
PLAN = """
golden = "a.arrow"
slices = ["of"]
runners = { ref = { kind = "recorded" }, cand = { kind = "recorded", path = "b.arrow" } }
stages = [{ reference = "ref", candidate = "cand", default = { atol = 0.0, rtol = 0.0 } }]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "needless"),
    [
        ("check", (*RUNTIMES, *JUDGING)),
        ("check_pack", (*RUNTIMES, *COMPARING)),
        ("doctor", ("pandas", "paritygate.pipeline", *JUDGING)),
        ("explain", (*RUNTIMES, *COMPARING, "pyarrow.compute")),
        ("inspect_model", ("onnxruntime", "pyarrow", *COMPARING)),
        ("pack_digest", (*RUNTIMES, *COMPARING)),
    ],
)
def test_a_name_imports_nothing_that_it_does_not_need(
    tmp_path: Path, call: str, needless: tuple[str, ...]
) -> None:
    y = np.arange(6, dtype=np.float32).reshape(3, 2)
    slices = {"of": ["p", None, "q"]}
    ref, cand = (
        write_pack(tmp_path / f"{name}.arrow", ["1", "2", "3"], {"x": y}, {"y": out}, slices=slices)
        for name, out in (("a", y), ("b", y + 1))
    )
    (tmp_path / "plan.toml").write_text(PLAN)
    args: dict[str, list[object]] = {
        "check": [tmp_path / "plan.toml"],
        "check_pack": [ref],
        "explain": [paritygate.compare(ref, cand, atol=0.0, rtol=0.0, out=tmp_path).folder],
        "inspect_model": [models.scale_model(tmp_path / "m.onnx")],
        "pack_digest": [ref],
    }
    given = [call, json.dumps(needless), *map(str, args.get(call, ()))]
    command = [sys.executable, "-c", CALL, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


WORKER = """
import importlib, json, sys
for name in ("isolate.worker", "registry", sys.argv[1]):
    importlib.import_module(f"paritygate.runners.{name}")
needless = ("numba", "pyarrow", "pandas", "paritygate.core.tables", "paritygate.core.plan")
print(json.dumps([name for name in needless if name in sys.modules]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ort", "python", "torch", "null"])
def test_a_process_of_one_runner_imports_no_plan_and_no_pack(kind: str) -> None:
    command = [sys.executable, "-c", WORKER, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
