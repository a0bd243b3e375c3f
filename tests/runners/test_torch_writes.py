"""Programs that write to what they are given, or keep: the pack and the other side never see it."""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")

from tests import models, torch_models  # noqa: E402

import paritygate  # noqa: E402
from paritygate.golden.write import PackWriter, tensor_batch  # noqa: E402
from paritygate.runners.torch_export import describe_exported  # noqa: E402
from paritygate.testing import RunnerContract  # noqa: E402

Array = np.ndarray[Any, Any]
X = torch.zeros(2, 4)


class Clips(torch.nn.Module):
    """Writes to its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.clamp_(-1, 1)
        return x * 2


class Counts(torch.nn.Module):
    """Writes to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return x * 2


class SetsAnItem(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x[:, 0] = 0
        return x * 2


def decomposed(module: torch.nn.Module) -> Any:
    batch = torch.export.Dim("batch", min=1, max=4096)
    example = (torch.zeros(8, 4),)
    program = torch.export.export(module.eval(), example, dynamic_shapes={"x": {0: batch}})
    with torch_models.old_ways():  # torch warns of its own calls
        return program.run_decompositions()


@functools.cache
def clips() -> bytes:
    buffer = io.BytesIO()
    torch.export.save(decomposed(Clips()), buffer)
    return buffer.getvalue()


def save_clips(path: Path) -> Path:
    path.write_bytes(clips())
    return path


def golden(folder: Path) -> Array:
    """A pack of 600 samples, many beyond what `Clips` lets through; it is mapped when read."""
    x = np.random.default_rng(3).normal(size=(600, 4)).astype(np.float32) * 3
    record = tensor_batch({"in.x": x}).add_column(0, "sample_id", pa.array(range(600), pa.int64()))
    writer = PackWriter(folder / "g.arrow", record.schema)
    writer.write(record)
    writer.close()
    return x


class TestClipsDecomposed(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(save_clips(folder / "m.pt2"))

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"output": 2 * np.clip(inputs["x"], -1, 1)}


@pytest.mark.parametrize("module", [Clips(), Counts(), SetsAnItem()])
@pytest.mark.parametrize("form", [decomposed, lambda m: torch.export.export(m, (X,))])
def test_a_program_that_writes_runs_one_batch_at_a_time(module: torch.nn.Module, form: Any) -> None:
    assert not describe_exported(form(module)).is_thread_safe


@pytest.mark.parametrize("module", [torch_models.Twice(), torch_models.Net().eval()])
@pytest.mark.parametrize("form", [decomposed, lambda m: torch.export.export(m, (X,))])
def test_a_program_that_writes_to_nothing_runs_many(module: torch.nn.Module, form: Any) -> None:
    assert describe_exported(form(module)).is_thread_safe


def run(folder: Path, reference: object, candidate: object) -> paritygate.RunResult:
    plan = {
        "golden": str(folder / "g.arrow"),
        "runners": {"a": reference, "b": candidate},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 1e-6, "rtol": 0.0}}],
    }
    return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_clip_that_the_other_side_lacks_holds(tmp_path: Path, side: str) -> None:
    x = golden(tmp_path)
    before = (tmp_path / "g.arrow").read_bytes()
    save_clips(tmp_path / "clips.pt2")
    models.scale_model(tmp_path / "two.onnx", 2.0, out_name="y")
    clipping: object = {"model": "clips.pt2", "outputs": ["y"]}
    pair = (clipping, "two.onnx") if side == "reference" else ("two.onnx", clipping)
    result = run(tmp_path, *pair)
    assert result.verdict == "hold"
    wrong = int((np.abs(x) > 1).any(axis=1).sum())
    assert result.summary["stages"][0]["samples"]["failed"] == wrong
    assert (tmp_path / "g.arrow").read_bytes() == before


def test_verify_leaves_the_tensors_that_it_was_given(tmp_path: Path) -> None:
    models.scale_model(tmp_path / "two.onnx", 2.0, out_name="y")
    x = torch.full((8, 4), 3.0)
    result = paritygate.verify(
        decomposed(Clips()), str(tmp_path / "two.onnx"), {"x": x}, atol=1e-6, rtol=0, outputs="y"
    )
    assert result.verdict == "hold"
    assert bool((x == 3).all())
