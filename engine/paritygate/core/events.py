"""Events that the engine emits to an observer; front ends draw them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct


class Made(Struct, frozen=True):
    """Folders were made, which go again unless the run ends.

    Attributes:
        partial: the run folder until it is done, with all that is in it.
        parents: the folders above it that lacked, innermost first; where nothing else is in them.
    """

    partial: Path | None
    parents: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """All runners are ready.

    Attributes:
        name: of the plan or recording.
        samples: how many will be run.
        partial: the run folder, or the recording, until it is done.
        recorded: the packs' files, where all sides are recorded and no model runs.
    """

    name: str
    samples: int
    partial: Path | None = field(default=None, compare=False)
    recorded: tuple[Path, ...] = field(default=(), compare=False)


class Progress(Struct, frozen=True):
    """So far. `elapsed_s` counts from the first block; `left_s` is None until it can be told.

    `flips` and `failed` are None where nothing is judged.
    """

    samples: int
    total: int
    flips: int | None
    failed: int | None
    elapsed_s: float
    left_s: float | None


class Compiling(Struct, frozen=True):
    """Everything waits for kernels that are compiled, as on a first run; `seconds` so far."""

    seconds: float


class Finished(Struct, frozen=True):
    """The run is over."""

    verdict: str


Event = Made | Prepared | Compiling | Progress | Finished
Observer = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """Observe nothing."""
