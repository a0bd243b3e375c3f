"""Answer many batches of one size straight into a block's arrays, through bindings made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from paritygate.core.tensors import Array
from paritygate.runners.ort_types import ALIGNMENT, READ_ALIGNMENT, address_of, aligned, to_value

_AT_ONCE = 8  # batches that are bound, run and copied one after the other
_AT_ONCE_BYTES = 1 << 20  # of their answers
_GIVEN_BYTES = 8 << 20  # of their inputs


class BoundBatches:
    """Bindings for some batches, the answers of which lie one after another.

    The model writes to aligned buffers, and not to the block, since some of its code rounds
    otherwise where memory isn't aligned; answers must not depend on their place in a block. For the
    same reason inputs that aren't aligned are copied.

    Args:
        inference: the session.
        constants: its name for an input -> the value that it is always given.
        fetches: of each output our name, its own and the dtype.
        like: our names -> the answer to a batch of these rows.
        rows: of a batch.
        given: bytes of the inputs of a batch.
    """

    def __init__(
        self,
        inference: Any,
        constants: Mapping[str, Any],
        fetches: Sequence[tuple[str, str, str]],
        like: Mapping[str, Array],
        rows: int,
        given: int,
    ) -> None:
        answered = sum(array.nbytes for array in like.values())
        most = min(_AT_ONCE_BYTES // max(1, answered), _GIVEN_BYTES // max(1, given))
        self._inference = inference
        self._rows = rows
        self._bindings = [inference.io_binding() for _ in range(max(1, min(most, _AT_ONCE)))]
        self._buffers = {name: _Buffer(array, len(self._bindings)) for name, array in like.items()}
        self._copies: list[dict[str, Array]] = [{} for _ in self._bindings]
        for number, binding in enumerate(self._bindings):
            for theirs, value in constants.items():
                binding.bind_ortvalue_input(theirs, value)
            for ours, theirs, dtype in fetches:
                part = self._buffers[ours].parts[number]
                binding.bind_ortvalue_output(theirs, to_value(part, dtype))

    @property
    def answers(self) -> dict[str, Array]:
        """Arrays like the answer to one batch; what they hold says nothing."""
        return {name: buffer.parts[0] for name, buffer in self._buffers.items()}

    def fill(
        self,
        feeds: Sequence[tuple[str, Array]],
        room: Mapping[str, Array],
        start: int,
        batches: int,
        is_stopped: Callable[[], bool],
    ) -> int:
        """Answer consecutive batches: what follows itself finds its code in the cache.

        Args:
            feeds: names, and the values of a whole block.
            room: output -> the block's array.
            start: the first row.
            batches: how many.
            is_stopped: whether nobody wants them any more.

        Returns:
            How many were answered; the one that follows was stopped, or raised.
        """
        rows, done = self._rows, 0
        placed = [(theirs, array, address_of(array), array.strides[0]) for theirs, array in feeds]
        while done < batches and not is_stopped():
            some = self._bindings[: batches - done]
            at = start + done * rows
            for binding, copies in zip(some, self._copies, strict=False):
                for theirs, array, base, stride in placed:
                    part = array[at : at + rows]
                    if (base + at * stride) % READ_ALIGNMENT:
                        part = _copied(part, copies, theirs)
                    binding.bind_cpu_input(theirs, part)
                at += rows
            ran = self._run(some, is_stopped)
            for name, buffer in self._buffers.items():
                buffer.copy(ran, room[name], start + done * rows)
            done += ran
            if ran < len(some):
                break
        return done

    def _run(self, bindings: Sequence[Any], is_stopped: Callable[[], bool]) -> int:
        ran = 0
        with suppress(Exception):  # onnxruntime's classes have no common base of their own
            for binding in bindings:
                if is_stopped():
                    break
                self._inference.run_with_iobinding(binding)
                ran += 1
        return ran


def _copied(part: Array, copies: dict[str, Array], name: str) -> Array:
    if name not in copies:
        copies[name] = aligned(part.shape, part.dtype)
    copies[name][...] = part
    return copies[name]


class _Buffer:
    """Aligned memory for the answers of some batches: one array where they leave no gaps."""

    def __init__(self, like: Array, batches: int) -> None:
        self._whole = None
        if like.nbytes % ALIGNMENT:
            self.parts = [aligned(like.shape, like.dtype) for _ in range(batches)]
            return
        rows = len(like)
        self._whole = aligned((batches * rows, *like.shape[1:]), like.dtype)
        self.parts = [self._whole[at * rows : (at + 1) * rows] for at in range(batches)]

    def copy(self, batches: int, into: Array, start: int) -> None:
        """Copy the first answers to where the block has them."""
        rows = len(self.parts[0])
        if self._whole is not None:
            into[start : start + batches * rows] = self._whole[: batches * rows]
            return
        for at, part in enumerate(self.parts[:batches]):
            into[start + at * rows : start + (at + 1) * rows] = part
