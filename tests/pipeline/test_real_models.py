"""Real models with real shapes: a recurrent state on axis 1, a batch fixed at 1, free lengths."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pipeline.test_varying import stored, write

import paritygate
from paritygate.pipeline.execute import Options, execute

N = 60
pytestmark = pytest.mark.slow


def model_file(distribution: str, name: str) -> Path:
    """A file of an installed wheel, which is not imported."""
    files = importlib.metadata.files(distribution) or []
    found = [file for file in files if file.name == name]
    assert len(found) == 1, f"{distribution} has no {name}; see requirements/models.txt"
    return Path(str(found[0].locate()))


def speech(count: int, length: int, seed: int = 0) -> np.ndarray:
    """Voiced and unvoiced sounds of several loudnesses: `(count, length)` at 16 kHz."""
    rng = np.random.default_rng(seed)
    time = np.arange(length) / 16_000
    pitch = rng.uniform(80, 400, size=(count, 1))
    phases = rng.uniform(0, 2 * np.pi, size=(count, 8, 1))
    tones = [np.sin(2 * np.pi * pitch * k * time + phases[:, k - 1]) / k for k in range(1, 9)]
    loudness = 10 ** rng.uniform(-3, -0.3, size=(count, 1))
    noise = rng.normal(size=(count, length)) * 10 ** rng.uniform(-4, -1, size=(count, 1))
    return (loudness * sum(tones) / 2 + noise).astype(np.float32)


def session(path: Path, level: str = "ORT_ENABLE_ALL") -> Any:
    """A session without paritygate."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def by_hand(
    x: np.ndarray, state: np.ndarray, batch: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Both voice detectors in batches of `batch`: name -> `(samples, *shape)`."""
    sides = []
    for name in ("silero_vad_16k_op15.onnx", "silero_vad_half.onnx"):
        model = session(model_file("silero-vad", name))
        probabilities, states = [], []
        for at in range(0, len(x), batch):
            rows = np.minimum(np.arange(at, at + batch), len(x) - 1)
            feeds = {"input": x[rows], "state": state[rows].transpose(1, 0, 2)}
            if any(i.name == "sr" for i in model.get_inputs()):
                feeds["sr"] = np.array(16_000, np.int64)
            p, s = model.run(["output", "stateN"], feeds)
            valid = min(batch, len(x) - at)
            probabilities.append(p[:valid])
            states.append(s.transpose(1, 0, 2)[:valid])
        sides.append({"output": np.concatenate(probabilities), "stateN": np.concatenate(states)})
    return sides[0], sides[1]


@pytest.mark.parametrize("threads", [1, 2])
def test_voice_detector_in_half_precision(tmp_path: Path, threads: int) -> None:
    rng = np.random.default_rng(3)
    x = speech(N, 576)
    state = (rng.normal(size=(N, 2, 128)) * 0.3).astype(np.float32)
    write(tmp_path / "g.arrow", {"in.input": x, "in.state": state})
    atol = 1e-3
    plan = {
        "golden": "g.arrow",
        "dims": {"batch": {"sizes": [8]}},
        "inputs": {"state": {"shape": [2, "batch", 128]}},
        "outputs": {"stateN": {"shape": [2, "batch", 128]}},
        "constants": {"sr": {"dtype": "int64", "value": 16_000}},
        "runners": {
            "float": {"model": str(model_file("silero-vad", "silero_vad_16k_op15.onnx"))},
            "half": {"model": str(model_file("silero-vad", "silero_vad_half.onnx"))},
        },
        "stages": [
            {
                "reference": "float",
                "candidate": "half",
                "outputs": {n: {"atol": atol, "rtol": 0.0} for n in ("output", "stateN")},
            }
        ],
        "decisions": {"speech": {"output": "output", "bands": "silence < 0.5 <= speech"}},
    }
    outcome = execute(paritygate.load_plan(plan, folder=tmp_path), Options(threads=threads))
    stage = outcome.summary["stages"][0]
    ref, cand = by_hand(x, state, 8)
    for name, tensor in ref.items():
        error = np.abs(cand[name].astype(np.float64) - tensor.astype(np.float64)).reshape(N, -1)
        found = stage["outputs"][name]
        assert found["max_abs_error"]["value"] == error.max()
        assert found["max_abs_error"]["id"] == int(error.max(axis=1).argmax())
        assert found["failing_samples"] == int((error > atol).any(axis=1).sum())
        assert found["failing_elements"] == int((error > atol).sum())
        assert found["elements"] == tensor.size
    flips = (ref["output"] >= 0.5) != (cand["output"] >= 0.5)
    assert stage["decisions"]["speech"]["flips"] == int(flips.sum())
    assert outcome.judgement.verdict == "hold"
    assert stage["outputs"]["stateN"]["max_abs_error"]["value"] > atol


def pitch_by_hand(sounds: list[np.ndarray], level: str) -> list[tuple[np.ndarray, np.ndarray]]:
    model = session(model_file("swift-f0", "model.onnx"), level)
    fixed = {"fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}
    answers = [model.run(["pitch", "confidence"], {"audio": s[None], **fixed}) for s in sounds]
    return [(p[0], c[0]) for p, c in answers]


@pytest.mark.parametrize("threads", [1, 3])
def test_pitch_of_sounds_of_any_length(tmp_path: Path, threads: int) -> None:
    lengths = [4000, 6400, 4000, 5120, 8000, 6400, 4000, 4001, 5120, 4000, 9600, 4000]
    sounds = [speech(1, n, seed)[0] for seed, n in enumerate(lengths)]
    write(tmp_path / "g.arrow", {"in.audio": stored(sounds)}, rows_per_batch=5)
    model = str(model_file("swift-f0", "model.onnx"))
    plan = {
        "golden": "g.arrow",
        "dims": {"samples": {"min": 1024, "max": 16_000}},
        "inputs": {"audio": {"shape": ["batch", "samples"]}},
        "constants": {
            "fmin": {"dtype": "float32", "value": 46.875},
            "fmax": {"dtype": "float32", "value": 2093.75},
        },
        "runners": {
            "all": {"model": model},
            "plain": {"model": model, "graph_optimization_level": "disable"},
        },
        "stages": [
            {
                "reference": "plain",
                "candidate": "all",
                "outputs": {
                    "pitch": {"atol": 0.01, "rtol": 1e-3},
                    "confidence": {"atol": 1e-4, "rtol": 0.0},
                },
            }
        ],
    }
    outcome = execute(paritygate.load_plan(plan, folder=tmp_path), Options(threads=threads))
    stage = outcome.summary["stages"][0]
    assert stage["samples"]["compared"] == len(lengths)
    plain, fused = (pitch_by_hand(sounds, level) for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"))
    assert plain[0][0].dtype == np.float64
    for at, (name, atol, rtol) in enumerate((("pitch", 0.01, 1e-3), ("confidence", 1e-4, 0.0))):
        errors = [
            np.abs(f[at].astype(np.float64) - p[at]) for p, f in zip(plain, fused, strict=True)
        ]
        allowed = [atol + rtol * np.abs(p[at].astype(np.float64)) for p in plain]
        found = stage["outputs"][name]
        assert found["elements"] == sum(e.size for e in errors)
        worst = max(float(e.max()) for e in errors)
        assert (found["max_abs_error"] or {"value": 0.0})["value"] == worst
        failing = [bool((e > a).any()) for e, a in zip(errors, allowed, strict=True)]
        assert found["failing_samples"] == sum(failing)


def test_a_fixed_batch_of_1_is_shared_by_threads(tmp_path: Path) -> None:
    x = speech(40, 576, seed=9)
    state = np.zeros((40, 2, 128), np.float32)
    write(tmp_path / "g.arrow", {"in.input": x, "in.state": state})
    plan = {
        "golden": "g.arrow",
        "inputs": {"state": {"shape": [2, "batch", 128]}},
        "outputs": {"stateN": {"shape": [2, "batch", 128]}},
        "constants": {"sr": {"dtype": "int64", "value": 16_000}},
        "runners": {
            "fixed": {"model": str(model_file("silero-vad", "silero_vad_openvino_16k.onnx"))},
            "free": {
                "model": str(model_file("silero-vad", "silero_vad_16k_op15.onnx")),
                "batch_size": 10,
            },
        },
        "stages": [
            {
                "reference": "free",
                "candidate": "fixed",
                "outputs": {n: {"atol": 1e-4, "rtol": 0.0} for n in ("output", "stateN")},
            }
        ],
    }
    tallies = []
    for threads in (1, 2, 4):
        loaded = paritygate.load_plan(plan, folder=tmp_path)
        outcome = execute(loaded, Options(threads=threads))
        tallies.append(outcome.tally.to_json()["stages"])
        assert outcome.summary["stages"][0]["samples"]["compared"] == 40
    assert tallies[0] == tallies[1] == tallies[2]
    assert outcome.judgement.verdict == "release", outcome.judgement.reasons
