"""What the keys of `[decisions.NAME]` demand of each other, and the rule that they make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paritygate.core.bands import parse_bands
from paritygate.core.errors import Problem
from paritygate.core.policy import DecisionRule

if TYPE_CHECKING:
    from paritygate.core.tables import DecisionTable


def check_decision(table: DecisionTable) -> None:
    """Refuse keys of a decision that contradict each other.

    Raises:
        ValueError: with everything that is wrong.
    """
    problems = [told for is_wrong, told in _contradictions(table) if is_wrong]
    if problems:
        raise ValueError("; ".join(problems))


def _contradictions(table: DecisionTable) -> list[tuple[bool, str]]:
    kinds = [
        table.bands is not None,
        table.argmax,
        table.topk is not None,
        table.equal,
        table.python is not None,
    ]
    is_ranking = table.argmax or table.topk is not None
    has_own_labels = table.ref_labels is not None or table.cand_labels is not None
    has_labels = table.labels is not None or has_own_labels
    may_transform = table.bands is not None or is_ranking
    return [
        (
            sum(kinds) != 1,
            (
                "give exactly one of bands = '...', argmax = true, topk = K, equal = true and "
                "python = 'module:function'"
            ),
        ),
        (table.order == "ranked" and table.topk is None, "order belongs to topk"),
        (
            table.elementwise and (is_ranking or table.python is not None),
            (
                "elementwise belongs to bands and equal; argmax and topk give a decision for each "
                "place beside their axis anyway"
            ),
        ),
        (table.axis == 0, "axis: 0 is the samples; name the classes' axis, counted from there"),
        (
            table.axis != -1 and not is_ranking and table.transform != "softmax",
            "axis belongs to argmax, topk and softmax",
        ),
        (
            table.transform is not None and not may_transform,
            "transform belongs to bands, argmax and topk",
        ),
        (
            table.transform == "softmax" and table.bands is not None and not table.elementwise,
            (
                "softmax of one score is always 1; say elementwise = true, or transform the "
                "runner's output"
            ),
        ),
        (
            table.bands is not None and has_labels,
            "labels belong to classes; bands have names of their own",
        ),
        (
            table.python is not None and has_labels,
            "labels belong to argmax, topk and equal; a function answers names itself",
        ),
        (
            (table.ref_labels is None) != (table.cand_labels is None),
            "ref_labels and cand_labels belong together; give both",
        ),
        (
            table.labels is not None and has_own_labels,
            "give labels for both sides, or ref_labels and cand_labels",
        ),
    ]


def make_rule(
    name: str, table: DecisionTable, folder: Path, problems: list[Problem]
) -> DecisionRule:
    """The rule of a decision's table; label files are read.

    Args:
        name: the decision's name.
        table: as validated.
        folder: what paths of label files refer to.
        problems: what is wrong with the labels is added here.
    """
    where = f"decisions.{name}"
    labels = _labels(f"{where}.labels", table.labels, folder, problems)
    ours = _labels(f"{where}.ref_labels", table.ref_labels, folder, problems)
    theirs = _labels(f"{where}.cand_labels", table.cand_labels, folder, problems)
    if ours is not None and theirs is not None:
        problems += _strangers(where, ours, theirs)
    return DecisionRule(
        name=name,
        output=table.output,
        bands=parse_bands(table.bands) if table.bands else None,
        argmax=table.argmax,
        axis=table.axis,
        compare_as=table.compare_as,
        labels=labels,
        label_column=table.label_column,
        topk=table.topk,
        order=table.order,
        equal=table.equal,
        elementwise=table.elementwise,
        python=table.python,
        transform=table.transform,
        ref_labels=ours,
        cand_labels=theirs,
    )


def _labels(
    path: str, given: str | list[str] | None, folder: Path, problems: list[Problem]
) -> tuple[str, ...] | None:
    if given is None:
        return None
    labels = given
    if isinstance(labels, str):
        try:
            text = (folder / labels).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            problems.append(Problem(path, f"can't be read: {e}"))
            return None
        labels = [line.strip() for line in text.rstrip().split("\n")]
    blank = [str(at) for at, name in enumerate(labels, 1) if not name.strip()]
    if blank:
        message = f"name {', '.join(blank[:5])} is blank; every class has its line, in order"
        problems.append(Problem(path, message))
        return None
    if len(set(labels)) != len(labels):
        problems.append(Problem(path, "every class needs a name of its own"))
    return tuple(labels)


def _strangers(where: str, ref: Sequence[str], cand: Sequence[str]) -> list[Problem]:
    """Names that one side alone has: they could never agree, so they are misspelt or missing."""
    problems = []
    for key, ours, theirs in (("ref_labels", ref, cand), ("cand_labels", cand, ref)):
        alone = [name for name in ours if name not in set(theirs)]
        if alone:
            told = ", ".join(map(repr, alone[:5])) + (", ..." if len(alone) > 5 else "")
            message = (
                f"{told} {'is' if len(alone) == 1 else 'are'} not among the other side's names; "
                "both lists name the same classes, each in its own order"
            )
            problems.append(Problem(f"{where}.{key}", message))
    return problems
