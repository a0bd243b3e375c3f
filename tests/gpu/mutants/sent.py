"""Mutants of what decides samples of the host as they are sent, and what notices them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from tests.gpu import deciding
from tests.gpu.mutants.inputs import SMALL, Check
from tests.mutants.mutant import of_rule

from paritygate.comparison.place import Place
from paritygate.core.bands import parse_bands
from paritygate.core.policy import DecisionRule
from paritygate.gpu.driver import Chip

SENT = (
    *of_rule(
        "comparison/sent_decisions.py",
        "along",
        ("deciding.add(*batch)", "pass", "pieces that nobody decides"),
        ("ref, cand, self._numbers[rows]", "cand, ref, self._numbers[rows]", "sides exchanged"),
        ("self._numbers[rows]", "self._numbers[: rows.stop - rows.start]", "the first ordinals"),
        ("self._counted = deciding.finish()", "deciding.finish()", "decisions that get lost"),
        ("*self._sides,", "*self._sides[::-1],", "sides exchanged, of what flipped"),
    ),
    *of_rule(
        "comparison/placed.py",
        "along",
        ("if one.truth is None else next(left)", "", "labels that get lost"),
        (
            "for one in along:\n                one.finish()\n",
            "for one in along[1:]:\n                one.finish()\n",
            "decisions that nobody reads",
        ),
        ("one.add(rows, ours, theirs,", "one.add(rows, theirs, theirs,", "the candidate alone"),
        (
            "(label[rows] for label in labels)",
            "(label[: rows.stop - rows.start] for label in labels)",
            "the first labels",
        ),
    ),
)


def judged(place: Place, case: dict[str, Any], ordinals: Any) -> None:
    deciding.check_sent(deciding.placed(place, case), case, ordinals)


def of_along() -> Iterator[Check]:
    rng = np.random.default_rng(14)
    rules: tuple[dict[str, Any], ...] = (
        {"argmax": True},
        {"bands": parse_bands("a < 0.2 <= b"), "elementwise": True},
    )
    for number, rule in enumerate(rules):
        ref = rng.normal(size=(8, 3)).astype(np.float32)
        cand = ref.copy()
        cand[::3] = rng.normal(size=(3, 3))
        place = Place(Chip("A", "9.0", 1 << 30, "", "13.0"), piece_bytes=3 * 16)
        case = {"rule": DecisionRule("d", "s", **rule), "ref": ref, "cand": cand, "stats": "gate"}
        case |= {"tolerance": SMALL, "labelled": number == 0}
        yield partial(judged, place, case, 5 + rng.permutation(8) * (1 + number))
