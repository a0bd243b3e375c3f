"""Run batches through ONNX Runtime without copies: inputs bound in place, outputs in own buffers.

An output that ONNX Runtime allocates is overwritten by the next run of its binding. So the first
run of a batch size lets it allocate, to learn the shapes; from then on each lease has buffers that
were bound beforehand and are used again only after its release. Texts can't be bound, nor what is
no tensor: such models answer in arrays of their own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from paritygate.core.dtypes import HALF_BYTES, STRING, dtype_name, numpy_dtype
from paritygate.core.errors import RunnerError, UnusableError
from paritygate.core.tensors import Array, Batch
from paritygate.gpu.tensor import Outputs
from paritygate.runners.answers import form_of_plain
from paritygate.runners.base import Filler, Lease, Runner, RunnerSession, describe_batch
from paritygate.runners.ort_answer import Answerer, fed_arrays
from paritygate.runners.ort_border import BorderError
from paritygate.runners.ort_device import DEVICE, tensor_of
from paritygate.runners.ort_fill import BoundBatches
from paritygate.runners.ort_probe import BatchProbe
from paritygate.runners.ort_text import whole_text
from paritygate.runners.ort_types import BRIDGED, aligned_copy, at_rest, to_array, to_value
from paritygate.runners.ort_watch import PlacementWatch
from paritygate.runners.ort_wiring import Wiring

_KEPT_SHAPES = 8  # of inputs, whose buffers are kept for the next batch of that shape
_Key = tuple[object, ...]


class _Slot:
    """A binding, and views of what it writes to once the outputs' shapes are known."""

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        self.views: Mapping[str, Any] = {}


class OrtSession(RunnerSession):
    """One thread's bindings on a shared inference session."""

    def __init__(
        self,
        runner: Runner,
        inference: Any,
        wiring: Wiring,
        probe: BatchProbe,
        watch: PlacementWatch,
    ) -> None:
        super().__init__(runner)
        self._inference: Any = inference
        self._wiring = wiring
        self._probe = probe
        self._watch = watch
        self._dtypes = {ours: wiring.forms[ours].dtype for ours, _ in wiring.fetches}
        self._constants = {
            theirs: to_value(at_rest(array), dtype_name(array.dtype))
            for theirs, array in wiring.fixed.items()
        }
        self._feeds = [
            (theirs, wiring.inputs[ours].dtype, wiring.inputs[ours].dtype in BRIDGED)
            for ours, theirs in wiring.feeds
        ]
        self._free: dict[_Key, list[_Slot]] = {}
        self._bound: dict[_Key, BoundBatches] = {}
        outputs = (runner.outputs or {}).values()
        self._may_vary = any(not isinstance(d, int) for spec in outputs for d in spec.shape[1:])
        # No node writes an output that is a graph input: a buffer bound to it stays as it is.
        given = {node.name for node in inference.get_inputs()}
        given |= {node.name for node in inference.get_overridable_initializers()}
        own = given.isdisjoint(theirs for _, theirs in wiring.fetches)
        self._keeps_buffers = own and not {*HALF_BYTES, STRING}.intersection(self._dtypes.values())

    def close(self) -> None:
        """Let go of the model and of all buffers that aren't leased."""
        self._inference = None
        self._free = {}
        self._bound = {}

    def filler(self, inputs: Mapping[str, Array], rows: int) -> Filler | None:
        """What answers batches straight into a block's arrays; None: only `run` does."""
        feeds = self._whole_feeds(inputs)
        if feeds is None or not (self._keeps_buffers and self._probe.is_passed):
            return None
        key = (self._stays(), *((rows, *array.shape[1:]) for _, array in feeds))
        given = rows * sum(array.strides[0] for _, array in feeds)
        bound = self._bound.pop(key, None) or self._bind_many(key, rows, given)
        if bound is None:
            return None
        self._bound[key] = bound  # the last one used comes last
        if len(self._bound) > _KEPT_SHAPES:
            self._bound.pop(next(iter(self._bound)))
        answers = bound.answers
        if form_of_plain(answers, rows) != self._last_form:
            return None
        return Filler(answers, partial(bound.fill, feeds))

    def _bind_many(self, key: _Key, rows: int, given: int) -> BoundBatches | None:
        """Bindings for batches of which one was answered; None: none was, or it can't be filled."""
        free = self._free.get(key)
        if not free or form_of_plain(free[-1].views, rows) is None:
            return None
        fetches = [(ours, theirs, self._dtypes[ours]) for ours, theirs in self._wiring.fetches]
        return BoundBatches(self._inference, self._constants, fetches, free[-1].views, rows, given)

    def _bind_constants(self, slot: _Slot) -> None:
        for theirs, value in self._constants.items():
            slot.binding.bind_ortvalue_input(theirs, value)

    def _whole_feeds(self, inputs: Mapping[str, Array]) -> list[tuple[str, Array]] | None:
        """Of a whole block what the model takes; None where batches of it can't be bound."""
        if self._inference is None or self.runner.layout.is_moved or self._watch.wants_batch:
            return None
        feeds = []
        for (ours, theirs), (_, dtype, is_bridged) in zip(
            self._wiring.feeds, self._feeds, strict=True
        ):
            array = inputs.get(ours)
            if array is None or is_bridged or array.dtype != numpy_dtype(dtype):
                return None
            if not array.flags.c_contiguous:
                return None
            feeds.append((theirs, array))
        return feeds

    def _run_impl(self, batch: Batch) -> Lease:
        inference = self._inference
        if inference is None:
            raise RunnerError(f"runner {self.runner.name!r}: the session is closed")
        arrays = fed_arrays(batch, self._wiring, self.runner.name)
        stays = self._stays()
        key: _Key = (stays, *(array.shape for array in arrays))
        free = self._free[key] = self._free.pop(key, [])  # the last one used comes last
        if len(self._free) > _KEPT_SHAPES:
            self._free.pop(next(iter(self._free)))
        started = time.perf_counter()
        slot = free.pop() if free else _Slot(inference.io_binding())
        try:
            for (theirs, dtype, is_bridged), array in zip(self._feeds, arrays, strict=True):
                if is_bridged:
                    slot.binding.bind_ortvalue_input(theirs, to_value(array, dtype))
                else:
                    slot.binding.bind_cpu_input(theirs, array)
            if not slot.views or not self._keeps_buffers or not self._runs_again(inference, slot):
                self._first_run(inference, slot, stays)
            if self._watch.wants_batch:
                self._watch.take(arrays, batch.size, started)
            problem = self._probe.look(inference, arrays, slot.views, batch.size)
        except Exception as e:  # onnxruntime's classes have no common base of their own
            where = describe_batch(self.runner.name, batch)
            raise RunnerError(f"{where}: ONNX Runtime: {whole_text(e)}") from None
        if problem:
            free.append(slot)
            raise UnusableError(f"{describe_batch(self.runner.name, batch)}: {problem}")
        views = slot.views.anew() if type(slot.views) is Outputs else slot.views
        return Lease(views, give_back=lambda: free.append(slot))

    def _runs_again(self, inference: Any, slot: _Slot) -> bool:
        """Run into the bound buffers; False after an error, as where a shape isn't theirs.

        What the model itself raises it raises again, when it is given no buffers.
        """
        try:
            inference.run_with_iobinding(slot.binding)
            if type(slot.views) is Outputs:
                slot.binding.synchronize_outputs()
        except Exception:  # onnxruntime's classes have no common base of their own
            self._keeps_buffers = not self._may_vary
            return False
        return True

    def _stays(self) -> frozenset[str]:
        """Outputs that are left on the GPU; none before a first answer was looked at."""
        return self.runner.stays if self.runner.observed is not None else frozenset()

    def _first_run(self, inference: Any, slot: _Slot, stays: frozenset[str]) -> None:
        self._bind_constants(slot)
        for ours, theirs in self._wiring.fetches:
            slot.binding.bind_output(theirs, DEVICE if ours in stays else "cpu")
        inference.run_with_iobinding(slot.binding)
        if stays:
            slot.binding.synchronize_outputs()
        values = slot.binding.get_outputs()
        names = [ours for ours, _ in self._wiring.fetches]
        of = dict(zip(names, values, strict=True))
        outputs = {
            ours: to_array(value, self._dtypes[ours])
            for ours, value in of.items()
            if ours not in stays
        }
        if self._keeps_buffers:
            for ours, theirs in self._wiring.fetches:
                value = of[ours]
                if ours not in stays:
                    outputs[ours] = aligned_copy(outputs[ours])
                    value = to_value(outputs[ours], self._dtypes[ours])
                slot.binding.bind_ortvalue_output(theirs, value)
        if not stays:
            slot.views = {ours: _read_only(array) for ours, array in outputs.items()}
            return
        slot.views = Outputs(
            {
                ours: tensor_of(value, self._dtypes[ours])
                if ours in stays
                else _read_only(outputs[ours])
                for ours, value in of.items()
            }
        )


class AnswerSession(RunnerSession):
    """One thread's way into a model that can't be bound: texts go in, or no tensors come out."""

    def __init__(
        self,
        runner: Runner,
        inference: Any,
        wiring: Wiring,
        probe: BatchProbe,
        watch: PlacementWatch,
        answer: Answerer,
    ) -> None:
        super().__init__(runner)
        self._inference: Any = inference
        self._wiring = wiring
        self._probe = probe
        self._watch = watch
        self._answer = answer

    def close(self) -> None:
        """Let go of the model."""
        self._inference = None

    def _run_impl(self, batch: Batch) -> Lease:
        if self._inference is None:
            raise RunnerError(f"runner {self.runner.name!r}: the session is closed")
        arrays = fed_arrays(batch, self._wiring, self.runner.name)
        started = time.perf_counter()
        try:
            outputs = self._answer(self._inference, arrays)
            if self._watch.wants_batch:
                self._watch.take(arrays, batch.size, started)
            problem = self._probe.look(self._inference, arrays, outputs, batch.size)
        except BorderError as e:
            raise UnusableError(f"{describe_batch(self.runner.name, batch)}: {e}") from None
        except Exception as e:  # onnxruntime's classes have no common base of their own
            where = describe_batch(self.runner.name, batch)
            raise RunnerError(f"{where}: ONNX Runtime: {whole_text(e)}") from None
        if problem:
            raise UnusableError(f"{describe_batch(self.runner.name, batch)}: {problem}")
        return Lease({name: _read_only(array) for name, array in outputs.items()})


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view
