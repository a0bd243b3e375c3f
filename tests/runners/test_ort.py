"""ONNX Runtime: what is in force, what contradicts, what is the same thing; buffers by address."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper
from tests import models
from tests.runners.contract import context_of, make_batch, spec_of

from paritygate.core.errors import RunnerError, RunnerLoadError
from paritygate.core.tensors import ColumnSpec
from paritygate.runners.base import PrepareContext, Runner
from paritygate.runners.registry import prepare

AZURE = "AzureExecutionProvider"
CPU = "CPUExecutionProvider"


def load(
    folder: Path,
    table: Mapping[str, object],
    inputs: Mapping[str, ColumnSpec] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Runner:
    return prepare(spec_of(dict(table)), context_of(folder, None, constants, inputs))


def refusal(folder: Path, table: Mapping[str, object], **context: Any) -> RunnerLoadError:
    with pytest.raises(RunnerLoadError) as caught:
        load(folder, table, **context)
    assert caught.value.runner == "runner"
    return caught.value


def column(name: str, dtype: str = "float32", *shape: int) -> dict[str, ColumnSpec]:
    return {name: ColumnSpec(name, dtype, shape)}


class TestAnswers:
    @given(
        hnp.arrays(
            np.float32, st.tuples(st.integers(1, 9), st.just(4)), elements=st.floats(width=32)
        ),
        st.sampled_from(["disable", "all"]),
    )
    @settings(deadline=None, max_examples=40)
    def test_bound_buffers_answer_what_a_plain_run_does(
        self, tmp_path_factory: pytest.TempPathFactory, x: np.ndarray, level: str
    ) -> None:
        folder = tmp_path_factory.mktemp("m")
        path = models.linear_softmax(folder / "m.onnx")
        options = onnxruntime.SessionOptions()
        if level == "disable":
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        plain = onnxruntime.InferenceSession(path, options, providers=[CPU])
        with load(folder, {"model": "m.onnx", "graph_optimization_level": level}) as runner:
            session = runner.session()
            for rows in (x, x[::-1], x):
                rows = np.ascontiguousarray(rows)
                with session.run(make_batch(rows)) as lease:
                    wanted = plain.run(None, {"x": rows})[0]
                    assert lease.outputs["probabilities"].tobytes() == wanted.tobytes()

    def test_buffers_are_used_again_after_release_only(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx", 2.0)
        with load(tmp_path, {"model": "m.onnx"}) as runner:
            session = runner.session()
            x = np.ones((8, 4), np.float32)
            first = session.run(make_batch(x))
            at = first.outputs["y"].ctypes.data
            second = session.run(make_batch(x))
            assert second.outputs["y"].ctypes.data != at
            first.release()
            assert session.run(make_batch(x)).outputs["y"].ctypes.data == at

    def test_an_input_is_not_copied(self, tmp_path: Path) -> None:
        import mmap

        models.scale_model(tmp_path / "m.onnx", 2.0)
        file = tmp_path / "x.bin"
        file.write_bytes(np.full((1024, 4), 3, np.float32).tobytes())
        with file.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
        x = np.frombuffer(mapped, np.float32).reshape(1024, 4)
        with load(tmp_path, {"model": "m.onnx"}) as runner:
            session = runner.session()
            session.run(make_batch(x)).release()
            slot = next(iter(session._free.values()))[0]
            assert slot.binding is not None
            value = onnxruntime.OrtValue.ortvalue_from_numpy(x)
            assert value.data_ptr() == x.ctypes.data
            with session.run(make_batch(x)) as lease:
                assert (lease.outputs["y"] == 6).all()
                assert not lease.outputs["y"].flags.writeable

    def test_constants_and_renamed_tensors(self, tmp_path: Path) -> None:
        models.add_constant(tmp_path / "m.onnx")
        table = {"model": "m.onnx", "inputs": {"ours": "x"}, "outputs": {"sum": "y"}}
        constants = {"c": np.array(0.5, np.float32)}
        with load(tmp_path, table, column("ours", "float32", 4), constants) as runner:
            assert set(runner.inputs or ()) == {"ours", "c"}
            session = runner.session()
            for _ in range(3):
                x = np.ones((2, 4), np.float32)
                with session.run(make_batch(x, name="ours")) as lease:
                    assert (lease.outputs["sum"] == 1.5).all()

    def test_foreign_byte_order_is_refused_not_misread(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx", 2.0)
        with load(tmp_path, {"model": "m.onnx"}) as runner:
            x = np.ones((2, 4), ">f4")
            with pytest.raises(RunnerError, match=r"input 'x' is >f4, not <f4"):
                runner.session().run(make_batch(x))

    def test_wrong_shape_and_a_failing_kernel_are_runner_errors(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx", 2.0)
        with (
            load(tmp_path, {"model": "m.onnx"}) as runner,
            pytest.raises(RunnerError, match=r"runner 'runner', batch 3 \(ids 5 to 6\)"),
        ):
            runner.session().run(make_batch(np.ones((2, 5), np.float32), 5, number=3))

    def test_output_whose_size_depends_on_the_data(self, tmp_path: Path) -> None:
        path = models.save_model(
            tmp_path / "m.onnx",
            [
                helper.make_node("NonZero", ["x"], ["nz"]),
                helper.make_node("Transpose", ["nz"], ["y"]),
            ],
            {"x": (models.FLOAT, ["batch", 4])},
            {"y": (TensorProto.INT64, [None, 2])},
        )
        with load(tmp_path, {"model": path.name}) as runner:
            session = runner.session()
            with pytest.raises(RunnerError, match=r"its first axis must be the batch of 2"):
                session.run(make_batch(np.ones((2, 4), np.float32)))
            with pytest.raises(RunnerError):
                session.run(make_batch(np.zeros((2, 4), np.float32)))

    def test_outputs_without_elements(self, tmp_path: Path) -> None:
        models.save_model(
            tmp_path / "m.onnx",
            [helper.make_node("Slice", ["x", "at", "at", "axis"], ["y"])],
            {"x": (models.FLOAT, ["batch", 4])},
            {"y": (models.FLOAT, ["batch", None])},
            {"at": np.array([0], np.int64), "axis": np.array([1], np.int64)},
        )
        with load(tmp_path, {"model": "m.onnx"}) as runner:
            session = runner.session()
            for _ in range(3):
                with session.run(make_batch(np.ones((2, 4), np.float32))) as lease:
                    assert lease.outputs["y"].shape == (2, 0)

    def test_closed(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx", 2.0)
        runner = load(tmp_path, {"model": "m.onnx"})
        session = runner.session()
        session.close()
        with pytest.raises(RunnerError, match="closed"):
            session.run(make_batch(np.ones((2, 4), np.float32)))
        runner.close()
        with pytest.raises(RunnerError, match="closed"):
            runner.session()


class TestContradictions:
    def test_all_at_once(self, tmp_path: Path) -> None:
        models.save_model(
            tmp_path / "m.onnx",
            [helper.make_node("Sum", ["a", "b", "c", "d"], ["y"])],
            {
                "a": (models.FLOAT, ["batch", 4]),
                "b": (models.FLOAT, ["batch", 4]),
                "c": (models.FLOAT, ["batch", 4]),
                "d": (models.FLOAT, ["batch", 4]),
            },
            {"y": (models.FLOAT, ["batch", 4])},
        )
        inputs = {
            **column("a", "float64", 4),
            **column("b", "float32", 5),
            **column("c", "float32"),
            **column("extra", "float32", 9),
        }
        table = {"model": "m.onnx", "inputs": {"q": "aa"}, "outputs": {"z": "yy"}}
        error = refusal(tmp_path, table, inputs=inputs)
        assert error.is_plan_fault
        text = str(error)
        for part in (
            "input 'a': the model takes float32, the pack has float64; write the column as float32",
            "needs it as it is, add a column and say inputs = { COLUMN = 'a' }",
            "takes b: float32[batch, 4], the pack has b: float32[batch, 5]",
            "takes c: float32[batch, 4], the pack has c: float32[batch]",
            "takes d: float32[batch, 4], which is neither in the pack nor in [constants]",
            "inputs.q: the model has no input 'aa'",
            "outputs.z: the model has no output 'yy'",
        ):
            assert part in text
        assert "extra" not in text.replace("known: a, b, c, extra", "")

    def test_unneeded_pack_inputs_are_fine(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        inputs = {**column("x", "float32", 4), **column("other", "int64")}
        with load(tmp_path, {"model": "m.onnx"}, inputs) as runner:
            assert set(runner.inputs or ()) == {"x"}

    @pytest.mark.parametrize(
        ("constant", "message"),
        [
            (np.array(1, np.float64), "the constant is float64[]"),
            (np.ones(1, np.float32), "the constant is float32[1]"),
        ],
    )
    def test_constant_of_another_type(
        self, tmp_path: Path, constant: np.ndarray, message: str
    ) -> None:
        models.add_constant(tmp_path / "m.onnx")
        error = refusal(tmp_path, {"model": "m.onnx"}, constants={"c": constant})
        assert error.is_plan_fault
        assert message in str(error)

    def test_pack_and_constant_of_one_name(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        error = refusal(tmp_path, {"model": "m.onnx"}, constants={"x": np.ones(4, np.float32)})
        assert "both in the pack and in [constants]" in str(error)

    def test_a_renamed_output_must_not_hide_another(self, tmp_path: Path) -> None:
        models.multi_output(tmp_path / "m.onnx")
        error = refusal(tmp_path, {"model": "m.onnx", "outputs": {"rank": "double"}})
        assert "outputs.rank: the model has another output of this name" in str(error)

    def test_fixed_batch(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx", fixed_batch=7)
        with load(tmp_path, {"model": "m.onnx"}) as runner:
            assert runner.limits.batch_sizes == (7,)
        with load(tmp_path, {"model": "m.onnx", "batch_size": 7}) as runner:
            assert runner.limits.batch_sizes == (7,)
        error = refusal(tmp_path, {"model": "m.onnx", "batch_size": 8})
        assert error.is_plan_fault
        assert "batch_size is 8 but the model fixes batches of 7" in str(error)

    def test_free_batch_defaults(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        with load(tmp_path, {"model": "m.onnx"}) as runner:
            assert runner.limits.batch_sizes == (256,)
            assert runner.limits.thread_safe
            assert runner.limits.device == "cpu"


class TestLoading:
    def test_missing_model_is_a_fault_of_the_plan(self, tmp_path: Path) -> None:
        error = refusal(tmp_path, {"model": "absent.onnx"})
        assert error.is_plan_fault
        assert "no such file" in str(error)

    def test_a_name_that_is_too_long_is_a_fault_of_the_plan(self, tmp_path: Path) -> None:
        error = refusal(tmp_path, {"model": "n" * 300 + ".onnx"})
        assert error.is_plan_fault
        assert "File name too long" in str(error)

    def test_garbage_is_a_fault_of_the_model(self, tmp_path: Path) -> None:
        (tmp_path / "m.onnx").write_bytes(b"garbage")
        error = refusal(tmp_path, {"model": "m.onnx"})
        assert not error.is_plan_fault
        assert error.code == "admission.invalid_model"

    def test_malformed_model_is_refused_by_the_check(self, tmp_path: Path) -> None:
        models.save_model(
            tmp_path / "m.onnx",
            [helper.make_node("Relu", ["absent"], ["y"])],
            {"x": (models.FLOAT, ["batch", 4])},
            {"y": (models.FLOAT, ["batch", 4])},
        )
        context = PrepareContext(tmp_path, None, column("x", "float32", 4))
        with pytest.raises(RunnerLoadError, match="malformed") as caught:
            prepare(spec_of("m.onnx"), context)
        assert caught.value.code == "admission.invalid_model"
        assert not caught.value.is_plan_fault

    def test_model_that_the_runtime_refuses(self, tmp_path: Path) -> None:
        path = models.scale_model(tmp_path / "m.onnx")
        model = onnx.load(path)
        model.ir_version = 99
        path.write_bytes(model.SerializeToString())
        error = refusal(tmp_path, {"model": "m.onnx"})
        assert not error.is_plan_fault
        assert error.code == "runner.load_failed"
        assert "m.onnx" in str(error)

    def test_escaping_external_data(self, tmp_path: Path) -> None:
        folder = tmp_path / "model"
        folder.mkdir()
        path = models.external_data_model(folder / "m.onnx")
        (tmp_path / "w.bin").write_bytes(b"\0" * 64)
        model = onnx.load(path, load_external_data=False)
        models.set_external(model.graph.initializer[0], "../w.bin", 64)
        path.write_bytes(model.SerializeToString())
        assert refusal(folder, {"model": "m.onnx"}).code == "admission.external_data"

    def test_absent_provider_is_a_fault_of_the_machine(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        error = refusal(tmp_path, {"model": "m.onnx", "providers": ["CUDAExecutionProvider", CPU]})
        assert error.is_plan_fault
        assert "CUDAExecutionProvider isn't in this build" in str(error)
        assert CPU in str(error)
        assert "paritygate[gpu]" in str(error)

    def test_nothing_on_stdout(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        models.scale_model(tmp_path / "m.onnx")
        refusal(tmp_path, {"model": "m.onnx", "providers": ["NoSuchExecutionProvider"]})
        load(tmp_path, {"model": "m.onnx", "providers": [AZURE, CPU]}).close()
        assert capfd.readouterr().out == ""

    def test_a_model_cannot_choose_session_options(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
        config = '{"session_options": {"intra_op_num_threads": 5}}'
        models.scale_model(tmp_path / "m.onnx", metadata={"ort_config": config})
        with load(tmp_path, {"model": "m.onnx"}) as runner:
            used = runner._inference.get_session_options()
            assert used.intra_op_num_threads == 1
            assert runner.facts["environment_ignored"] == ["ORT_LOAD_CONFIG_FROM_MODEL=1"]
        assert "ORT_LOAD_CONFIG_FROM_MODEL" not in os.environ

    def test_options_reach_the_session(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        table = {
            "model": "m.onnx",
            "graph_optimization_level": "extended",
            "intra_op_num_threads": 2,
            "inter_op_num_threads": 3,
            "execution_mode": "parallel",
            "session_options": {"session.intra_op.allow_spinning": True},
        }
        with load(tmp_path, table) as runner:
            used = runner._inference.get_session_options()
            level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
            assert used.graph_optimization_level == level
            assert (used.intra_op_num_threads, used.inter_op_num_threads) == (2, 3)
            assert used.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
            assert used.get_session_config_entry("session.intra_op.allow_spinning") == "1"
            assert used.get_session_config_entry("session.inter_op.allow_spinning") == "0"

    def test_disabled_optimizer_is_left_out(self, tmp_path: Path) -> None:
        models.linear_softmax(tmp_path / "m.onnx")
        plain = load(tmp_path, {"model": "m.onnx"})
        other = load(tmp_path, {"model": "m.onnx", "disabled_optimizers": ["ConstantFolding"]})
        assert plain.identity != other.identity
        assert other.facts["disabled_optimizers"] == ["ConstantFolding"]


class TestPlacement:
    def test_cpu_alone_is_no_downgrade(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        with load(tmp_path, {"model": "m.onnx"}) as runner:
            assert runner.findings == ()
            assert runner.facts["providers_requested"] == [{"name": CPU, "options": {}}]
            assert runner.facts["providers_in_force"] == [CPU]

    def test_provider_that_takes_no_node_is_a_downgrade(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        with load(tmp_path, {"model": "m.onnx", "providers": [AZURE]}) as runner:
            assert [f.code for f in runner.findings] == ["placement.downgraded"]
            assert AZURE in runner.findings[0].message
            assert f"1 on {CPU}" in runner.findings[0].message
            placed = runner.facts["placement"]
            assert placed["assigned"] == {CPU: {"nodes": 1, "op_types": {"Mul": 1}}}
            assert runner.limits.device == "cpu"

    def test_provider_that_was_only_a_fallback_is_none(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        with load(tmp_path, {"model": "m.onnx", "providers": [CPU, AZURE]}) as runner:
            assert runner.findings == ()

    def test_provider_that_is_silently_dropped_is_a_downgrade(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        models.scale_model(tmp_path / "m.onnx")
        monkeypatch.setattr(onnxruntime.InferenceSession, "get_providers", lambda _self: [CPU])
        with load(tmp_path, {"model": "m.onnx", "providers": [AZURE, CPU]}) as runner:
            assert [f.code for f in runner.findings] == ["placement.downgraded"]
            assert "isn't in force" in runner.findings[0].message
            assert runner.facts["providers_in_force"] == [CPU]

    def test_forbidden_fallback_holds_with_the_same_code(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx")
        table = {
            "model": "m.onnx",
            "providers": [AZURE],
            "session_options": {"session.disable_cpu_ep_fallback": "1"},
        }
        error = refusal(tmp_path, table)
        assert error.code == "placement.downgraded"
        assert not error.is_plan_fault


class TestIdentity:
    def test_same_thing(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "a.onnx", 2.0)
        models.scale_model(tmp_path / "b.onnx", 2.0)
        short = load(tmp_path, {"model": "a.onnx"})
        long = load(tmp_path, {"model": "b.onnx", "providers": [CPU], "batch_size": 256})
        assert short.identity == long.identity

    @pytest.mark.parametrize(
        "change",
        [
            {"graph_optimization_level": "basic"},
            {"intra_op_num_threads": 2},
            {"batch_size": 1},
            {"providers": [AZURE, CPU]},
            {"session_options": {"session.disable_prepacking": "1"}},
            {"execution_mode": "parallel"},
            {"outputs": {"z": "y"}},
        ],
    )
    def test_every_setting_counts(self, tmp_path: Path, change: dict[str, object]) -> None:
        models.scale_model(tmp_path / "m.onnx", 2.0)
        one = load(tmp_path, {"model": "m.onnx"})
        other = load(tmp_path, {"model": "m.onnx", **change})
        assert one.identity != other.identity

    def test_weights_outside_the_model_file_count(self, tmp_path: Path) -> None:
        models.external_data_model(tmp_path / "m.onnx")
        one = load(tmp_path, {"model": "m.onnx"})
        (tmp_path / "weights.bin").write_bytes((2 * np.eye(4, dtype=np.float32)).tobytes())
        other = load(tmp_path, {"model": "m.onnx"})
        assert one.identity != other.identity
        described: list[Any] = [r.facts["model"] for r in (one, other)]
        assert described[0]["sha256"] == described[1]["sha256"]
        assert described[0]["digest"] != described[1]["digest"]

    def test_facts_describe_the_model(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "m.onnx", metadata={"ticket": "7"})
        facts = load(tmp_path, {"model": "m.onnx"}).facts
        model: Any = facts["model"]
        assert model["opsets"] == {"ai.onnx": models.OPSET}
        assert model["ir_version"] == models.IR_VERSION
        assert model["metadata"] == {"ticket": "7"}
        assert facts["runtime_version"] == onnxruntime.__version__
        assert facts["session_options"] == {
            "session.intra_op.allow_spinning": "0",
            "session.inter_op.allow_spinning": "0",
        }


def test_the_framework_is_imported_only_when_a_model_is_loaded() -> None:
    code = (
        "import sys, paritygate.runners as r\n"
        "from pathlib import Path\n"
        "r.parse_runner('a', {'model': 'm.onnx', 'providers': ['X']}, Path())\n"
        "assert not {'onnxruntime', 'numba'} & set(sys.modules)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_config_keys_are_in_the_runtime() -> None:
    """Every key that is let through is one that the installed build knows."""
    from paritygate.runners.ort_options import CONFIG_KEYS

    folder = Path(onnxruntime.__file__).parent / "capi"
    built = b"".join(p.read_bytes() for p in folder.glob("*.so*"))
    absent = [key for key in sorted(CONFIG_KEYS) if key.encode() not in built]
    assert set(absent) <= {
        "ep.context_node_name_prefix",
        "ep.share_ep_contexts",
        "ep.stop_share_ep_contexts",
        "mlas.enable_gemm_fastmath_arm64_bfloat16",
    }
