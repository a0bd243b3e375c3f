from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.frontends.command import execute, invoke

from paritygate.core.errors import FolderError
from paritygate_frontends.cli import demonstration
from paritygate_frontends.cli.demonstration import broken_promise, copy_demo


def summary(conversion: str, quantization: str) -> dict[str, Any]:
    return {
        "stages": [
            {"name": "conversion", "verdict": conversion},
            {"name": "quantization", "verdict": quantization},
        ]
    }


@pytest.mark.slow
def test_the_demo_shows_what_it_promises(tmp_path: Path) -> None:
    done = execute("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    folder = tmp_path / "paritygate-demo"
    runs = sorted((folder / "runs").iterdir())
    assert [run.name.split("-")[0] for run in runs] == ["cancer", "digits"]
    for run in runs:
        assert run.name in done.stdout
        stages = json.loads((run / "summary.json").read_text())["stages"]
        assert [s["verdict"] for s in stages] == ["release", "hold"]
        assert stages[1]["decisions"][next(iter(stages[1]["decisions"]))]["flips"] > 0
    assert "What you have seen" in done.stdout
    assert "PROVENANCE.md" in done.stdout


def test_an_outcome_that_is_not_the_promised_one_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demonstration, "broken_promise", lambda _: "everything was released")
    result = invoke("demo", "--out", tmp_path / "d")
    assert result.exit_code == 1
    assert "The demo did not show what it promises: everything was released." in result.stdout
    assert "What you have seen" not in result.stdout


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ([("release", "hold"), ("release", "hold")], None),
        ([("release", "hold"), ("release", "release")], None),
        ([("release", "release"), ("release", "release")], "no stage quantization is on hold"),
        ([("release", "hold"), ("hold", "hold")], "stage conversion of plan1 is hold"),
        ([("release", "unjudged"), ("release", "hold")], "stage quantization of plan0 is unjudged"),
    ],
)
def test_promise(outcome: list[tuple[str, str]], says: str | None) -> None:
    found = broken_promise({f"plan{i}": summary(*verdicts) for i, verdicts in enumerate(outcome)})
    assert found is None if says is None else found is not None and says in found


def test_the_same_folder_is_used_again_and_another_one_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = copy_demo(None)
    assert first == Path("paritygate-demo")
    assert {f.name for f in first.iterdir()} >= {"digits.toml", "cancer.onnx", "PROVENANCE.md"}
    assert copy_demo(None) == first
    (first / "digits.toml").write_text("# mine")
    assert copy_demo(None) == Path("paritygate-demo-2")
    assert (first / "digits.toml").read_text() == "# mine"
    with pytest.raises(FolderError, match="holds another digits.toml"):
        copy_demo(first)


def test_a_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("")
    with pytest.raises(FolderError, match="file of that name"):
        copy_demo(tmp_path / "d")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="can't be written"):
        copy_demo(tmp_path / "file" / "d")
