"""Which comparer judges an output: by errors where its values have any, else by equality."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.place import MEND, Place
from paritygate.comparison.texts import TextComparer
from paritygate.core.dtypes import is_string
from paritygate.core.errors import DeviceError
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Stats

if TYPE_CHECKING:
    from paritygate.comparison.placed import PlacedComparer

OutputComparer = ElementComparer | TextComparer


def make_placed(
    place: Place,
    names: tuple[str, str],
    tolerance: Tolerance,
    dtypes: tuple[str, str],
    shape: tuple[int, ...],
    stats: Stats,
) -> OutputComparer:
    """The same on a GPU, of the stage and the output of these names; of texts on the CPU.

    Raises:
        ValueError: as of `make_comparer`, or what isn't compared on a GPU.
        DeviceError: the GPU failed, or counts wrong.
    """
    if is_string(dtypes[0]):
        stage, output = names
        place.note(f"stage {stage!r}, output {output!r}: texts are compared on the CPU")
        return make_comparer(tolerance, *dtypes, shape, stats)
    try:
        return _placed_kind(names)(place, *names, tolerance, *dtypes, shape, stats)
    except (DeviceError, ValueError) as e:
        if place.wanted is not None:
            stage, output = names
            place.note(f"stage {stage!r}, output {output!r}: compared on the CPU: {e}")
            return make_comparer(tolerance, *dtypes, shape, stats)
        if isinstance(e, DeviceError):
            raise
        raise ValueError(f"{e} (--compare-on cuda); {MEND}") from None


def _placed_kind(names: tuple[str, str]) -> type[PlacedComparer]:
    """What compares on a GPU; loads what compiles for one.

    Raises:
        DeviceError: that can't be loaded.
    """
    try:
        from paritygate.comparison.placed import PlacedComparer
    except Exception as e:  # a library that is missing or of another version, whatever it raises
        stage, output = names
        told = " ".join(str(e).split()) or type(e).__name__
        raise DeviceError(
            f"stage {stage!r}, output {output!r}: numba-cuda, which compiles for a GPU, can't be "
            f"loaded: {told}; install 'paritygate[gpu]' again, or {MEND}"
        ) from e
    return PlacedComparer


def make_comparer(
    tolerance: Tolerance, ref: str, cand: str, shape: tuple[int, ...], stats: Stats
) -> OutputComparer:
    """The comparer for an output of these dtypes, whose samples have this shape.

    Raises:
        ValueError: a tolerance out of its range, or a pair of dtypes that can't be compared.
    """
    kind = TextComparer if is_string(ref) else ElementComparer
    return kind(tolerance, ref, cand, shape, stats)
