"""The JSON Schema of a plan, for editors."""

from __future__ import annotations

from typing import Any

from paritygate.core.tables import PlanTable
from paritygate.runners.isolate.settings import NEVER, PROCESS, IsolateTable
from paritygate.runners.registry import KINDS, options_model
from paritygate.runners.views import View


def plan_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a plan; a runner is a path or a table of a known kind."""
    schema = PlanTable.model_json_schema(by_alias=True)
    definitions = schema.setdefault("$defs", {})
    tables: list[dict[str, Any]] = []
    definitions["IsolateTable"] = IsolateTable.model_json_schema()
    isolate = {
        "anyOf": [{"enum": [PROCESS, True, False]}, {"$ref": "#/$defs/IsolateTable"}],
        "description": "run it in a process of its own",
    }
    for kind in KINDS:
        options = options_model(kind).model_json_schema(ref_template="#/$defs/{model}")
        definitions.update(options.pop("$defs", {}))
        options["properties"] = {"kind": {"const": kind}, **options["properties"]}
        _allow_views(options["properties"], definitions)
        if kind not in NEVER:
            options["properties"]["isolate"] = isolate
        definitions[f"runner_{kind}"] = options
        tables.append({"$ref": f"#/$defs/runner_{kind}"})
    tables.append(
        {
            "type": "object",
            "description": "a kind that a plug-in brings along",
            "required": ["kind"],
            "properties": {"kind": {"type": "string", "not": {"enum": list(KINDS)}}},
        }
    )
    path = {"type": "string", "description": "a file, 'module:function', 'recorded' or 'null'"}
    schema["properties"]["runners"] = {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"anyOf": [path, *tables]},
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _allow_views(properties: dict[str, Any], definitions: dict[str, Any]) -> None:
    """An output may be a table of what is declared of it."""
    view = View.model_json_schema(ref_template="#/$defs/{model}")
    definitions["View"] = view
    outputs = properties["outputs"]
    tables = [given for given in outputs.get("anyOf", ()) if given.get("type") == "object"]
    if tables:
        (outputs,) = tables
    entry = outputs.get("additionalProperties")
    if entry is None:
        table = {"type": "object", "additionalProperties": {"$ref": "#/$defs/View"}}
        properties["outputs"] = {"anyOf": [outputs, table]}
    elif entry.get("type") == "string":
        outputs["additionalProperties"] = {"anyOf": [entry, {"$ref": "#/$defs/View"}]}
    else:
        name = entry["$ref"].rpartition("/")[2]
        own = {k: v for k, v in view["properties"].items() if k != "from"}
        definitions[name]["properties"] = {**definitions[name]["properties"], **own}
