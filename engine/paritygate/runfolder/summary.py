"""`summary.json`: one schema with a version, keys in a fixed order, no NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from paritygate.core.errors import UnreadableRunError

SCHEMA_VERSION = 1

_TOP = (
    "schema_version",
    "verdict",
    "reasons",
    "not_judged",
    "plan",
    "golden",
    "stages",
    "runners",
    "timing",
    "threads",
    "environment",
)


def encode_summary(summary: Mapping[str, Any]) -> bytes:
    """UTF-8 JSON: top-level keys in schema order, inner maps sorted, NaN and infinities as text."""
    ordered = {key: summary[key] for key in _TOP if key in summary}
    ordered.update((key, value) for key, value in summary.items() if key not in ordered)
    body = {key: _keep_order(key, _plain(value)) for key, value in ordered.items()}
    return orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n"


def read_summary(folder: Path) -> dict[str, Any]:
    """Read a run's summary.

    Args:
        folder: a run folder, or the summary itself.

    Raises:
        UnreadableRunError: missing, unreadable, or of a newer schema than this version knows.
    """
    path = folder / "summary.json" if folder.is_dir() else folder
    try:
        summary = orjson.loads(path.read_bytes())
        version = summary["schema_version"]
    except FileNotFoundError:
        raise UnreadableRunError(f"{path}: no such file; name a finished run folder") from None
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as e:
        raise UnreadableRunError(f"{path}: isn't a summary of a run ({e})") from None
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise UnreadableRunError(
            f"{path}: has schema version {version}, newer than {SCHEMA_VERSION}, which this "
            "version of paritygate reads; read it with the version that wrote it"
        )
    return dict(summary)


def _plain(value: Any) -> Any:
    """Only what JSON has; floats that JSON lacks become "nan", "inf" and "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if hasattr(value, "item"):
        return _plain(value.item())
    return str(value)


_FIXED_ORDER = ("stages", "reasons", "plan", "golden", "timing")


def _keep_order(key: str, value: Any) -> Any:
    """Stages and reasons name their keys in reading order; below them maps are sorted."""
    if key not in _FIXED_ORDER:
        return _sorted(value)
    if isinstance(value, list):
        return [_keep_order(key, item) if isinstance(item, dict) else item for item in value]
    return {k: _sorted(v) for k, v in value.items()}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _sorted(value[k]) for k in sorted(value)}
    return [_sorted(v) for v in value] if isinstance(value, list) else value
