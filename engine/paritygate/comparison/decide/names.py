"""Names of a decision's codes, and the codes of a label column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paritygate.tally.decision import UNDEFINED_NAME


def unique_names(labels: Sequence[str], where: str) -> tuple[str, ...]:
    """One name a code; labels that repeat get their index.

    Raises:
        ValueError: they can't be told apart even so.
    """
    times = Counter(labels)
    times[UNDEFINED_NAME] += 2
    names = tuple(
        f"{label} ({code})" if times[label] > 1 else label for code, label in enumerate(labels)
    )
    if len(set(names)) != len(names):
        raise ValueError(f"{where}: labels repeat in a way that can't be told apart; rename some")
    return names


def truth_lookup(labels: Sequence[str]) -> dict[object, int]:
    """Code of each index and of each label that only one class has."""
    times = Counter(labels)
    lookup: dict[object, int] = {code: code for code in range(len(labels))}
    lookup.update({label: code for code, label in enumerate(labels) if times[label] == 1})
    return lookup
