"""What a plan says of axes, channels and units, held against what the golden pack says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paritygate.core.errors import Problem
from paritygate.core.plan import Plan
from paritygate.core.shapes import sample_axis
from paritygate.core.tables import InputTable, OutputTable
from paritygate.core.tensors import ColumnSpec
from paritygate.golden.meaning import AXES, CHANNEL, CHANNELS, UNITS, Meaning, meaning_of

Table = InputTable | OutputTable

_KEYS = {"axes": AXES, "channels": CHANNELS, "units": UNITS}


def own_axes(table: Table) -> list[str]:
    """Names of the axes of one sample."""
    axes = list(table.axes or [])
    axis = sample_axis(table.shape) if table.shape is not None else 0
    return axes if axis is None else [*axes[:axis], *axes[axis + 1 :]]


def channel_axis(table: Table, column: ColumnSpec) -> int | None:
    """The axis of one sample that the channels are on: the one of that name, or the last."""
    if table.axes is not None and CHANNEL in table.axes:
        return own_axes(table).index(CHANNEL)
    return len(column.shape) - 1 if column.shape else None


def meaning_problems(path: str, table: Table, column: ColumnSpec) -> Iterator[Problem]:
    """Where plan and pack contradict each other; what one of them doesn't say isn't looked at."""
    try:
        said = meaning_of(column.metadata)
    except ValueError as e:
        yield Problem(path, f"the field metadata of the pack's column: {e}")
        return
    for key, ours, theirs in _both(table, said):
        if ours is None or theirs is None or ours == theirs:
            continue
        kind = "the same in another order" if sorted(ours) == sorted(theirs) else "others"
        yield Problem(
            f"{path}.{key}",
            f"is {_told(table, key, ours)}, but the pack's column says {list(theirs)} "
            f"({_KEYS[key]}), {kind}; mend the plan, or build the pack anew",
        )


def note_meanings(
    plan: Plan, inputs: Mapping[str, ColumnSpec], outputs: Mapping[str, ColumnSpec]
) -> Iterator[str]:
    """Sentences on what only the plan, or only the pack, says."""
    tables: tuple[tuple[str, Mapping[str, Table], Table, Mapping[str, ColumnSpec]], ...] = (
        ("inputs", plan.table.inputs, InputTable(), inputs),
        ("outputs", plan.table.outputs, OutputTable(), outputs),
    )
    for kind, named, nothing, columns in tables:
        for name in dict.fromkeys([*named, *columns]):
            table, column = named.get(name, nothing), columns.get(name)
            try:
                said = meaning_of(column.metadata) if column is not None else Meaning()
            except ValueError as e:
                yield f"{kind}: the field metadata of {name} say nothing that can be read: {e}"
                continue
            if column is not None:
                yield from _miscounted(kind, name, said, column)
            found = list(_both(table, said))
            alone = [key for key, ours, theirs in found if ours is not None and theirs is None]
            if alone:
                told = ", ".join(alone)
                yield f"{kind}: {told} of {name} are declared, but the pack doesn't say them"
            unread = [key for key, ours, theirs in found if ours is None and theirs is not None]
            if unread:
                told = ", ".join(unread)
                yield f"{kind}: {told} of {name} are said by the pack, but not by the plan"


def _miscounted(kind: str, name: str, said: Meaning, column: ColumnSpec) -> Iterator[str]:
    """Channels and units that the pack has too many or too few of for its own column."""
    axis = said.channel_axis(len(column.shape))
    size = column.shape[axis] if axis is not None else None
    each = {"channels": said.channels, "units": said.units}
    for key, names in each.items():
        is_for_all = key == "units" and len(names or ()) == 1
        if isinstance(names, tuple) and size not in (None, len(names)) and not is_for_all:
            yield f"{kind}: the pack says {len(names)} {key} of {name}, which has {size} channels"


def _both(table: Table, said: Meaning) -> Iterator[tuple[str, Any, Any]]:
    """Key, what the plan says and what the pack says; units as one a channel, or one for all."""
    yield "axes", tuple(own_axes(table)) if table.axes is not None else None, said.axes
    ours = tuple(table.channels) if table.channels is not None else None
    yield "channels", ours, said.channels
    units = _units(table.units), _units(said.units)
    if units[0] is not None and units[1] is not None:
        count = max(len(some) for some in units if some is not None)
        units = _spread(units[0], count), _spread(units[1], count)
    yield "units", *units


def _units(given: Sequence[str] | str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    return (given,) if isinstance(given, str) else tuple(given)


def _spread(units: tuple[str, ...], count: int) -> tuple[str, ...]:
    return units * count if len(units) == 1 else units


def _told(table: Table, key: str, ours: Sequence[str]) -> list[str]:
    return list(ours) if key != "axes" else list(table.axes or ())
