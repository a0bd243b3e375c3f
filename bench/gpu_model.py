"""Comparing what a model of the size of ResNet-50 answers, against its inference.

The comparison is `timing.compare_s` of a run of one thread over 1024 images, elements and an argmax
decision, both models on the device and so their answers. Inference is a bare loop over one batch
that lies on the device: of one model, with the settings of the run's runners and TensorFloat-32,
and in float16. Weights are drawn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from bench.gpu_libraries import LackingError, imported
from bench.gpu_report import Missing
from bench.gpu_sides import DeviceScale, paced
from bench.make import pack, random_values
from bench.measure import Row, run_seconds, seconds

from paritygate.gpu.device import SIMULATED, cuda
from paritygate.runners.torch_settings import Settings, acquire

LIMIT = 0.03  # of inference
IMAGES = 1024
BATCHES = 16  # of the bare loop
ON = "cpu" if SIMULATED else "cuda"
PROVIDER = "CPUExecutionProvider" if SIMULATED else "CUDAExecutionProvider"
NOISE = 1e-6
Runtime = Literal["torch", "onnxruntime"]
UNIT = "ms/batch"


@dataclass(frozen=True)
class Size:
    """How large a model is, and what it is given; by default ResNet-50's."""

    widths: tuple[int, ...] = (64, 128, 256, 512)
    blocks: tuple[int, ...] = (3, 4, 6, 3)
    classes: int = 1000
    side: int = 224
    images: int = IMAGES


QUICK, TINY = Size(images=256), Size((4, 8), (1, 2), 6, 32, 8)


@dataclass(frozen=True)
class ModelOnDevice:
    """Two models of one architecture, the weights of the second disturbed by a few ULP."""

    runtime: Runtime
    batch: int

    @property
    def name(self) -> str:
        return f"ResNet-50 by {self.runtime}, batch {self.batch}, comparing"

    @property
    def labels(self) -> tuple[str, ...]:
        half = (f"{self.name}, float16",) if self.runtime == "torch" else ()
        return (self.name, *half)

    def measure(self, scale: DeviceScale) -> list[Row | Missing]:
        size = scale.pick(Size(), QUICK, TINY)
        batch = scale.pick(self.batch, self.batch, 2)
        torch = imported("torch")
        _check_runtime(torch, self.runtime)
        x = random_values(size.images, (3, size.side, size.side))
        golden = pack(scale.folder / "images.arrow", np.arange(len(x)), {"x": x})
        models = [resnet(torch, size, noise) for noise in (0.0, NOISE)]
        save = _save_program if self.runtime == "torch" else _save_onnx
        paths = [save(torch, models[k], scale.folder / f"resnet{k}", x[:2]) for k in range(2)]
        plan = self._plan(golden, paths, batch)
        first = x[:batch]
        works = {
            "ours": lambda: _compare_seconds(plan) * batch / size.images,
            "one": _bare(torch, self.runtime, models[0], paths[0], first),
        }
        if self.runtime == "torch":
            works["half"] = _loop(torch, models[0], first, "float16")
        found = paced(scale, works)
        ms = {name: [1e3 * s for s in values] for name, values in found.items()}
        what = f"inference of one model, {'TF32' if ON == 'cuda' else 'float32'}"
        rows: list[Row | Missing] = [
            Row.against(self.labels[0], ms["ours"], UNIT, ms["one"], what, limit=LIMIT)
        ]
        if "half" in ms:
            what = "inference of one model, float16"
            rows.append(Row.against(self.labels[1], ms["ours"], UNIT, ms["half"], what))
        return rows

    def _plan(self, golden: Path, models: Sequence[Path], batch: int) -> dict[str, Any]:
        own: dict[str, Any] = {"providers": [{"name": PROVIDER}]}
        if self.runtime == "torch":
            own = {
                "device": ON,
                "tf32": True,
                "inputs": {"x": "input"},
                "outputs": ["y"],
            }
        runner = {"kind": self.runtime, "batch_size": batch, **own}
        return {
            "golden": str(golden),
            "compare_on": "cuda",
            "dims": {"batch": {"sizes": [batch]}},
            "runners": {
                name: {**runner, "model": str(path)}
                for name, path in zip(("ref", "cand"), models, strict=True)
            },
            "stages": [
                {
                    "reference": "ref",
                    "candidate": "cand",
                    "outputs": {"y": {"atol": 1e-1, "rtol": 1e-1}},
                }
            ],
            "decisions": {"class": {"output": "y", "argmax": True}},
        }


def cases() -> list[ModelOnDevice]:
    """What is measured."""
    return [ModelOnDevice(runtime, b) for runtime in ("torch", "onnxruntime") for b in (32, 128)]


def resnet(torch: Any, size: Size, noise: float = 0.0) -> Any:
    """A residual network of bottlenecks, in evaluation mode, the same for the same arguments.

    Kaiming He et al., Deep Residual Learning for Image Recognition, 2015, table 1; the stride of a
    bottleneck is that of its 3 x 3 convolution.
    """
    nn = torch.nn

    def layer(given: int, made: int, kernel: int, stride: int = 1) -> list[Any]:
        pad = kernel // 2
        return [nn.Conv2d(given, made, kernel, stride, pad, bias=False), nn.BatchNorm2d(made)]

    class Bottleneck(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, given: int, width: int, stride: int) -> None:
            super().__init__()
            made = 4 * width
            self.main = nn.Sequential(
                *layer(given, width, 1), nn.ReLU(), *layer(width, width, 3, stride), nn.ReLU(),
                *layer(width, made, 1),
            )  # fmt: skip
            is_same = given == made and stride == 1
            self.past = nn.Identity() if is_same else nn.Sequential(*layer(given, made, 1, stride))

        def forward(self, x: Any) -> Any:
            return torch.relu(self.main(x) + self.past(x))

    torch.manual_seed(43)
    given = size.widths[0]
    parts = [*layer(3, given, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for number, (width, count) in enumerate(zip(size.widths, size.blocks, strict=True)):
        for k in range(count):
            parts.append(Bottleneck(given, width, 2 if k == 0 and number else 1))
            given = 4 * width
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, size.classes)]
    module = nn.Sequential(*parts).eval()
    with torch.no_grad():
        for weights in module.parameters() if noise else ():
            weights *= 1 + noise * (2 * torch.rand_like(weights) - 1)
    return module


def _check_runtime(torch: Any, runtime: Runtime) -> None:
    """Raises `LackingError` where it has no device."""
    if ON == "cuda" and not torch.cuda.is_available():
        raise LackingError("this build of torch finds no CUDA device")
    if runtime == "onnxruntime":
        there = imported("onnxruntime").get_available_providers()
        if PROVIDER not in there:
            raise LackingError(f"this build of onnxruntime has {', '.join(there)}")


def _save_program(torch: Any, model: Any, path: Path, x: Any) -> Path:
    dims = ({0: torch.export.Dim("batch", min=1, max=1024)},)
    program = torch.export.export(model, (torch.from_numpy(x),), dynamic_shapes=dims)
    path = path.with_suffix(".pt2")
    torch.export.save(program, path)
    return path


def _save_onnx(torch: Any, model: Any, path: Path, x: Any) -> Path:
    path = path.with_suffix(".onnx")
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    torch.onnx.export(
        model, (torch.from_numpy(x),), str(path), input_names=["x"], output_names=["y"],
        dynamic_axes=axes, dynamo=False,
    )  # fmt: skip
    return path


def _compare_seconds(plan: dict[str, Any]) -> float:
    _, result = run_seconds(plan, threads=1)
    assert result.summary["stages"][0]["outputs"]["y"]["failing_samples"] == 0
    told = result.summary["comparison"]
    (counts,) = (found["y"] for found in told["samples"].values())
    assert counts["cpu"] == 0, told["notes"]
    return float(result.summary["timing"]["compare_s"])


def _bare(torch: Any, runtime: Runtime, model: Any, path: Path, x: Any) -> Callable[[], float]:
    if runtime == "torch":
        return _loop(torch, model, x, "float32")
    return _bound(path, x)


def _loop(torch: Any, model: Any, x: Any, dtype: str) -> Callable[[], float]:
    """Seconds of a batch, all operators in the queue of the device before it is waited for."""
    kind = getattr(torch, dtype)
    own = copy.deepcopy(model).to(ON, kind).to(memory_format=torch.channels_last)
    given = torch.from_numpy(x).to(ON, kind).contiguous(memory_format=torch.channels_last)

    def work() -> None:
        with torch.inference_mode():
            for _ in range(BATCHES):
                own(given)
        cuda.synchronize()

    def timed() -> float:
        release = acquire(Settings(tf32=True))
        try:
            return seconds(work) / BATCHES
        finally:
            release()

    return timed


def _bound(path: Path, x: Any) -> Callable[[], float]:
    """The same by ONNX Runtime."""
    ort = imported("onnxruntime")
    session = ort.InferenceSession(str(path), providers=[PROVIDER])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x, ON, 0))
    binding.bind_output("y", ON, 0)

    def work() -> None:
        for _ in range(BATCHES):
            session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    return lambda: seconds(work) / BATCHES
