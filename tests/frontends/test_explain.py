"""`paritygate explain` as a command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.frontends.command import invoke
from tests.frontends.plans import make_plan
from tests.packs import write_pack

import paritygate


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert invoke("run", make_plan(tmp_path, 0.99)).exit_code == 1
    return tmp_path


def test_the_latest_run_and_its_worst_samples(folder: Path) -> None:
    done = invoke("explain")
    assert done.exit_code == 0
    assert done.stdout.startswith("HOLD  scaled")
    for word in ("1. tolerance.exceeded", "2. decision.flip", "id 105", "high -> low", "more: "):
        assert word in done.stdout


def test_a_sample_of_the_latest_or_of_a_named_run(folder: Path) -> None:
    (run,) = (folder / "runs").iterdir()
    outputs = [invoke("explain", *args) for args in (["105"], [run, "105"])]
    assert [done.exit_code for done in outputs] == [0, 0]
    text = outputs[1].stdout
    assert text.replace(str(run), f"runs/{run.name}") == outputs[0].stdout
    for word in (
        "sample 105: it failed in stage only",
        "decision gate flipped: reference high, candidate low",
        "reference  0.5  (0x1.0000000000000p-1)",
        "candidate  0.495000005",
        "|error| 0.005, allowed 0.0015",
        "float32",
        "digest",
        f"paritygate replay {run} 105",
    ):
        assert word in text


def test_json_is_what_python_returns(folder: Path) -> None:
    (run,) = (folder / "runs").iterdir()
    for args in ([run], [run, "105"]):
        done = invoke("explain", *args, "--json")
        assert done.exit_code == 0
        expected = paritygate.explain(*map(str, args))
        assert json.loads(done.stdout) == json.loads(json.dumps(expected))


def test_what_cannot_be_explained_ends_with_2(folder: Path) -> None:
    done = invoke("explain", "nowhere")
    assert done.exit_code == 2
    assert "no sample of the golden pack has this id" in done.stdout
    done = invoke("explain", "./nowhere", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["verdict"] == "unjudged"
    assert json.loads(done.stdout)["reasons"][0]["code"] == "runfolder.unreadable"
    done = invoke("explain", "--out", folder / "none")
    assert (done.exit_code, "holds no finished run" in done.stderr) == (2, True)


def test_a_release_has_nothing_to_explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("run", make_plan(tmp_path, 1.0 + 1e-7)).exit_code == 0
    assert "nothing to explain" in invoke("explain").stdout
    done = invoke("explain", "105")
    assert (done.exit_code, "no rule fired on it" in done.stdout) == (0, True)


def test_ids_of_control_characters_reach_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ids = ["a\x1b[2Jb", "it's\nhere"]
    y = np.arange(2, dtype=np.float32)
    write_pack(tmp_path / "ref.arrow", ids, outputs={"y": y})
    write_pack(tmp_path / "cand.arrow", ids, outputs={"y": y + 1})
    assert invoke("compare", "ref.arrow", "cand.arrow").exit_code == 1
    for args in ([], [ids[0]], [ids[1]]):
        done = invoke("explain", *args)
        assert done.exit_code == 0
        assert all(line.isprintable() for line in done.stdout.split("\n"))
    assert r"$'it\'s\x0ahere'" in invoke("explain", ids[1]).stdout


def test_texts_that_differ_have_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, texts in (("a", ["x", "y"]), ("b", ["x", "z"])):
        write_pack(tmp_path / f"{name}.arrow", [1, 2], columns={"out.t": pa.array(texts)})
    assert invoke("compare", "a.arrow", "b.arrow").exit_code == 1
    assert "id 2: tolerance.exceeded; t[0] differs\n" in invoke("explain").stdout
