"""The pages on plans and reasons name every key and every code that there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import paritygate

ROOT = Path(__file__).parents[2]
PLANS = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
REASONS = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
FAMILIES = (
    "admission|contract|decision|dtype|environment|evidence|golden|internal|nonfinite|output|"
    "placement|policy|replay|run|runfolder|runner|sample|shape|stage|tolerance"
)


def quoted(text: str) -> set[str]:
    return {
        word for part in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"[\w.]+", part)
    }


@pytest.mark.parametrize("name", ["", *paritygate.plan_schema()["$defs"]])
def test_every_key_of_a_plan_is_listed(name: str) -> None:
    schema = paritygate.plan_schema()
    table = schema["$defs"][name] if name else schema
    known = quoted(PLANS) | set(re.findall(r"## `\[+(\w+)", PLANS))
    assert [key for key in table.get("properties", {}) if key not in known] == []


def test_the_example_is_a_plan(tmp_path: Path) -> None:
    block, *_ = re.findall(r"```toml\n(.*?)```", PLANS, re.DOTALL)
    plan = paritygate.load_plan(tomllib.loads(block), folder=tmp_path)
    assert [stage.name for stage in plan.stages] == ["float-half"]


def test_every_code_is_listed_and_no_other() -> None:
    found: set[str] = set()
    for folder in ("engine", "frontends"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            found |= set(re.findall(rf'"((?:{FAMILIES})\.[a-z_]+)"', text))
    listed = set(re.findall(rf"`((?:{FAMILIES})\.[a-z_]+)`", REASONS))
    assert listed == found
