"""Whether ids that are numbers ascend: of a large pack two threads look, each at half of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from paritygate.golden.pack import GoldenPack
    from paritygate.golden.values import Ids

_STEP = 65_536
_READ_AT_ONCE = 32  # steps, which two threads share
_SHARED = 1 << 22  # rows of which that pays


class _Part(NamedTuple):
    """Ids of the rows `[start, stop)`, and those before them, if any."""

    start: int
    stop: int
    before: Ids | None
    ids: Ids

    @property
    def ascends(self) -> bool:
        ids = self.ids
        is_greater = self.before is None or ids[0] > self.before[-1]
        return bool(is_greater and (ids[1:] > ids[:-1]).all())


def can_share(pack: GoldenPack) -> bool:
    """Whether a pack is one for `all_ascend`: large, mapped, its ids numbers."""
    return pack.samples >= _SHARED and pack.is_mapped and pack.id_kind == "int64"


def all_ascend(pack: GoldenPack, check: Callable[[int, int], None]) -> bool:
    """Whether every id is greater than the one before it; once one isn't, nothing more is read.

    One thread reads, then both look: threads that come back to Python after each step would wait
    for each other.

    Args:
        pack: of which `can_share` holds.
        check: told all rows `[start, stop)` that were read, in their order; may raise.

    Raises:
        GoldenError: `golden.null_id`.
    """

    def look(parts: Sequence[_Part]) -> bool:
        is_so = all(part.ascends for part in parts)
        if parts:
            pack.done_with(parts[0].start, parts[-1].stop)
        return is_so

    spans = pack.batch_spans(_STEP)
    last: Ids | None = None
    with ThreadPoolExecutor(1, "paritygate-ids") as beside:
        while some := list(islice(spans, _READ_AT_ONCE)):
            parts = []
            for start, stop in some:
                before, last = last, pack.ids(start, stop)
                parts.append(_Part(start, stop, before, last))
                check(start, stop)
            half = len(parts) // 2
            others = beside.submit(look, parts[half:])
            if not (look(parts[:half]) and others.result()):
                return False
    return True
