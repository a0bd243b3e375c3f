from __future__ import annotations

import errno
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.frontends.command import COMMAND, environment, execute, invoke, on_terminal
from tests.frontends.plans import make_models, make_plan, make_recordings, scores
from tests.packs import write_pack

from paritygate import api
from paritygate.core.errors import GoldenError

TOLERANCE = ("--atol", "1e-3", "--rtol", "1e-3")


def test_release(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 1.0 + 1e-6)
    result = invoke("run", plan, "--out", tmp_path / "runs", "--set", "stages.only.flips.gate=1")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("RELEASE  scaled: 20 golden samples; only release\n")
    assert result.stderr == ""
    (folder,) = (tmp_path / "runs").iterdir()
    assert str(folder) in result.stdout
    assert json.loads((folder / "summary.json").read_text())["verdict"] == "release"


def test_the_run_folder_is_told_as_one_would_type_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_plan(tmp_path, 1.0 + 1e-6)
    monkeypatch.chdir(tmp_path)
    result = invoke("run", "plan.toml")
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"Run folder  runs/{folder.name}\n" in result.stdout
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    result = invoke("run", "plan.toml", "--out", elsewhere)
    (folder,) = elsewhere.iterdir()
    assert f"Run folder  {folder}\n" in result.stdout


def test_hold_for_a_flip_that_is_within_tolerance(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 1.0 - 1e-6)
    result = invoke("run", plan, "--out", tmp_path / "runs")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "HOLD  scaled: 20 golden samples; only hold"
    assert lines[1] == "  decision.flip  stage only, decision gate"
    assert "     ids: 105" in lines
    assert "  20 of 20 samples compared, 1 failed" in lines
    assert any(line.split() == ["gate", "high", "low", "1"] for line in lines)


def test_hold_for_tolerance(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 1.5)
    result = invoke("run", plan, "--out", tmp_path / "runs")
    assert result.exit_code == 1
    assert "tolerance.exceeded  stage only, output y" in result.stdout
    assert "sample" in result.stdout.partition("Run folder")[2]


def test_incomplete(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 1.0 + 1e-6)
    result = invoke("run", plan, "--out", tmp_path / "runs", "--limit", 4)
    assert result.exit_code == 3
    assert result.stdout.startswith("INCOMPLETE  scaled")


def test_json_is_the_summary_and_nothing_else(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 1.5)
    result = invoke("run", plan, "--out", tmp_path / "runs", "--json", "--stats", "gate")
    (folder,) = (tmp_path / "runs").iterdir()
    assert result.exit_code == 1
    assert result.stdout_bytes == (folder / "summary.json").read_bytes()
    assert json.loads(result.stdout)["stages"][0]["stats"] == "gate"
    assert result.stderr == ""


def test_a_plan_with_problems_names_them_all(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    result = invoke("run", plan, "--set", "golden=7", "--set", "slicess=1", "--json")
    assert result.exit_code == 2
    messages = [r["message"] for r in json.loads(result.stdout)["reasons"]]
    assert len(messages) >= 2
    assert any("slicess" in m and "did you mean 'slices'" in m for m in messages)
    assert not (tmp_path / "runs").exists()


def test_an_unknown_stage_names_those_there_are(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    result = invoke("run", plan, "--stage", "onyl", "--out", tmp_path / "runs")
    assert result.exit_code == 2
    assert "only" in result.stderr


def test_without_anything_it_says_what_to_name() -> None:
    result = invoke("run")
    assert result.exit_code == 2
    assert "name a plan, or give --ref, --cand and --golden" in result.stderr


def test_a_plan_and_what_stands_in_for_one_exclude_each_other(tmp_path: Path) -> None:
    result = invoke("run", tmp_path / "p.toml", "--ref", "a.onnx", *TOLERANCE, "--argmax", "y")
    assert result.exit_code == 2
    for option in ("--ref", "--atol", "--rtol", "--argmax"):
        assert f"  {option}: belongs to a run without a plan" in result.stderr
    assert "--cand" not in result.stderr


def test_everything_missing_or_wrong_is_named_at_once() -> None:
    result = invoke("run", "--golden", "g.arrow", "--atol", "1", "--tolerance", "y")
    assert result.exit_code == 2
    for text in ("--ref: is missing", "--cand: is missing", "--rtol: ", "--tolerance 'y': "):
        assert text in result.stderr
    assert "--golden: " not in result.stderr


def test_without_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_models(tmp_path / "m", 1.0 - 1e-6)
    monkeypatch.chdir(tmp_path)
    models = ("--ref", "m/ref.onnx", "--cand", "m/cand.onnx", "--golden", "m/*.arrow")
    result = invoke("run", *models, *TOLERANCE, "--bands", "y: low < 0.5 <= high")
    assert result.exit_code == 1, result.output
    assert "decision.flip" in result.stdout
    result = invoke("run", *models, "--tolerance", "y:atol=0.1,rtol=0", "--batch-size", "3")
    assert result.exit_code == 0, result.output
    result = invoke("run", *models)
    assert result.exit_code == 1
    assert "tolerance.exceeded" in result.stdout


def test_the_saved_plan_is_what_was_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_models(tmp_path / "m", 1.0 - 1e-6)
    (tmp_path / "plans").mkdir()
    monkeypatch.chdir(tmp_path / "m")
    args = ("run", "--ref", "ref.onnx", "--cand", "cand.onnx", "--golden", "golden.arrow",
            *TOLERANCE, "--bands", "y: low < 0.5 <= high", "--argmax", "y")  # fmt: skip
    both = invoke(*args, "--save-plan", "../plans/p.toml")
    assert both.exit_code == 2
    assert "two decision rules" in both.stderr
    assert not (tmp_path / "plans/p.toml").exists()
    direct = invoke(*args[:-2], "--save-plan", "../plans/p.toml", "--json")
    saved = tomllib.loads((tmp_path / "plans/p.toml").read_text())
    assert saved["golden"] == ["../m/golden.arrow"]
    monkeypatch.chdir(tmp_path)
    again = invoke("run", "plans/p.toml", "--json")
    assert direct.exit_code == again.exit_code == 1, direct.output
    first, second = json.loads(direct.stdout), json.loads(again.stdout)
    assert first["plan"]["digest"] == second["plan"]["digest"]
    assert first["reasons"] == second["reasons"]


def test_the_saved_plan_has_what_was_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_models(tmp_path / "m", 1.5)
    (tmp_path / "plans").mkdir()
    monkeypatch.chdir(tmp_path)
    args = ("run", "--ref", "m/ref.onnx", "--cand", "m/none.onnx", "--golden", "m/golden.arrow",
            *TOLERANCE, "--set", "runners.candidate.model=m/cand.onnx", "--set",
            "stages.comparison.default.atol=0.75", "--set", "golden=m/gold*.arrow")  # fmt: skip
    direct = invoke(*args, "--save-plan", "plans/p.toml", "--json")
    saved = tomllib.loads((tmp_path / "plans/p.toml").read_text())
    assert saved["golden"] == "../m/gold*.arrow"
    assert saved["runners"] == {
        "reference": "../m/ref.onnx",
        "candidate": {"model": "../m/cand.onnx"},
    }
    assert saved["stages"][0]["default"]["atol"] == 0.75
    again = invoke("run", "plans/p.toml", "--json")
    assert direct.exit_code == again.exit_code == 0, direct.output
    digests = [json.loads(result.stdout)["plan"]["digest"] for result in (direct, again)]
    assert digests[0] == digests[1]


def test_the_saved_plan_names_recordings_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, cand = make_recordings(tmp_path)
    (tmp_path / "plans").mkdir()
    monkeypatch.chdir(tmp_path)
    args = ("--ref", "recorded", "--cand", cand.name, "--golden", ref.name)
    moved = ("--set", f'runners.candidate.path=["{cand.name}"]', "--save-plan", "plans/p.toml")
    result = invoke("run", *args, *moved)
    saved = tomllib.loads((tmp_path / "plans/p.toml").read_text())
    assert saved["runners"]["reference"] == "recorded"
    assert saved["runners"]["candidate"]["path"] == [f"../{cand.name}"]
    assert result.exit_code == 0, result.output


def test_a_plan_is_saved_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_models(tmp_path, 1.0 + 1e-6)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())

    def half(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:50])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    args = ("run", "--ref", "ref.onnx", "--cand", "cand.onnx", "--golden", "golden.arrow")
    result = invoke(*args, *TOLERANCE, "--save-plan", "p.toml")
    assert result.exit_code == 2
    assert "--save-plan p.toml: can't be written: No space left on device" in result.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_is_no_text_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_models(tmp_path, 1.0 + 1e-6)
    monkeypatch.chdir(tmp_path)
    Path("p.toml").write_bytes(b"\xff\xfe")
    args = ("run", "--ref", "ref.onnx", "--cand", "cand.onnx", "--golden", "golden.arrow")
    for taken in ("p.toml", "."):
        result = invoke(*args, *TOLERANCE, "--save-plan", taken)
        assert result.exit_code == 2
        assert "UNJUDGED  policy.invalid" in result.stderr
        assert "exists and says something else" in result.stderr
    assert Path("p.toml").read_bytes() == b"\xff\xfe"


@pytest.mark.parametrize("key", ["meta." + "a." * 3_000 + "a = 1", "a = " + "[" * 20_000])
def test_a_plan_nested_deeply_is_no_fault_of_ours(tmp_path: Path, key: str) -> None:
    plan = make_plan(tmp_path)
    plan.write_text(f"{key}\n{plan.read_text()}")
    for verb in ("run", "check"):
        result = invoke(verb, plan)
        assert result.exit_code == 2
        assert "is nested too deeply" in result.stderr + result.stdout
        assert "paritygate itself failed" not in result.stderr


def test_a_value_nested_deeply_is_no_fault_of_ours(tmp_path: Path) -> None:
    result = invoke("run", make_plan(tmp_path), "--set", "golden=" + "[" * 20_000)
    assert result.exit_code == 2
    assert "paritygate itself failed" not in result.stderr


FUNCTIONS = (
    "def ref(d):\n    return {'y': d['x'] * 2}\n\ndef cand(d):\n    return {'y': d['x'] + d['x']}\n"
)


@pytest.mark.parametrize("cand", [("fns:cand",), ("x:y", "call")])
@pytest.mark.parametrize("saved", ["plans/deep/p.toml", "p.toml"])
def test_a_saved_plan_finds_the_functions_of_the_folder_it_was_saved_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cand: tuple[str, ...], saved: str
) -> None:
    work = tmp_path / "work"
    (work / "pkg").mkdir(parents=True)
    (work / "plans" / "deep").mkdir(parents=True)
    for path in ("fns.py", "pkg/fns.py", "pkg/__init__.py"):
        (work / path).write_text(FUNCTIONS)
    write_pack(work / "golden.arrow", np.arange(8), {"x": scores()[:8]})
    monkeypatch.chdir(work)
    args = ["run", "--ref", "fns:ref", "--cand", cand[0], "--golden", "golden.arrow"]
    if "call" in cand:
        args += ["--set", 'runners.candidate={kind = "python", call = "fns:cand"}']
    direct = invoke(*args, *TOLERANCE, "--save-plan", saved)
    assert direct.exit_code == 0, direct.stderr
    monkeypatch.chdir(tmp_path)
    again = invoke("run", work / saved)
    assert again.exit_code == 0, again.stderr


def test_a_saved_plan_is_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_models(tmp_path, 1.0 + 1e-6)
    monkeypatch.chdir(tmp_path)
    args = ("run", "--ref", "ref.onnx", "--cand", "cand.onnx", "--golden", "golden.arrow")
    assert invoke(*args, *TOLERANCE, "--save-plan", "p.toml").exit_code == 0
    before = Path("p.toml").read_text()
    assert invoke(*args, *TOLERANCE, "--save-plan", "p.toml").exit_code == 0
    other = invoke(*args, "--atol", "1", "--rtol", "0", "--save-plan", "p.toml")
    assert other.exit_code == 2
    assert "exists and says something else" in other.stderr
    assert Path("p.toml").read_text() == before
    nowhere = invoke(*args, *TOLERANCE, "--save-plan", "no/p.toml")
    assert nowhere.exit_code == 2
    assert "can't be written" in nowhere.stderr


def test_every_option_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def run(plan: Any, **options: Any) -> None:
        given.update(options, plan=plan.name)
        raise GoldenError("seen")

    monkeypatch.setattr(api, "run", run)
    options = [
        "--stage",
        "only",
        "--limit",
        "3",
        "--stats",
        "gate",
        "--threads",
        "2",
        "--out",
        "o",
        "--set",
        "name=x",
        "--keep-outputs",
        "--noise",
        "--isolate",
        "--compare-on",
        "cpu",
    ]
    assert "seen" in invoke("run", make_plan(tmp_path), *options).stderr
    assert callable(given.pop("observer"))
    assert given == {
        "plan": "x",
        "out": Path("o"),
        "stage": "only",
        "limit": 3,
        "stats": "gate",
        "threads": 2,
        "keep_outputs": True,
        "noise": True,
        "isolate": True,
        "compare_on": "cpu",
    }


def test_every_part_of_a_run_without_a_plan_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def plan_from_models(ref: str, cand: str, golden: list[str], **options: Any) -> None:
        given.update(options, ref=ref, cand=cand, golden=golden)
        raise GoldenError("seen")

    monkeypatch.setattr(api, "plan_from_models", plan_from_models)
    args = "run --ref r.onnx --cand c.onnx --golden g.arrow --golden h*.arrow --batch-size 8"
    more = "--atol 1 --rtol 0.5 --nonfinite match --argmax z --tolerance y:atol=2,rtol=0"
    more += " --topk t:3 --equal e"
    result = invoke(*args.split(), *more.split(), "--bands", "x: low < 0 <= high")
    assert "seen" in result.stderr
    assert given == {
        "ref": "r.onnx",
        "cand": "c.onnx",
        "golden": ["g.arrow", "h*.arrow"],
        "atol": 1.0,
        "rtol": 0.5,
        "nonfinite": "match",
        "tolerances": {"y": {"atol": 2.0, "rtol": 0.0}},
        "bands": ["x: low < 0 <= high"],
        "argmax": ["z"],
        "topk": ["t:3"],
        "equal": ["e"],
        "batch_size": 8,
    }


@pytest.mark.slow
def test_a_pipe_gets_plain_text_and_no_progress(tmp_path: Path) -> None:
    make_plan(tmp_path, 1.5)
    done = execute("run", "plan.toml", cwd=tmp_path, FORCE_COLOR="1")
    assert done.returncode == 1
    assert done.stdout.startswith("HOLD  scaled")
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_a_terminal_gets_colour_and_progress_unless_it_is_told_not_to(tmp_path: Path) -> None:
    make_plan(tmp_path, 1.5)
    code, drawn = on_terminal("run", "plan.toml", cwd=tmp_path)
    assert code == 1
    assert "\x1b[1;37;41mHOLD" in drawn
    assert "samples/s" in drawn
    code, drawn = on_terminal("run", "plan.toml", cwd=tmp_path, changes={"NO_COLOR": "1"})
    assert code == 1
    report = drawn[drawn.index("HOLD") :]
    colours = [part for part in report.split("\x1b[")[1:] if part[:2] in ("31", "32", "37", "41")]
    assert colours == []
    code, drawn = on_terminal("run", "plan.toml", "--json", cwd=tmp_path)
    assert code == 1
    assert "\x1b[1;37;41m" not in drawn


@pytest.mark.slow
def test_a_summary_that_cannot_be_written_is_no_verdict(tmp_path: Path) -> None:
    make_plan(tmp_path, 1.5)
    with Path("/dev/full").open("w") as full:
        lost = subprocess.run(
            [*COMMAND, "run", "plan.toml", "--json"],
            cwd=tmp_path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert lost.returncode == 2
    assert "standard output can't be written" in lost.stderr
    assert "Traceback" not in lost.stderr
    assert "Exception ignored" not in lost.stderr


@pytest.mark.slow
def test_a_reader_that_goes_away_keeps_the_verdict(tmp_path: Path) -> None:
    make_plan(tmp_path, 1.5)
    process = subprocess.Popen(
        [*COMMAND, "run", "plan.toml"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 1
    assert errors == b""
