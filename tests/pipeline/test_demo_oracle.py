"""The demo's counts, computed again by NumPy from the outputs recorded in that same run."""

from __future__ import annotations

import shutil
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import pyarrow as pa
import pytest

from paritygate.api.plans import load_plan
from paritygate.pipeline.execute import Options, Outcome, execute
from paritygate.pipeline.prepare import CallableRunner

Floats = npt.NDArray[np.float32]


class Recording:
    """An ONNX Runtime session that keeps everything it answers."""

    def __init__(self, model: Path, output: str) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = ort.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        self._output = output
        self._parts: list[Floats] = []

    def __call__(self, given: dict[str, Any]) -> dict[str, Any]:
        (answer,) = self._session.run([self._output], dict(given))
        self._parts.append(answer.copy())
        return {self._output: answer}

    def recorded(self, samples: int) -> Floats:
        return np.concatenate(self._parts)[:samples]


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    for item in resources.files("paritygate_frontends").joinpath("demo_data").iterdir():
        with resources.as_file(item) as path:
            shutil.copy(path, tmp_path)
    return tmp_path


def run_recorded(demo: Path, name: str, output: str) -> tuple[Outcome, dict[str, Floats]]:
    table = tomllib.loads((demo / f"{name}.toml").read_text())
    table.pop("dims", None)
    runners = {
        "float": Recording(demo / f"{name}.onnx", output),
        "int8": Recording(demo / f"{name}.int8.onnx", output),
    }
    plan = load_plan(table, folder=demo)
    outcome = execute(
        plan,
        Options(
            out=demo / "runs",
            threads=1,
            callables={n: CallableRunner(r) for n, r in runners.items()},
        ),
    )
    pack = pa.ipc.open_file(demo / f"{name}.arrow").read_all()
    recorded = {n: r.recorded(pack.num_rows) for n, r in runners.items()}
    trained = pack[f"out.{output}"].combine_chunks().to_numpy_ndarray()
    return outcome, {"trained": trained, **recorded}


def count(ref: Floats, cand: Floats, atol: float, rtol: float) -> dict[str, Any]:
    wide_ref, wide_cand = ref.astype(np.float64), cand.astype(np.float64)
    error = np.abs(wide_cand - wide_ref)
    bad = ~(error <= atol + rtol * np.abs(wide_ref))
    return {
        "failing_elements": int(bad.sum()),
        "failed": int(bad.any(axis=1).sum()),
        "max": float(error.max()),
        "mean": float(np.mean(wide_cand - wide_ref)),
        "rmse": float(np.sqrt(np.mean(error**2))),
    }


def assert_stage(stage: dict[str, Any], output: str, expected: dict[str, Any]) -> None:
    figures = stage["outputs"][output]
    assert figures["failing_elements"] == expected["failing_elements"]
    assert figures["failing_samples"] == expected["failed"]
    assert figures["max_abs_error"]["value"] == expected["max"]
    assert figures["mean_error"] == pytest.approx(expected["mean"], rel=1e-9, abs=1e-18)
    assert figures["rmse"] == pytest.approx(expected["rmse"], rel=1e-12)


def test_digits(demo: Path) -> None:
    outcome, recorded = run_recorded(demo, "digits", "probabilities")
    conversion, quantization = outcome.summary["stages"]
    assert_stage(
        conversion,
        "probabilities",
        count(recorded["trained"], recorded["float"], 1e-5, 1e-5),
    )
    assert_stage(
        quantization, "probabilities", count(recorded["float"], recorded["int8"], 1e-2, 1e-2)
    )
    pack = pa.ipc.open_file(demo / "digits.arrow").read_all()
    truth = pack["label"].to_numpy()
    ref, cand = (recorded[n].argmax(axis=1) for n in ("float", "int8"))
    decision = quantization["decisions"]["digit"]
    assert decision["flips"] == int((ref != cand).sum()) > 0
    labels = decision["labels"]
    assert labels["correct_ref"] == int((ref == truth).sum())
    assert labels["correct_cand"] == int((cand == truth).sum())
    assert labels["changed_to_wrong"] == int(((ref == truth) & (cand != truth)).sum())
    assert labels["changed_to_right"] == int(((ref != truth) & (cand == truth)).sum())
    ink = np.array(pack["ink"].to_pylist())
    for value, counts in quantization["slices"]["ink"].items():
        here = ink == value
        assert counts["samples"] == int(here.sum())
        assert counts["flips"]["digit"] == int((ref != cand)[here].sum())
    ids = pa.ipc.open_file(outcome.folder / "failures" / "quantization-ids.arrow").read_all()
    error = np.abs(recorded["int8"].astype(np.float64) - recorded["float"])
    bad = ~(error <= 0.01 + 0.01 * np.abs(recorded["float"].astype(np.float64)))
    expected = pack["sample_id"].to_numpy()[bad.any(axis=1) | (ref != cand)]
    assert ids["sample_id"].to_pylist() == expected.tolist()


def test_cancer(demo: Path) -> None:
    outcome, recorded = run_recorded(demo, "cancer", "score")
    conversion, quantization = outcome.summary["stages"]
    assert conversion["verdict"] == "release"
    assert quantization["verdict"] == "hold"
    assert_stage(quantization, "score", count(recorded["float"], recorded["int8"], 1e-2, 1e-2))

    def band(scores: Floats) -> npt.NDArray[np.int64]:
        low, high = np.float32(0.2), np.float32(0.8)
        flat = scores[:, 0]
        return (flat >= low).astype(np.int64) + (flat > high).astype(np.int64)

    names = ["accept", "review", "reject"]
    ref, cand = band(recorded["float"]), band(recorded["int8"])
    decision = quantization["decisions"]["disposition"]
    assert decision["flips"] == int((ref != cand).sum()) > 0
    matrix = {
        names[r]: {
            names[c]: int(((ref == r) & (cand == c)).sum())
            for c in range(3)
            if ((ref == r) & (cand == c)).any()
        }
        for r in range(3)
    }
    assert decision["matrix"] == matrix
