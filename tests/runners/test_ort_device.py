"""Outputs that ONNX Runtime leaves on a GPU: buffers, with the host's memory in the GPU's place."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests import models
from tests.runners.contract import context_of, make_batch, spec_of

from paritygate.core.dtypes import numpy_dtype
from paritygate.core.tensors import ColumnSpec, TensorSpec
from paritygate.gpu.tensor import DeviceTensor, Outputs
from paritygate.runners import ort_device, ort_session
from paritygate.runners.base import Runner
from paritygate.runners.layout import Layout
from paritygate.runners.ort_device import stayable, tensor_of
from paritygate.runners.registry import prepare

CUDA = "CUDAExecutionProvider"


class There:
    """An array of a GPU, which lies in the host's memory here."""

    def __init__(self, array: Any, owner: object) -> None:
        self._array, self._owner = array, owner
        self.dtype, self.shape = array.dtype, array.shape

    def __getitem__(self, rows: slice) -> There:
        return There(self._array[rows], self._owner)

    def copy_to_host(self) -> Any:
        return self._array.copy()


def in_place(value: Any, dtype: str) -> DeviceTensor:
    """As `tensor_of`, of a value on the host."""
    shape = tuple(value.shape())
    memory = (ctypes.c_byte * value.tensor_size_in_bytes()).from_address(value.data_ptr())
    return DeviceTensor([There(np.frombuffer(memory, numpy_dtype(dtype)).reshape(shape), value)])


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    models.multi_output(tmp_path / "m.onnx")
    inputs = {"x": ColumnSpec("x", "float32", (4,))}
    made = prepare(
        spec_of({"kind": "onnxruntime", "model": "m.onnx", "batch_size": 3}),
        context_of(tmp_path, None, None, inputs),
    )
    monkeypatch.setattr(ort_session, "DEVICE", "cpu")
    monkeypatch.setattr(ort_session, "tensor_of", in_place)
    assert made.can_stay == frozenset()  # there is no GPU in it
    yield made
    made.close()


def batch(seed: int, size: int = 3) -> Any:
    x = np.random.default_rng(seed).normal(size=(size, 4)).astype(np.float32)
    return make_batch(x)


def test_answers_that_stay_are_those_that_come_back(runner: Runner) -> None:
    plain = runner.session()
    expected = []
    for seed in range(6):
        with plain.run(batch(seed)) as lease:
            expected.append({name: np.array(tensor) for name, tensor in lease.outputs.items()})
    name = next(iter(expected[0]))
    runner.stays = frozenset({name})
    session = runner.session()
    held = []
    for seed in range(6):
        lease = session.run(batch(seed))
        assert isinstance(lease.outputs, Outputs)
        assert list(lease.outputs) == list(expected[seed])
        lies = {n for n, t in lease.outputs.lying.items() if isinstance(t, DeviceTensor)}
        assert lies == {name}
        held.append(lease)
        if seed % 2:  # of the leases that are held none has the memory of another
            for at, one in ((seed - 1, held[-2]), (seed, held[-1])):
                for output, tensor in one.outputs.items():
                    np.testing.assert_array_equal(tensor, expected[at][output], output)
            for one in held:
                one.release()


def test_the_first_answer_of_all_comes_back_to_be_looked_at(runner: Runner) -> None:
    runner.stays = frozenset(runner.outputs or {})
    session = runner.session()
    with session.run(batch(0)) as lease:
        assert not isinstance(lease.outputs, Outputs)
    with session.run(batch(0, 2)) as lease:
        assert isinstance(lease.outputs, Outputs)


def test_buffers_that_were_released_are_used_again(runner: Runner) -> None:
    runner.stays = frozenset(runner.outputs or {})
    session = runner.session()
    session.run(batch(0)).release()
    places = set()
    for seed in range(4):
        with session.run(batch(seed)) as lease:
            assert isinstance(lease.outputs, Outputs)
            part = next(iter(lease.outputs.lying.values()))
            assert isinstance(part, DeviceTensor)
            places.add(part.parts[0]._array.__array_interface__["data"][0])
    assert len(places) == 1


def wiring(**outputs: tuple[str, tuple[Any, ...]]) -> Any:
    specs = {name: TensorSpec(name, dtype, ("b", *dims)) for name, (dtype, dims) in outputs.items()}
    return SimpleNamespace(
        is_bound=True,
        declared=specs,
        layout=Layout(outputs={"moved": 1} if "moved" in specs else {}),
    )


def loaded(device: str = "cuda", **options: str) -> Any:
    return SimpleNamespace(device=device, provider_options={CUDA: options})


def test_which_outputs_may_stay() -> None:
    many = wiring(
        f=("float32", (4,)),
        i=("int64", (2, 2)),
        moved=("float32", (4,)),
        named=("float32", ("n",)),
        none=("float32", (0,)),
        half=("bfloat16", (4,)),
        quarter=("int4", (4,)),
        flag=("bool", (4,)),
        text=("string", (4,)),
        scalar=("float32", ()),
    )
    assert stayable(loaded(device_id="0"), many) == {"f", "i", "half", "flag"}
    assert stayable(loaded(), many) == {"f", "i", "half", "flag"}
    assert stayable(loaded(device_id="1"), many) == frozenset()
    assert stayable(loaded(enable_cuda_graph="1"), many) == frozenset()
    assert stayable(loaded("cpu"), many) == frozenset()
    for option in ({"device_id": "1"}, {"trt_cuda_graph_enable": "1"}):
        both = {CUDA: {"device_id": "0"}, "TensorrtExecutionProvider": option}
        other = SimpleNamespace(device="cuda", provider_options=both)
        assert stayable(cast(Any, other), many) == frozenset()


@pytest.mark.parametrize("changes", [{"device": "cpu"}, {"size": 23}, {"shape": (0, 3), "size": 0}])
def test_a_value_that_isnt_what_was_asked_for_is_refused(changes: Any) -> None:
    found = {"device": "CUDA", "size": 24, "shape": (2, 3), **changes}
    value = SimpleNamespace(
        shape=lambda: found["shape"],
        device_name=lambda: found["device"],
        tensor_size_in_bytes=lambda: found["size"],
    )
    with pytest.raises(ValueError, match=r"asked for was float32\[\d, 3\] on cuda"):
        tensor_of(value, "float32")
    assert ort_device.DEVICE == "cuda"


def test_what_stays_is_not_written_into_a_blocks_arrays(runner: Runner) -> None:
    session, given = runner.session(), batch(0)
    session.run(given).release()
    inputs = {"x": given.inputs["x"]}
    assert session.filler(inputs, 3) is not None
    runner.stays = frozenset(runner.outputs or {})
    for _ in range(2):
        session.run(given).release()
        assert session.filler(inputs, 3) is None
