"""In what the two sides of a stage differ besides their model: runtime, providers, settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paritygate.runners.base import Runner

_MAX_TEXT = 300
# What is compared, in the order of what most often explains a difference: the words for it, and
# where it stands in a runner's facts.
_COMPARED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("runtime build", ("runtime_build",)),
    ("providers", ("providers_in_force",)),
    ("provider options", ("provider_options",)),
    ("arithmetic", ("precision", "arithmetic")),
    ("dynamic quantization", ("precision", "dynamic_quantization")),
    ("graph optimization level", ("graph_optimization_level",)),
    ("disabled optimizers", ("disabled_optimizers",)),
    ("intra-op threads", ("intra_op_num_threads",)),
    ("inter-op threads", ("inter_op_num_threads",)),
    ("execution mode", ("execution_mode",)),
    ("session options", ("session_options",)),
    ("batch size", ("batch_size",)),
    ("casts and copies put in", ("placement", "inserted", "count")),
    ("opsets", ("model", "opsets")),
    ("producer", ("model", "producer")),
    ("interpreter", ("environment", "interpreter")),
    ("python", ("environment", "python")),
    ("platform", ("environment", "platform")),
    ("processor", ("environment", "cpu")),
    ("variables", ("environment", "variables")),
)


def list_differences(
    ref: Runner, cand: Runner, environment: Mapping[str, object]
) -> list[dict[str, str]]:
    """Differences between two sides, those that most often explain another number first.

    Args:
        ref: the reference.
        cand: the candidate.
        environment: of this process, for a side that doesn't run in one of its own.

    Returns:
        `what`, and the text of it on both sides; of two kinds of runners, what both have.
    """
    sides = [_facts(runner, environment) for runner in (ref, cand)]
    found = []
    is_same_kind = ref.kind == cand.kind
    for what, left, right in _pairs(*sides):
        if left != right and (is_same_kind or None not in (left, right)):
            found.append({"what": what, "reference": _text(left), "candidate": _text(right)})
    return found


def _facts(runner: Runner, environment: Mapping[str, object]) -> dict[str, Any]:
    facts = dict(runner.facts)
    own = facts.get("environment")
    facts["environment"] = own if isinstance(own, Mapping) else environment
    version = facts.get("runtime_version") or ""
    facts["runtime"] = f"{facts.get('runtime') or runner.kind} {version}".strip()
    return facts


def _pairs(ref: Mapping[str, Any], cand: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    yield "runtime", ref["runtime"], cand["runtime"]
    for what, path in _COMPARED:
        yield what, _at(ref, path), _at(cand, path)
    versions = [_at(side, ("environment", "versions")) for side in (ref, cand)]
    if all(isinstance(found, Mapping) for found in versions):
        for package in sorted(set(versions[0]) | set(versions[1])):
            yield f"version of {package}", versions[0].get(package), versions[1].get(package)


def _at(facts: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = facts
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        text = ", ".join(f"{key} {_text(inner)}" for key, inner in value.items()) or "none"
    elif isinstance(value, list | tuple):
        text = ", ".join(_text(inner) for inner in value) or "none"
    else:
        text = str(value)
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
