"""Plug-ins that write where they may not, or give what isn't fit: really installed and run."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.models import scale_model
from tests.packs import write_pack
from tests.runners.contract import context_of, spec_of
from tests.runners.test_plugins import Site, site

import paritygate
from paritygate.runners.registry import parse_runner, prepare

__all__ = ["site"]

KIND = """
import ctypes, hashlib
from dataclasses import replace
import numpy as np
from paritygate.runners import (
    Finding, Lease, Limits, Runner, RunnerError, RunnerLoadError, RunnerOptions, RunnerSession,
    TensorSpec, canonical_json,
)

class Options(RunnerOptions):
    fault: str = ""
    batch_size: int | None = None

LIMITS = {
    "no limits": None,
    "size 0": Limits((0,), True),
    "no sizes": Limits((), True),
    "sizes a list": Limits([4], True),
    "size a text": Limits(("4",), True),
    "a device that is none": Limits(None, True, device=3),
}
FACTS = {"facts an object": {"a": object()}, "facts of ours": {"staging": {}}, "facts 1": {1: 2}}
FINDINGS = {
    "findings a text": "f",
    "findings of texts": ("f",),
    "a finding of None": (Finding(None, ""),),
}

class Kind(Runner):
    def __init__(self, name, options, shape):
        self.fault = fault = options.fault
        if fault == "no super":
            return
        identity = hashlib.sha256(canonical_json(["hostile", fault])).hexdigest()
        wide = TensorSpec("y", "float32", ("batch", 7))
        super().__init__(
            name, "hostile",
            limits=LIMITS.get(fault, Limits((256,), True)),
            inputs={"x": ("float32", 4)} if fault == "inputs" else None,
            outputs={"y": wide} if fault == "declared" else None,
            identity={"identity None": None, "identity a word": "x"}.get(fault, identity),
            facts=FACTS.get(fault, {"a": 1}),
            findings=FINDINGS.get(fault, ()),
        )
        self.constant_names = {"a"} if fault == "constant names" else frozenset(["c"])
        self.asked = 0

    @property
    def facts(self):
        self.asked += 1
        if self.fault == "facts late" and self.asked > 3:
            raise ValueError("no facts any more")
        return self._facts

    def final_findings(self):
        if self.fault == "final raises":
            raise ValueError("final")
        return None if self.fault == "final None" else super().final_findings()

    def close(self):
        if self.fault == "close":
            raise ValueError("not closed")

    def session(self):
        if self.fault == "session raises":
            raise KeyboardInterrupt
        return None if self.fault == "session None" else Session(self)

class Session(RunnerSession):
    def close(self):
        if self.runner.fault == "session close":
            raise ValueError("not closed")

    def _run_impl(self, batch):
        fault, x = self.runner.fault, batch.inputs["x"]
        errors = {"KeyboardInterrupt": KeyboardInterrupt, "GeneratorExit": GeneratorExit}
        if fault in errors:
            raise errors[fault]
        if fault == "clamps":
            clamped = np.clip(x, -1, 1)
            ctypes.memmove(x.ctypes.data, clamped.ctypes.data, x.nbytes)
            batch.ids[:] = batch.ids[::-1].copy()
            return Lease({"y": clamped * np.float32(2)})
        lease = Lease({"y": x * np.float32(2)})
        if fault == "outputs a list":
            return Lease([x])
        if fault == "present a list":
            lease.present = [True] * batch.valid
        if fault == "present short":
            lease.present = np.ones(1, bool)
        if fault == "give back":
            def give_back():
                raise ValueError("not given back")
            return Lease(lease.outputs, None, give_back)
        if fault == "a lease that looks like it":
            return type("Other", (), {"outputs": lease.outputs, "release": lambda self: None})()
        return lease

def prepare(spec, context):
    fault = spec.options.fault
    for value in context.constants.values():
        ctypes.memset(value.ctypes.data, 0, value.nbytes)
    if fault == "prepare interrupts":
        raise KeyboardInterrupt
    if fault == "another's error":
        raise RunnerLoadError("other", "not mine")
    if fault == "an error of a batch":
        raise RunnerError("too early")
    return Kind(spec.name, spec.options, context.inputs["x"].shape)
"""


@pytest.fixture
def hostile(site: Site) -> Site:
    site.add("hostile", "6.6", {"hostile": "hostile_kind"}, {"hostile_kind.py": KIND})
    return site


def golden(folder: Path, kind: str) -> Path:
    """512 samples, most of them beyond 1, as a file that is mapped or one that is read."""
    x = (3 * np.random.default_rng(5).normal(size=(512, 4))).astype(np.float32)
    if kind == "arrow":
        return write_pack(folder / "g.arrow", np.arange(512), {"x": x})
    table = pa.table(
        {"sample_id": np.arange(512), "in.x": pa.FixedShapeTensorArray.from_numpy_ndarray(x)}
    )
    pq.write_table(table, folder / "g.parquet")
    return folder / "g.parquet"


def judged(folder: Path, fault: str, *, side: str = "cand", **more: Any) -> Any:
    """A run of the plug-in against y = 2 x under ONNX Runtime."""
    runners = {
        side: {"kind": "hostile", "fault": fault},
        "ref" if side == "cand" else "cand": str(scale_model(folder / "two.onnx", 2.0)),
    }
    plan = {
        "golden": str(more.pop("path", None) or golden(folder, "parquet")),
        "runners": runners,
        "stages": [
            {"reference": "ref", "candidate": "cand", "default": {"atol": 1e-6, "rtol": 0.0}}
        ],
        **more,
    }
    return paritygate.run(plan, out=folder / "runs")


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("side", ["ref", "cand"])
def test_one_side_cannot_change_the_samples_of_the_other(
    hostile: Site, tmp_path: Path, side: str, kind: str
) -> None:
    path = golden(tmp_path, kind)
    x = (3 * np.random.default_rng(5).normal(size=(512, 4))).astype(np.float32)
    result = judged(tmp_path, "clamps", side=side, path=path)
    assert [r.code for r in result.reasons] == ["tolerance.exceeded"]
    failing = int(np.any(np.abs(2 * x - 2 * np.clip(x, -1, 1)) > 1e-6, axis=1).sum())
    assert result.reasons[0].count == failing


def test_constants_are_its_own(hostile: Site, tmp_path: Path) -> None:
    constants = {"c": np.arange(1, 4)}
    with prepare(spec_of({"kind": "hostile"}), context_of(tmp_path, constants=constants)):
        assert constants["c"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("fault", ["close", "session close", "give back"])
def test_what_it_raises_when_all_is_over_is_logged(
    hostile: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    with caplog.at_level(logging.WARNING, "paritygate.runners"):
        result = judged(tmp_path, fault)
    assert result.verdict == "release", result.explain()
    (told, *_) = caplog.messages
    assert told.startswith("runner 'cand', kind 'hostile' of hostile 6.6: ")
    assert re.search(r"raised ValueError: not (closed|given back)", told)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("final raises", r"hostile 6\.6: final_findings\(\) raised ValueError: final"),
        ("final None", r"hostile 6\.6: final_findings\(\) is a NoneType, no tuple of Finding"),
        ("facts late", r"hostile 6\.6: facts can't be read: ValueError: no facts any more"),
    ],
)
def test_what_it_cannot_tell_at_the_end_holds(
    hostile: Site, tmp_path: Path, fault: str, says: str
) -> None:
    result = judged(tmp_path, fault)
    assert [r.code for r in result.reasons] == ["runner.error"]
    assert re.search(f"runner 'cand': {says}", result.reasons[0].message)
    assert result.folder is not None
    assert result.summary["stages"][0]["samples"]["compared"] == 512


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("no limits", "limits is a NoneType, no Limits"),
        ("size 0", r"limits has batch_sizes \(0,\): a tuple of numbers from 1 up, or None"),
        ("no sizes", r"limits has batch_sizes \(\)"),
        ("sizes a list", r"limits has batch_sizes \[4\]"),
        ("size a text", r"limits has batch_sizes \('4',\)"),
        ("a device that is none", "limits has a device that is no text"),
        ("inputs", "inputs has 'x', which is no name of a TensorSpec"),
        ("identity None", "identity is None, no SHA-256"),
        ("identity a word", "identity is 'x', no SHA-256"),
        ("facts an object", "facts can't be written as JSON: Object of type object"),
        ("facts of ours", "facts has staging, which paritygate writes itself"),
        ("facts 1", "facts has a name that is no text"),
        ("findings a text", "findings is a str, no tuple of Finding"),
        ("findings of texts", "findings holds a str, no Finding"),
        ("a finding of None", "findings holds a Finding whose code, message or next is no text"),
        ("constant names", "constant_names is {'a'}, no frozenset"),
        ("no super", r"limits can't be read: AttributeError: .*; call super\(\).__init__"),
        ("prepare interrupts", "prepare raised KeyboardInterrupt"),
        ("another's error", "prepare raised RunnerLoadError: not mine"),
        ("an error of a batch", "prepare raised RunnerError: too early"),
    ],
)
def test_what_is_no_whole_runner_does_not_load(
    hostile: Site, tmp_path: Path, fault: str, says: str
) -> None:
    result = judged(tmp_path, fault)
    assert [r.code for r in result.reasons] == ["runner.load_failed", "stage.not_run"]
    whole = rf"runner 'cand', kind 'hostile' of hostile 6\.6: .*{says}"
    assert re.search(whole, result.reasons[0].message), result.reasons[0].message


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("KeyboardInterrupt", r"batch 0 \(ids 0 to 255\): KeyboardInterrupt"),
        ("GeneratorExit", r"batch 0 \(ids 0 to 255\): GeneratorExit"),
        ("session raises", r"hostile 6\.6: session\(\) raised KeyboardInterrupt"),
        ("session None", r"hostile 6\.6: session\(\) gave NoneType, no RunnerSession"),
        ("outputs a list", r"hostile 6\.6 gave a Lease whose outputs are no mapping"),
        ("present a list", r"hostile 6\.6 gave a Lease whose present is a list, no array of bool"),
        ("present short", r"gave a Lease whose present has shape \(1,\); 256 samples count"),
        ("a lease that looks like it", r"hostile 6\.6 gave Other, no Lease"),
        ("declared", r"'y' is float32\[4\] a sample but is declared \[7\]"),
    ],
)
def test_what_is_no_answer_costs_its_samples(
    hostile: Site, tmp_path: Path, fault: str, says: str
) -> None:
    result = judged(tmp_path, fault)
    assert result.verdict == "hold"
    assert result.reasons[-1].code == "evidence.empty"
    assert re.search(says, result.reasons[0].message), result.reasons[0].message


def test_options_that_raise_are_a_problem_of_the_plan(site: Site) -> None:
    text = KIND.replace(
        "    batch_size: int | None = None\n",
        "    def model_post_init(self, context):\n        raise ZeroDivisionError('options')\n",
    )
    site.add("hostile", "6.6", {"hostile": "hostile_kind"}, {"hostile_kind.py": text})
    _, (problem,) = parse_runner("x", {"kind": "hostile"}, Path())
    assert str(problem) == (
        "runners.x: the options of kind 'hostile' raised ZeroDivisionError: options"
    )
