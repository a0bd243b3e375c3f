"""One run of a model that owns what it answers, whatever the types of its inputs and outputs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paritygate.core.dtypes import dtype_name, numpy_dtype
from paritygate.core.errors import RunnerError
from paritygate.core.tensors import Array, Batch
from paritygate.runners.base import describe_batch
from paritygate.runners.ort_border import BorderError, Keys, take_apart
from paritygate.runners.ort_types import BRIDGED, at_rest, to_array, to_value
from paritygate.runners.ort_wiring import Wiring


class Answerer:
    """Runs a model without buffers of its own; threads may share it.

    Attributes:
        keys: our name of an output of maps -> its keys, in the order of the columns.
    """

    def __init__(self, wiring: Wiring) -> None:
        self.keys: dict[str, Keys] = {}
        self._wiring = wiring
        self._lock = threading.Lock()

    def __call__(self, inference: Any, arrays: Sequence[Array]) -> dict[str, Array]:
        """Answer inputs that come in the order of the feeds.

        Raises:
            BorderError: an answer that can't be taken apart; names the output.
        """
        pairs = zip(self._wiring.feeds, arrays, strict=True)
        given = {theirs: array for (_, theirs), array in pairs}
        feeds = {
            theirs: _feed(at_rest(array))
            for theirs, array in {**self._wiring.fixed, **given}.items()
        }
        if any(self._wiring.forms[ours].dtype in BRIDGED for ours, _ in self._wiring.fetches):
            return self._bound(inference, feeds)
        found = inference.run([theirs for _, theirs in self._wiring.fetches], feeds)
        answer: dict[str, Array] = {}
        for (ours, _), value in zip(self._wiring.fetches, found, strict=True):
            for name, array in self._tensors(ours, value).items():
                if name in answer:
                    raise BorderError(f"output {name!r} is also an item of {ours!r}; rename one")
                answer[name] = array
        return answer

    def _tensors(self, ours: str, value: Any) -> dict[str, Array]:
        try:
            tensors, keys = take_apart(ours, value, self._wiring.forms[ours])
            if keys is not None:
                self._keep(ours, keys)
        except BorderError as e:
            raise BorderError(f"output {ours!r} {e}") from None
        return tensors

    def _keep(self, ours: str, keys: Keys) -> None:
        with self._lock:
            first = self.keys.setdefault(ours, keys)
        if keys != first:
            raise BorderError(
                f"has the keys {list(keys)} in this batch, {list(first)} in the first; one column "
                "a key needs the same keys in every sample"
            )

    def _bound(self, inference: Any, feeds: Mapping[str, Any]) -> dict[str, Array]:
        """The same through a binding, from which bits can be read that NumPy has no type for."""
        binding = inference.io_binding()
        for theirs, value in feeds.items():
            is_array = isinstance(value, np.ndarray)
            bound = to_value(value, dtype_name(value.dtype)) if is_array else value
            binding.bind_ortvalue_input(theirs, bound)
        for _, theirs in self._wiring.fetches:
            binding.bind_output(theirs, "cpu")
        inference.run_with_iobinding(binding)
        return {
            ours: to_array(value, self._wiring.forms[ours].dtype)
            for (ours, _), value in zip(self._wiring.fetches, binding.get_outputs(), strict=True)
        }


def fed_arrays(batch: Batch, wiring: Wiring, runner: str) -> list[Array]:
    """A batch's inputs as ONNX Runtime takes them, checked: it reads foreign bytes as own.

    Args:
        batch: with its samples where the model has them.
        wiring: which inputs the model takes, and of which dtypes.
        runner: the runner's name, for the error.

    Raises:
        RunnerError: an input that isn't there, or of another dtype.
    """
    arrays = []
    for ours, _ in wiring.feeds:
        array, dtype = batch.inputs.get(ours), numpy_dtype(wiring.inputs[ours].dtype)
        if array is None or array.dtype != dtype:
            what = f"lacks input {ours!r}; it has {sorted(batch.inputs)}"
            if array is not None:
                what = f"input {ours!r} is {array.dtype.str}, not {dtype.str}"
            raise RunnerError(f"{describe_batch(runner, batch)}: {what}")
        arrays.append(at_rest(array))
    return arrays


def _feed(array: Array) -> Any:
    dtype = dtype_name(array.dtype)
    return to_value(array, dtype) if dtype in BRIDGED else array
