"""What a worker answers to a batch, read with suspicion: memory that it broke may be its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.core.dtypes import STRING
from paritygate.core.errors import RunnerError
from paritygate.core.ragged import Tensor
from paritygate.runners.isolate.channel import GarbledError
from paritygate.runners.isolate.memory import SharedMemory, Told, read_tensors

_REFUSALS = ("error", "memory")


class Answer(Struct, frozen=True):
    """What a batch was answered with; its tensors lie in shared memory."""

    outputs: dict[str, Tensor]
    present: npt.NDArray[np.bool_] | None
    told: list[Told]
    keys: Mapping[str, Any]


class Refusal(Struct, frozen=True):
    """Why a batch has no answer: `error`, `fault` (ours), or a want of memory.

    That is `memory` where the worker wants it, and `own memory` where this process does.
    """

    kind: str
    text: str
    rule: str


def read_reply(
    reply: Any, serial: int, memory: SharedMemory, free: int, valid: int
) -> Answer | Refusal:
    """The answer to a request.

    Args:
        reply: what came.
        serial: the request's number.
        memory: where its tensors are said to lie; mapped as far as it goes by now.
        free: where those of the request end.
        valid: samples of the batch.

    Raises:
        GarbledError: it is the answer to another request, or no answer.
    """
    try:
        number, kind, *rest = reply
        if type(number) is not int or number != serial:
            raise GarbledError(f"its process answered request {number!r} in place of {serial}")
        if kind == "fault":
            (text,) = rest
            return Refusal(kind, str(text), "")
        if kind in _REFUSALS:
            text, rule = rest
            return Refusal(kind, str(text), str(rule))
        if kind != "ok":
            raise ValueError(f"kind {kind!r}")
        capacity, told, present, keys = rest
        return _read_answer(memory, free, valid, capacity, told, present, keys)
    except GarbledError:
        raise
    except MemoryError as e:
        return Refusal("own memory", f"its answer can't be read: {e}", RunnerError.rule)
    except Exception as e:  # whatever a reply of another form makes of it
        told = f"{type(e).__name__}: {e}"
        raise GarbledError(f"its process sent what is no answer ({told})") from None


def _read_answer(
    memory: SharedMemory,
    free: int,
    valid: int,
    capacity: int,
    told: list[Told],
    present: bytes | None,
    keys: Mapping[str, Any],
) -> Answer:
    memory.see(capacity)
    for kind, _, *rest in told:
        offsets: Sequence[int] = ()
        if kind in ("array", "ragged") and rest[0] == STRING:
            raise ValueError("texts in shared memory, where they would be addresses")
        if kind == "array":
            offsets = (rest[-1],)
        elif kind == "ragged":
            offsets = rest[-1]
        elif kind not in ("texts", "ragged texts"):
            raise ValueError(f"a tensor of kind {kind!r}")
        if any(at < free for at in offsets):
            raise ValueError(f"a tensor that begins below {free}, among the inputs")
    outputs = read_tensors(memory, told)
    if not isinstance(keys, Mapping):
        raise TypeError(f"keys that are {type(keys).__name__}")
    mask = None if present is None else np.frombuffer(present, np.bool_)
    if mask is not None and len(mask) != valid:
        raise ValueError(f"{len(mask)} marks for {valid} samples")
    return Answer(outputs, mask, told, keys)
