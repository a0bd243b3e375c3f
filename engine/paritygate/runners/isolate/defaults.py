"""Which runners of a run are isolated though the plan doesn't say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from paritygate.core.errors import RunnerLoadError
from paritygate.runners.base import RunnerSpec
from paritygate.runners.isolate.settings import NEVER, Isolation, isolated

# What the gate itself asks of its process: it compares denormal numbers as they are.
_OWN = {"denormals": "kept"}


def isolate_all(specs: Mapping[str, RunnerSpec]) -> dict[str, RunnerSpec]:
    """Every runner that runs code, in a process of its own."""
    return {
        name: spec
        if spec.kind in NEVER
        else replace(spec, isolation=isolated(spec.isolation, "--isolate"))
        for name, spec in specs.items()
    }


def isolate_conflicts(
    specs: Iterable[RunnerSpec], settings: Mapping[str, tuple[str, ...]]
) -> list[RunnerSpec]:
    """Isolate runners that ask their process for something else than others, or the gate, do.

    Args:
        specs: the runners of a run.
        settings: runner -> what it asks of its whole process, as `name=value`.

    Raises:
        RunnerLoadError: the plan says `isolate = false` of such a runner.
    """
    return [_settled(spec, settings) for spec in specs]


def _settled(spec: RunnerSpec, settings: Mapping[str, tuple[str, ...]]) -> RunnerSpec:
    given = spec.isolation
    why = _conflict(spec.name, settings)
    if not why or (given is not None and given.is_on):
        return spec
    if given is not None:
        raise RunnerLoadError(
            spec.name,
            f"runners.{spec.name}.isolate: is false, but {why}; leave it out",
            is_plan_fault=True,
        )
    return replace(spec, isolation=Isolation(why=why))


def _conflict(name: str, settings: Mapping[str, tuple[str, ...]]) -> str:
    """What a runner asks of its process that others don't; empty: nothing."""
    for setting in settings.get(name, ()):
        key, _, value = setting.partition("=")
        if key in _OWN and value != _OWN[key]:
            return f"it asks for {setting} in its whole process, the gate for {key}={_OWN[key]}"
        for other, theirs in settings.items():
            for told in theirs if other != name else ():
                if told.partition("=")[0] == key and told != setting:
                    return f"it asks for {setting} in its whole process, {other!r} for {told}"
    return ""
