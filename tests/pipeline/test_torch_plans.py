"""Plans with programs of torch: against ONNX exports, and a real voice detector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch")

from tests import torch_models  # noqa: E402
from tests.packs import write_pack  # noqa: E402
from tests.pipeline.test_real_models import model_file, session, speech  # noqa: E402

import paritygate  # noqa: E402
from paritygate.pipeline.execute import Options, execute  # noqa: E402

N = 60
X = np.random.default_rng(4).normal(size=(N, 4)).astype(np.float32)
FACTORY = """
import torch
from tests import torch_models
def build():
    return torch_models.Net(5)
"""


def run(folder: Path, plan: dict[str, Any], **options: Any) -> Any:
    return execute(paritygate.load_plan(plan, folder=folder), Options(**options))


def codes(outcome: Any) -> list[str]:
    return [reason.code for reason in outcome.judgement.reasons]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    net = torch_models.Net(5).eval()
    write_pack(tmp_path / "g.arrow", np.arange(N), {"x": X})
    torch_models.to_onnx(net, tmp_path / "net.onnx", ["x"], torch.zeros(2, 4))
    torch_models.scripted(net, tmp_path / "net.pt")
    torch_models.exported(net, tmp_path / "net.pt2", torch.zeros(2, 4))
    torch.save(net.state_dict(), tmp_path / "weights.pth")
    (tmp_path / "made.py").write_text(FACTORY)
    return tmp_path


def test_every_way_to_run_a_net(folder: Path) -> None:
    sides: dict[str, Any] = {
        "scripted": {"model": "net.pt", "outputs": ["y"]},
        "exported": {"model": "net.pt2", "outputs": ["y"]},
        "made": {"factory": "made:build", "weights": "weights.pth", "outputs": ["y"]},
    }
    plan = {
        "golden": "g.arrow",
        "dims": {"batch": {"sizes": [1, 16]}},
        "runners": {**sides, "onnx": "net.onnx"},
        "stages": [
            {"name": side, "reference": side, "candidate": "onnx", "default": near()}
            for side in sides
        ],
        "decisions": {"class": {"output": "y", "argmax": True}},
        "batch_coupling": {side: {"y": near()} for side in (*sides, "onnx")},
    }
    found = [run(folder, plan, threads=threads) for threads in (1, 3)]
    for outcome in found:
        assert outcome.judgement.verdict == "release", outcome.judgement.reasons
        assert {s["samples"]["compared"] for s in outcome.summary["stages"]} == {N}
    assert found[0].summary["stages"] == found[1].summary["stages"]


def near() -> dict[str, float]:
    return {"atol": 1e-5, "rtol": 1e-4}


def test_a_line_for_each_side(folder: Path) -> None:
    plan = {
        "golden": "g.arrow",
        "runners": {"ref": "net.pt", "cand": "net.pt2"},
        "stages": [{"reference": "ref", "candidate": "cand", "default": near()}],
    }
    outcome = run(folder, plan, out=folder / "runs")
    assert outcome.judgement.verdict == "release"
    saved = paritygate.load_plan(outcome.folder / "plan.toml")
    assert execute(saved, Options()).judgement.verdict == "release"


def test_a_candidate_of_other_weights_holds_and_can_be_replayed(folder: Path) -> None:
    torch.save(torch_models.Net(6).state_dict(), folder / "weights.pth")
    made = {"factory": "made:build", "weights": "weights.pth", "outputs": ["y"]}
    plan = {
        "golden": "g.arrow",
        "runners": {"ref": "net.onnx", "cand": made},
        "stages": [{"reference": "ref", "candidate": "cand", "default": near()}],
    }
    outcome = run(folder, plan, out=folder / "runs")
    assert codes(outcome) == ["tolerance.exceeded"]
    told = paritygate.explain(outcome.folder)
    assert told is not None
    again = paritygate.replay(outcome.folder, out=folder / "again")
    assert again.summary["replay"] is not None
    torch.save(torch_models.Net(7).state_dict(), folder / "weights.pth")
    with pytest.raises(paritygate.ParityError, match="cand"):
        paritygate.replay(outcome.folder, out=folder / "again")


@pytest.mark.parametrize("key", ["model", "weights"])
def test_a_pickled_module_holds_as_a_candidate(folder: Path, key: str) -> None:
    torch.save(torch_models.Net(5), folder / "net.pt")
    (folder / "made.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Linear(4, 3)\n"
    )
    pickled = {"model": "net.pt"} if key == "model" else {"factory": "made:build", key: "net.pt"}
    plan: dict[str, Any] = {
        "golden": "g.arrow",
        "runners": {"ref": "net.onnx", "cand": pickled},
        "stages": [{"reference": "ref", "candidate": "cand", "default": near()}],
    }
    assert codes(run(folder, plan))[0] == "admission.unsafe_model"
    plan["stages"] = [{"reference": "cand", "candidate": "ref", "default": near()}]
    with pytest.raises(paritygate.ParityError):
        run(folder, plan)


class Sloppy(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 1e-6, True) * 2


def test_a_dropout_that_seldom_drops_holds(folder: Path) -> None:
    """Its graph shows it; where it doesn't, the bits of three runs would."""
    torch_models.traced(Sloppy(), folder / "cand.pt", torch.zeros(2, 4))
    plan = {
        "golden": "g.arrow",
        "runners": {"ref": "net.onnx", "cand": "cand.pt"},
        "stages": [{"reference": "ref", "candidate": "cand", "default": near()}],
    }
    outcome = run(folder, plan)
    assert codes(outcome)[0] == "admission.training_mode"
    assert outcome.judgement.verdict == "hold"


def test_a_model_that_writes_to_its_input_leaves_the_pack_alone(folder: Path) -> None:
    class Writes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2)

    torch_models.scripted(Writes(), folder / "a.pt")
    torch_models.exported(Writes(), folder / "b.pt2", torch.zeros(2, 4))
    before = (folder / "g.arrow").read_bytes()
    plan = {
        "golden": "g.arrow",
        "runners": {"a": "a.pt", "b": "b.pt2", "zeros": {"kind": "null", "echo": {"output": "x"}}},
        "stages": [
            {"name": "same", "reference": "a", "candidate": "b", "default": near()},
            {"name": "half", "reference": "zeros", "candidate": "a", "default": near()},
        ],
    }
    outcome = run(folder, plan, threads=2)
    same, half = outcome.summary["stages"]
    assert same["verdict"] == "release"
    assert half["outputs"]["output"]["max_abs_error"]["value"] == float(np.abs(X).max())
    assert (folder / "g.arrow").read_bytes() == before


RATE = {"sr": {"dtype": "int64", "value": 16_000}}


def detector(**more: Any) -> dict[str, Any]:
    return {"model": str(model_file("silero-vad", "silero_vad.jit")), **more}


def vad_pack(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    x = speech(N, 576)
    state = (np.random.default_rng(3).normal(size=(N, 2, 128)) * 0.3).astype(np.float32)
    write_pack(folder / "g.arrow", np.arange(N), {"x": x, "state": state})
    return x, state


def vad_plan(candidate: str, tolerance: dict[str, float]) -> dict[str, Any]:
    part = detector(submodule="_model", outputs=["output", "stateN"], batch_size=8)
    export = {"model": str(model_file("silero-vad", candidate)), "inputs": {"x": "input"}}
    return {
        "golden": "g.arrow",
        "inputs": {"state": {"shape": [2, "batch", 128]}},
        "outputs": {"stateN": {"shape": [2, "batch", 128]}},
        "constants": {} if "half" in candidate else RATE,
        "runners": {"source": part, "onnx": {**export, "batch_size": 8}},
        "stages": [
            {
                "reference": "source",
                "candidate": "onnx",
                "outputs": dict.fromkeys(("output", "stateN"), tolerance),
            }
        ],
        "decisions": {"speech": {"output": "output", "bands": "silence < 0.5 <= speech"}},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidate", "atol", "verdict"),
    [
        ("silero_vad.onnx", 1e-4, "release"),
        ("silero_vad_16k_op15.onnx", 1e-4, "release"),
        ("silero_vad_half.onnx", 1e-4, "hold"),
        ("silero_vad_half.onnx", 5e-1, "hold"),  # no rounding: 0.84 off, 14 of 60 decisions flip
    ],
)
def test_the_voice_detector_and_its_exports(
    tmp_path: Path, candidate: str, atol: float, verdict: str
) -> None:
    vad_pack(tmp_path)
    outcome = run(tmp_path, vad_plan(candidate, {"atol": atol, "rtol": 0.0}), threads=2)
    errors = {n: o["max_abs_error"] for n, o in outcome.summary["stages"][0]["outputs"].items()}
    assert outcome.judgement.verdict == verdict, (outcome.judgement.reasons, errors)


@pytest.mark.slow
def test_the_voice_detector_by_hand(tmp_path: Path) -> None:
    """The figures of the gate are those of torch and ONNX Runtime by themselves."""
    x, state = vad_pack(tmp_path)
    outcome = run(tmp_path, vad_plan("silero_vad_half.onnx", {"atol": 1e-3, "rtol": 0.0}))
    with torch_models.old_ways():
        part = torch.jit.load(str(model_file("silero-vad", "silero_vad.jit"))).eval()._model
    model = session(model_file("silero-vad", "silero_vad_half.onnx"))
    worst = dict.fromkeys(("output", "stateN"), 0.0)
    had = torch.get_num_threads()
    torch.set_num_threads(1)
    for at in range(0, N, 8):
        rows = np.minimum(np.arange(at, at + 8), N - 1)
        moved = np.ascontiguousarray(state[rows].transpose(1, 0, 2))
        with torch.inference_mode():
            ref = part(torch.from_numpy(x[rows]), torch.from_numpy(moved))
        cand = model.run(["output", "stateN"], {"input": x[rows], "state": moved})
        for name, a, b in zip(worst, ref, cand, strict=True):
            error = np.abs(a.numpy().astype(np.float64) - b.astype(np.float64)).max()
            worst[name] = max(worst[name], float(error))
    torch.set_num_threads(had)
    for name, error in worst.items():
        found = outcome.summary["stages"][0]["outputs"][name]["max_abs_error"]["value"]
        assert found == pytest.approx(error, rel=1e-3)


def whole_plan(folder: Path, **more: Any) -> dict[str, Any]:
    model = onnx.load(model_file("silero-vad", "silero_vad.onnx"))
    del model.graph.output[1]  # the state, which the whole detector keeps to itself
    onnx.save(model, folder / "vad.onnx")
    return {
        "golden": "g.arrow",
        "constants": RATE,
        "inputs": {"state": {"shape": [2, "batch", 128]}},
        "runners": {
            "source": detector(outputs=["output"], inputs={"chunk": "x"}, batch_size=8, **more),
            "onnx": {"model": "vad.onnx", "batch_size": 8},
        },
        "stages": [
            {
                "reference": "source",
                "candidate": "onnx",
                "outputs": {"output": {"atol": 1e-4, "rtol": 0.0}},
            }
        ],
    }


@pytest.mark.slow
def test_the_whole_detector_keeps_a_state(tmp_path: Path) -> None:
    """As it is saved it remembers the last chunk: held, unless it is reset before every batch."""
    chunk = speech(N, 512, seed=2)
    padded = np.concatenate([np.zeros((N, 64), np.float32), chunk], axis=1)
    zeros = np.zeros((N, 2, 128), np.float32)
    write_pack(
        tmp_path / "g.arrow", np.arange(N), {"chunk": chunk, "input": padded, "state": zeros}
    )
    assert "runner.not_repeatable" in codes(run(tmp_path, whole_plan(tmp_path)))
    outcome = run(tmp_path, whole_plan(tmp_path, reset="reset_states"))
    assert outcome.judgement.verdict == "release", outcome.judgement.reasons
