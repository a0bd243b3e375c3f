"""Which samples of a block broke which rules: only those that did take space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paritygate.comparison.details import Bits
from paritygate.comparison.rows import Ints
from paritygate.core.verdict import SAMPLE_RULES, rule_names

_NOTHING = np.empty(0, np.int64)
_DENSE = 8  # one mark in so few samples is found sooner with an array over all of them


class Marks:
    """Marks of rules on the samples of a block.

    Attributes:
        subjects: (rule, what broke it) -> samples, ascending.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._pieces: list[tuple[Ints, Ints]] = []
        self.subjects: dict[tuple[str, str], Ints] = {}

    def add(self, rule: str, subject: str, rows: Ints) -> None:
        """Mark samples, ascending, with one rule."""
        if len(rows):
            self._pieces.append((rows, np.full(len(rows), SAMPLE_RULES[rule], np.int64)))
            self._note(rule, subject, rows)

    def add_rules(self, subject: str, rows: Ints, rules: Bits) -> None:
        """Mark samples, ascending, each with bits of `RULE_BITS`, not 0."""
        if not len(rows):
            return
        self._pieces.append((rows, rules.astype(np.int64)))
        for rule in rule_names(int(np.bitwise_or.reduce(rules))):
            has = (rules & np.uint8(SAMPLE_RULES[rule])) != 0
            self._note(rule, subject, rows if has.all() else rows[has])

    def _note(self, rule: str, subject: str, rows: Ints) -> None:
        before = self.subjects.get((rule, subject))
        self.subjects[(rule, subject)] = rows if before is None else np.union1d(before, rows)

    def failed(self) -> tuple[Ints, Ints]:
        """Samples that are marked, ascending, and their rules."""
        if not self._pieces:
            return _NOTHING, _NOTHING
        if len(self._pieces) == 1:
            return self._pieces[0]
        if _DENSE * sum(len(rows) for rows, _ in self._pieces) < self._samples:
            return _united(self._pieces)
        rules: Ints = np.zeros(self._samples, np.int64)
        for rows, bits in self._pieces:
            rules[rows] |= bits
        picked = np.flatnonzero(rules)
        return picked, rules[picked]


def _united(pieces: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    rows = np.concatenate([rows for rows, _ in pieces])
    order = np.argsort(rows, kind="stable")
    rows, bits = rows[order], np.concatenate([bits for _, bits in pieces])[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    return rows[first], np.bitwise_or.reduceat(bits, first)
