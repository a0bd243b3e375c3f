"""What a tensor column says of its axes, channels and units: JSON in its field's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

AXES, CHANNELS, UNITS = "paritygate.axes", "paritygate.channels", "paritygate.units"
CHANNEL = "channel"

Names = tuple[str, ...]


class Meaning(Struct, frozen=True):
    """What a column says; None where it says nothing.

    Attributes:
        axes: names of the axes of one sample.
        channels: names along the axis called "channel", else along the last one.
        units: of each channel, or one text for all.
    """

    axes: Names | None = None
    channels: Names | None = None
    units: Names | str | None = None

    def channel_axis(self, dims: int) -> int | None:
        """The axis of one sample of so many dims that the channels are on, if it has channels."""
        if self.axes is not None and CHANNEL in self.axes:
            axis = self.axes.index(CHANNEL)
            return axis if axis < dims else None
        says = self.channels is not None or isinstance(self.units, tuple)
        return dims - 1 if says and dims else None


def meaning_of(metadata: Mapping[str, str]) -> Meaning:
    """Read the metadata of a field.

    Raises:
        ValueError: a key that holds something else; says which, and what was found.
    """
    axes, channels = (_names(metadata, key) for key in (AXES, CHANNELS))
    units = _names(metadata, UNITS, or_text=True)
    assert not isinstance(axes, str)
    assert not isinstance(channels, str)
    return Meaning(axes, channels, units)


def wrong_meaning(metadata: Mapping[str, str], shape: Sequence[int | None]) -> str:
    """What the metadata of a field say that can't be true of it; empty where they may be.

    Args:
        metadata: of the field.
        shape: of one sample, a dim None where it varies.
    """
    try:
        said = meaning_of(metadata)
    except ValueError as error:
        return str(error)
    if said.axes is not None and len(said.axes) != len(shape):
        return f"{AXES} names {len(said.axes)} axes, and a sample has {len(shape)}"
    axis = said.channel_axis(len(shape))
    dim = None if axis is None else shape[axis]
    for key, names in ((CHANNELS, said.channels), (UNITS, said.units)):
        is_for_all = key == UNITS and names is not None and len(names) == 1
        if isinstance(names, tuple) and dim not in (None, len(names)) and not is_for_all:
            return f"{key} has {len(names)} texts, and the axis has {dim}"
    return ""


def encode_meaning(
    axes: Sequence[str] | None = None,
    channels: Sequence[str] | None = None,
    units: Sequence[str] | str | None = None,
) -> dict[str, str]:
    """Field metadata that say so."""
    said = {AXES: axes, CHANNELS: channels, UNITS: units}
    return {
        key: json.dumps(value if isinstance(value, str) else list(value), ensure_ascii=False)
        for key, value in said.items()
        if value is not None
    }


def _names(metadata: Mapping[str, str], key: str, *, or_text: bool = False) -> Names | str | None:
    text = metadata.get(key)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, str) and or_text:
        return found
    if isinstance(found, list) and all(isinstance(name, str) for name in found):
        return tuple(found)
    wanted = "a JSON list of texts" + (" or a text" if or_text else "")
    raise ValueError(f"{key} isn't {wanted} (found {text[:60]!r})")
