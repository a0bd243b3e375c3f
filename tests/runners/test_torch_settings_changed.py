"""Programs that set torch otherwise than the summary says, and plans that name things wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import paritygate  # noqa: E402
from paritygate.core.errors import PlanError, RunnerError, RunnerLoadError  # noqa: E402
from paritygate.runners.registry import prepare  # noqa: E402
from paritygate.testing import context_of, make_batch, sample_inputs, spec_of  # noqa: E402


class Sets(torch.nn.Module):
    """Sets something of the whole process, and answers what it is given."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.what == "deterministic":
            torch.use_deterministic_algorithms(False)
        if self.what == "intra_op_num_threads":
            torch.set_num_threads(2)
        if self.what == "float32_matmul_precision":
            torch.set_float32_matmul_precision("medium")
        return x * 1


@pytest.mark.parametrize(
    "what", ["deterministic", "intra_op_num_threads", "float32_matmul_precision"]
)
def test_a_program_that_sets_torch_otherwise_holds(what: str) -> None:
    x = torch.ones(3, 4)
    result = paritygate.verify(Sets(what), Sets("nothing"), {"x": x}, atol=0.0, rtol=0.0)
    assert result.verdict == "hold"
    told = [r for r in result.reasons if r.code == "runner.settings_changed"]
    assert told
    assert f"{what}: " in str(told[0].message)
    same = paritygate.verify(Sets("nothing"), Sets("none"), {"x": x}, atol=0.0, rtol=0.0)
    assert same.verdict == "release"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (torch.eye(4).to_sparse(), "to_dense"),
        (torch.zeros(2, 4, dtype=torch.complex64), "view_as_real"),
        (torch.empty(2, 4, device="meta"), "meta device"),
        ([[1.0], [1.0, 2.0]], "can't be made an array"),
    ],
)
def test_inputs_that_cannot_be_taken_are_named(value: object, told: str) -> None:
    with pytest.raises(PlanError) as e:
        paritygate.verify(Sets("no"), Sets("none"), {"x": value}, atol=0.0, rtol=0.0)
    assert "inputs[0].x" in str(e.value)
    assert told in str(e.value)


FACTORIES = """
import torch
def build():
    return torch.nn.Identity()
def with_size(inputs, size=3):
    return torch.nn.Identity()
"""


def test_a_factory_as_a_call_says_how_to_name_it(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FACTORIES)
    with pytest.raises(RunnerLoadError, match="factory = 'net:build'") as e:
        prepare(spec_of("net:build"), context_of(tmp_path)).close()
    assert e.value.is_plan_fault
    with (
        prepare(spec_of("net:with_size"), context_of(tmp_path)) as runner,
        pytest.raises(RunnerError, match="returned a module of torch.*factory = "),
    ):
        runner.session().run(make_batch(sample_inputs()))


def test_an_input_that_is_mapped_wrongly_names_both_sides(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FACTORIES)
    table = {"factory": "net:build", "inputs": {"inpt": "input"}}
    with pytest.raises(RunnerLoadError) as e:
        prepare(spec_of(table), context_of(tmp_path)).close()
    assert "inputs.inpt = 'input': 'inpt' is neither in the pack nor in [constants]" in str(e.value)
