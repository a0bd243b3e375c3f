"""Programs of torch: the contract, names, dtypes, what is in force and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests import torch_models  # noqa: E402

from paritygate.core.errors import RunnerError, RunnerLoadError  # noqa: E402
from paritygate.core.tensors import Array, ColumnSpec  # noqa: E402
from paritygate.runners.base import Runner  # noqa: E402
from paritygate.runners.registry import prepare  # noqa: E402
from paritygate.testing import (  # noqa: E402
    RunnerContract,
    context_of,
    make_batch,
    sample_inputs,
    spec_of,
)

X = torch.zeros(2, 4)
FACTORY = """
import torch
class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(1))
    def forward(self, x, *, scale: float = 1.0, mask=None):
        return self.factor * x
def build():
    return Twice()
def nothing():
    return 3
def wide():
    torch.set_default_dtype(torch.float64)
    return Twice()
def broken():
    raise KeyError("no")
"""


class TestScripted(RunnerContract):
    def table(self, folder: Path) -> object:
        path = torch_models.scripted(torch_models.Twice(), folder / "m.pt")
        return {"model": str(path), "outputs": ["y"]}

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": 2 * inputs["x"]}


class TestTraced(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(torch_models.traced(torch_models.Twice(), folder / "m.pth", X))

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"output": 2 * inputs["x"]}


class TestExported(RunnerContract):
    def table(self, folder: Path) -> object:
        path = torch_models.exported(torch_models.Many(), folder / "m.pt2", X)
        return {"model": str(path), "outputs": {"twice": "double"}}

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        x = inputs["x"]
        return {
            "twice": x + x,
            "rank.0": x.astype(np.int64),
            "rank.1": x > 0,
            "wide": x.astype(np.float64),
        }


class TestMade(RunnerContract):
    def table(self, folder: Path) -> object:
        (folder / "net.py").write_text(FACTORY)
        torch.save({"factor": torch.full((1,), 2.0)}, folder / "w.pt")
        return {"factory": "net:build", "weights": "w.pt", "outputs": ["y"]}

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": 2 * inputs["x"]}


class Identity(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class TestAnswersItsInput(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(torch_models.exported(Identity(), folder / "m.pt2", X))

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"output": inputs["x"]}


class WritesToItsInput(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2).add_(1)


class TestWritesToItsInput(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(torch_models.scripted(WritesToItsInput(), folder / "m.pt"))

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"output": 2 * inputs["x"] + np.float32(1)}


class TestWritesToItsInputExported(TestWritesToItsInput):
    def table(self, folder: Path) -> object:
        return str(torch_models.exported(WritesToItsInput(), folder / "m.pt2", X))


class SameBuffer(torch.nn.Module):
    """Answers in memory that it uses again."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kept.shape != x.shape:
            self.kept = torch.zeros_like(x)
        return torch.add(x, x, out=self.kept)


class TestAnswersInOneBuffer(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(torch_models.scripted(SameBuffer(), folder / "m.pt"))

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"output": 2 * inputs["x"]}


def ready(
    folder: Path, table: object, constants: Any = None, inputs: Any = None, name: str = "runner"
) -> Runner:
    return prepare(spec_of(table, name), context_of(folder, None, constants, inputs))


def answer(runner: Runner, inputs: Mapping[str, Array] | None = None) -> Mapping[str, Array]:
    with runner.session().run(make_batch(inputs or sample_inputs())) as lease:
        return {name: np.array(array) for name, array in lease.outputs.items()}


def test_evaluation_mode_whatever_was_saved(tmp_path: Path) -> None:
    net = torch_models.Net().train()
    path = torch_models.scripted(net, tmp_path / "m.pt")
    with ready(tmp_path, str(path)) as runner:
        found = answer(runner)["output"]
        assert runner.final_findings() == ()
    x = torch.from_numpy(sample_inputs()["x"].copy())
    with torch.no_grad():
        np.testing.assert_allclose(found, net.eval()(x).numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", ["traced", "exported"])
@pytest.mark.parametrize("part", ["drop", "norm"])
def test_training_mode_for_good_is_refused(tmp_path: Path, form: str, part: str) -> None:
    net = torch_models.Net().eval()
    getattr(net, part).train()
    path = getattr(torch_models, form)(net, tmp_path / f"m.{form}.pt2", X)
    with pytest.raises(RunnerLoadError, match=r"training.*call model\.eval\(\)") as e:
        ready(tmp_path, str(path))
    assert e.value.code == "admission.training_mode"
    assert not e.value.is_plan_fault


class Normalised(torch.nn.Module):
    """Normalises by the batch in evaluation too, and has a dropout that drops nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.InstanceNorm1d(4)
        self.drop = torch.nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.norm(x))


@pytest.mark.parametrize("form", ["traced", "exported"])
def test_what_is_no_training_mode_passes(tmp_path: Path, form: str) -> None:
    example = torch.zeros(2, 4, 5)
    path = getattr(torch_models, form)(Normalised(), tmp_path / "m.pt2", example)
    columns = {"x": ColumnSpec("x", "float32", (4, 5))}
    ready(tmp_path, str(path), inputs=columns).close()


class Noisy(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5, training=True)


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + self.calls

    @torch.jit.export
    def clear(self) -> None:
        self.calls.zero_()


@pytest.mark.parametrize("module", [Counting(), Noisy()])
def test_other_answers_to_the_same_batch_hold(tmp_path: Path, module: Any) -> None:
    if isinstance(module, Noisy):
        (tmp_path / "net.py").write_text(
            "import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n"
            "        return torch.nn.functional.dropout(x, 0.5)\n"
        )
        table: object = {"factory": "net:N"}
    else:
        table = str(torch_models.scripted(module, tmp_path / "m.pt"))
    with ready(tmp_path, table) as runner:
        answer(runner)
        assert [f.code for f in runner.final_findings()] == ["runner.not_repeatable"]


def test_a_state_that_is_reset_before_every_batch(tmp_path: Path) -> None:
    path = torch_models.scripted(Counting(), tmp_path / "m.pt")
    with ready(tmp_path, {"model": str(path), "reset": "clear"}) as runner:
        assert not runner.limits.thread_safe
        for _ in range(3):
            np.testing.assert_array_equal(answer(runner)["output"], sample_inputs()["x"] + 1)
        assert runner.final_findings() == ()


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch_models.Twice()
        self.other = Counting()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other(self.inner(x))


def test_a_part_of_a_model(tmp_path: Path) -> None:
    path = torch_models.scripted(Outer(), tmp_path / "m.pt")
    with ready(tmp_path, {"model": str(path), "submodule": "inner"}) as runner:
        np.testing.assert_array_equal(answer(runner)["output"], 2 * sample_inputs()["x"])
    with pytest.raises(RunnerLoadError, match="no submodule 'iner'; there is inner, other"):
        ready(tmp_path, {"model": str(path), "submodule": "iner"})
    with pytest.raises(RunnerLoadError, match="no method 'clean' to reset it"):
        ready(tmp_path, {"model": str(path), "reset": "clean"})


class OverTheBatch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.t().contiguous()


def test_an_output_that_does_not_follow_the_batch(tmp_path: Path) -> None:
    path = torch_models.scripted(OverTheBatch(), tmp_path / "m.pt")
    with (
        ready(tmp_path, str(path)) as runner,
        pytest.raises(RunnerError, match="doesn't follow the batch"),
    ):
        answer(runner, {"x": sample_inputs()["x"][:4]})


class Fixed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(4, 4).t().contiguous()


def test_an_output_that_does_not_follow_a_batch_of_one_size(tmp_path: Path) -> None:
    path = torch_models.scripted(Fixed(), tmp_path / "m.pt")
    with (
        ready(tmp_path, {"model": str(path), "batch_size": 4}) as runner,
        pytest.raises(RunnerError, match="in another order give other answers"),
    ):
        answer(runner, {"x": sample_inputs()["x"][:4]})


def test_a_batch_that_the_program_fixes(tmp_path: Path) -> None:
    path = torch_models.exported(torch_models.Twice(), tmp_path / "m.pt2", X, free=False)
    with ready(tmp_path, str(path)) as runner:
        assert runner.limits.batch_sizes == (2,)
        assert runner.limits.is_fixed
    with pytest.raises(RunnerLoadError, match="the model fixes batches of 2"):
        ready(tmp_path, {"model": str(path), "batch_size": 3})


DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["traced", "exported"])
def test_every_bit_of_every_dtype(tmp_path: Path, dtype: str, form: str) -> None:
    native = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(5)
    raw = rng.integers(0, 256, (6, 4 * native.itemsize), dtype=np.uint8)
    x = raw.view(native) if dtype != "bool" else (raw > 127)
    example = torch.zeros(2, 4).to(getattr(torch, dtype))
    path = getattr(torch_models, form)(Identity(), tmp_path / "m.pt2", example)
    columns = {"x": ColumnSpec("x", dtype, (4,))}
    with ready(tmp_path, str(path), inputs=columns) as runner:
        found = answer(runner, {"x": x.copy()})["output"]
        assert found.dtype == native
        assert found.tobytes() == x.tobytes()


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("complex", r"output 'output' is complex \(torch.complex64\); return torch.view_as_real"),
        ("sparse", r"is a sparse tensor \(torch.sparse_coo\); return tensor.to_dense\(\)"),
        ("quantised", r"is a quantised tensor \(torch.qint8\); return tensor.dequantize\(\)"),
        ("number", r"output 'number' is a float, not a tensor"),
    ],
)
def test_answers_that_cannot_be_judged(tmp_path: Path, kind: str, told: str) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Odd(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        f"        kind = {kind!r}\n"
        "        if kind == 'complex':\n"
        "            return torch.complex(x, x)\n"
        "        if kind == 'sparse':\n"
        "            return x.to_sparse()\n"
        "        if kind == 'quantised':\n"
        "            return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)\n"
        "        return {'number': 3.0, 'y': x}\n"
    )
    with ready(tmp_path, {"factory": "net:Odd"}) as runner, pytest.raises(RunnerError, match=told):
        answer(runner)


SIGNATURE = """
import torch
class N(torch.nn.Module):
    def forward(self, x, sr: int, gain: float = 1.0, *, mask=None, flag: bool = False):
        assert isinstance(sr, int) and isinstance(gain, float)
        y = x * sr * gain
        return (y if mask is None else y * mask, None, {"sum": y.sum(1)})
class Stars(torch.nn.Module):
    def forward(self, *xs):
        return xs[0]
"""


def test_inputs_by_name_constants_and_defaults(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SIGNATURE)
    x = sample_inputs()["x"]
    constants = {"rate": np.array(3, np.int64), "mask": np.array([1, 0, 1, 0], np.float32)}
    table = {"factory": "net:N", "inputs": {"rate": "sr"}, "outputs": ["y", "sum"]}
    with ready(tmp_path, table, constants) as runner:
        found = answer(runner)
        np.testing.assert_array_equal(found["y"], x * 3 * constants["mask"])
        assert set(found) == {"y", "sum"}
        assert runner.constant_names == {"rate", "mask"}
        assert runner.facts["defaults"] == ["gain", "flag"]


@pytest.mark.parametrize(
    ("table", "constants", "told"),
    [
        ({}, {}, r"the model takes sr: int64\[\], which is neither in the pack nor in"),
        ({}, {"sr": np.array(3, np.int32)}, r"takes sr: int64\[\], the constant is int32\[\]"),
        ({}, {"sr": np.array([3])}, r"takes sr: int64\[\], the constant is int64\[1\]"),
        ({"inputs": {"r": "srr"}}, {"sr": np.array(3)}, r"inputs.r: .*no input 'srr'.*'sr'"),
        ({"factory": "net:Stars"}, {}, r"forward takes \*xs without a name.*wrap the module"),
        ({"factory": "net:M"}, {}, r"has no 'M'"),
    ],
)
def test_inputs_that_do_not_fit(
    tmp_path: Path, table: dict[str, Any], constants: dict[str, Any], told: str
) -> None:
    (tmp_path / "net.py").write_text(SIGNATURE)
    with pytest.raises(RunnerLoadError, match=told) as e:
        ready(tmp_path, {"factory": "net:N", **table}, constants)
    assert e.value.is_plan_fault or "without a name" in told


def test_an_exported_constant_is_part_of_the_program(tmp_path: Path) -> None:
    class Rated(torch.nn.Module):
        def forward(self, x: torch.Tensor, sr: int) -> torch.Tensor:
            return x * sr

    path = str(torch_models.exported(Rated(), tmp_path / "m.pt2", X, 16))
    for constants in ({}, {"sr": np.array(16, np.int64)}):
        with ready(tmp_path, path, constants) as runner:
            np.testing.assert_array_equal(answer(runner)["output"], sample_inputs()["x"] * 16)
    with pytest.raises(RunnerLoadError, match="input 'sr' is 16 for good in the program.*gives 8"):
        ready(tmp_path, path, {"sr": np.array(8, np.int64)})


def test_a_range_of_batches_that_the_program_allows(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=2, max=16)
    program = torch.export.export(torch_models.Twice(), (X,), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "m.pt2")
    with ready(tmp_path, "m.pt2") as runner:
        assert runner.limits.batch_sizes == (16,)
        answer(runner, {"x": sample_inputs()["x"][:16]})
        with pytest.raises(RunnerError, match=r"Guard failed: x.size\(\)\[0\] <= 16"):
            answer(runner)


WRONG_NAMES = [
    (["a", "b"], r"has 1 outputs \(output\) for the 2 names a, b"),
    ({"a": "b"}, r"has no output 'b'; it has output"),
]


@pytest.mark.parametrize(("outputs", "told"), WRONG_NAMES)
@pytest.mark.parametrize("form", ["scripted", "exported"])
def test_names_of_outputs_that_do_not_fit(
    tmp_path: Path, form: str, outputs: Any, told: str
) -> None:
    args = () if form == "scripted" else (X,)
    path = getattr(torch_models, form)(torch_models.Twice(), tmp_path / "m.pt2", *args)
    table = {"model": str(path), "outputs": outputs}
    with (
        pytest.raises((RunnerError, RunnerLoadError), match=told),
        ready(tmp_path, table) as runner,
    ):
        answer(runner)


def test_weights_must_fit_and_are_never_cast(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FACTORY)
    safetensors = pytest.importorskip("safetensors.torch")
    two = torch.full((1,), 2.0)
    torch.save({"model": {"factor": two}, "epoch": 3}, tmp_path / "checkpoint.pt")
    torch.save({"factor": two, "more": two}, tmp_path / "more.pt")
    torch.save({"factor": two.half()}, tmp_path / "half.pt")
    torch.save({"factor": torch.ones(2)}, tmp_path / "shape.pt")
    torch.save([two], tmp_path / "list.pt")
    safetensors.save_file({"factor": two}, tmp_path / "w.safetensors")
    (tmp_path / "text.pt").write_text("no")

    def made(weights: str, **more: Any) -> Runner:
        return ready(tmp_path, {"factory": "net:build", "weights": weights, **more})

    for weights, more in (("w.safetensors", {}), ("checkpoint.pt", {"weights_key": "model"})):
        with made(weights, **more) as runner:
            np.testing.assert_array_equal(answer(runner)["output"], 2 * sample_inputs()["x"])
    for weights, told in (
        ("more.pt", r"doesn't belong to the module.*Unexpected key.*more"),
        ("half.pt", r"factor is float16 in the file and float32 in the module.*nothing is cast"),
        ("shape.pt", r"size mismatch for factor"),
        ("list.pt", r"holds a list, not a state dict"),
        ("checkpoint.pt", r"say which is the state dict, as in weights_key = 'model'"),
        ("text.pt", r"holds no weights"),
        ("no.pt", r"weights .*no.pt: no such file"),
    ):
        with pytest.raises(RunnerLoadError, match=told):
            made(weights)
    with pytest.raises(RunnerLoadError, match="has no 'modle'; did you mean 'model'"):
        made("checkpoint.pt", weights_key="modle")
    with pytest.raises(RunnerLoadError, match="has SHA-256"):
        made("w.safetensors", sha256="0" * 64)


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        ("net:nothing", "returned a int, not an nn.Module"),
        ("net:broken", "KeyError: 'no'"),
        ("net:wide", r"set torch's default dtype to torch.float64.*convert the module"),
    ],
)
def test_factories_that_make_no_module(tmp_path: Path, factory: str, told: str) -> None:
    (tmp_path / "net.py").write_text(FACTORY)
    with pytest.raises(RunnerLoadError, match=told):
        ready(tmp_path, {"factory": factory})
    assert torch.get_default_dtype() == torch.float32


def test_settings_are_in_force_and_put_back(tmp_path: Path) -> None:
    path = str(torch_models.scripted(torch_models.Twice(), tmp_path / "m.pt"))
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    seeded = torch.get_rng_state()
    with ready(tmp_path, {"model": path, "intra_op_num_threads": 2}) as runner:
        assert torch.get_num_threads() == 2
        assert torch.are_deterministic_algorithms_enabled()
        assert "torch.threads=2" in runner.limits.process_wide
        assert runner.facts["intra_op_num_threads"] == 2
        same = ready(tmp_path, {"model": path, "intra_op_num_threads": 2})
        with pytest.raises(RunnerLoadError, match=r"whole process.*torch.threads=1"):
            ready(tmp_path, path)
    assert torch.get_num_threads() == 2
    same.close()
    same.close()
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before
    assert torch.equal(torch.get_rng_state(), seeded)


def test_identity_is_of_what_runs_and_how(tmp_path: Path) -> None:
    path = torch_models.scripted(torch_models.Twice(), tmp_path / "m.pt")
    (tmp_path / "copy.pt").write_bytes(path.read_bytes())
    torch_models.scripted(Identity(), tmp_path / "other.pt")
    found = []
    for table in (
        str(path),
        "copy.pt",
        "other.pt",
        {"model": "m.pt", "seed": 1},
        {"model": "m.pt", "intra_op_num_threads": 2},
        {"model": "m.pt", "batch_size": 8},
        {"model": "m.pt", "deterministic": False},
    ):
        with ready(tmp_path, table) as runner:
            found.append(runner.identity)
    assert found[0] == found[1]
    assert len(set(found[1:])) == len(found) - 1


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    path = str(torch_models.scripted(torch_models.Twice(), tmp_path / "m.pt"))
    with pytest.raises(RunnerLoadError, match="'cuda:99' isn't there: torch .* sees") as e:
        ready(tmp_path, {"model": path, "device": "cuda:99"})
    assert e.value.code == "placement.unavailable"
    assert e.value.is_plan_fault


def test_precision_is_told(tmp_path: Path) -> None:
    for dtype, told in ((torch.float16, "float16"), (torch.bfloat16, "bfloat16")):
        module = torch.nn.Linear(4, 4).to(dtype)
        columns = {"input": ColumnSpec("input", told, (4,))}
        path = torch_models.scripted(module, tmp_path / "m.pt")
        with ready(tmp_path, str(path), inputs=columns) as runner:
            assert runner.facts["precision"]["arithmetic"] == told  # type: ignore[index]


class WritesOut(torch.nn.Module):
    """Writes to what it keeps without setting an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(x, x, out=self.kept[: x.shape[0]]) + 0


@pytest.mark.parametrize(
    ("module", "is_safe"), [(WritesOut(), False), (Counting(), False), (torch_models.Twice(), True)]
)
def test_threads_where_nothing_is_written(tmp_path: Path, module: Any, is_safe: bool) -> None:
    path = str(torch_models.scripted(module.eval(), tmp_path / "m.pt"))
    with ready(tmp_path, path) as runner:
        assert runner.limits.thread_safe == is_safe
    with ready(tmp_path, {"model": path, "thread_safe": not is_safe}) as runner:
        assert runner.limits.thread_safe != is_safe


def test_every_thread_has_the_number_of_threads(tmp_path: Path) -> None:
    """A number that another thread had before isn't the one in force."""
    (tmp_path / "net.py").write_text(
        "import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x * 0 + torch.get_num_threads()\n"
    )
    had = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with ThreadPoolExecutor(1) as pool:
            table = {"factory": "net:N", "intra_op_num_threads": 2}
            runner = pool.submit(ready, tmp_path, table).result()
            with runner:
                assert (answer(runner)["output"] == 2).all()
                assert (pool.submit(answer, runner).result()["output"] == 2).all()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(had)


def test_a_factory_draws_the_same_weights_every_time(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nclass N(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.w = torch.nn.Parameter(torch.randn(4))\n"
        "    def forward(self, x):\n        return x * self.w\n"
    )
    table = {"factory": "net:N"}
    with ready(tmp_path, table) as one, ready(tmp_path, table) as other:
        assert answer(one)["output"].tobytes() == answer(other)["output"].tobytes()
        assert one.identity == other.identity


def test_a_factory_of_a_traced_module_in_training_mode(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nfrom tests import torch_models\ndef build():\n"
        "    with torch_models.old_ways():\n"
        "        return torch.jit.trace(torch_models.Net().train(), torch.zeros(2, 4),\n"
        "                               check_trace=False)\n"
    )
    with pytest.raises(RunnerLoadError, match="training mode"):
        ready(tmp_path, {"factory": "net:build"})


def test_a_context_of_lower_precision_does_not_reach_it(tmp_path: Path) -> None:
    net = torch_models.Net().eval()
    with torch.no_grad():
        ref = net(torch.from_numpy(sample_inputs()["x"].copy())).numpy()
    path = str(torch_models.scripted(net, tmp_path / "m.pt"))
    with ready(tmp_path, path) as runner, torch.autocast("cpu", dtype=torch.bfloat16):
        np.testing.assert_allclose(answer(runner)["output"], ref, rtol=1e-5, atol=1e-6)
