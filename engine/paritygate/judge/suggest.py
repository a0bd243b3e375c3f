"""What the plan could declare of an output so that both sides' shapes agree; only a suggestion."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence

from paritygate.runners.views import View

_LAYOUT = re.compile(r"(\w+)\[batch((?:, \d+)*)\]")
# Channels first against channels last, the commonest by far.
_USUAL = ((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1))
MOST_AXES = 5

Dims = tuple[int, ...]
Answerer = tuple[str, str, Sequence[str]]

# Kinds of models whose outputs are named by `outputs = { OURS = "THEIRS" }`.
_TAKE_NAMES = ("onnxruntime", "torch")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def suggest_view(output: str, ref: str, cand: str, names: tuple[str, str]) -> str | None:
    """A declaration that makes the candidate's shape the reference's, or the other way round.

    Args:
        output: our name of it.
        ref: the reference's layout, `float32[batch, 1]`.
        cand: the candidate's.
        names: of the two runners.

    Returns:
        A sentence's part with the key to write; None where no single declaration does it.
    """
    sides = _LAYOUT.fullmatch(ref), _LAYOUT.fullmatch(cand)
    if sides[0] is None or sides[1] is None or sides[0][1] != sides[1][1]:
        return None
    shapes = _dims(sides[0][2]), _dims(sides[1][2])
    for told, name, have, want in (
        ("the candidate", names[1], shapes[1], shapes[0]),
        ("the reference", names[0], shapes[0], shapes[1]),
    ):
        for view, why in _views(have, want):
            if view.shape(have) == want:
                return (
                    f"if {told} {why}, declare runners.{name}.outputs.{output} = "
                    f"{{ {_written(view)} }}"
                )
    return None


def suggest_name(ref: Answerer, cand: Answerer) -> str | None:
    """What to write where each side answers one output that the other lacks.

    Args:
        ref: the reference's name, its kind, and what it alone answers.
        cand: the same of the candidate.

    Returns:
        A sentence with the key to write; None where several could be meant, or no key does it.
    """
    for (name, kind, alone), (_, _, wanted), other in (
        (cand, ref, "reference"),
        (ref, cand, "candidate"),
    ):
        if len(alone) == len(wanted) == 1 and kind in _TAKE_NAMES:
            ours, theirs = wanted[0], alone[0]
            key = f"runners.{name}.outputs"
            plain = all(_NAME.fullmatch(text) for text in (name, ours, theirs))
            line = f", or --set {key}.{ours}={theirs} on the command line" if plain else ""
            return (
                f"if {theirs!r} is what the {other} calls {ours!r}, write {key} = "
                f"{{ {json.dumps(ours)} = {json.dumps(theirs)} }} in the plan{line}"
            )
    return None


def _dims(text: str) -> Dims:
    return tuple(int(dim) for dim in re.findall(r"\d+", text))


def _views(have: Dims, want: Dims) -> Iterator[tuple[View, str]]:
    if [d for d in have if d != 1] == [d for d in want if d != 1] and have != want:
        yield View(reshape=("batch", *want)), "means the same by its shape"
        return
    if sorted(have) == sorted(want) and have != want and len(have) <= MOST_AXES:
        for order in _orders(len(have)):
            if tuple(have[axis - 1] for axis in order[1:]) == want:
                yield View(transpose=order), "has its axes in another order"
                return
    if have[:-1] == want and have and have[-1] > 1:
        yield View(select=1), "answers a column a class of which one is meant"
    if (*have[:-1], 1) == want and have and have[-1] > 1:
        view = View(select=1, reshape=("batch", *want))
        yield view, "answers a column a class of which one is meant"


def _orders(axes: int) -> Iterator[Dims]:
    yield from (order for order in _USUAL if len(order) == axes + 1)
    for order in itertools.permutations(range(1, axes + 1)):
        yield (0, *order)


def _written(view: View) -> str:
    def value(given: object) -> str:
        if isinstance(given, list):
            return "[" + ", ".join(f'"{d}"' if isinstance(d, str) else str(d) for d in given) + "]"
        return str(given)

    return ", ".join(f"{key} = {value(given)}" for key, given in view.to_plan().items())
