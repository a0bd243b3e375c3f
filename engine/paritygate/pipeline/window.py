"""Put what the blocks of a window found back into pack order, window by window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paritygate.comparison.rows import FailedRows
from paritygate.core.tensors import Block
from paritygate.pipeline.reject import Rejected


class WindowOrder:
    """Holds failing and rejected samples until no later block has any before them."""

    def __init__(self) -> None:
        self._failed: dict[str, list[FailedRows]] = {}
        self._rejected: list[Rejected] = []

    def hold(self, stage: str, failed: FailedRows) -> None:
        """Take the failing samples of a block."""
        if len(failed.ordinals):
            self._failed.setdefault(stage, []).append(failed)

    def hold_rejected(self, rejected: Sequence[Rejected]) -> None:
        """Take the rejected samples of a block."""
        self._rejected += rejected

    def ready(self, block: Block) -> bool:
        """Whether a block is the last one of its window."""
        return block.done_until >= block.stop

    def take(self) -> dict[str, FailedRows]:
        """The failing samples that are held, by stage, in pack order."""
        failed, self._failed = self._failed, {}
        return {stage: _in_order(parts) for stage, parts in failed.items()}

    def take_rejected(self) -> list[Rejected]:
        """The rejected samples that are held, in pack order."""
        rejected, self._rejected = self._rejected, []
        return sorted(rejected, key=lambda r: r.ordinal)


def _in_order(parts: Sequence[FailedRows]) -> FailedRows:
    if len(parts) == 1:
        return parts[0]
    ordinals = np.concatenate([part.ordinals for part in parts])
    order = np.argsort(ordinals, kind="stable")
    names = dict.fromkeys(name for part in parts for name in part.decisions)
    decisions = {name: _decided(parts, name, order.tolist()) for name in names}
    return FailedRows(
        ordinals[order],
        np.concatenate([part.ids for part in parts])[order],
        np.concatenate([part.rules for part in parts])[order],
        decisions,
    )


def _decided(
    parts: Sequence[FailedRows], name: str, order: Sequence[int]
) -> tuple[list[str], list[str]]:
    """Both sides' decisions; a block in which nobody decided has none."""
    ref: list[str] = []
    cand: list[str] = []
    for part in parts:
        nothing = [""] * len(part.ordinals)
        of_ref, of_cand = part.decisions.get(name, (nothing, nothing))
        ref += of_ref
        cand += of_cand
    return [ref[i] for i in order], [cand[i] for i in order]
