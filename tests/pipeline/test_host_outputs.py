"""Which outputs the host has, that could be sent to a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from paritygate.core.plan import Stage
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import TensorSpec
from paritygate.pipeline.host_outputs import HostOutput, host_outputs

SMALL = Tolerance(1e-3, 1e-3)


def runner(stays: tuple[str, ...] = (), **outputs: tuple[Any, ...]) -> Any:
    specs = {name: TensorSpec(name, *spec) for name, spec in outputs.items()}
    return SimpleNamespace(outputs=specs or None, can_stay=frozenset(stays))


def found(
    ref: Any, cand: Any, samples: int = 10, tolerances: Any = None, ignore: tuple[str, ...] = ()
) -> list[HostOutput]:
    stage = Stage("s", "ref", "cand", tolerances or {}, SMALL, ignore, {}, is_self=False)
    return list(host_outputs([stage], {"ref": ref, "cand": cand}, samples))


def test_outputs_of_known_dtypes_and_shapes_are_of_the_host() -> None:
    pair = ("float32", ("batch", 3, 2)), ("float16", ("batch", 3, 2))
    declared = Tolerance(0.5, 0.0, candidate_dtype="float16")
    (one,) = found(runner(y=pair[0]), runner(y=pair[1]), tolerances={"y": declared})
    assert one == HostOutput("s", "y", declared, ("float32", "float16"), (3, 2), 10 * 6 * (4 + 2))
    (whole,) = found(runner(y=("int64", ("batch",))), runner(y=("int64", ("batch",))))
    assert (whole.tolerance, whole.shape, whole.size) == (Tolerance(), (), 160)


def test_others_arent() -> None:
    fixed = ("float32", ("batch", 3))
    assert found(runner(), runner(y=fixed)) == []
    assert found(runner(y=fixed), runner(z=fixed)) == []
    assert found(runner(y=fixed), runner(y=("float32", ("batch", 4)))) == []
    assert found(*[runner(y=("float32", ("batch", "n")))] * 2) == []
    assert found(*[runner(y=("string", ("batch", 1)))] * 2) == []
    assert found(*[runner(y=("float32", ("batch", 0)))] * 2) == []
    assert found(*[runner(y=fixed)] * 2, samples=0) == []
    assert found(*[runner(y=fixed)] * 2, ignore=("y",)) == []
    assert found(runner(y=fixed), runner(y=("float16", ("batch", 3)))) == []


def test_what_stays_on_a_gpu_on_both_sides_isnt() -> None:
    fixed = ("float32", ("batch", 3))
    there, here = runner(("y",), y=fixed), runner(y=fixed)
    assert found(there, there) == []
    assert [len(found(*pair)) for pair in ((there, here), (here, there), (here, here))] == [1, 1, 1]
