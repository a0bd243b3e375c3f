"""Outputs of torch that stay on a GPU, with the host's memory in the GPU's place."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests import torch_models  # noqa: E402
from tests.runners.contract import context_of, make_batch, spec_of  # noqa: E402
from tests.runners.test_ort_device import There, wiring  # noqa: E402

from paritygate.core.tensors import ColumnSpec  # noqa: E402
from paritygate.gpu import tensor as gpu_tensor  # noqa: E402
from paritygate.gpu.tensor import DeviceTensor, Outputs  # noqa: E402
from paritygate.runners import torch_device, torch_session  # noqa: E402
from paritygate.runners.registry import prepare  # noqa: E402
from paritygate.runners.torch_device import stayable  # noqa: E402


class Reused(torch.nn.Module):
    """Answers in memory that its next call writes anew."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("room", torch.zeros(3, 4))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.room.copy_(x * 2)
        return {"y": self.room, "half": x.to(torch.bfloat16), "turned": (x * 3).t().t()}


def borrow(pointer: int, shape: tuple[int, ...], dtype: Any, owner: Any) -> There:
    size = int(np.prod(shape)) * dtype.itemsize
    memory = (ctypes.c_byte * size).from_address(pointer)
    return There(np.frombuffer(memory, dtype).reshape(shape), owner)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let tensors of the host be some of a GPU; a note for each time that it was waited for."""
    waited: list[int] = []
    monkeypatch.setattr("paritygate.gpu.borrowed.borrow", borrow, raising=True)
    monkeypatch.setattr(torch_session, "lies_there", lambda tensor: bool(tensor.numel()))
    monkeypatch.setattr(torch_session, "wait", lambda: waited.append(1))
    return waited


def batch(seed: int) -> Any:
    return make_batch(np.random.default_rng(seed).normal(size=(3, 4)).astype(np.float32))


@pytest.mark.slow
def test_answers_that_stay_are_those_that_come_back(tmp_path: Path, waits: list[int]) -> None:
    torch_models.scripted(Reused().eval(), tmp_path / "m.pt")
    given = context_of(tmp_path, None, None, {"x": ColumnSpec("x", "float32", (4,))})
    with prepare(spec_of({"kind": "torch", "model": "m.pt", "batch_size": 3}), given) as runner:
        check_session(runner, waits)


def check_session(runner: Any, waits: list[int]) -> None:
    assert runner.can_stay == frozenset()
    session = runner.session()
    expected = []
    for seed in range(4):
        with session.run(batch(seed)) as lease:
            expected.append({name: np.array(t) for name, t in lease.outputs.items()})
    assert waits == []
    runner.stays = frozenset({"y", "half"})
    leases = [session.run(batch(seed)) for seed in range(4)]
    assert len(waits) == 4
    for lease, values in zip(leases, expected, strict=True):
        assert isinstance(lease.outputs, Outputs)
        lies = {n for n, t in lease.outputs.lying.items() if isinstance(t, DeviceTensor)}
        assert lies == {"y", "half"}
        for name, value in values.items():
            found = lease.outputs[name]
            assert found.dtype == value.dtype
            np.testing.assert_array_equal(found, value)


def test_which_outputs_may_stay() -> None:
    many = wiring(f=("float32", (4,)), named=("float32", ("n",)), half=("bfloat16", (4,)))
    many.outputs = many.declared
    assert stayable("cuda", many, is_declared=True) == {"f", "half"}
    assert stayable("cuda:0", many, is_declared=True) == {"f", "half"}
    assert stayable("cuda:1", many, is_declared=True) == frozenset()
    assert stayable("cpu", many, is_declared=True) == frozenset()
    assert stayable("cuda", many, is_declared=False) == frozenset()


def test_a_tensor_of_the_host_lies_elsewhere() -> None:
    assert not torch_device.lies_there(torch.zeros(2))
    assert gpu_tensor.on_host(7) == 7
