"""Decisions of every kind in whole runs of real models, counted again from the same sessions."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from onnx import TensorProto, helper
from tests import models
from tests import naive_decisions as naive
from tests.packs import write_pack

import paritygate
from paritygate.comparison.decide.detail import LazyDetail
from paritygate.core.errors import ParityError, PlanError

NODE = helper.make_node
RNG = np.random.default_rng(11)
SAMPLES = 600
WIDE = {"atol": 0.5, "rtol": 0.0}


def tags(path: Path, noise: float = 0.0) -> Path:
    """Multi-label: `(batch, 8)` features to `(batch, 5)` independent probabilities and logits."""
    rng = np.random.default_rng(1)
    weight = rng.normal(size=(8, 5)).astype(np.float32)
    weight += np.random.default_rng(2).normal(scale=noise, size=weight.shape).astype(np.float32)
    return models.save_model(
        path,
        [NODE("MatMul", ["x", "w"], ["logits"]), NODE("Sigmoid", ["logits"], ["tags"])],
        {"x": (models.FLOAT, ["batch", 8])},
        {"tags": (models.FLOAT, ["batch", 5]), "logits": (models.FLOAT, ["batch", 5])},
        {"w": weight},
    )


def segments(path: Path, noise: float = 0.0) -> Path:
    """Segmentation: `(batch, 2, 6, 7)` to scores of three classes a pixel and the class ids."""
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(3, 2, 3, 3)).astype(np.float32)
    weight += np.random.default_rng(4).normal(scale=noise, size=weight.shape).astype(np.float32)
    return models.save_model(
        path,
        [
            NODE("Conv", ["x", "w"], ["scores"], pads=[1, 1, 1, 1]),
            NODE("ArgMax", ["scores"], ["ids"], axis=1, keepdims=0),
        ],
        {"x": (models.FLOAT, ["batch", 2, 6, 7])},
        {
            "scores": (models.FLOAT, ["batch", 3, 6, 7]),
            "ids": (TensorProto.INT64, ["batch", 6, 7]),
        },
        {"w": weight},
    )


def answers(path: Path, x: np.ndarray) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_outputs()]
    return dict(zip(names, session.run(names, {"x": x}), strict=True))


def judge(folder: Path, x: np.ndarray, decisions: Any, **more: Any) -> Any:
    """Run `ref.onnx` against `cand.onnx` of the folder, wide enough that only decisions count."""
    table = {"slices": ["site"]} if "slices" in more else {}
    columns = {"sample_id": np.arange(len(x)), **more.pop("pack", {})}
    golden = write_pack(
        folder / "golden.arrow", columns.pop("sample_id"), {"x": x}, rows_per_batch=97, **columns
    )
    more.pop("slices", None)
    options = more.pop("options", {})
    plan = {
        "golden": str(golden),
        "runners": {side: str(folder / f"{side}.onnx") for side in ("ref", "cand")},
        "stages": [
            {
                "name": "conversion",
                "reference": "ref",
                "candidate": "cand",
                "default": {"atol": 1e9, "rtol": 0.0},
                "outputs": more.pop("outputs", {}),
            }
        ],
        "decisions": decisions,
        **table,
        **more,
    }
    loaded = paritygate.load_plan(plan, folder=folder)
    return paritygate.run(loaded, **{"out": None, **options})


# --- multi-label ---------------------------------------------------------------------------------


def test_tags_flip_by_element_and_by_sample(tmp_path):
    tags(tmp_path / "ref.onnx")
    tags(tmp_path / "cand.onnx", 2e-2)
    x = np.random.default_rng(5).normal(size=(SAMPLES, 8)).astype(np.float32)
    rule = {"output": "tags", "bands": "off < 0.5 <= on", "elementwise": True}
    site = np.random.default_rng(6).choice(["a", "b"], SAMPLES).tolist()
    found = judge(tmp_path, x, {"tags": rule}, slices=True, pack={"slices": {"site": site}})
    ref, cand = (answers(tmp_path / f"{s}.onnx", x)["tags"].tolist() for s in ("ref", "cand"))
    codes = [
        [tuple(naive.band(v, [0.5], [True]) for v in pair) for pair in zip(*rows, strict=True)]
        for rows in zip(ref, cand, strict=True)
    ]
    flips = [sum(r != c for r, c in row) for row in codes]
    assert 0 < sum(map(bool, flips)) < SAMPLES / 4
    (stage,) = found.summary["stages"]
    figures = stage["decisions"]["tags"]
    assert figures["flips"] == sum(map(bool, flips))
    assert (figures["flipped_positions"], figures["positions"]) == (sum(flips), SAMPLES * 5)
    named = {f"{r}{c}": n for (r, c), n in Counter(p for row in codes for p in row).items()}
    matrix = figures["matrix"]
    assert named == {
        "00": matrix["off"]["off"],
        "01": matrix["off"].get("on", 0),
        "10": matrix["on"].get("off", 0),
        "11": matrix["on"]["on"],
    }
    by_site = {s: sum(bool(f) for f, at in zip(flips, site, strict=True) if at == s) for s in "ab"}
    slices = stage["slices"]["site"]
    assert {s: slices[s]["flips"].get("tags", 0) for s in "ab"} == by_site
    (reason,) = found.reasons
    assert reason.code == "decision.flip"
    assert list(reason.ids) == [i for i, f in enumerate(flips) if f][:5]
    assert f"in {sum(flips)} of {SAMPLES * 5} places" in reason.message


def test_bands_on_logits_after_a_sigmoid_decide_as_the_probabilities_do(tmp_path):
    tags(tmp_path / "ref.onnx")
    tags(tmp_path / "cand.onnx", 2e-2)
    x = np.random.default_rng(5).normal(size=(SAMPLES, 8)).astype(np.float32)
    rule = {"bands": "off < 0.3 <= on", "elementwise": True}
    found = judge(
        tmp_path,
        x,
        {
            "p": {"output": "tags", **rule},
            "z": {"output": "logits", "transform": "sigmoid", **rule},
        },
    )
    p, z = (found.summary["stages"][0]["decisions"][name] for name in "pz")
    assert p["flips"] == z["flips"] > 0
    assert p["matrix"] == z["matrix"]
    assert (z["transform"], z["at_risk"]) == ("sigmoid", None)


# --- segmentation --------------------------------------------------------------------------------


def test_pixels_of_a_segmentation(tmp_path):
    segments(tmp_path / "ref.onnx")
    segments(tmp_path / "cand.onnx", 3e-3)
    x = np.random.default_rng(7).normal(size=(90, 2, 6, 7)).astype(np.float32)
    labels = ["sky", "road", "car"]
    decisions = {
        "class": {"output": "scores", "argmax": True, "axis": 1, "labels": labels},
        "id": {"output": "ids", "equal": True, "elementwise": True, "labels": labels},
    }
    found = judge(tmp_path, x, decisions, options={"out": tmp_path / "runs"})
    sides = [answers(tmp_path / f"{s}.onnx", x) for s in ("ref", "cand")]
    rows = [np.moveaxis(side["scores"], 1, -1).reshape(90, 42, 3).tolist() for side in sides]
    codes = [
        [(naive.argmax(r), naive.argmax(c)) for r, c in zip(*pixels, strict=True)]
        for pixels in zip(*rows, strict=True)
    ]
    flips = [sum(r != c for r, c in row) for row in codes]
    assert 0 < sum(map(bool, flips)) < 90
    named: dict[str, dict[str, int]] = {}
    for (r, c), n in Counter(p for row in codes for p in row).items():
        named.setdefault(labels[r], {})[labels[c]] = n
    for name in ("class", "id"):
        figures = found.summary["stages"][0]["decisions"][name]
        assert figures["matrix"] == named
        assert figures["flips"] == sum(map(bool, flips))
        assert figures["flipped_positions"] == sum(flips)
        assert figures["positions"] == 90 * 42
    shard = pa.ipc.open_file(found.folder / "failures/conversion-00000.arrow").read_all()
    assert shard["sample_id"].to_pylist() == [i for i, f in enumerate(flips) if f]
    for sample, ref, cand, margin in zip(
        *(shard[c].to_pylist() for c in ("sample_id", "decision.class.ref", "decision.class.cand",
                                         "decision.class.margin")), strict=True
    ):  # fmt: skip
        lost = [
            (naive.argmax_margin(rows[0][sample][at]), -at)
            for at, (r, c) in enumerate(codes[sample])
            if r != c
        ]
        widest, at = max(lost)
        where = f" at [{-at // 7}, {-at % 7}]"
        assert margin == widest
        assert ref == labels[codes[sample][-at][0]] + where
        assert cand == labels[codes[sample][-at][1]] + where


# --- top-k ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["set", "ranked"])
def test_topk_of_many_classes_with_labels(tmp_path, order):
    rng = np.random.default_rng(8)
    weight = rng.normal(size=(4, 40)).astype(np.float32)
    models.linear_softmax(tmp_path / "ref.onnx", weight)
    noise = rng.normal(scale=2e-3, size=weight.shape).astype(np.float32)
    models.linear_softmax(tmp_path / "cand.onnx", weight + noise)
    x = rng.normal(size=(SAMPLES, 4)).astype(np.float32)
    truth = rng.integers(0, 40, SAMPLES)
    rule = {"output": "probabilities", "topk": 5, "order": order}
    found = judge(tmp_path, x, {"top": rule}, pack={"label": truth})
    sides = [answers(tmp_path / f"{s}.onnx", x)["probabilities"] for s in ("ref", "cand")]
    tops = [[naive.topk(row, 5) for row in side.tolist()] for side in sides]
    same = [r == c if order == "ranked" else set(r) == set(c) for r, c in zip(*tops, strict=True)]
    figures = found.summary["stages"][0]["decisions"]["top"]
    assert figures["flips"] == same.count(False) > 0
    assert sum(n for row in figures["matrix"].values() for n in row.values()) == SAMPLES * 5
    right = [[t in top for t, top in zip(truth, side, strict=True)] for side in tops]
    assert figures["labels"]["correct_ref"] == sum(right[0])
    assert figures["labels"]["correct_cand"] == sum(right[1])
    assert figures["labels"]["changed_to_wrong"] == sum(
        r and not c for r, c in zip(*right, strict=True)
    )


def test_failing_samples_are_looked_at_together(tmp_path, monkeypatch):
    tags(tmp_path / "ref.onnx")
    tags(tmp_path / "cand.onnx", 2e-1)
    x = np.random.default_rng(5).normal(size=(1000, 8)).astype(np.float32)
    asked, look_up = [], LazyDetail.told
    monkeypatch.setattr(LazyDetail, "told", lambda d, at: asked.append(at.size) or look_up(d, at))
    rule = {"output": "logits", "argmax": True}
    found = judge(tmp_path, x, {"tag": rule}, options={"out": tmp_path / "runs"})
    sides = [answers(tmp_path / f"{s}.onnx", x)["logits"].argmax(axis=1) for s in ("ref", "cand")]
    flips = np.flatnonzero(sides[0] != sides[1])
    assert asked == [flips.size] != [0]
    for name in ("conversion-ids", "conversion-00000"):
        kept = pa.ipc.open_file(found.folder / f"failures/{name}.arrow").read_all()
        assert kept["sample_id"].to_pylist() == flips.tolist()
        told = [kept[f"decision.tag.{side}"].to_pylist() for side in ("ref", "cand")]
        assert told == [codes[flips].astype(str).tolist() for codes in sides]


# --- functions -----------------------------------------------------------------------------------

RULES = """
import numpy as np

def ward(y):
    top = y.max(axis=1)
    return np.where(top > 0.7, "home", np.where(top > 0.5, "ward", "icu"))

def broken(y):
    raise RuntimeError("no such\\nmodel")

def short(y):
    return [0] * (len(y) - 1)
"""


def function_run(folder: Path, call: str, **options: Any) -> Any:
    (folder / "rules.py").write_text(RULES)
    models.linear_softmax(folder / "ref.onnx", seed=0)
    weight = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    models.linear_softmax(folder / "cand.onnx", weight + np.float32(2e-3))
    noise = np.random.default_rng(9).normal(scale=2e-3, size=(4, 3)).astype(np.float32)
    models.linear_softmax(folder / "cand.onnx", weight + noise)
    x = np.random.default_rng(10).normal(size=(SAMPLES, 4)).astype(np.float32)
    rule = {"output": "probabilities", "python": call}
    return judge(folder, x, {"ward": rule}, options=options), x


def test_a_function_of_the_plans_folder_decides(tmp_path):
    found, x = function_run(tmp_path, "rules:ward", out=tmp_path / "runs")
    names: dict[str, Any] = {}
    exec(RULES, names)
    ref, cand = (
        names["ward"](answers(tmp_path / f"{s}.onnx", x)["probabilities"]).tolist()
        for s in ("ref", "cand")
    )
    figures = found.summary["stages"][0]["decisions"]["ward"]
    assert figures["flips"] == sum(r != c for r, c in zip(ref, cand, strict=True)) > 0
    pairs: dict[str, dict[str, int]] = {}
    for (r, c), n in Counter(zip(ref, cand, strict=True)).items():
        pairs.setdefault(r, {})[c] = n
    assert figures["matrix"] == pairs
    source = (tmp_path / "rules.py").read_bytes()
    assert figures["function"] == {
        "call": "rules:ward",
        "source_sha256": hashlib.sha256(source).hexdigest(),
    }
    ids = pa.ipc.open_file(found.folder / "failures/conversion-ids.arrow").read_all()
    assert ids["decision.ward.ref"].to_pylist() == [
        r for r, c in zip(ref, cand, strict=True) if r != c
    ]


@pytest.mark.parametrize(
    ("call", "words"),
    [("rules:broken", "RuntimeError: no such model (rules.py, line 9)"), ("rules:short", "values")],
)
def test_a_function_that_fails_holds_and_says_why(tmp_path, call, words):
    found, _ = function_run(tmp_path, call)
    assert found.verdict == "hold"
    (reason,) = found.reasons
    assert (reason.code, reason.decision, reason.count) == ("decision.error", "ward", SAMPLES)
    assert words in reason.message


@pytest.mark.parametrize(
    ("call", "words"),
    [("rules:wrad", "did you mean 'ward'"), ("nowhere:f", "no module 'nowhere'")],
)
def test_a_function_that_is_not_there_is_a_fault_of_the_plan(tmp_path, call, words):
    with pytest.raises(PlanError, match=words) as error:
        function_run(tmp_path, call)
    assert "decisions.ward.python" in str(error.value)


# --- texts ---------------------------------------------------------------------------------------

CASELESS = """
def caseless(y):
    return [text.lower() for text in y.tolist()]
"""


def test_texts_are_decisions_by_themselves_or_through_a_function(tmp_path):
    (tmp_path / "rules.py").write_text(CASELESS)
    ref, cand = ["cat", "dog", "cat", "owl"], ["cat", "Dog", "cat", "dog"]
    for name, texts, labels in (("r", ref, ["cat", "dog", "dog", "owl"]), ("c", cand, None)):
        columns = {"out.name": pa.array(texts)}
        write_pack(tmp_path / f"{name}.arrow", [1, 2, 3, 4], label=labels, columns=columns)
    plan = {
        "golden": "r.arrow",
        "runners": {"ref": "recorded", "cand": "c.arrow"},
        "stages": [
            {"reference": "ref", "candidate": "cand", "default": {"atol": 0.0, "rtol": 0.0}}
        ],
        "decisions": {
            "exact": {"output": "name", "equal": True},
            "caseless": {"output": "name", "python": "rules:caseless"},
        },
    }
    found = paritygate.run(paritygate.load_plan(plan, folder=tmp_path), out=None)
    figures = found.summary["stages"][0]["decisions"]
    assert figures["exact"]["flips"] == 2
    assert figures["exact"]["matrix"] == {
        "cat": {"cat": 2},
        "dog": {"Dog": 1},
        "owl": {"dog": 1},
    }
    assert figures["exact"]["labels"]["correct_ref"] == 3
    assert figures["exact"]["labels"]["changed_to_wrong"] == 2
    assert figures["caseless"]["matrix"] == {
        "cat": {"cat": 2},
        "dog": {"dog": 1},
        "owl": {"dog": 1},
    }
    flips = [(r.decision, r.ids) for r in found.reasons if r.code == "decision.flip"]
    assert flips == [("caseless", (4,)), ("exact", (2, 4))]


# --- any number of threads, any batch -----------------------------------------------------------


def test_threads_change_no_figure(tmp_path):
    segments(tmp_path / "ref.onnx")
    segments(tmp_path / "cand.onnx", 3e-3)
    x = np.random.default_rng(7).normal(size=(5000, 2, 6, 7)).astype(np.float32)
    decisions = {
        "class": {"output": "scores", "argmax": True, "axis": 1},
        "top": {"output": "scores", "topk": 2, "axis": 1, "order": "ranked"},
        "id": {"output": "ids", "equal": True, "elementwise": True},
        "soft": {
            "output": "scores",
            "transform": "softmax",
            "axis": 1,
            "bands": "no < 0.6 <= yes",
            "elementwise": True,
        },
    }
    runs = [judge(tmp_path, x, decisions, options={"threads": n}) for n in (1, 3)]
    stages = [run.summary["stages"][0]["decisions"] for run in runs]
    assert stages[0] == stages[1]
    assert all(figures["flips"] for figures in stages[0].values())


def test_bad_rules_are_all_told_at_once(tmp_path):
    tags(tmp_path / "ref.onnx")
    tags(tmp_path / "cand.onnx")
    bad = {
        "a": {"output": "tags", "argmax": True, "equal": True},
        "b": {"output": "tags", "topk": 0},
        "c": {"output": "tags", "python": "not a function"},
        "d": {"output": "tags", "bands": "a < 1 <= b", "labels": ["a"], "axis": 0},
        "e": {"output": "tags", "argmax": True, "order": "sorted"},
    }
    with pytest.raises(ParityError) as error:
        judge(tmp_path, np.zeros((2, 8), np.float32), bad)
    told = str(error.value)
    for path in ("decisions.a", "decisions.b.topk", "decisions.c.python", "decisions.d"):
        assert path in told
    assert "decisions.e.order" in told
    assert "labels belong to classes" in told
    assert "0 is the samples" in told
