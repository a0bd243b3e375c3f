"""Rows about what runs: models under ONNX Runtime, functions, null runners, and who is who."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from onnx import TensorProto, helper
from tests import models
from tests.conformance.case import RELEASE, Call, Case, Expected, hold, unjudged
from tests.conformance.live import Functions, Models
from tests.conformance.recordings import Recording
from tests.packs import write_pack

import paritygate

F32 = np.float32
X = np.linspace(-2, 2, 48, dtype=F32).reshape(12, 4)
EXACT = {"atol": 0.0, "rtol": 0.0}
EXCEEDED = hold("tolerance.exceeded")
SAME = hold("policy.same_runner")
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"

Make = Callable[[Path], Path]


def scale(folder: Path, factor: float = 1.0) -> Path:
    return models.scale_model(folder / "model.onnx", factor)


def doubled(folder: Path) -> Path:
    """`y = x + x`, the same as `scale` by 2 in other words."""
    return models.save_model(
        folder / "model.onnx",
        [helper.make_node("Add", ["x", "x"], ["y"])],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 4])},
    )


def far_off(folder: Path) -> Path:
    """Logits that are off by 1923."""
    return models.save_model(
        folder / "model.onnx",
        [helper.make_node("Add", ["x", "c"], ["y"])],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 4])},
        {"c": np.array(1923, F32)},
    )


def logarithm(folder: Path) -> Path:
    """`y = log(x)`, NaN below zero."""
    return models.save_model(
        folder / "model.onnx",
        [helper.make_node("Log", ["x"], ["y"])],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 4])},
    )


def summed(folder: Path) -> Path:
    """`y = sum(x)` over the whole batch: an output without a sample axis."""
    return models.save_model(
        folder / "model.onnx",
        [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, [])},
    )


def not_a_model(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(b"this is no model")
    return path


def misdeclared(folder: Path) -> Path:
    """`y = x + x`, declared with three elements a sample where it answers four."""
    return models.save_model(
        folder / "model.onnx",
        [helper.make_node("Add", ["x", "x"], ["y"])],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 3])},
    )


def cut_off(folder: Path) -> Path:
    path = scale(folder)
    path.write_bytes(path.read_bytes()[:-20])
    return path


def look_up(folder: Path) -> Path:
    """`y = table[x]`, which ONNX Runtime refuses for an index outside of the table."""
    return models.save_model(
        folder / "model.onnx",
        [
            helper.make_node("Cast", ["x"], ["index"], to=TensorProto.INT64),
            helper.make_node("Gather", ["table", "index"], ["y"]),
        ],
        {"x": (models.FLOAT, ["batch", 1])},
        {"y": (models.FLOAT, ["batch", 1])},
        {"table": np.arange(8, dtype=F32)},
    )


def as_double(folder: Path) -> Path:
    return models.scale_model(folder / "model.onnx", dtype=models.DOUBLE)


def one_output(folder: Path) -> Path:
    """The first of the outputs of `models.multi_output`."""
    return models.save_model(
        folder / "model.onnx",
        [helper.make_node("Add", ["x", "x"], ["double"])],
        {"x": (models.FLOAT, ["batch", 4])},
        {"double": (models.FLOAT, ["batch", 4])},
    )


def several(folder: Path) -> Path:
    return models.multi_output(folder / "model.onnx")


def per_tensor(folder: Path) -> Path:
    """Quantise with the scale of the whole batch and back: each sample depends on the others."""
    return models.save_model(
        folder / "model.onnx",
        [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
        ],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 4])},
    )


def fixed_batch(folder: Path, size: int) -> Path:
    return models.scale_model(folder / "model.onnx", 2.0, fixed_batch=size)


def outside(folder: Path, by: float = 0.0, keep: int | None = None) -> Path:
    """Weights outside of the model file, the identity matrix plus `by`, cut to `keep` bytes."""
    path = models.external_data_model(folder / "model.onnx", np.eye(4, dtype=F32) + F32(by))
    data = folder / "weights.bin"
    data.write_bytes(data.read_bytes()[:keep])
    return path


def without_weights(folder: Path) -> Path:
    path = outside(folder)
    (folder / "weights.bin").unlink()
    return path


def elsewhere(folder: Path) -> Path:
    """The model's weights lie in the folder above."""
    inner = folder / "inner"
    inner.mkdir()
    return models.external_data_model(inner / "model.onnx", location="../weights.bin")


def pair(
    kind: str, name: str, ref: Make, cand: Make | None, expected: Expected, **more: Any
) -> Case:
    """A row of two models; without a candidate, two settings of one model file."""
    says, ids = more.pop("says", ()), more.pop("ids", ())
    return Case(kind, name, Models(ref, cand, more.pop("x", X), **more), expected, says, ids)


LOOKED_UP = np.arange(12, dtype=F32).reshape(12, 1)
NOT_LOADED = hold("admission.invalid_model", "stage.not_run")
IN_FOURS: dict[str, Any] = {
    "ref_options": {"batch_size": 4},
    "cand_options": {"batch_size": 4, "graph_optimization_level": "basic"},
}
ON_Y = {"d": {"output": "y", "bands": "low < 0 <= high"}}
THREE_SIDES = (
    "def ref(g):\n    return {'y': g['x']}\n\n"
    "def cand(g):\n    return {'y': g['x'] + 1}\n\n"
    "def other(g):\n    return {'y': g['x'] * 1}\n"
)


def _stages(*candidates: str) -> dict[str, Any]:
    stage = {"reference": "ref", "default": EXACT}
    return {
        "runners": {n: {"call": f"sides:{n}"} for n in ("ref", *dict.fromkeys(candidates))},
        "stages": [
            {"name": f"stage-{i}", "candidate": cand, **stage} for i, cand in enumerate(candidates)
        ],
    }


WARNINGS = [
    pair(
        "warnings",
        "logits off by 1923",
        scale,
        far_off,
        EXCEEDED,
        says=("1923",),
        rule={"atol": 1e-3, "rtol": 1e-3},
        in_verify=True,
    ),
    pair(
        "warnings",
        "two ways of writing one model",
        partial(scale, factor=2.0),
        doubled,
        RELEASE,
        in_verify=True,
    ),
    pair(
        "warnings",
        "the candidate isn't a model",
        scale,
        not_a_model,
        NOT_LOADED,
        says=("isn't an ONNX model",),
        in_verify=True,
    ),
    pair(
        "warnings",
        "the candidate's file is cut off",
        scale,
        cut_off,
        NOT_LOADED,
        in_verify=True,
    ),
    pair(
        "warnings",
        "the candidate declares another shape than it answers, which ONNX Runtime only warns of",
        partial(scale, factor=2.0),
        misdeclared,
        NOT_LOADED,
        in_verify=True,
    ),
    pair(
        "warnings",
        "the reference isn't a model",
        not_a_model,
        scale,
        unjudged("admission.invalid_model"),
        in_verify=True,
    ),
    pair(
        "warnings",
        "the candidate takes another dtype than the pack has",
        scale,
        as_double,
        unjudged("runner.load_failed"),
        says=("float64", "float32"),
        in_verify=True,
    ),
    pair(
        "warnings",
        "ONNX Runtime refuses a batch of 4 of the 12 samples",
        look_up,
        None,
        hold("runner.error"),
        says=("out of data bounds",),
        x=LOOKED_UP,
        ids=(8, 9, 10, 11),
        **IN_FOURS,
    ),
    pair(
        "warnings",
        "ONNX Runtime refuses no batch",
        look_up,
        None,
        RELEASE,
        x=LOOKED_UP % 8,
        **IN_FOURS,
    ),
    pair(
        "warnings",
        "a rule that can't be applied: bands on four scores a sample",
        partial(scale, factor=2.0),
        doubled,
        unjudged(),
        says=("one score",),
        plan={"decisions": ON_Y},
    ),
    Case(
        "warnings",
        "the first of two stages holds, the second is clean",
        Functions(THREE_SIDES, X, plan=_stages("cand", "other")),
        EXCEEDED,
        ("[stage-0]",),
    ),
    Case(
        "warnings",
        "the second of two stages holds, the first is clean",
        Functions(THREE_SIDES, X, plan=_stages("other", "cand")),
        EXCEEDED,
        ("[stage-1]",),
    ),
    Case(
        "warnings",
        "two stages, both clean",
        Functions(THREE_SIDES, X, plan=_stages("other", "other")),
        RELEASE,
    ),
    Case(
        "warnings",
        "the candidate's module can't be imported",
        Functions(
            "def ref(g):\n    return {'y': g['x']}\n\ndef cand(g):\n    return g\n",
            X,
            plan=_stages("missing") | {"runners": {"ref": "sides:ref", "missing": "none:cand"}},
        ),
        unjudged("runner.load_failed"),
        ("none",),
    ),
]

ALL_EQUAL = {"nonfinite": "match", **EXACT}

LIVE_NANS = [
    pair(
        "nan",
        "a model that answers NaN for negative inputs, at two settings",
        logarithm,
        None,
        hold("nonfinite.reference"),
        cand_options={"graph_optimization_level": "disable"},
        in_verify=True,
    ),
    pair(
        "nan",
        "the same, nonfinite = 'match'",
        logarithm,
        None,
        RELEASE,
        rule=ALL_EQUAL,
        cand_options={"graph_optimization_level": "disable"},
        in_verify=True,
    ),
    pair(
        "nan",
        "a finite reference, a model that answers NaN for negative inputs",
        scale,
        logarithm,
        hold("nonfinite.candidate", "tolerance.exceeded"),
        rule=ALL_EQUAL,
        in_verify=True,
    ),
]

LIVE_OUTPUTS = [
    pair(
        "outputs",
        "a model of four outputs (float32, float64, int64, bool) at two settings",
        several,
        None,
        RELEASE,
        cand_options={"graph_optimization_level": "disable"},
        in_verify=True,
    ),
    pair(
        "outputs",
        "the candidate model lacks three of the four",
        several,
        one_output,
        hold("output.missing"),
        says=("rank", "positive", "wide"),
        in_verify=True,
    ),
    pair(
        "outputs",
        "the candidate model has three more",
        one_output,
        several,
        hold("output.missing"),
        in_verify=True,
    ),
    pair(
        "outputs",
        "the candidate's output has another name",
        partial(scale, factor=2.0),
        one_output,
        hold("output.missing"),
        says=("double",),
        in_verify=True,
    ),
    pair(
        "outputs",
        "the candidate's output has another name, which the plan maps",
        partial(scale, factor=2.0),
        one_output,
        RELEASE,
        cand_options={"outputs": {"y": "double"}},
        in_verify=True,
    ),
]

NEAR_EDGE = np.zeros((2, 4), F32)
NEAR_EDGE[:, 0] = [np.log(0.2 / 0.8) - 5e-6, -3.0]


def score(folder: Path, bias: float = 0.0) -> Path:
    return models.sigmoid_score(folder / "model.onnx", (1.0, 0.0, 0.0, 0.0), bias)


def _score(name: str, x: Any, expected: Expected, says: tuple[str, ...] = ()) -> Case:
    return pair(
        "flips",
        name,
        score,
        partial(score, bias=1e-5),
        expected,
        says=says,
        x=x,
        rule={"atol": 1e-5, "rtol": 1e-5},
        plan={
            "decisions": {
                "d": {"output": "score", "bands": "accept < 0.2 <= review <= 0.8 < reject"}
            }
        },
    )


LIVE_FLIPS = [
    _score(
        "a model whose bias is off by 1e-5, a score of 0.199999 in the pack",
        NEAR_EDGE,
        hold("decision.flip"),
        ("accept -> review 1x",),
    ),
    _score("the same models, no score near an edge", NEAR_EDGE[1:], RELEASE),
]


@contextmanager
def cuda_build(*, claims: bool) -> Iterator[None]:
    """A build of onnxruntime that lists CUDA, where only the CPU does work.

    Args:
        claims: whether sessions say that CUDA is in force.
    """
    import onnxruntime

    found = patch.object(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    session = onnxruntime.InferenceSession
    in_force = patch.object(session, "get_providers", lambda _: [CUDA, CPU])
    with warnings.catch_warnings(), found:
        warnings.simplefilter("ignore")
        if not claims:
            yield
            return
        with in_force:
            yield


def on_cuda(folder: Path, *, claims: bool) -> Any:
    with cuda_build(claims=claims):
        given = Models(
            partial(scale, factor=2.0), doubled, X, cand_options={"providers": [CUDA, CPU]}
        )
        return given.judge("run", folder)


PLACED = [
    Case(
        "provider",
        "CUDA is asked for, the session falls back to the CPU, numbers agree",
        Call("run", partial(on_cuda, claims=False)),
        hold("placement.downgraded"),
        (CUDA, "isn't in force"),
    ),
    Case(
        "provider",
        "CUDA is in force and took none of the nodes, numbers agree",
        Call("run", partial(on_cuda, claims=True)),
        hold("placement.downgraded"),
        (CUDA, "none of the model's nodes"),
    ),
    pair(
        "provider",
        "a provider that isn't in the build",
        partial(scale, factor=2.0),
        doubled,
        unjudged("placement.unavailable"),
        says=("RoutingExecutionProvider", CPU),
        cand_options={"providers": ["RoutingExecutionProvider", CPU]},
        in_verify=True,
    ),
    pair(
        "provider",
        "the CPU is asked for by name",
        partial(scale, factor=2.0),
        doubled,
        RELEASE,
        cand_options={"providers": [CPU]},
        in_verify=True,
    ),
    pair(
        "provider",
        "no provider is named at all",
        partial(scale, factor=2.0),
        doubled,
        unjudged(),
        cand_options={"providers": []},
    ),
]


def itself(folder: Path, *, copied: bool) -> Any:
    """Compare a recording with itself, or with a copy of its file."""
    ref = Recording([1, 2], {"y": X[:2]}).write(folder / "ref.arrow", "reference")
    cand = Path(shutil.copy(ref, folder / "copy.arrow")) if copied else ref
    return paritygate.compare(ref, cand, out=None)


def copy_of_model(folder: Path) -> Path:
    return scale(folder, 2.0).rename(folder / "another name.onnx")


def answer_nothing(folder: Path, cand: dict[str, Any]) -> Any:
    """A null runner that repeats its input against another one."""
    golden = write_pack(folder / "golden.arrow", range(12), {"x": X})
    return paritygate.run(
        {
            "golden": str(golden),
            "runners": {"ref": {"kind": "null", "echo": {"y": "x"}}, "cand": cand},
            "stages": [{"reference": "ref", "candidate": "cand", "default": EXACT}],
        },
        out=None,
    )


TWICE = partial(scale, factor=2.0)
IDENTITY = "def ref(g):\n    return {'y': g['x']}\n\ndef cand(g):\n    return {'y': g['x']}\n"
ZEROS = {"kind": "null", "outputs": {"y": {"dtype": "float32", "shape": [4]}}}
ECHO = {"kind": "null", "echo": {"y": "x"}}


def _settings(name: str, expected: Expected, **options: Any) -> Case:
    return pair("ships", name, TWICE, None, expected, cand_options=options)


SHIPPED = [
    pair("ships", "one model file on both sides", TWICE, None, SAME, in_verify=True),
    pair("ships", "a copy of the model file under another name", TWICE, copy_of_model, SAME),
    pair(
        "ships",
        "one model file on both sides, self = true",
        TWICE,
        None,
        RELEASE,
        stage={"self": True},
    ),
    pair("ships", "two model files that do the same", TWICE, doubled, RELEASE, in_verify=True),
    _settings(
        "a lowered optimisation level is another thing", RELEASE, graph_optimization_level="disable"
    ),
    _settings("the default level is the full one", SAME, graph_optimization_level="all"),
    _settings("another batch size is another thing", RELEASE, batch_size=5),
    _settings("the default batch size, written out", SAME, batch_size=256),
    _settings(
        "an optimiser left out is another thing", RELEASE, disabled_optimizers=["ConstantFolding"]
    ),
    _settings(
        "a session option that ONNX Runtime doesn't know",
        unjudged(),
        session_options={"session.use_ort_model_bytes": "1"},
    ),
    _settings(
        "a session option that flushes denormals in its whole process, a process of its own",
        RELEASE,
        session_options={"session.set_denormal_as_zero": "1"},
    ),
    Case(
        "ships", "a recording against itself", Call("compare", partial(itself, copied=False)), SAME
    ),
    Case(
        "ships",
        "a recording against a copy of its file",
        Call("compare", partial(itself, copied=True)),
        SAME,
    ),
    Case(
        "ships",
        "one function on both sides",
        Functions(
            IDENTITY,
            X,
            plan=_stages("again") | {"runners": {"ref": "sides:ref", "again": "sides:ref"}},
        ),
        SAME,
    ),
    Case(
        "ships", "two functions that do the same", Functions(IDENTITY, X, in_verify=True), RELEASE
    ),
    Case(
        "ships",
        "a null runner against itself",
        Call("run", partial(answer_nothing, cand=ECHO)),
        SAME,
    ),
    Case(
        "ships",
        "a null runner that repeats against one of zeros",
        Call("run", partial(answer_nothing, cand=ZEROS)),
        EXCEEDED,
    ),
    Case(
        "ships",
        "a null runner that repeats, in batches of 5",
        Call("run", partial(answer_nothing, cand={**ECHO, "batch_size": 5})),
        RELEASE,
    ),
]

LOST = hold("admission.external_data", "stage.not_run")

EXTERNAL = [
    pair(
        "external",
        "other weights beside an unchanged model file",
        outside,
        partial(outside, by=0.5),
        EXCEEDED,
        in_verify=True,
    ),
    pair(
        "external",
        "weights that differ within the tolerance",
        outside,
        partial(outside, by=1e-6),
        RELEASE,
        rule={"atol": 1e-4, "rtol": 0.0},
        in_verify=True,
    ),
    pair("external", "the same weights in another folder", outside, outside, SAME),
    pair(
        "external", "the weights are missing", outside, without_weights, LOST, says=("weights.bin",)
    ),
    pair("external", "the weights' file is cut off", outside, partial(outside, keep=40), LOST),
    pair("external", "the weights lie outside of the model's folder", outside, elsewhere, LOST),
    pair(
        "external",
        "the reference's weights are missing",
        without_weights,
        outside,
        unjudged("admission.external_data"),
    ),
]

LIVE_COUPLED = [
    pair(
        "coupling",
        "an output without a sample axis: the sum over the batch",
        summed,
        None,
        hold("runner.error", "evidence.empty"),
        says=("first axis must be the batch",),
        cand_options={"graph_optimization_level": "disable"},
        in_verify=True,
    ),
    pair(
        "coupling",
        "dynamic quantisation per tensor, in batches of 1 and of 32",
        per_tensor,
        None,
        EXCEEDED,
        x=np.linspace(-8, 8, 256, dtype=F32).reshape(64, 4),
        rule={"atol": 1e-3, "rtol": 1e-3},
        ref_options={"batch_size": 1},
        cand_options={"batch_size": 32},
    ),
    pair(
        "coupling",
        "a model whose samples don't touch each other, in batches of 1 and of 32",
        TWICE,
        None,
        RELEASE,
        x=np.linspace(-8, 8, 256, dtype=F32).reshape(64, 4),
        ref_options={"batch_size": 1},
        cand_options={"batch_size": 32},
    ),
    pair(
        "coupling",
        "a batch size that the model doesn't take",
        partial(fixed_batch, size=4),
        TWICE,
        unjudged("runner.load_failed"),
        says=("batches of 4",),
        ref_options={"batch_size": 3},
    ),
    pair(
        "coupling",
        "a model of fixed batches of 5, 12 samples: the tail is padded",
        partial(fixed_batch, size=5),
        TWICE,
        RELEASE,
        in_verify=False,
    ),
]

ROWS = [
    *WARNINGS,
    *LIVE_NANS,
    *LIVE_OUTPUTS,
    *LIVE_FLIPS,
    *PLACED,
    *SHIPPED,
    *EXTERNAL,
    *LIVE_COUPLED,
]
