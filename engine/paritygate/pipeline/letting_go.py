"""What was mapped of packs is let go of in order, up to where every block is done."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from paritygate.core.tensors import Block
from paritygate.golden.pack import GoldenPack


class LettingGo:
    """Lets go of samples once no block before their end is still being compared.

    So each page is unmapped once and none that another thread reads: what the kernel maps around a
    block's ends goes with the next one.

    Args:
        packs: that are read block by block.
        blocks: consecutive, in their order.
    """

    def __init__(self, packs: Iterable[GoldenPack], blocks: Sequence[Block]) -> None:
        self._packs = list(dict.fromkeys(packs))
        self._stops = [block.stop for block in blocks]
        self._places = {block.number: place for place, block in enumerate(blocks)}
        self._finished: set[int] = set()
        self._leading = 0
        self._counting, self._dropping = threading.Lock(), threading.Lock()

    def finish(self, block: Block) -> None:
        """Say that a block is done; where another thread is letting go, it goes on by itself."""
        with self._counting:
            self._finished.add(self._places[block.number])
            while self._leading in self._finished:
                self._finished.remove(self._leading)
                self._leading += 1
        if self._leading and self._dropping.acquire(blocking=False):
            try:
                for pack in self._packs:
                    pack.done_until(self._stops[self._leading - 1])
            finally:
                self._dropping.release()

    def end(self) -> None:
        """Let go of what is left."""
        for pack in self._packs:
            pack.done_until(self._stops[-1])
