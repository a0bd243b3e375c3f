"""Whose answer is the first: that of the first block, whatever the threads do."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from paritygate.core.tensors import Block
from paritygate.runners.base import Runner

_POLL_S = 0.001


class Turns:
    """Lets blocks run a runner in their order until it has answered once, then all at once.

    All answers must look like the first. So that no count depends on threads, the first is that of
    the first batch, in pack order, that is answered at all.
    """

    def __init__(self, blocks: Sequence[Block], stop: threading.Event) -> None:
        self._places = {block.number: place for place, block in enumerate(blocks)}
        self._stop = stop
        self._changed = threading.Condition()
        self._finished: set[int] = set()
        self._leading = 0

    def wait(self, runner: Runner, block: Block) -> None:
        """Wait until the runner has answered, or every block before this one is done."""
        place = self._places[block.number]
        if self._may_go(runner, place):
            return
        with self._changed:
            while not self._may_go(runner, place):
                self._changed.wait(_POLL_S)

    def _may_go(self, runner: Runner, place: int) -> bool:
        return runner.observed is not None or self._leading >= place or self._stop.is_set()

    def finish(self, block: Block) -> None:
        """Say that a block is done."""
        with self._changed:
            self._finished.add(self._places[block.number])
            while self._leading in self._finished:
                self._finished.remove(self._leading)
                self._leading += 1
            self._changed.notify_all()
