"""Rows about programs of torch: what they do in training, what they keep, what their files run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conformance.case import RELEASE, Call, Case, Expected, hold
from tests.packs import write_pack

import paritygate

X = np.random.default_rng(8).normal(size=(12, 4)).astype(np.float32)
NEAR = {"atol": 1e-5, "rtol": 1e-4}


def _net(seed: int = 0) -> tuple[Any, Any]:
    pytest.importorskip("torch")
    from tests import torch_models

    return torch_models, torch_models.Net(seed)


def _plan(folder: Path, make: Callable[[Path], str | dict[str, Any]]) -> Any:
    """A net's ONNX export against what `make` writes of it."""
    models, net = _net()
    import torch

    write_pack(folder / "g.arrow", np.arange(len(X)), {"x": X})
    models.to_onnx(net, folder / "net.onnx", ["x"], torch.zeros(2, 4))
    made = make(folder)
    cand = made if isinstance(made, dict) else {"model": made, "outputs": ["y"]}
    plan = {
        "golden": "g.arrow",
        "runners": {"onnx": "net.onnx", "torch": cand},
        "stages": [{"reference": "onnx", "candidate": "torch", "default": NEAR}],
    }
    return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)


def _traced(folder: Path, *, training: bool) -> str:
    models, net = _net()
    import torch

    return models.traced(net.train(training), folder / "net.pt", torch.zeros(2, 4)).name


def _exported(folder: Path, *, training: bool) -> str:
    models, net = _net()
    import torch

    return models.exported(net.train(training), folder / "net.pt2", torch.zeros(2, 4)).name


def _scripted_in_training(folder: Path) -> str:
    models, net = _net()
    return models.scripted(net.train(), folder / "net.pt").name


def _counting(folder: Path) -> dict[str, Any]:
    (folder / "net.py").write_text(
        "import torch\nfrom tests import torch_models\n"
        "class Late(torch_models.Net):\n"
        "    calls = 0\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        return super().forward(x) + 1e-7 * self.calls\n"
        "def build():\n    return Late()\n"
    )
    return {"factory": "net:build", "outputs": ["y"]}


def _half_weights(folder: Path) -> dict[str, Any]:
    _, net = _net()
    import torch

    torch.save(net.half().state_dict(), folder / "w.pt")
    (folder / "net.py").write_text(
        "from tests import torch_models\ndef build():\n    return torch_models.Net(1)\n"
    )
    return {"factory": "net:build", "weights": "w.pt", "outputs": ["y"]}


def _pickled(folder: Path) -> str:
    _, net = _net()
    import torch

    torch.save(net, folder / "net.pt")
    return "net.pt"


def _module(folder: Path) -> Any:
    models, net = _net()
    import torch

    path = models.to_onnx(net, folder / "net.onnx", ["x"], torch.zeros(2, 4))
    return paritygate.verify(net.train(), str(path), {"x": X}, outputs="y", **NEAR)


def _row(kind: str, name: str, make: Callable[[Path], Any], expected: Expected, *says: str) -> Case:
    return Case(kind, name, Call("run", partial(_plan, make=make)), expected, says)


TRAINING = hold("admission.training_mode", "stage.not_run")
ROWS = (
    _row("source", "torch: scripted in training mode: evaluated", _scripted_in_training, RELEASE),
    Case("source", "torch: a module in training mode: evaluated", Call("verify", _module), RELEASE),
    _row("source", "torch: traced for evaluation", partial(_traced, training=False), RELEASE),
    _row("source", "torch: exported for evaluation", partial(_exported, training=False), RELEASE),
    _row(
        "source",
        "torch: traced with dropout and batch statistics on",
        partial(_traced, training=True),
        TRAINING,
        "training mode",
        "model.eval()",
    ),
    _row(
        "source",
        "torch: exported with dropout and batch statistics on",
        partial(_exported, training=True),
        TRAINING,
        "training mode",
        "model.eval()",
    ),
    _row(
        "source",
        "torch: a module that keeps something from call to call, within the tolerance",
        _counting,
        hold("runner.not_repeatable"),
        "keeps something",
    ),
    _row(
        "source",
        "torch: half-precision weights for a single-precision module",
        _half_weights,
        hold("runner.load_failed", "stage.not_run"),
        "nothing is cast",
    ),
    _row(
        "source",
        "torch: a pickled module, which would run what its file says",
        _pickled,
        hold("admission.unsafe_model", "stage.not_run"),
        "torch.export.save",
    ),
)
