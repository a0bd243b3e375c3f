"""Make sure, with one small run, that the first axis of each output is the samples.

An output of another meaning can have as many rows as a batch by coincidence: a mean over the batch
of four features, in batches of four.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paritygate.core.tensors import Array
from paritygate.runners.ort_wiring import Wiring

_TEXT_LIMIT = 300


class BatchProbe:
    """Runs the first batch's samples once more in a batch of another size.

    On the CPU every output is looked at; elsewhere, where a new shape can mean minutes of building,
    those whose declaration doesn't say that the batch comes first.
    """

    def __init__(self, wiring: Wiring, device: str) -> None:
        self._wiring = wiring
        names = [ours for ours, _ in wiring.fetches] if device == "cpu" else wiring.unproven
        self._names = () if wiring.fixed_batch is not None else tuple(names)
        self._lock = threading.Lock()
        self._is_done = not self._names
        self._problem: str | None = None

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
        if any(array.shape[:1] != (size,) for array in outputs.values()):
            return None  # refused anyway, and by the batch alone
        with self._lock:
            if not self._is_done:
                self._problem = self._probe(inference, arrays, outputs, size)
                self._is_done = True
        return self._problem

    def _probe(
        self, inference: Any, arrays: Sequence[Array], outputs: Mapping[str, Array], size: int
    ) -> str | None:
        other = 2 if size != 2 else 3
        rows = np.arange(other) % size
        feeds = {**self._wiring.fixed}
        for (_, theirs), array in zip(self._wiring.feeds, arrays, strict=True):
            feeds[theirs] = np.ascontiguousarray(array[rows])
        theirs_of = dict(self._wiring.fetches)
        try:
            found = inference.run([theirs_of[name] for name in self._names], feeds)
        except Exception as e:  # onnxruntime's classes have no common base of their own
            if not self._wiring.unproven:
                return None
            return (
                f"output {self._wiring.unproven[0]!r} doesn't declare the batch as its first axis, "
                f"and a batch of {other} to find out raised {type(e).__name__}: "
                f"{' '.join(str(e).split())[:_TEXT_LIMIT]}; declare its shape in the model"
            )
        for name, array in zip(self._names, found, strict=True):
            shape = np.shape(array)
            if shape[:1] != (other,):
                return (
                    f"output {name!r} doesn't follow the batch: it is {outputs[name].shape} for "
                    f"{size} samples and {shape} for {other}; its first axis must be the samples, "
                    "so transpose or remove it in the model"
                )
        return None
