"""Small programs of torch for tests, and files of them; imported only where torch is there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch


@contextmanager
def old_ways() -> Iterator[None]:
    """TorchScript and the exporter that is built on it are deprecated, and say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Twice(torch.nn.Module):
    """`y = 2 x`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


class Many(torch.nn.Module):
    """A dict with a tuple in it: `double`, `rank.0` int64, `rank.1` bool, `wide` float64."""

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"double": x + x, "rank": (x.long(), x > 0), "nothing": None, "wide": x.double()}


class Net(torch.nn.Module):
    """`(batch, 4)` to `(batch, 3)`, with what behaves differently in training."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = torch.nn.Linear(4, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.drop = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(8, 3)
        with torch.no_grad():
            self.norm.running_mean.normal_()
            self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


def scripted(module: torch.nn.Module, path: Path) -> Path:
    with old_ways():
        torch.jit.script(module).save(str(path))
    return path


def traced(module: torch.nn.Module, path: Path, *inputs: Any) -> Path:
    with old_ways():
        torch.jit.trace(module, inputs, check_trace=False).save(str(path))
    return path


def exported(module: torch.nn.Module, path: Path, *inputs: Any, free: bool = True) -> Path:
    """An exported program; with `free` the first axis of every tensor is the batch."""
    dims: Any = None
    if free:
        batch = torch.export.Dim("batch")
        dims = tuple({0: batch} if isinstance(i, torch.Tensor) else None for i in inputs)
    torch.export.save(torch.export.export(module, inputs, dynamic_shapes=dims), path)
    return path


def to_onnx(module: torch.nn.Module, path: Path, names: list[str], *inputs: Any) -> Path:
    with old_ways():
        torch.onnx.export(
            module.eval(),
            inputs,
            str(path),
            input_names=names,
            output_names=["y"],
            dynamic_axes={name: {0: "batch"} for name in [*names, "y"]},
            opset_version=17,
            dynamo=False,
        )
    return path
