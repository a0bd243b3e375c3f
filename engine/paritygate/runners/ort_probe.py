"""Make sure, with one small run, that the sample axis of each output is the samples.

An output of another meaning can have as many rows as a batch by coincidence: a mean over the batch
of four features, in batches of four.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from paritygate.core.tensors import Array
from paritygate.runners.ort_wiring import Wiring

Answer = Callable[[Any, Sequence[Array]], dict[str, Array]]

_TEXT_LIMIT = 300
# Of the largest value: what another place in the batch may change.
_ROUNDING = 1e-3
_COARSE = 1e-2  # in 16 bits or fewer


class BatchProbe:
    """Runs the first batch's samples once more in a batch of another size, or in another order.

    On the CPU every output is looked at; elsewhere, where a new shape can mean minutes of building,
    those whose declaration doesn't say that the batch comes first. A model that fixes its batch is
    given the same samples in another order, and the answers must move along.
    """

    def __init__(self, wiring: Wiring, device: str, answer: Answer) -> None:
        self._wiring = wiring
        self._answer = answer
        self._looks_at_all = device == "cpu" or wiring.fixed_batch is not None
        self._lock = threading.Lock()
        names = [ours for ours, _ in wiring.fetches]
        self._is_done = wiring.fixed_batch == 1 or not self._axes(names)
        self._problem: str | None = None

    def _axes(self, names: Iterable[str]) -> dict[str, int]:
        """The outputs that are looked at, each with the axis of its samples."""
        unproven = self._wiring.unproven
        axes = self._wiring.layout.outputs
        return {
            name: axis
            for name in names
            if (axis := axes.get(name, 0)) is not None
            and (self._looks_at_all or name in unproven or name.rpartition(".")[0] in unproven)
        }

    @property
    def is_passed(self) -> bool:
        """Whether it has looked, and nothing is wrong."""
        return self._is_done and self._problem is None

    def look(
        self, inference: Any, arrays: Sequence[Array], outputs: Mapping[str, Array], size: int
    ) -> str | None:
        """What is wrong with an output, found at the first batch and told for every other too.

        Args:
            inference: the session.
            arrays: what was fed, in the order of the feeds.
            outputs: what was answered.
            size: rows of the batch.
        """
        if self._is_done:
            return self._problem
        axes = self._axes(outputs)
        if any(outputs[name].shape[a : a + 1] != (size,) for name, a in axes.items()):
            return None  # refused anyway, and by the batch alone
        with self._lock:
            if not self._is_done:
                is_fixed = self._wiring.fixed_batch is not None
                probe = self._reorder if is_fixed else self._resize
                self._problem = probe(inference, arrays, outputs, size)
                self._is_done = True
        return self._problem

    def _resize(
        self, inference: Any, arrays: Sequence[Array], outputs: Mapping[str, Array], size: int
    ) -> str | None:
        other = 2 if size != 2 else 3
        try:
            found = self._run(inference, arrays, np.arange(other) % size)
        except Exception as e:  # onnxruntime's classes have no common base of their own
            if not self._wiring.unproven:
                return None
            return (
                f"output {self._wiring.unproven[0]!r} doesn't declare the batch as its first axis, "
                f"and a batch of {other} to find out raised {type(e).__name__}: "
                f"{' '.join(str(e).split())[:_TEXT_LIMIT]}; declare its shape in the model"
            )
        if found.keys() != outputs.keys():
            return (
                f"the answer is {sorted(outputs)} for {size} samples and {sorted(found)} for "
                f"{other}; a sequence must have as many items for any batch, so remove it from "
                "the model, or join its items"
            )
        for name, axis in self._axes(found).items():
            shape = np.shape(found[name])
            if shape[axis : axis + 1] != (other,):
                which = f"axis {axis}" if axis else "first axis"
                return (
                    f"output {name!r} doesn't follow the batch: it is {outputs[name].shape} for "
                    f"{size} samples and {shape} for {other}; its {which} must be the samples, "
                    f'so say where they are (outputs.{name}.shape = [..., "batch", ...]) or remove '
                    "it from the model"
                )
        return None

    def _reorder(
        self, inference: Any, arrays: Sequence[Array], outputs: Mapping[str, Array], size: int
    ) -> str | None:
        """Whether the answers stay where they were, or go elsewhere, as the samples move on."""
        rows = np.roll(np.arange(size), 1)
        if all(np.array_equal(array, moved) for array, moved in self._moved(arrays, rows)):
            return None  # a batch of one sample, repeated, tells nothing
        found = self._run(inference, arrays, rows)
        for name, axis in self._axes(outputs).items():
            array, before = found[name], outputs[name]
            if array.shape == before.shape and _follows(array, before.take(rows, axis)):
                continue
            return (
                f"output {name!r} doesn't follow the batch: the same {size} samples in another "
                f"order give other answers, though its shape {before.shape} has {size} on axis "
                f"{axis}; that axis must be the samples, each answered by itself"
            )
        return None

    def _run(
        self, inference: Any, arrays: Sequence[Array], rows: np.ndarray[Any, Any]
    ) -> dict[str, Array]:
        return self._answer(inference, [moved for _, moved in self._moved(arrays, rows)])

    def _moved(
        self, arrays: Sequence[Array], rows: np.ndarray[Any, Any]
    ) -> list[tuple[Array, Array]]:
        """Each input as it was, and with these of its samples."""
        axes = [self._wiring.layout.inputs.get(ours, 0) for ours, _ in self._wiring.feeds]
        return [
            (array, array if axis is None else array.take(rows, axis))
            for array, axis in zip(arrays, axes, strict=True)
        ]


def _follows(found: Array, moved: Array) -> bool:
    """Whether answers are those of the moved samples, but for rounding."""
    if found.dtype.kind in "OSU":
        return np.array_equal(found, moved)
    values, along = found.astype(np.float64), moved.astype(np.float64)
    finite = np.isfinite(values) & np.isfinite(along)
    if not finite.any():
        return True
    largest = float(np.abs(along[finite]).max())
    error = float(np.abs(values[finite] - along[finite]).max())
    is_coarse = found.dtype.itemsize <= 2 and found.dtype.kind not in "iub"
    return error <= (_COARSE if is_coarse else _ROUNDING) * largest
