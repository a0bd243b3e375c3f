"""The README shows what the commands print and do."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.frontends.command import invoke, on_terminal

from paritygate_frontends.cli.demonstration import copy_demo

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    text = README if language else README.partition("## Explain and replay")[2]
    return text.partition(f"```{language}\n")[2].partition("```")[0]


def shape(line: str) -> str:
    """A line without its figures: those of int8 models may differ between processors."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.e,-]*", "#", line)).strip()


@pytest.mark.slow
def test_the_example_prints_what_the_readme_shows(tmp_path: Path) -> None:
    copy_demo(tmp_path)
    shown = block("console")
    command, _, expected = shown.removeprefix("$ paritygate ").partition('"\n')
    args = shlex.split(command.replace("\\\n", "") + '"')
    code, drawn = on_terminal(*args, cwd=tmp_path, columns=100, changes={"NO_COLOR": "1"})
    printed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", drawn[drawn.index("HOLD") :]).splitlines()
    lines = expected.splitlines()
    assert code == 1
    assert [shape(line) for line in printed[: len(lines)]] == [shape(line) for line in lines]


@pytest.mark.slow
def test_explain_prints_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_demo(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert invoke("run", "cancer.toml").exit_code == 1
    command, _, expected = block("").partition("$ paritygate ")[2].partition("\n")
    printed = invoke(*shlex.split(command)).stdout
    lines = [shape(line) for line in expected.splitlines()]
    assert [shape(line) for line in printed.splitlines()] == lines


@pytest.mark.slow
def test_the_python_example_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_demo(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"ref": [1.0], "cand": [1.0]}
    code = block("python")
    assert "result.raise_for_hold()" in code
    exec(code.replace("result.raise_for_hold()", "result.raise_for_hold"), names)
    with pytest.raises(AssertionError, match=r"tolerance\.exceeded|decision\.flip"):
        names["result"].raise_for_hold()  # type: ignore[attr-defined]


def test_every_command_is_named() -> None:
    named = set(re.findall(r"^\| `paritygate (\w+)", README, re.MULTILINE))
    listed = invoke("--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0]
    assert named == set(re.findall(r"^  (\S+)", listed, re.MULTILINE))


def test_the_map_names_rooms_and_files_that_exist() -> None:
    table = README.partition("| room | file |")[2].partition("\n\n")[0]
    room = ROOT
    missing: dict[Path, set[Path]] = {}
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0]:
            name = cells[0].strip("`")
            room = ROOT / name if "/" in name else ROOT / "engine/paritygate" / name
        for file in re.findall(r"`([^`]+)`", cells[1]):
            assert list(room.glob(file.rstrip("/"))), f"{room.name}: {file}"
        missing[room] = missing.get(room, set(room.glob("*.py"))) - {
            path for file in re.findall(r"`([^`]+\.py)`", line) for path in room.rglob(file)
        }
    for room, files in missing.items():
        assert {p.name for p in files} <= {"__init__.py", "__main__.py"}, room
    rooms = {p.name for p in (ROOT / "engine/paritygate").iterdir() if (p / "__init__.py").exists()}
    assert {name for name in rooms if f"`{name}`" not in table} == {"api"}
    assert "`engine/paritygate/api`" in table


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets == {t for t in targets if re.search(rf"^{t}:", makefile, re.MULTILINE)}
    assert targets
