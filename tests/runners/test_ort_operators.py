"""Libraries of custom operators: opened only with the digest that the plan names."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tests import models
from tests.packs import write_pack

import paritygate
from paritygate.api.plans import load_plan
from paritygate.core.errors import ParityError, PlanError

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no compiler")

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)

# A library without operators that tells when it is opened and when it is asked for them.
SOURCE = """
#include <stdio.h>
static void mark(const char *word) {
    FILE *file = fopen(MARKER, "a");
    if (file) { fprintf(file, "%s\\n", word); fclose(file); }
}
__attribute__((constructor)) static void opened(void) { mark("opened"); }
void *RegisterCustomOps(void *options, const void *api) { mark("registered"); return 0; }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_pack(tmp_path / "g.arrow", np.arange(8), {"x": X})
    models.scale_model(tmp_path / "a.onnx", 1.0)
    models.save_model(
        tmp_path / "b.onnx",
        [helper.make_node("Add", ["x", "zero"], ["y"])],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 4])},
        {"zero": np.array(0, np.float32)},
    )
    source = tmp_path / "ops.c"
    source.write_text(SOURCE)
    marker = f'-DMARKER="{tmp_path / "marker"}"'
    command = ["gcc", "-shared", "-fPIC", marker, "-o", str(tmp_path / "libops.so"), str(source)]
    subprocess.run(command, check=True)
    return tmp_path


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "libops.so").read_bytes()).hexdigest()


def plan(folder: Path, libraries: Any, model: str = "b.onnx") -> dict[str, Any]:
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {
            "a": str(folder / "a.onnx"),
            "b": {"model": str(folder / model), "custom_op_libraries": libraries},
        },
        "stages": [{"reference": "a", "candidate": "b", "outputs": {"y": {"atol": 0, "rtol": 0}}}],
    }


def told(folder: Path) -> list[str]:
    marker = folder / "marker"
    return marker.read_text().split() if marker.exists() else []


def test_a_library_with_its_digest_is_loaded_from_a_copy(folder: Path) -> None:
    table = [{"path": str(folder / "libops.so"), "sha256": digest(folder).upper()}]
    result = paritygate.run(plan(folder, table), out=folder / "runs")
    assert result.verdict == "release"
    assert set(told(folder)) == {"opened", "registered"}
    facts = result.summary["runners"]["b"]
    assert facts["custom_op_libraries"] == [
        {
            "path": str(folder / "libops.so"),
            "sha256": digest(folder),
            "bytes": (folder / "libops.so").stat().st_size,
        }
    ]
    assert result.summary["runners"]["a"]["custom_op_libraries"] == []


def test_another_digest_is_refused_with_both_and_the_library_never_opened(folder: Path) -> None:
    table = [{"path": str(folder / "libops.so"), "sha256": "0" * 64}]
    with pytest.raises(ParityError) as caught:
        paritygate.run(plan(folder, table), out=None)
    assert caught.value.code == "admission.digest"
    assert digest(folder) in str(caught.value)
    assert "0" * 64 in str(caught.value)
    assert caught.value.exit_code == 2
    assert told(folder) == []


def test_a_library_that_was_changed_is_never_opened(folder: Path) -> None:
    table = [{"path": str(folder / "libops.so"), "sha256": digest(folder)}]
    with (folder / "libops.so").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ParityError, match="has SHA-256"):
        paritygate.run(plan(folder, table), out=None)
    assert told(folder) == []


def test_a_library_that_is_not_there(folder: Path) -> None:
    table = [{"path": "absent.so", "sha256": "0" * 64}]
    with pytest.raises(ParityError, match=r"library .*absent.so: can't be read: No such") as caught:
        paritygate.run(plan(folder, table), out=None)
    assert (caught.value.code, caught.value.exit_code) == ("runner.load_failed", 2)


def test_what_is_no_library_is_told(folder: Path) -> None:
    (folder / "libops.so").write_bytes(b"no library")
    table = [{"path": str(folder / "libops.so"), "sha256": digest(folder)}]
    result = paritygate.run(plan(folder, table), out=None)
    assert result.verdict == "hold"
    (reason, _) = result.reasons
    assert reason.code == "runner.load_failed"
    assert "must allow execution" in reason.message


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        ({"path": "libops.so"}, "needs sha256 = the library's digest"),
        ({"path": "libops.so", "sha256": "abc"}, "64 hexadecimal digits .* 'abc'"),
        ({"path": "", "sha256": "0" * 64}, "custom_op_libraries"),
        ({"path": "libops.so", "sha": "0" * 64}, "isn't a known key; known: path, sha256"),
        ("libops.so", "custom_op_libraries"),
    ],
)
def test_a_plan_without_the_digest_is_refused(folder: Path, library: Any, expected: str) -> None:
    with pytest.raises(PlanError, match=expected):
        load_plan(plan(folder, [library]))
    assert told(folder) == []


def foreign(folder: Path) -> None:
    models.save_model(
        folder / "foreign.onnx",
        [helper.make_node("Odd", ["x"], ["y"], domain="com.example")],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 4])},
        opsets={"com.example": 1},
    )


def test_a_model_with_foreign_operators_says_what_to_write(folder: Path) -> None:
    foreign(folder)
    result = paritygate.run(plan(folder, [], "foreign.onnx"), out=None)
    assert result.verdict == "hold"
    reason = result.reasons[0]
    assert reason.code == "runner.load_failed"
    assert "'com.example'" in reason.message
    assert (
        'runners.b.custom_op_libraries = [{ path = "libops.so", sha256 = "..." }]' in reason.message
    )


def test_a_library_without_the_operators_is_told(folder: Path) -> None:
    foreign(folder)
    table = [{"path": str(folder / "libops.so"), "sha256": digest(folder)}]
    result = paritygate.run(plan(folder, table, "foreign.onnx"), out=None)
    assert "don't bring all operators of 'com.example'" in result.reasons[0].message


def test_the_saved_plan_runs_from_elsewhere(folder: Path) -> None:
    table = plan(folder, [{"path": "libops.so", "sha256": digest(folder)}])
    first = paritygate.run(load_plan(table, folder=folder), out=folder / "runs")
    assert first.folder is not None
    again = paritygate.run(first.folder / "plan.toml", out=None)
    assert again.verdict == "release"


def test_another_library_is_another_runner(folder: Path) -> None:
    table = plan(folder, [{"path": "libops.so", "sha256": digest(folder)}], "a.onnx")
    result = paritygate.run(load_plan(table, folder=folder), out=None)
    assert result.verdict == "release"
    table["runners"]["b"] = {"model": "a.onnx"}
    same = paritygate.run(load_plan(table, folder=folder), out=None)
    assert [r.code for r in same.reasons] == ["policy.same_runner"]
