"""Runner tables: kinds from paths, all problems at once, each with its path."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import models
from tests.runners.contract import context_of, spec_of

from paritygate.core.errors import RunnerLoadError
from paritygate.runners.ort_options import Options
from paritygate.runners.registry import infer_kind, parse_runner, prepare_all


def problems_of(table: object) -> list[str]:
    spec, problems = parse_runner("int8", table, Path())
    assert (spec is None) == bool(problems)
    return [str(p) for p in problems]


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("m.onnx", "onnxruntime"),
        ("deep/er/M.ONNX", "onnxruntime"),
        ("rec/*.arrow", "recorded"),
        ("rec/*.ipc", "recorded"),
        ("rec.arrows", "recorded"),
        ("rec.feather", "recorded"),
        ("rec-*.parquet", "recorded"),
        ("recordings/", "recorded"),
        ("recorded", "recorded"),
        ("side:f", "python"),
        ("pkg.side:f", "python"),
        ({"model": "m.onnx"}, "onnxruntime"),
        ({"model": "rec.arrow"}, "recorded"),
        ({"model": "side:f", "batch_size": 3}, "python"),
        ({"path": "rec.arrow"}, "recorded"),
        ({"path": ["a.arrow", "b.arrow"]}, "recorded"),
        ({"call": "side:f"}, "python"),
        ({"kind": "recorded"}, "recorded"),
        ({"kind": "onnxruntime", "model": "m.bin"}, "onnxruntime"),
        ({"kind": "null", "echo": {"y": "x"}}, "null"),
        ("m.pt", "torch"),
        ("m.PT2", "torch"),
        ({"model": "m.pth", "batch_size": 2}, "torch"),
        ({"factory": "net:build", "weights": "w.safetensors"}, "torch"),
    ],
)
def test_kind(table: object, kind: str) -> None:
    assert spec_of(table).kind == kind


@pytest.mark.parametrize("path", ["m.pb", "m.tflite", "m.xyz", "m"])
def test_unknown_files(path: str) -> None:
    with pytest.raises(ValueError, match=r"\.onnx \(onnxruntime\)"):
        infer_kind(path)
    assert problems_of(path)[0].startswith("runners.int8: ")


def test_later_files_are_named() -> None:
    assert "LiteRT files (.tflite) aren't supported in this version" in problems_of("m.tflite")[0]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (3, "runners.int8: is a path or a table, not int"),
        ({}, "runners.int8: says neither a kind nor any of model (onnxruntime)"),
        ({"kind": "onnxruntme", "model": "m"}, "runners.int8.kind: 'onnxruntme' isn't known; did"),
        (
            {"kind": "torhc", "model": "m"},
            "runners.int8.kind: 'torhc' isn't known; did you mean 'to",
        ),
        (
            {"kind": "litert", "model": "m"},
            "known: onnxruntime, recorded, python, preprocessing, torch, null",
        ),
        (
            {"kind": "torch"},
            "give either model (a TorchScript file or an exported program) or fact",
        ),
        ({"model": "m.pt", "factory": "a:b"}, "give either model"),
        ({"factory": "ab"}, "runners.int8.factory: write it as 'module:function'"),
        ({"model": "m.pt", "weights": "w"}, "weights need a factory"),
        ({"factory": "a:b", "weights_key": "w"}, "weights_key is of a file of weights"),
        ({"factory": "a:b", "sha256": "0" * 64}, "sha256 is of model or weights"),
        ({"model": "m.pt", "sha256": "0"}, "runners.int8.sha256"),
        ({"model": "m.pt", "device": "gpu"}, 'runners.int8.device: is "cpu", "cuda" or "cuda:N"'),
        ({"model": "m.pt", "outputs": ["a", "a"]}, "names an output twice"),
        ({"model": "m.pt", "outputs": {"a": "x", "b": "x"}}, "same tensor of the program 'x'"),
        ({"model": "m.pt", "inputs": {"a": "x", "b": "x"}}, "same tensor of the program 'x'"),
        ({"model": "m.pt", "treads": 1}, "runners.int8.treads: isn't a known key"),
        ({"kind": 3}, "runners.int8.kind: is the name of a kind"),
        ({"model": 3}, "runners.int8.model: is text (found 3)"),
        ({"kind": "onnxruntime"}, "runners.int8.model: is missing"),
        ({"model": "m.onnx", "provider": ["X"]}, "did you mean 'providers'?"),
        ({"model": "m.onnx", "batch_size": 0}, "runners.int8.batch_size: "),
        ({"model": "m.onnx", "batch_size": True}, "runners.int8.batch_size: "),
        ({"model": "m.onnx", "graph_optimization_level": "max"}, "found 'max'"),
        ({"model": "m.onnx", "providers": []}, "name at least one provider"),
        ({"model": "m.onnx", "providers": ["A", "A"]}, "A is named twice"),
        (
            {"model": "m.onnx", "providers": [{"name": "A", "option": {}}]},
            "runners.int8.providers[0].option: isn't a known key; did you mean 'options'?",
        ),
        (
            {
                "model": "m.onnx",
                "providers": [{"name": "CPUExecutionProvider", "options": {"a": 1}}],
            },
            "takes no options (it would ignore ['a'] in silence)",
        ),
        (
            {"model": "m.onnx", "session_options": {"session.disable_prepackin": "1"}},
            "did you mean 'session.disable_prepacking'?",
        ),
        (
            {"model": "m.onnx", "session_options": {"session.intra_op_num_threads": "1"}},
            "use intra_op_num_threads",
        ),
        (
            {"model": "m.onnx", "session_options": {"session.set_denormal_as_zero": 2}},
            "is 0 or 1",
        ),
        ({"model": "m.onnx", "inputs": {"a": "x", "b": "x"}}, "are the same tensor of the model"),
        ({"kind": "recorded", "outputs": {"a": "x", "b": "x"}}, "same output of the recording"),
        ({"kind": "recorded", "path": []}, "runners.int8.path"),
        ({"kind": "python", "call": "nofunction"}, "write it as 'module:function'"),
        ({"kind": "null"}, "give outputs"),
        ({"kind": "null", "echo": {"y": "x"}, "outputs": {"y": {"dtype": "bool"}}}, "and in echo"),
        (
            {"kind": "null", "outputs": {"y": {"dtype": "complex64"}}},
            "runners.int8.outputs.y.dtype",
        ),
        ({"kind": "null", "outputs": {"y": {"dtype": "bool", "shap": 1}}}, "did you mean 'shape'?"),
    ],
)
def test_problem(table: object, problem: str) -> None:
    found = problems_of(table)
    assert any(problem in text for text in found), found


def test_all_problems_at_once() -> None:
    found = problems_of(
        {"model": "m.onnx", "batch_size": -1, "colour": 1, "execution_mode": "x", "providers": 3}
    )
    paths = {text.split(":")[0] for text in found}
    assert paths == {
        f"runners.int8.{k}" for k in ("batch_size", "colour", "execution_mode", "providers")
    }


def test_values_are_made_text() -> None:
    table = {
        "model": "m.onnx",
        "providers": ["A", {"name": "B", "options": {"device_id": 0, "tf32": False}}],
        "session_options": {"session.disable_prepacking": True},
    }
    options = spec_of(table).options
    assert isinstance(options, Options)
    assert [p.name for p in options.providers] == ["A", "B"]
    assert options.providers[1].options == {"device_id": "0", "tf32": "0"}
    assert options.session_options == {"session.disable_prepacking": "1"}


def test_options_round_trip_through_their_own_table() -> None:
    spec = spec_of({"model": "m.onnx", "providers": ["A"], "batch_size": 3})
    table = {"kind": spec.kind, **spec.options.model_dump(mode="json", exclude_none=True)}
    assert spec_of(table) == spec


def test_prepare_all_tells_every_failure(tmp_path: Path) -> None:
    models.scale_model(tmp_path / "good.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"bad")
    specs = [spec_of(f"{n}.onnx", n) for n in ("bad", "good", "absent")]
    ready, failed = prepare_all(specs, context_of(tmp_path))
    assert list(ready) == ["good"]
    assert [e.runner for e in failed] == ["bad", "absent"]
    assert all(isinstance(e, RunnerLoadError) for e in failed)
    ready["good"].close()
    assert prepare_all([], context_of(tmp_path)) == ({}, [])


def test_a_field_of_several_types_is_one_problem_at_its_own_path() -> None:
    outputs = {"y": {"select": "x"}, "z": {"select": [1, "q"]}}
    _, problems = parse_runner("a", {"model": "a.onnx", "outputs": outputs}, Path())
    assert [p.path for p in problems] == [
        "runners.a.outputs.y.select",
        "runners.a.outputs.z.select",
        "runners.a.outputs.z.select[1]",
    ]
    assert problems[0].message.startswith("is a whole number (found 'x') or is a list")
