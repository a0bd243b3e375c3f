"""Answers that lie on a GPU are compared there, in Numba's simulator of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba import cuda
from tests.packs import write_pack

import paritygate
from paritygate.comparison import place
from paritygate.core.errors import DeviceError
from paritygate.core.tensors import Array, Batch, TensorSpec
from paritygate.gpu.tensor import DeviceTensor, Outputs, pieces
from paritygate.pipeline import prepare
from paritygate.pipeline.execute import Options, execute
from paritygate.runners.base import Lease, Runner, RunnerSession

SAMPLES = 50
CUTS = (15, 20, 15)
WIDTH = 4
CODE = """
import ml_dtypes
import numpy as np
DTYPE = np.dtype(getattr(ml_dtypes, DTYPE, DTYPE))
def ref(inputs):
    x = inputs["x"]
    return {"y": x * np.float32(2), "z": x[:, :1] + np.float32(1), "n": x[:, :2].astype(DTYPE)}
def cand(inputs):
    x, out = inputs["x"], ref(inputs)
    bad = (x[:, 0] > 1.5)
    out["y"] = out["y"] + np.where(bad, np.float32(1), np.float32(1e-5))[:, None]
    out["z"][x[:, 1] > 2] = np.nan
    out["n"] = (x[:, :2] * ~bad[:, None]).astype(DTYPE)
    if FAILS and (x[:, 2] > 2).any():
        raise RuntimeError("no answer")
    return out
"""
PLAN = """
name = "staying"
golden = "golden.arrow"
[dims]
batch = {{ sizes = [{size}] }}
[runners.ref]
kind = "python"
call = "functions:ref"
outputs = ["y", "z", "n"]
[runners.cand]
kind = "python"
call = "functions:cand"
outputs = ["y", "z", "n"]
[[stages]]
reference = "ref"
candidate = "cand"
name = "s"
default = {{ atol = 1e-3, rtol = 1e-3 }}
[decisions.top]
output = "y"
argmax = true
[decisions.side]
output = "z"
bands = "low < 0.5 <= high"
"""


DECLARED = {
    name: TensorSpec(name, dtype, ("batch", width))
    for name, dtype, width in (("y", "float32", 4), ("z", "float32", 1), ("n", "float64", 2))
}


class Leaving(Runner):
    """Another runner whose answers lie on a GPU, in memory that is used again once released."""

    def __init__(self, inner: Runner, leaves: frozenset[str]) -> None:
        super().__init__(
            inner.name,
            inner.kind,
            limits=inner.limits,
            inputs=inner.inputs,
            outputs=DECLARED,
            identity=inner.identity,
            facts=inner.facts,
        )
        self.inner, self.can_stay = inner, leaves
        self.left: list[str] = []

    def session(self) -> RunnerSession:
        return LeavingSession(self, self.inner.session())

    def close(self) -> None:
        self.inner.close()


class LeavingSession(RunnerSession):
    def __init__(self, runner: Leaving, inner: RunnerSession) -> None:
        super().__init__(runner)
        self._inner, self._leaving = inner, runner

    def _run_impl(self, batch: Batch) -> Lease:
        stays = self.runner.stays if self.runner.observed is not None else frozenset()
        with self._inner._run_impl(batch) as lease:
            found: dict[str, Any] = {
                name: left(np.array(array)) if name in stays else np.array(array)
                for name, array in lease.outputs.items()
            }
        self._leaving.left += sorted(stays)

        def give_back() -> None:
            for tensor in found.values():
                for part in tensor.parts if isinstance(tensor, DeviceTensor) else (tensor,):
                    part[:] = np.zeros(part.shape, part.dtype)

        return Lease(Outputs(found) if stays else found, give_back=give_back)


def left(array: Any) -> DeviceTensor:
    is_plain = array.dtype.kind in "fiub"
    bits = array if is_plain else array.view(f"u{array.itemsize}")
    return DeviceTensor([cuda.to_device(bits)], array.dtype)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    x = np.random.default_rng(5).normal(size=(SAMPLES, WIDTH)).astype(np.float32)
    write_pack(tmp_path / "golden.arrow", np.arange(SAMPLES), {"x": x})
    return tmp_path


def run(
    folder: Path,
    patch: pytest.MonkeyPatch,
    on: Any,
    leave: Mapping[str, frozenset[str]],
    size: int = 16,
    *,
    fails: bool = False,
    dtype: str = "float64",
    **options: Any,
) -> tuple[Any, dict[str, Leaving]]:
    """Run the plan with runners that can leave outputs on a GPU."""
    (folder / "functions.py").write_text(f"FAILS, DTYPE = {fails}, {dtype!r}\n{CODE}")
    (folder / "plan.toml").write_text(PLAN.format(size=size))
    made: dict[str, Leaving] = {}
    real = prepare._load

    def load(*args: Any) -> Any:
        runners, failures = real(*args)
        for name, runner in runners.items():
            made[name] = Leaving(runner, leave.get(name, frozenset()))
        return dict(made), failures

    with patch.context() as changed:
        changed.setattr(prepare, "_load", load)
        given = {"out": folder / "runs", "threads": 1, "compare_on": on, "cuts": CUTS}
        given |= {"stats": "gate", **options}
        return execute(paritygate.load_plan(folder / "plan.toml"), Options(**given)), made


ALL = frozenset({"y", "z"})
BOTH = {"ref": ALL, "cand": ALL}


def same(ours: Any, theirs: Any) -> None:
    assert ours.judgement == theirs.judgement
    for left, right in zip(ours.summary["stages"], theirs.summary["stages"], strict=True):
        assert left.pop("failures", {}).keys() == right.pop("failures", {}).keys()
        assert left == right
    ours_shard, theirs_shard = (
        next((r.folder / "failures").glob("s-0*.arrow")).read_bytes() for r in (ours, theirs)
    )
    assert ours_shard == theirs_shard


@pytest.mark.parametrize(
    ("on", "leave", "size"),
    [
        *(("auto", BOTH, 7), ("auto", BOTH, 64)),
        *(("cuda", BOTH, 16), ("cuda", {"ref": ALL}, 7), ("cuda", {}, 16)),
    ],
)
def test_answers_on_a_gpu_are_judged_as_on_the_host(
    plan: Path, monkeypatch: pytest.MonkeyPatch, on: str, leave: Any, size: int
) -> None:
    ours, made = run(plan, monkeypatch, on, leave, size)
    theirs, _ = run(plan, monkeypatch, "cpu", {}, size)
    samples = theirs.summary["stages"][0]["samples"]
    assert (samples["compared"], 2 < samples["failed"] < 20) == (SAMPLES, True)
    same(ours, theirs)
    left = {name: set(runner.left) for name, runner in made.items() if runner.left}
    assert left == leave
    compared = ours.summary["comparison"]["samples"]["s"]
    assert compared["y"] == {"cuda": SAMPLES, "cpu": 0}
    decided = ours.summary["comparison"]["decisions"]
    there = {"cuda": SAMPLES, "cpu": 0}
    assert decided == {"s": {"side": there, "top": there}}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int16", "bool"])
def test_answers_of_every_dtype_are_judged_as_on_the_host(
    plan: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    monkeypatch.setitem(DECLARED, "n", TensorSpec("n", dtype, ("batch", 2)))
    leave = {"ref": frozenset({"n"}), "cand": frozenset({"n"})}
    ours, made = run(plan, monkeypatch, "auto", leave, 16, dtype=dtype)
    theirs, _ = run(plan, monkeypatch, "cpu", {}, 16, dtype=dtype)
    same(ours, theirs)
    assert set(made["cand"].left) == {"n"}
    assert ours.summary["comparison"]["notes"] == []
    assert ours.summary["stages"][0]["outputs"]["n"]["failing_elements"] > 0


@pytest.mark.parametrize("size", [7, 64])
def test_samples_without_an_answer_bring_the_others_to_the_host(
    plan: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    ours, _ = run(plan, monkeypatch, "auto", BOTH, size, fails=True)
    theirs, _ = run(plan, monkeypatch, "cpu", {}, size, fails=True)
    assert ours.summary["stages"][0]["samples"]["errors"] > 0
    same(ours, theirs)


def test_auto_is_the_cpu_where_one_side_lies_on_the_host(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, made = run(plan, monkeypatch, "auto", {"cand": ALL})
    assert found.summary["comparison"] == {"on": "cpu"}
    assert made["cand"].left == []


def test_auto_without_what_compiles_for_a_gpu_says_so(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find() -> Any:
        raise DeviceError("numba-cuda isn't installed")

    monkeypatch.setattr("paritygate.pipeline.staying.find_place", find)
    found, made = run(plan, monkeypatch, "auto", BOTH)
    assert found.summary["comparison"] == {
        "on": "cpu",
        "notes": ["outputs that lie on a GPU were compared on the CPU: numba-cuda isn't installed"],
    }
    assert made["ref"].left == []


def test_auto_leaves_to_the_cpu_what_a_gpu_cant_compare(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paritygate.comparison import placed

    real = placed.DeviceComparer

    def some(tolerance: Any, ref: str, cand: str, shape: Any, stats: Any) -> Any:
        if shape == (1,):
            raise ValueError("a device compares no such output")
        return real(tolerance, ref, cand, shape, stats)

    monkeypatch.setattr(placed, "DeviceComparer", some)
    ours, made = run(plan, monkeypatch, "auto", BOTH)
    theirs, _ = run(plan, monkeypatch, "cpu", {})
    same(ours, theirs)
    assert set(made["cand"].left) == {"y"}
    assert ours.summary["comparison"]["notes"] == [
        "stage 's', output 'z': compared on the CPU: a device compares no such output",
        "stage 's', decision 'side': decided on the CPU: output 'z' isn't compared on the GPU",
    ]


def test_outputs_are_kept_as_they_were_answered(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = run(plan, monkeypatch, "auto", BOTH, 7, keep_outputs=True)
    theirs, _ = run(plan, monkeypatch, "cpu", {}, 7, keep_outputs=True)
    kept = [(r.folder / "outputs" / "cand.arrow") for r in (ours, theirs)]
    tables = [str(pa.ipc.open_file(path).read_all().to_pydict()) for path in kept]
    assert tables[0] == tables[1]


def test_too_little_memory_is_the_cpus_turn(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from paritygate.comparison.on_device import Comparison

    real, calls = Comparison.add, []

    def add(self: Any, *args: Any) -> None:
        calls.append(args)
        if len(calls) > 4:
            raise MemoryError
        real(self, *args)

    monkeypatch.setattr(Comparison, "add", add)
    monkeypatch.setattr(place, "LEAST_BYTES", place.PIECE_BYTES)
    ours, _ = run(plan, monkeypatch, "auto", BOTH, 7)
    theirs, _ = run(plan, monkeypatch, "cpu", {}, 7)
    same(ours, theirs)
    assert ours.summary["comparison"]["notes"]


def tensor(*sizes: int) -> tuple[DeviceTensor, Array]:
    whole = np.arange(3.0 * sum(sizes)).reshape(-1, 3)
    stops = np.cumsum(sizes)
    parts = [cuda.to_device(p.copy()) for p in np.split(whole, stops[:-1])]
    return DeviceTensor(parts), whole


@pytest.mark.parametrize("rows", [slice(0, 9), slice(2, 3), slice(1, 8), slice(4, 4), slice(3, 99)])
def test_rows_of_a_tensor_of_parts(rows: slice) -> None:
    found, whole = tensor(3, 1, 5)
    assert (found.shape, len(found), found.ndim) == ((9, 3), 9, 2)
    np.testing.assert_array_equal(found[rows].host(), whole[rows])
    np.testing.assert_array_equal(found[:2].joined(found[2:]).host(), whole)
    assert found.host() is found.host()
    assert not found.host().flags.writeable


@pytest.mark.parametrize("most", [1, 2, 4, 100])
@pytest.mark.parametrize("is_host", [False, True])
def test_pieces_are_of_the_same_samples_on_both_sides(most: int, is_host: bool) -> None:
    ref, whole = tensor(3, 1, 5)
    cand = whole + 1 if is_host else DeviceTensor([cuda.to_device(whole + 1)])
    at = 0
    for rows, ours, theirs in pieces(ref, cand, most):
        assert rows.start == at
        at = rows.stop
        assert rows.stop - rows.start <= most
        left = ours.copy_to_host()
        right = theirs if is_host else theirs.copy_to_host()
        np.testing.assert_array_equal(left, whole[rows])
        np.testing.assert_array_equal(right, whole[rows] + 1)
    assert at == 9


def test_a_copy_that_fails_is_no_verdict() -> None:
    class Lost:
        dtype, shape = np.dtype("f4"), (2, 3)

        def copy_to_host(self) -> Any:
            raise RuntimeError("[999] lost")

    with pytest.raises(DeviceError, match=r"while an output was copied from it: \[999\] lost"):
        Outputs({"y": DeviceTensor([Lost()])})["y"]
