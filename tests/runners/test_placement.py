"""Where nodes run: assigned and executed, what became of each, what holds."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tests import models

from paritygate.core.errors import RunnerError
from paritygate.core.tensors import Batch, ColumnSpec
from paritygate.runners.base import PrepareContext
from paritygate.runners.ort import OrtRunner
from paritygate.runners.ort_fates import describe_observed
from paritygate.runners.ort_observe import Observation
from paritygate.runners.ort_placement import AssignedNode, find_misplaced, find_unproven
from paritygate.runners.registry import parse_runner, prepare

CPU, AZURE = "CPUExecutionProvider", "AzureExecutionProvider"
NPU, GPU = "NpuExecutionProvider", "GpuExecutionProvider"
FLOAT, F16 = TensorProto.FLOAT, TensorProto.FLOAT16


def load(folder: Path, inputs: dict[str, ColumnSpec], **table: Any) -> OrtRunner:
    spec, problems = parse_runner("m", {"model": "m.onnx", **table}, folder)
    assert spec is not None, problems
    runner = prepare(spec, PrepareContext(folder, None, inputs))
    assert isinstance(runner, OrtRunner)
    return runner


def batch_of(x: np.ndarray) -> Batch:
    return Batch(0, 0, 0, len(x), len(x), np.arange(len(x), dtype=np.int64), {"x": x})


def run_once(folder: Path, x: np.ndarray, **table: Any) -> dict[str, Any]:
    """The facts of a runner that answered one batch."""
    spec = ColumnSpec("x", str(x.dtype), x.shape[1:])
    with load(folder, {"x": spec}, **table) as runner:
        runner.session().run(batch_of(x)).release()
        assert runner.final_findings() == ()
        facts = dict(runner.facts)
    json.dumps(facts["placement"])
    return facts


def conv_net(path: Path) -> None:
    rng = np.random.default_rng(0)
    node = helper.make_node
    models.save_model(
        path,
        [
            node("Conv", ["x", "w"], ["a"], name="conv", pads=[1] * 4),
            node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"], name="norm"),
            node("Relu", ["n"], ["r"], name="relu"),
            node("Add", ["k", "k"], ["kk"], name="constant"),
            node("Mul", ["r", "kk"], ["p"], name="mul"),
            node("Identity", ["p"], ["i"], name="identity"),
            node("Flatten", ["i"], ["f"], name="flat"),
            node("MatMul", ["f", "g"], ["mm"], name="matmul"),
            node("Add", ["mm", "gb"], ["ma"], name="add"),
            node("Relu", ["ma"], ["y"]),
        ],
        {"x": (FLOAT, ["n", 4, 8, 8])},
        {"y": (FLOAT, ["n", 3])},
        {
            "w": rng.normal(size=(16, 4, 3, 3)).astype(np.float32),
            **{n: np.ones(16, np.float32) for n in "sbmv"},
            "k": np.ones((), np.float32),
            "g": rng.normal(size=(1024, 3)).astype(np.float32),
            "gb": np.ones(3, np.float32),
        },
    )


class TestObserved:
    def test_fused_and_folded_nodes_are_told_by_their_names(self, tmp_path: Path) -> None:
        conv_net(tmp_path / "m.onnx")
        placed = run_once(tmp_path, np.ones((5, 4, 8, 8), np.float32))["placement"]
        assert placed["requested"] == placed["in_force"] == placed["in_force_after"] == [CPU]
        assert placed["observed_rows"] == 5
        assert placed["model_nodes"] == 10
        gone = {text.partition(" ")[0] for text in placed["folded_or_fused"]["nodes"]}
        assert {"norm", "constant", "identity", "matmul", "add"} <= gone
        assert not {"mul", "flat"} & gone
        ran = placed["executed"][CPU]["op_types"]
        assert ran["Conv"] == ran["Mul"] == ran["Flatten"] == 1
        assert "BatchNormalization" not in placed["assigned"][CPU]["op_types"]
        assert any("without a name" in text for text in placed["not_observable"])

    def test_without_optimisation_each_node_runs_as_it_is_written(self, tmp_path: Path) -> None:
        conv_net(tmp_path / "m.onnx")
        x = np.ones((5, 4, 8, 8), np.float32)
        placed = run_once(tmp_path, x, graph_optimization_level="disable")["placement"]
        assert placed["executed"][CPU]["nodes"] == placed["assigned"][CPU]["nodes"] == 10
        for what in ("folded_or_fused", "made_by_runtime", "inserted", "not_run"):
            assert placed[what] == {"count": 0, "nodes": []}, what

    @pytest.mark.parametrize(("sign", "left"), [(1.0, "both (Neg)"), (-1.0, "both (Mul)")])
    def test_of_two_nodes_of_one_name_one_did_not_run(
        self, tmp_path: Path, sign: float, left: str
    ) -> None:
        branchy(tmp_path / "m.onnx", then="both", otherwise="both")
        placed = run_once(tmp_path, np.full((5, 4), sign, np.float32))["placement"]
        assert placed["not_run"] == {"count": 1, "nodes": [left]}
        assert placed["folded_or_fused"]["count"] == 0

    def test_casts_around_float16_are_told(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx", dtype=F16)
        placed = run_once(tmp_path, np.ones((3, 4), np.float16))["placement"]
        inserted = placed["inserted"]
        assert inserted["count"] == len(inserted["nodes"]) >= 2
        assert all("Cast" in text and CPU in text for text in inserted["nodes"])
        assert placed["folded_or_fused"]["count"] == 0

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_the_branch_that_was_not_taken_is_no_fused_one(
        self, tmp_path: Path, sign: float
    ) -> None:
        branchy(tmp_path / "m.onnx")
        placed = run_once(tmp_path, np.full((3, 4), sign, np.float32))["placement"]
        left = ["otherwise (Neg)"] if sign > 0 else ["then (Mul)"]
        assert placed["not_run"] == {"count": 1, "nodes": left}
        assert placed["folded_or_fused"]["count"] == 0
        assert placed["made_by_runtime"]["count"] == 0, "an inlined function's nodes are its own"
        ops = placed["executed"][CPU]["op_types"]
        assert ops["If"] == ops["Sin"] == 1
        assert ops.get("Neg", 0) == (0 if sign > 0 else 1)

    def test_a_loop_that_runs_often_has_each_node_once(self, tmp_path: Path) -> None:
        loop(tmp_path / "m.onnx", trips=300)
        placed = run_once(tmp_path, np.ones((2, 4), np.float32))["placement"]
        assert placed["executed"][CPU]["op_types"]["Loop"] == 1
        assert placed["executed"][CPU]["op_types"]["Add"] == 1

    def test_a_profile_that_is_full_is_told(self) -> None:
        ran = ((CPU, "add", "Add", "0", 999_999),)
        for events, is_told in ((999_999, False), (1_000_000, True)):
            seen = Observation(executed=ran, events=events)
            told = describe_observed((), (), seen)["not_observable"]
            assert any("1,000,000 events" in text for text in told) == is_told  # type: ignore[attr-defined]

    def test_texts_go_in_too(self, tmp_path: Path) -> None:
        node = helper.make_node("Cast", ["x"], ["y"], name="cast", to=FLOAT)
        kind = TensorProto.STRING
        models.save_model(
            tmp_path / "m.onnx", [node], {"x": (kind, ["n", 2])}, {"y": (FLOAT, ["n", 2])}
        )
        with load(tmp_path, {"x": ColumnSpec("x", "string", (2,))}) as runner:
            x = np.array([["1", "2"], ["3", "4"]], object)
            runner.session().run(batch_of(x)).release()
            assert runner.final_findings() == ()
            assert runner.facts["placement"]["executed"][CPU]["nodes"] == 1  # type: ignore[index]

    @pytest.mark.parametrize("dtype", ["bfloat16", "int4", "bool", "float64", "int64", "uint8"])
    def test_every_dtype_goes_in(self, tmp_path: Path, dtype: str) -> None:
        from paritygate.core.dtypes import numpy_dtype

        kind = TensorProto.DataType.Value({"float64": "DOUBLE"}.get(dtype, dtype.upper()))
        node = helper.make_node("Cast", ["x"], ["y"], name="cast", to=FLOAT)
        models.save_model(
            tmp_path / "m.onnx",
            [node],
            {"x": (kind, ["n", 3])},
            {"y": (FLOAT, ["n", 3])},
            opsets={"": 21},
        )
        x = np.ones((5, 3)).astype(numpy_dtype(dtype))
        with load(tmp_path, {"x": ColumnSpec("x", dtype, (3,))}) as runner:
            runner.session().run(batch_of(x)).release()
            assert runner.final_findings() == ()
            placed: Any = runner.facts["placement"]
            assert placed["executed"][CPU]["nodes"] == 1, placed

    def test_a_big_batch_is_observed_in_part(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        models.scale_model(tmp_path / "m.onnx")
        monkeypatch.setattr("paritygate.runners.ort_watch.MAX_FED_BYTES", 64)
        placed = run_once(tmp_path, np.ones((50, 4), np.float32))["placement"]
        assert placed["observed_rows"] == 4
        assert placed["executed"][CPU]["nodes"] == 1

    def test_assigned_is_all_that_is_known_where_the_plan_wants_no_more(
        self, tmp_path: Path
    ) -> None:
        models.scale_model(tmp_path / "m.onnx")
        facts = run_once(tmp_path, np.ones((5, 4), np.float32), placement="assigned")
        assert facts["placement"]["assigned"][CPU]["nodes"] == 1
        assert facts["placement"]["executed"] is None
        assert "assigned" in facts["placement"]["not_observable"][0]
        assert "warnings" not in facts

    def test_a_model_that_fits_once_only_is_observed_where_the_plan_wants_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        models.scale_model(tmp_path / "m.onnx")
        monkeypatch.setattr("paritygate.runners.ort_watch.MAX_MODEL_BYTES", 10)
        x = np.ones((5, 4), np.float32)
        placed = run_once(tmp_path, x)["placement"]
        assert placed["executed"] is None
        assert "would hold once more" in placed["not_observable"][0]
        assert placed["assigned"][CPU]["nodes"] == 1
        placed = run_once(tmp_path, x, placement="observed")["placement"]
        assert placed["executed"][CPU]["nodes"] == 1

    def test_another_session_that_was_placed_otherwise_shows_nothing(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        with load(tmp_path, {"x": ColumnSpec("x", "float32", (4,))}) as runner:
            runner._watch._request = {**runner._watch._request, "providers": [[AZURE, {}]]}
            runner.session().run(batch_of(np.ones((5, 4), np.float32))).release()
            assert runner.final_findings() == ()
            placed: Any = runner.facts["placement"]
            assert placed["executed"] is None
            assert "placed otherwise (1 on CPU" in placed["not_observable"][0]

    def test_what_is_asked_before_the_run_is_asked_again_after_it(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        with load(tmp_path, {"x": ColumnSpec("x", "float32", (4,))}) as runner:
            runner.final_findings()
            runner.session().run(batch_of(np.ones((5, 4), np.float32))).release()
            runner.final_findings()
            placed: Any = runner.facts["placement"]
            assert placed["executed"][CPU]["nodes"] == 1

    def test_what_was_not_run_is_not_observed(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        with load(tmp_path, {"x": ColumnSpec("x", "float32", (4,))}) as runner:
            assert runner.final_findings() == ()
            placed: Any = runner.facts["placement"]
            assert placed["executed"] is None
            assert "no batch" in placed["not_observable"][0]

    def test_warnings_of_the_runtime_are_kept(self, tmp_path: Path) -> None:
        models.save_model(
            tmp_path / "m.onnx",
            [
                helper.make_node("Shape", ["x"], ["shape"], name="shape"),
                helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape"),
            ],
            {"x": (FLOAT, [None, None])},
            {"y": (FLOAT, ["n", 3])},
        )
        x = np.ones((5, 4), np.float32)
        with load(tmp_path, {"x": ColumnSpec("x", "float32", (4,))}) as runner:
            with pytest.raises(RunnerError, match=r"'y' is float32\[4\] .* but is declared \[3\]"):
                runner.session().run(batch_of(x))
            assert runner.final_findings() == ()
            facts: Any = runner.facts
        (found,) = facts["warnings"]
        assert found["level"] == "warning"
        assert found["count"] >= 1
        assert "{5,4}" in found["text"]
        assert not re.search(r"\d{4}-\d\d-\d\d|\x1b", json.dumps(found))


class TestSession:
    def test_a_session_that_changes_during_the_run_holds(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        table = {"providers": [CPU, AZURE]}
        with load(tmp_path, {"x": ColumnSpec("x", "float32", (4,))}, **table) as runner:
            runner.session().run(batch_of(np.ones((5, 4), np.float32))).release()
            runner._inference.set_providers([CPU])
            found = runner.final_findings()
            assert [f.code for f in found] == ["placement.downgraded"]
            assert "isn't any more" in found[0].message
            assert runner.final_findings() == found
            placed: Any = runner.facts["placement"]
            assert placed["in_force"] == [AZURE, CPU] or placed["in_force"] == [CPU, AZURE]
            assert placed["in_force_after"] == [CPU]


nodes = st.builds(
    AssignedNode,
    provider=st.sampled_from([NPU, GPU, CPU]),
    name=st.sampled_from(["", "a", "b", "TopK"]),
    domain=st.just(""),
    op_type=st.sampled_from(["MatMul", "TopK", "Relu"]),
)
NO_RUN = Observation(problem="it wasn't run")


class TestRules:
    @given(
        st.lists(nodes, max_size=8), st.lists(st.sampled_from(["TopK", "Relu", "a"]), max_size=3)
    )
    def test_a_clean_model_has_nodes_on_the_first_and_only_allowed_ones_elsewhere(
        self, assigned: list[AssignedNode], allowed: list[str]
    ) -> None:
        found = find_misplaced("m", [NPU, CPU], [NPU, CPU], assigned, allowed)
        on_first = [n for n in assigned if n.provider == NPU]
        strays = [n for n in assigned if n.provider != NPU]
        outside = [n for n in strays if n.op_type not in allowed and n.name not in allowed]
        codes = [f.code for f in found]
        if not assigned:
            assert codes == ["placement.unused"]
        elif not on_first:
            assert codes == ["placement.downgraded"]
        else:
            assert codes == (["placement.fallback"] if outside else [])

    @given(st.lists(nodes, min_size=1, max_size=8), st.lists(st.sampled_from(["a", 'é"x'])))
    def test_the_line_to_paste_ends_the_hold(
        self, assigned: list[AssignedNode], allowed: list[str]
    ) -> None:
        assigned = [*assigned, AssignedNode(NPU, "z", "", "Conv")]
        found = find_misplaced("m", [NPU, CPU], [NPU, CPU], assigned, allowed)
        for finding in found:
            assert finding.code == "placement.fallback"
            line = re.search(r"allowed_fallback = \[.*\]", finding.next)
            assert line is not None
            wanted = tomllib.loads(line[0])["allowed_fallback"]
            assert set(allowed) <= set(wanted)
            assert find_misplaced("m", [NPU, CPU], [NPU, CPU], assigned, wanted) == ()

    def test_names_ops_and_providers_are_told(self) -> None:
        assigned = [
            AssignedNode(NPU, "gemm", "", "Gemm"),
            AssignedNode(CPU, "top", "", "TopK"),
            AssignedNode(GPU, "", "", "Relu"),
        ]
        (found,) = find_misplaced("m", [NPU, GPU, CPU], [NPU, GPU, CPU], assigned, [])
        assert found.code == "placement.fallback"
        for part in (NPU, "1 TopK ('top') on " + CPU, "1 Relu on " + GPU, "2 of 3 nodes run"):
            assert part in found.message
        assert 'write in [runners.m]: allowed_fallback = ["Relu", "TopK"]' in found.next

    def test_a_further_provider_without_a_node_is_unused(self) -> None:
        assigned = [AssignedNode(NPU, "gemm", "", "Gemm")]
        (found,) = find_misplaced("m", [NPU, GPU, CPU], [NPU, GPU, CPU], assigned, [])
        assert found.code == "placement.unused"
        assert f"{GPU} was asked for but has no node" in found.message

    def test_what_comes_after_the_cpu_may_be_unused(self) -> None:
        assigned = [AssignedNode(CPU, "gemm", "", "Gemm")]
        assert find_misplaced("m", [CPU, GPU], [CPU, GPU], assigned, []) == ()

    def test_the_cpu_alone_is_never_held(self) -> None:
        assigned = [AssignedNode(CPU, "gemm", "", "Gemm")]
        assert find_misplaced("m", [CPU], [CPU], assigned, []) == ()
        assert find_misplaced("m", [CPU], [CPU], None, []) == ()
        assert find_unproven("m", [CPU], None, NO_RUN, [CPU], [CPU], []) == ()

    def test_nothing_known_of_an_accelerator_is_no_release(self) -> None:
        (found,) = find_unproven("m", [NPU, CPU], None, NO_RUN, [NPU, CPU], [NPU, CPU], [])
        assert found.code == "placement.unobserved"

    @pytest.mark.parametrize(
        ("executed", "code"),
        [
            ([(NPU, "gemm", "Gemm", "0", 1)], None),
            ([(NPU, "gemm", "Gemm", "0", 1), (CPU, "c", "MemcpyToHost", "1", 1)], None),
            ([(NPU, "gemm", "Gemm", "0", 1), (CPU, "top", "TopK", "1", 1)], "placement.fallback"),
            ([(CPU, "gemm", "Gemm", "0", 1)], "placement.fallback"),
            ([], "placement.unused"),
        ],
    )
    def test_what_ran_elsewhere_than_assigned_holds(
        self, executed: list[tuple[str, str, str, str, int]], code: str | None
    ) -> None:
        assigned = [AssignedNode(NPU, "gemm", "", "Gemm")]
        seen = Observation(executed=tuple(executed))
        forces = [NPU, CPU], [NPU, CPU]
        found = find_unproven("m", [NPU, CPU], assigned, seen, *forces, [])
        assert [f.code for f in found][:1] == ([code] if code else [])


def branchy(path: Path, then: str = "then", otherwise: str = "otherwise") -> None:
    """If the sum is positive: 2x, else -x; then a function of the model."""
    node, info = helper.make_node, helper.make_tensor_value_info
    first = helper.make_graph(
        [node("Mul", ["x", "two"], ["t"], name=then)], "then", [], [info("t", FLOAT, None)]
    )
    other = helper.make_graph(
        [node("Neg", ["x"], ["e"], name=otherwise)], "else", [], [info("e", FLOAT, None)]
    )
    function = helper.make_function(
        "own",
        "F",
        ["a"],
        ["b"],
        [node("Sin", ["a"], ["q"], name="sin"), node("Mul", ["q", "q"], ["b"], name="square")],
        [helper.make_opsetid("", models.OPSET)],
    )
    models.save_model(
        path,
        [
            node("ReduceSum", ["x"], ["sum"], name="sum", keepdims=0),
            node("Greater", ["sum", "zero"], ["c"], name="greater"),
            node("If", ["c"], ["z"], name="if", then_branch=first, else_branch=other),
            node("F", ["z"], ["y"], name="call", domain="own"),
        ],
        {"x": (FLOAT, ["n", 4])},
        {"y": (FLOAT, ["n", 4])},
        {"two": np.array(2, np.float32), "zero": np.array(0, np.float32)},
        opsets={"own": 1},
        functions=[function],
    )


def loop(path: Path, trips: int) -> None:
    """x + trips, one step a trip."""
    node, info = helper.make_node, helper.make_tensor_value_info
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["again"], name="again"),
            node("Add", ["v", "one"], ["w"], name="step"),
        ],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("go", TensorProto.BOOL, []),
            info("v", FLOAT, None),
        ],
        [info("again", TensorProto.BOOL, []), info("w", FLOAT, None)],
    )
    models.save_model(
        path,
        [node("Loop", ["trips", "", "x"], ["y"], name="loop", body=body)],
        {"x": (FLOAT, ["n", 4])},
        {"y": (FLOAT, ["n", 4])},
        {"trips": np.array(trips, np.int64), "one": np.array(1, np.float32)},
    )
