"""Where a sample's decisions lie in an output: the class axis, and one decision a position."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from paritygate.comparison.decide.base import flat
from paritygate.core.policy import DecisionRule
from paritygate.core.tensors import Array


class Layout(Struct, frozen=True):
    """How the decisions of one output are laid out.

    Attributes:
        classes: length of the class axis; 1 where each element is a decision.
        axis: the class axis in the batched array; None where there is none.
        positions: shape of a sample's decisions; None: a sample has one.
    """

    classes: int = 1
    axis: int | None = None
    positions: tuple[int, ...] | None = None

    @property
    def each(self) -> int:
        """Decisions of a sample."""
        return 1 if self.positions is None else math.prod(self.positions)

    def rows(self, values: Array) -> Array:
        """Scores row after row, each row the classes of one decision; a view as `flat` makes it."""
        if self.axis is not None and self.axis != values.ndim - 1:
            values = np.moveaxis(values, self.axis, -1)
        return flat(values)

    def place(self, position: int) -> str:
        """A position as an index: `[3, 4]`."""
        return str([int(i) for i in np.unravel_index(position, self.positions or (1,))])


def lay_out(rule: DecisionRule, shape: tuple[int, ...], where: str) -> Layout:
    """The layout of a rule's decisions in samples of a shape.

    Raises:
        ValueError: the rule can't be applied to such samples; says what to change.
    """
    if rule.argmax or rule.topk is not None:
        return _classes(rule, shape, where)
    if rule.python is not None:
        return Layout()
    if rule.elementwise:
        return Layout(positions=shape)
    elements = math.prod(shape)
    if elements != 1:
        what = "bands need one score" if rule.bands is not None else "equal needs one value"
        raise ValueError(
            f"{where}: {what} a sample, but a sample of shape {list(shape)} has "
            f"{elements} elements; say elementwise = true for a decision an element, use "
            "argmax, or an output with one element"
        )
    return Layout()


def _classes(rule: DecisionRule, shape: tuple[int, ...], where: str) -> Layout:
    what = "argmax" if rule.argmax else "topk"
    axis = rule.axis if rule.axis >= 0 else rule.axis + len(shape) + 1
    if not 1 <= axis <= len(shape) and shape:
        raise ValueError(
            f"{where}: axis is {rule.axis}, but a batch has the axes 0 (the samples) to "
            f"{len(shape)}; name one of 1 to {len(shape)}, or count from the last one, -1"
        )
    if not shape or shape[axis - 1] < 2:
        raise ValueError(
            f"{where}: {what} needs a class axis with at least two classes, but a sample has shape "
            f"{list(shape)}; a single score is decided by bands"
        )
    classes = shape[axis - 1]
    _check_places(rule, classes, where)
    for labels in (rule.labels, rule.ref_labels, rule.cand_labels):
        if labels is not None and len(labels) != classes:
            raise ValueError(
                f"{where}: {len(labels)} labels for {classes} classes; give one a class, in order"
            )
    rest = (*shape[: axis - 1], *shape[axis:])
    return Layout(classes, axis, rest or None)


def _check_places(rule: DecisionRule, classes: int, where: str) -> None:
    most = classes if rule.order == "ranked" else classes - 1
    if rule.topk is not None and rule.topk > most:
        why = "" if rule.order == "ranked" else "; a set of all classes can't change"
        raise ValueError(
            f"{where}: topk is {rule.topk}, but there are {classes} classes{why}; give at most "
            f"{most}"
        )
