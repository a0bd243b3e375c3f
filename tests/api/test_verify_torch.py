"""`verify` takes modules and exported programs as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests import torch_models  # noqa: E402

import paritygate  # noqa: E402
from paritygate.core.errors import ParityError  # noqa: E402

X = np.random.default_rng(3).normal(size=(64, 4)).astype(np.float32)
NEAR: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture
def net() -> Any:
    return torch_models.Net().train()


@pytest.fixture
def onnx(net: Any, tmp_path: Path) -> str:
    path = torch_models.to_onnx(net, tmp_path / "net.onnx", ["x"], torch.zeros(2, 4))
    net.train()
    return str(path)


def codes(result: Any) -> list[str]:
    return [reason.code for reason in result.reasons]


def test_a_module_against_its_export(net: Any, onnx: str) -> None:
    net.drop.eval()
    flags = [m.training for m in net.modules()]
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    threads = torch.get_num_threads()
    batches = [{"x": X}, {"x": X[:1]}, {"x": torch.zeros(3, 4)}]
    for sides in ((net, onnx), (onnx, net)):
        assert paritygate.verify(*sides, batches, outputs="y", **NEAR).verdict == "release"
    assert [m.training for m in net.modules()] == flags
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_answers_are_those_of_evaluation(net: Any, onnx: str) -> None:
    ref = net.eval()(torch.from_numpy(X)).detach().numpy()
    result = paritygate.verify(
        net.train(), lambda _: {"y": ref}, {"x": X}, outputs="y", atol=0, rtol=0
    )
    assert result.verdict == "release"


def test_other_weights_hold(onnx: str) -> None:
    result = paritygate.verify(torch_models.Net(1), onnx, {"x": X}, outputs="y", **NEAR)
    assert codes(result) == ["tolerance.exceeded"]
    with pytest.raises(AssertionError, match="output 'y'"):
        result.raise_for_hold()


def test_exported_and_scripted(net: Any, onnx: str) -> None:
    batch = torch.export.Dim("batch")
    program = torch.export.export(net.eval(), (torch.zeros(2, 4),), dynamic_shapes=({0: batch},))
    with torch_models.old_ways():
        script = torch.jit.script(net.train())
    for given in (program, script):
        result = paritygate.verify(given, onnx, [{"x": X}, {"x": X[:5]}], outputs="y", **NEAR)
        assert result.verdict == "release"
    assert script.training
    assert script.drop.training


def test_a_program_in_training_mode(net: Any, onnx: str) -> None:
    program = torch.export.export(net.train(), (torch.zeros(2, 4),))
    result = paritygate.verify(onnx, program, {"x": X[:2]}, outputs="y", **NEAR)
    assert codes(result)[0] == "admission.training_mode"
    with pytest.raises(ParityError, match=r"call model.eval\(\)"):
        paritygate.verify(program, onnx, {"x": X[:2]}, outputs="y", **NEAR)


def test_one_module_on_both_sides_is_no_evidence(net: Any) -> None:
    result = paritygate.verify(net, net, {"x": X}, **NEAR)
    assert codes(result) == ["policy.same_runner"]
    assert paritygate.verify(net, torch_models.Net(), {"x": X}, **NEAR).verdict == "release"


def test_names(net: Any, onnx: str) -> None:
    result = paritygate.verify(net, onnx, {"x": X}, **NEAR)
    assert codes(result) == ["output.missing", "output.missing"]
    assert 'runners.candidate.outputs = { "output" = "y" }' in result.reasons[0].next
    with pytest.raises(ParityError, match="takes x: tensor.*neither in the pack"):
        paritygate.verify(net, lambda _: {"y": X}, {"wrong": X}, outputs="y", **NEAR)
    result = paritygate.verify(net, onnx, {"x": X}, outputs=["a", "b"], **NEAR)
    assert "1 outputs (output) for the 2 names a, b" in str(result.reasons)


class Bfloat(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_tensors_of_any_dtype_as_inputs() -> None:
    x = torch.from_numpy(X).bfloat16()
    native = X.astype(ml_dtypes.bfloat16)

    def twice(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        assert given["x"].tobytes() == native.tobytes()
        return {"output": (given["x"] * 2).astype(ml_dtypes.bfloat16)}

    assert paritygate.verify(Bfloat(), twice, {"x": x}, atol=0, rtol=0).verdict == "release"
    x = torch.from_numpy(X).requires_grad_()
    result = paritygate.verify(Bfloat(), lambda g: {"output": g["x"] * 2}, {"x": x}, atol=0, rtol=0)
    assert result.verdict == "release"


class Writes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)


def test_a_module_that_writes_to_its_input_changes_nobodys() -> None:
    given = X.copy()
    result = paritygate.verify(
        Writes(), lambda g: {"output": g["x"] * 2}, {"x": given}, atol=0, rtol=0
    )
    assert result.verdict == "release"
    assert (given == X).all()


class Remembers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x + self.seen


def test_a_module_that_remembers_holds() -> None:
    result = paritygate.verify(
        Remembers(), lambda g: {"output": g["x"] + 3}, {"x": X}, atol=0, rtol=0
    )
    assert codes(result) == ["runner.not_repeatable"]


def test_torch_is_not_imported_to_look_for_modules() -> None:
    code = (
        "import sys, numpy as np, paritygate\n"
        "f = lambda g: {'y': g['x'] * 2}\n"
        "h = lambda g: {'y': g['x'] + g['x']}\n"
        "r = paritygate.verify(f, h, {'x': np.ones((4, 2), np.float32)}, atol=0, rtol=0)\n"
        "print(r.verdict, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["release", "False"]
