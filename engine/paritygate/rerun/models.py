"""Whether what is loaded now is what ran then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paritygate.runners.base import Runner

_SETTINGS = (
    "runtime_version",
    "providers_in_force",
    "provider_options",
    "batch_size",
    "graph_optimization_level",
    "intra_op_num_threads",
    "session_options",
    *("device", "deterministic", "tf32", "seed"),
)


def changed_models(then: Mapping[str, Any], runners: Mapping[str, Runner]) -> list[str]:
    """A sentence on each runner whose file isn't the one that ran.

    Args:
        then: `runners` of the run's summary.
        runners: what is loaded now, by the same names.
    """
    told = []
    for name, runner in runners.items():
        facts = then.get(name)
        before = _digest(facts) if isinstance(facts, Mapping) else None
        now = _digest(runner.facts)
        if before != now:
            told.append(f"{name!r} was {before or 'unknown'}, is {now or 'unknown'}")
    return told


def changed_settings(then: Mapping[str, Any], runners: Mapping[str, Runner]) -> Iterator[str]:
    """A sentence on each setting that isn't what it was, such as another version of a runtime."""
    for name, runner in runners.items():
        facts = then.get(name)
        if not isinstance(facts, Mapping):
            continue
        for key in _SETTINGS:
            before, now = _plain(facts.get(key)), _plain(runner.facts.get(key))
            if before != now:
                yield f"runner {name!r}: {key} was {before}, is {now}"


def _digest(facts: Mapping[str, Any]) -> str | None:
    model = facts.get("model")
    found = model.get("digest") if isinstance(model, Mapping) else None
    found = found or facts.get("source_sha256") or facts.get("digest")
    return str(found) if found else None


def _plain(value: Any) -> Any:
    """Tuples as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
