"""In what the two sides of a stage differ besides their model: runtime, providers, settings."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from paritygate.runners.base import Runner
from paritygate.runners.environment import describe_environment

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
    ("device", ("device",)),
    ("deterministic algorithms", ("deterministic",)),
    ("TensorFloat-32", ("tf32",)),
    ("seed", ("seed",)),
    ("instruction set", ("cpu_capability",)),
    ("batch size", ("batch_size",)),
    ("casts and copies put in", ("placement", "inserted", "count")),
    ("opsets", ("model", "opsets")),
    ("producer", ("model", "producer")),
    ("process of its own", ("isolation", "process")),
    ("interpreter", ("isolation", "interpreter")),
    ("python", ("isolation", "python")),
    ("numpy", ("isolation", "numpy")),
    ("python when recorded", ("environment", "python")),
    ("processor", ("environment", "cpu", "model")),
)


def list_differences(ref: Runner, cand: Runner) -> list[dict[str, str]]:
    """Differences between two sides, those that most often explain another number first.

    Args:
        ref: the reference.
        cand: the candidate.

    Returns:
        `what`, and the text of it on both sides; of two kinds of runners, what both have. A side
        that is one recording is what its metadata say of the runner that was recorded.
    """
    recordings = [_one_recording(runner) for runner in (ref, cand)]
    is_recorded = any(recording is not None for recording in recordings)
    sides = [
        _facts(runner, is_recorded=is_recorded) if told is None else _recorded_facts(told)
        for runner, told in zip((ref, cand), recordings, strict=True)
    ]
    found = []
    is_same_kind = ref.kind == cand.kind and not is_recorded
    for what, left, right in _pairs(*sides):
        if left != right and (is_same_kind or None not in (left, right)):
            found.append({"what": what, "reference": _text(left), "candidate": _text(right)})
    return found


def _one_recording(runner: Runner) -> Mapping[str, Any] | None:
    """What a recording says of itself, where all its files were made by one runner in one place."""
    told = cast(Sequence[Mapping[str, Any]], runner.facts.get("recorded") or ())
    if not told or any(
        (other["runner"], other["environment"]) != (told[0]["runner"], told[0]["environment"])
        for other in told
    ):
        return None
    facts = cast(Mapping[str, Any], told[0]["runner"]["facts"])
    inner = cast(Sequence[Mapping[str, Any]], facts.get("recorded") or ())
    return inner[0] if len(inner) == 1 else told[0]


def _recorded_facts(recording: Mapping[str, Any]) -> dict[str, Any]:
    facts = dict(recording["runner"]["facts"])
    there = recording["environment"]
    process = {"process": False, "numpy": _at(there, ("versions", "numpy"))}
    facts.setdefault("isolation", process)
    facts["environment"] = there
    return _with_runtime(facts, recording["runner"]["kind"])


def _facts(runner: Runner, *, is_recorded: bool) -> dict[str, Any]:
    facts = dict(runner.facts)
    facts.setdefault(
        "isolation",
        {
            "process": False,
            "interpreter": sys.executable,
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "numpy": np.__version__,
        },
    )
    if is_recorded:
        facts["environment"] = describe_environment()
    return _with_runtime(facts, runner.kind)


def _with_runtime(facts: dict[str, Any], kind: str) -> dict[str, Any]:
    version = facts.get("runtime_version") or ""
    facts["runtime"] = f"{facts.get('runtime') or kind} {version}".strip()
    return facts


def _pairs(ref: Mapping[str, Any], cand: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    yield "runtime", ref["runtime"], cand["runtime"]
    for what, path in _COMPARED:
        yield what, _at(ref, path), _at(cand, path)


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
