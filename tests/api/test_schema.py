"""The published schema is the one that the code validates by."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

import paritygate
from paritygate.core.errors import PlanError

PUBLISHED = Path(__file__).parents[2] / "docs" / "plan.schema.json"


def test_published_schema_is_current() -> None:
    assert json.loads(PUBLISHED.read_text()) == paritygate.plan_schema(), (
        'write it anew: python -c "import json, paritygate; print(json.dumps('
        'paritygate.plan_schema(), indent=1))" > docs/plan.schema.json'
    )


@pytest.mark.parametrize("name", ["cancer.toml", "digits.toml"])
def test_demo_plans_fit_the_schema(name: str) -> None:
    text = resources.files("paritygate_frontends").joinpath("demo_data", name).read_text()
    jsonschema.validate(tomllib.loads(text), paritygate.plan_schema())


def test_schema_refuses_what_the_plan_refuses() -> None:
    plan = {
        "golden": "g.arrow",
        "runners": {"a": {"kind": "onnxruntime", "model": "a.onnx", "provider": []}},
        "stages": [{"reference": "a", "candidate": "a"}],
    }
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plan, paritygate.plan_schema())
    with pytest.raises(PlanError):
        paritygate.load_plan(plan)
