"""Options of runners: what the kinds' models share, and problems in the words of the plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from paritygate.core.errors import Problem
from paritygate.core.problems import describe_error, join_path, merge_by_path

# How pydantic names an alternative of a field that takes several types, within a location.
_ALTERNATIVE = re.compile(r"constrained-\w+|(tuple|list|dict)\[.*\]")


class RunnerOptions(BaseModel):
    """Base of the options of a kind: frozen, picklable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def check_mapping(value: Mapping[str, str], what: str) -> None:
    """Refuse a mapping `{ours = "theirs"}` in which two of ours are the same of theirs.

    Raises:
        ValueError: with a sentence that says what to change.
    """
    seen: dict[str, str] = {}
    for ours, theirs in value.items():
        if theirs in seen:
            raise ValueError(f"{seen[theirs]!r} and {ours!r} are the same {what} {theirs!r}")
        seen[theirs] = ours


def describe_errors(
    where: str, error: ValidationError, model: type[BaseModel], kind: str
) -> list[Problem]:
    """Problems of one runner's options, with paths below `where`."""
    return merge_by_path([_describe(where, e, model, kind) for e in error.errors()])


def _describe(where: str, error: Any, model: type[BaseModel], kind: str) -> Problem:
    loc = tuple(p for p in error["loc"] if not _ALTERNATIVE.fullmatch(str(p)))
    of = f" of a runner of kind {kind!r}" if len(loc) == 1 else ""
    return describe_error(join_path((where, *loc)), error, _fields_at(model, loc[:-1]), of)


def _fields_at(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """Keys of the table at a path; list positions and map keys are passed over."""
    for part in loc:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        inner = _model_in(field.annotation) if field is not None else model
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = [_model_in(a) for a in get_args(annotation)]
    return next((m for m in found if m is not None), None)
