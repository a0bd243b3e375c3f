"""`plan.toml` of a run folder: what ran, valid from anywhere."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models import linear_softmax, scale_model
from tests.packs import write_pack

import paritygate

X = np.random.default_rng(3).standard_normal((12, 4)).astype(np.float32)

PLAN = """\
name = "odd"
golden = "parts/*.arrow"
[dims]
batch = { sizes = [1, 4] }
[runners]
trained = { kind = "recorded", path = "recorded/*.arrow" }
float = "model.onnx"
code = "functions:double"
[[stages]]
reference = "trained"
candidate = "float"
outputs.probabilities = { atol = 1e-5, rtol = 1e-5 }
[[stages]]
reference = "trained"
candidate = "code"
default = { atol = 0.5, rtol = 0.0 }
[decisions.animal]
output = "probabilities"
argmax = true
labels = "labels.txt"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "a [1] b"
    home.mkdir()
    linear_softmax(home / "model.onnx")
    result = np.exp(X[:, :3]) / np.exp(X[:, :3]).sum(1, keepdims=True)
    for number, rows in enumerate((slice(0, 5), slice(5, 12))):
        ids = [f"s{i}" for i in range(12)][rows]
        write_pack(home / "parts" / f"{number}.arrow", ids, {"x": X[rows]})
        outputs = {"probabilities": result[rows]}
        write_pack(home / "recorded" / f"{number}.arrow", ids, outputs=outputs)
    (home / "labels.txt").write_text("cat\ndog\nbird\n")
    (home / "functions.py").write_text(
        "import numpy as np\n"
        "def double(d):\n"
        "    e = np.exp(d['x'][:, :3] * 1.01)\n"
        "    return {'probabilities': e / e.sum(1, keepdims=True)}\n"
    )
    (home / "plan.toml").write_text(PLAN)
    return home


def facts(summary: Any) -> Any:
    """What two runs of one plan have in common."""
    kept = json.loads(json.dumps({k: summary[k] for k in ("verdict", "reasons", "stages")}))
    return {**kept, "digests": [f["sha256"] for f in summary["golden"]["files"]]}


def test_the_saved_plan_runs_from_anywhere_and_says_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    first = paritygate.run("plan.toml", out="runs")
    assert first.folder is not None
    saved = first.folder.rename(tmp_path / "moved") / "plan.toml"
    monkeypatch.chdir("/")
    home = first.summary["plan"]["folder"]
    assert Path(home) == folder
    again = paritygate.run(paritygate.load_plan(saved, folder=home), out=tmp_path / "again")
    assert facts(again.summary) == facts(first.summary)
    assert again.folder is not None
    plans = [tomllib.loads(p.read_text()) for p in (again.folder / "plan.toml", saved)]
    assert plans[0] == plans[1]


def test_paths_are_absolute_and_files_are_named_one_by_one(folder: Path, tmp_path: Path) -> None:
    result = paritygate.run(folder / "plan.toml", out=tmp_path / "runs")
    assert result.folder is not None
    saved = tomllib.loads((result.folder / "plan.toml").read_text())
    assert saved["golden"] == [str(folder / "parts" / f"{i}.arrow") for i in range(2)]
    assert saved["runners"]["float"]["model"] == str(folder / "model.onnx")
    recorded = [str(folder / "recorded" / f"{i}.arrow") for i in range(2)]
    assert saved["runners"]["trained"]["path"] == recorded
    assert saved["runners"]["float"]["batch_size"] == 4
    assert saved["decisions"]["animal"]["labels"] == ["cat", "dog", "bird"]
    assert str(folder) in (result.folder / "plan.toml").read_text().partition("\n\n")[0]


def test_nulls_infinities_and_candidates_that_do_not_load_can_be_saved(tmp_path: Path) -> None:
    scale_model(tmp_path / "m.onnx")
    write_pack(tmp_path / "g.arrow", range(12), {"x": X})
    plan = {
        "golden": "g.arrow",
        "runners": {
            "a": "m.onnx",
            "b": {"kind": "python", "call": "gone:f"},
            "c": {"kind": "onnxruntime", "model": "broken.onnx"},
        },
        "stages": [
            {"reference": "a", "candidate": "c", "default": {"atol": 0.0, "rtol": 0.0}},
        ],
        "constants": {"k": {"dtype": "float32", "value": float("inf")}},
        "meta": {"ticket": None, "list": [1, None]},
    }
    (tmp_path / "broken.onnx").write_bytes(b"none")
    result = paritygate.run(paritygate.load_plan(plan, folder=tmp_path), out=tmp_path / "runs")
    assert result.verdict == "hold"
    assert result.folder is not None
    saved = tomllib.loads((result.folder / "plan.toml").read_text())
    assert saved["constants"]["k"]["value"] == float("inf")
    assert saved["meta"] == {"list": [1]}
    paritygate.load_plan(result.folder / "plan.toml")
