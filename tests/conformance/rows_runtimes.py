"""Rows in which a runtime changes what a model says: rewrites, threads, batches, conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from tests import models
from tests.conformance.case import RELEASE, Call, Case, Expected, hold
from tests.conformance.live import Models
from tests.packs import write_pack

import paritygate

F32, F16 = np.float32, np.float16
EXACT = {"atol": 0.0, "rtol": 0.0}
EXCEEDED, VANISHED = hold("tolerance.exceeded"), hold("nonfinite.mismatch")
PLAIN, ALL = {"graph_optimization_level": "disable"}, {"graph_optimization_level": "all"}
OPSET = {"": 19}
RNG = np.random.default_rng(11)
# What onnx's own reference evaluator answers, as a function.
REFERENCE = """\
import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

model = ReferenceEvaluator(onnx.load({path!r}))


def ref(given):
    names = [output.name for output in model.proto_.graph.output]
    with np.errstate(all="ignore"):
        return dict(zip(names, model.run(None, {{"x": given["x"]}})))
"""

Make = Callable[[Path], Path]


def save(
    folder: Path,
    nodes: list[Any],
    width: tuple[int, ...],
    weights: dict[str, np.ndarray] | None = None,
    dtype: int = TensorProto.FLOAT,
    out: int | None = None,
    out_width: tuple[int, ...] | None = None,
) -> Path:
    """A model from `x` to `y`."""
    return models.save_model(
        folder / "model.onnx",
        nodes,
        {"x": (dtype, ["batch", *width])},
        {"y": (dtype if out is None else out, ["batch", *(out_width or width)])},
        weights or {},
        opsets=OPSET,
    )


def twice_quantized(folder: Path) -> Path:
    """Quantise and back with two scales, one after the other."""
    node = helper.make_node
    return save(
        folder,
        [
            node("QuantizeLinear", ["x", "fine", "zero"], ["q1"]),
            node("DequantizeLinear", ["q1", "fine", "zero"], ["d1"]),
            node("QuantizeLinear", ["d1", "coarse", "zero"], ["q2"]),
            node("DequantizeLinear", ["q2", "coarse", "zero"], ["y"]),
        ],
        (4,),
        {"fine": np.array(0.05, F32), "coarse": np.array(0.13, F32), "zero": np.array(0, np.int8)},
    )


def through_its_inverse(folder: Path) -> Path:
    """`y = (1 / x) * x`."""
    nodes = [
        helper.make_node("Div", ["one", "x"], ["inverse"]),
        helper.make_node("Mul", ["inverse", "x"], ["y"]),
    ]
    return save(folder, nodes, (2,), {"one": np.array(1, F32)})


def mean_of_axis(folder: Path) -> Path:
    """The mean over the middle axis of `(batch, 64, 8)`."""
    node = helper.make_node("ReduceMean", ["x", "axis"], ["y"], keepdims=0)
    return save(folder, [node], (64, 8), {"axis": np.array([1], np.int64)}, out_width=(8,))


def boosted(folder: Path) -> Path:
    """A regressor of many trees."""
    from skl2onnx import to_onnx
    from sklearn.ensemble import GradientBoostingRegressor

    trained = GradientBoostingRegressor(n_estimators=200, max_depth=4, random_state=0)
    trained.fit(TREE_X, TREE_X @ np.arange(1, 9, dtype=F32) + np.sin(5 * TREE_X[:, 0]))
    model = to_onnx(trained, TREE_X[:1], target_opset={"": 17, "ai.onnx.ml": 3})
    (trees,) = model.graph.node
    trees.input[:], trees.output[:] = ["x"], ["y"]
    model.graph.input[0].name, model.graph.output[0].name = "x", "y"
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def grown(folder: Path) -> Path:
    """`y = x * 1000 / 1000 + x` in float16."""
    node = helper.make_node
    return save(
        folder,
        [
            node("Mul", ["x", "k"], ["large"]),
            node("Div", ["large", "k"], ["back"]),
            node("Add", ["back", "x"], ["y"]),
        ],
        (2,),
        {"k": np.array(1000, F16)},
        dtype=TensorProto.FLOAT16,
    )


def log_quantized(folder: Path, *, quantized: bool) -> Path:
    """`log(x)`, through int8 where it is quantised."""
    node = helper.make_node
    nodes = [node("Log", ["x"], ["l" if quantized else "y"])]
    if quantized:
        nodes += [
            node("QuantizeLinear", ["l", "scale", "zero"], ["q"]),
            node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
        ]
    weights = {"scale": np.array(0.05, F32), "zero": np.array(0, np.int8)}
    return save(folder, nodes, (2,), weights if quantized else None)


def log_cast(folder: Path, *, to: int) -> Path:
    """`log(x)` as another type and back."""
    node = helper.make_node
    nodes = [
        node("Log", ["x"], ["l"]),
        node("Cast", ["l"], ["c"], to=to),
        node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    return save(folder, nodes, (2,))


def as_int8(folder: Path, *, clipped: bool) -> Path:
    """x as int8, clipped to its range before or not."""
    node = helper.make_node
    nodes = [node("Clip", ["x", "low", "high"], ["c"])] if clipped else []
    nodes.append(node("Cast", ["c" if clipped else "x"], ["y"], to=TensorProto.INT8))
    weights = {"low": np.array(-128, F32), "high": np.array(127, F32)} if clipped else None
    return save(folder, nodes, (2,), weights, out=TensorProto.INT8)


def best_two(folder: Path) -> Path:
    """The indices of the two largest of log(x)."""
    node = helper.make_node
    nodes = [node("Log", ["x"], ["l"]), node("TopK", ["l", "k"], ["values", "y"])]
    k = np.array([2], np.int64)
    return save(folder, nodes, (5,), {"k": k}, out=TensorProto.INT64, out_width=(2,))


def enlarged(folder: Path) -> Path:
    """Resize by scales, linear, corners aligned."""
    node = helper.make_node(
        "Resize",
        ["x", "", "scales"],
        ["y"],
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    scales = np.array([1, 1, 0.6, 0.6], F32)
    return save(folder, [node], (1, 2, 4), {"scales": scales}, out_width=(1, 1, 2))


def constant_logits(folder: Path, last: float = 0.25) -> Path:
    """Logits that are equal for all classes, but for what the last one has."""
    nodes = [
        helper.make_node("Mul", ["x", "none"], ["z"]),
        helper.make_node("Add", ["z", "bias"], ["y"]),
    ]
    bias = np.array([0.25, 0.25, 0.25, last], F32)
    return save(folder, nodes, (4,), {"none": np.array(0, F32), "bias": bias})


def against_reference(folder: Path, make: Make, x: np.ndarray, rule: dict[str, float]) -> Any:
    """The model under ONNX Runtime against onnx's own evaluator."""
    path = make(folder)
    (folder / "sides.py").write_text(REFERENCE.format(path=str(path)), encoding="utf-8")
    plan = {
        "golden": str(write_pack(folder / "golden.arrow", np.arange(len(x)), {"x": x})),
        "runners": {"ref": {"call": "sides:ref", "batch_size": len(x)}, "cand": str(path)},
        "stages": [{"reference": "ref", "candidate": "cand", "default": rule}],
    }
    return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)


def row(
    name: str, make: Make, x: np.ndarray, expected: Expected, cand: Make | None = None, **more: Any
) -> Case:
    says = more.pop("says", ())
    return Case("runtime", name, Models(make, cand, x, **more), expected, says)


def reference_row(
    name: str,
    make: Make,
    x: np.ndarray,
    expected: Expected,
    says: tuple[str, ...] = (),
    **rule: Any,
) -> Case:
    given = partial(against_reference, make=make, x=x, rule=rule or EXACT)
    return Case("runtime", name, Call("run", given), expected, says)


X = np.linspace(-2, 2, 48, dtype=F32).reshape(12, 4)
POSITIVE = np.array([[1, 2], [3, 4], [0.5, 8]], F32)
WITH_NAN = np.array([[1, 2], [-3, 4], [0.5, 8]], F32)
TREE_X = RNG.normal(size=(500, 8)).astype(F32)
LEVELS: dict[str, Any] = {"ref_options": PLAIN, "cand_options": ALL}
ON_Y = {"decisions": {"class": {"output": "y", "argmax": True}}}
CORNERS = np.arange(1, 9, dtype=F32).reshape(1, 1, 2, 4)

BATCHES = {"dims": {"batch": {"sizes": [1, 32]}}}
ONE_AND_TWO: dict[str, Any] = {
    "ref_options": {"intra_op_num_threads": 1, "batch_size": 500},
    "cand_options": {"intra_op_num_threads": 2, "batch_size": 500},
}

ROWS: tuple[Case, ...] = (
    row(
        "one file with two pairs of quantisers in a row: unoptimised, and with one of them removed",
        twice_quantized,
        X,
        EXCEEDED,
        rule={"atol": 0.03, "rtol": 0.0},
        **LEVELS,
    ),
    row(
        "the same, both sides unoptimised but for threads",
        twice_quantized,
        X,
        RELEASE,
        ref_options=PLAIN,
        cand_options={**PLAIN, "intra_op_num_threads": 2},
    ),
    row(
        "(1 / x) * x of a denormal x: infinite unoptimised, 1 once the two are fused",
        through_its_inverse,
        np.array([[1, 2], [1e-40, 3]], F32),
        VANISHED,
        rule={"atol": 1.0, "rtol": 0.5},
        **LEVELS,
    ),
    row(
        "(1 / x) * x of ordinary x",
        through_its_inverse,
        POSITIVE,
        RELEASE,
        rule={"atol": 0.0, "rtol": 1e-6},
        **LEVELS,
    ),
    row(
        "an ensemble of trees on one thread and on two, judged exactly",
        boosted,
        TREE_X,
        EXCEEDED,
        **ONE_AND_TWO,
    ),
    row(
        "the same trees, judged with a tolerance",
        boosted,
        TREE_X,
        RELEASE,
        rule={"atol": 1e-3, "rtol": 0.0},
        **ONE_AND_TWO,
    ),
    row(
        "a mean over an axis whose last bits depend on the batch: 1 and 32 are approved",
        mean_of_axis,
        RNG.normal(size=(64, 64, 8)).astype(F32),
        hold("runner.batch_coupled"),
        rule={"atol": 1e-5, "rtol": 0.0},
        plan=BATCHES,
        ref_options=PLAIN,
        cand_options=ALL,
        says=("batch size",),
    ),
    reference_row(
        "float16 that overflows on the way: infinite in onnx's evaluator, finite where the CPU "
        "calculates in float32",
        grown,
        np.array([[1, 2], [3, 200]], F16),
        VANISHED,
        atol=10.0,
        rtol=0.5,
    ),
    reference_row("float16 that doesn't overflow", grown, np.array([[1, 2], [3, 4]], F16), RELEASE),
    row(
        "NaN on its way through int8 becomes a number",
        partial(log_quantized, quantized=False),
        WITH_NAN,
        VANISHED,
        cand=partial(log_quantized, quantized=True),
        rule={"atol": 100.0, "rtol": 0.0},
    ),
    row(
        "no NaN on the way through int8",
        partial(log_quantized, quantized=False),
        POSITIVE,
        RELEASE,
        cand=partial(log_quantized, quantized=True),
        rule={"atol": 0.05, "rtol": 0.0},
    ),
    row(
        "NaN cast to uint8 and back becomes a number",
        partial(log_cast, to=TensorProto.DOUBLE),
        WITH_NAN,
        VANISHED,
        cand=partial(log_cast, to=TensorProto.UINT8),
        rule={"atol": 100.0, "rtol": 0.0},
    ),
    row(
        "300 as int8: clipped to 127, or cast to 44",
        partial(as_int8, clipped=True),
        np.array([[300, 1], [2, 3]], F32),
        EXCEEDED,
        cand=partial(as_int8, clipped=False),
    ),
    reference_row(
        "the two largest, one of them NaN: other indices than onnx's evaluator",
        best_two,
        np.array([[1, 2, -3, 4, 5], [5, 4, 3, 2, 1]], F32),
        EXCEEDED,
    ),
    reference_row(
        "the two largest without a NaN",
        best_two,
        np.array([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]], F32),
        RELEASE,
    ),
    reference_row(
        "linear Resize by scales with aligned corners: another sample than onnx's evaluator",
        enlarged,
        np.stack([CORNERS[0], 2 * CORNERS[0]]),
        EXCEEDED,
        atol=0.5,
        rtol=0.0,
    ),
    row(
        "logits that are equal for all classes, the last one step above: another class for all",
        constant_logits,
        X,
        hold("decision.flip"),
        cand=partial(constant_logits, last=float(np.nextafter(F32(0.25), F32(1)))),
        rule={"atol": 1e-6, "rtol": 0.0},
        plan=ON_Y,
    ),
    row(
        "logits that are equal for all classes on both sides: ties go to the first class",
        constant_logits,
        X,
        RELEASE,
        plan=ON_Y,
        **LEVELS,
    ),
)
