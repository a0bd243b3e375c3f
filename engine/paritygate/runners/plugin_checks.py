"""What a plug-in's runner must be made of, looked at before anything relies on it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TypeGuard

import numpy as np

from paritygate.core.digest import Watched
from paritygate.core.dtypes import DTYPES
from paritygate.core.ragged import Ragged, Tensor
from paritygate.core.tensors import TensorSpec
from paritygate.runners.base import Finding, Lease, Limits, Runner
from paritygate.runners.layout import Layout
from paritygate.runners.python_import import is_interrupt, tell_error

RESERVED_FACTS = frozenset(
    {"kind", "identity", "plugin", "views", "class_keys", "staging", "placement"}
)
_DIGEST = re.compile(r"[0-9a-f]{64}")


def wrong_parts(runner: Runner) -> list[str]:
    """What is wrong with what a runner says of itself, as `NAME ...`; empty: nothing."""
    return [
        f"{name} {problem}"
        for name, check in _CHECKS.items()
        if (problem := _look(runner, name, check)) is not None
    ]


def wrong_findings(found: object) -> str | None:
    """Why these can't be findings."""
    if not isinstance(found, tuple | list):
        return f"is a {type(found).__name__}, no tuple of Finding"
    for finding in found:
        if not isinstance(finding, Finding):
            return f"holds a {type(finding).__name__}, no Finding"
        texts = finding.code, finding.message, finding.next
        if not all(isinstance(text, str) for text in texts) or not finding.code:
            return f"holds a Finding whose code, message or next is no text: {finding!r:.200}"
        if not (finding.count is None or _is_int(finding.count)):
            return f"holds a Finding whose count is no number of samples: {finding.count!r:.80}"
        is_plain = isinstance(finding.ids, tuple | list)
        if not is_plain or not all(isinstance(i, str) or _is_int(i) for i in finding.ids):
            return f"holds a Finding whose ids are no numbers or texts: {finding.ids!r:.80}"
    return None


def wrong_facts(facts: object) -> str | None:
    """Why these can't be facts."""
    if not isinstance(facts, Mapping):
        return f"is a {type(facts).__name__}, no mapping of name -> what JSON can hold"
    if not all(isinstance(key, str) for key in facts):
        return "has a name that is no text"
    try:
        json.dumps(dict(facts))
    except (TypeError, ValueError, RecursionError) as e:
        return f"can't be written as JSON: {e}"
    return None


def taken_facts(facts: Mapping[str, object]) -> str | None:
    """Why these names can't be used for facts."""
    taken = sorted(RESERVED_FACTS & set(facts))
    if not taken:
        return None
    return f"has {', '.join(taken)}, which paritygate writes itself; take another name"


def wrong_lease(lease: object, valid: int) -> str | None:
    """Why this can't be the answer to a batch, whatever the arrays in it are."""
    if not isinstance(lease, Lease):
        return f"gave {type(lease).__name__}, no Lease"
    outputs: object = lease.outputs
    if not isinstance(outputs, Mapping) or not all(isinstance(name, str) for name in outputs):
        return f"gave a Lease whose outputs are no mapping of name -> array: {outputs!r:.80}"
    present: object = lease.present
    if present is None:
        return None
    if not isinstance(present, np.ndarray) or present.dtype != np.bool_:
        return f"gave a Lease whose present is a {type(present).__name__}, no array of bool"
    if present.shape != (valid,):
        return f"gave a Lease whose present has shape {present.shape}; {valid} samples count"
    return None


def plain_outputs(outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The outputs, arrays of NumPy's own class where they are of one that follows from it."""
    return {
        name: tensor
        if isinstance(tensor, Ragged | np.ma.MaskedArray) or not isinstance(tensor, np.ndarray)
        else np.asarray(tensor)
        for name, tensor in outputs.items()
    }


def _look(runner: Runner, name: str, check: Callable[[object], str | None]) -> str | None:
    try:
        return check(getattr(runner, name))
    except BaseException as e:  # whatever reading or checking a plug-in's attribute raises
        if is_interrupt(e):
            raise
        hint = "; call super().__init__ in its own" if isinstance(e, AttributeError) else ""
        return f"can't be read: {tell_error(e)}{hint}"


def _wrong_limits(limits: object) -> str | None:
    if not isinstance(limits, Limits):
        return f"is a {type(limits).__name__}, no Limits"
    sizes: object = limits.batch_sizes
    if sizes is not None and not (
        isinstance(sizes, tuple) and sizes and all(_is_int(n) and n > 0 for n in sizes)
    ):
        return f"has batch_sizes {sizes!r:.80}: a tuple of numbers from 1 up, or None"
    flags: tuple[object, ...] = limits.thread_safe, limits.is_fixed
    if not all(isinstance(flag, bool) for flag in flags):
        return f"has thread_safe or is_fixed that is no bool: {limits!r:.200}"
    if limits.is_fixed and sizes is None:
        return "has is_fixed without batch_sizes"
    device: object = limits.device
    if not isinstance(device, str) or not _are_texts(limits.process_wide, tuple):
        return f"has a device that is no text, or process_wide that is no tuple of texts: {limits}"
    return None


def _wrong_tensors(specs: object) -> str | None:
    if specs is None:
        return None
    if not isinstance(specs, Mapping):
        return f"is a {type(specs).__name__}, no mapping of name -> TensorSpec, nor None"
    for name, spec in specs.items():
        if not isinstance(name, str) or not isinstance(spec, TensorSpec):
            return f"has {name!r}, which is no name of a TensorSpec"
        shape: object = spec.shape
        if spec.dtype not in DTYPES:
            return f"has {name!r} of dtype {spec.dtype!r}; known: {', '.join(DTYPES)}"
        if not isinstance(shape, tuple) or not all(_is_dim(dim) for dim in shape):
            return f"has {name!r} of shape {shape!r:.80}: a tuple of numbers, names or None"
    return None


def _is_dim(dim: object) -> bool:
    return dim is None or isinstance(dim, str) or (_is_int(dim) and dim >= 0)


def _wrong_identity(identity: object) -> str | None:
    if isinstance(identity, str) and _DIGEST.fullmatch(identity):
        return None
    return f"is {identity!r:.80}, no SHA-256 in hex of all that makes the runner what it is"


def _wrong_watched(watched: object) -> str | None:
    is_good = isinstance(watched, tuple | list) and all(isinstance(w, Watched) for w in watched)
    return None if is_good else f"is {watched!r:.80}, no tuple of what watch() gives"


def _wrong_constant_names(names: object) -> str | None:
    is_good = names is None or _are_texts(names, frozenset)
    return None if is_good else f"is {names!r:.80}, no frozenset of names, nor None"


def _wrong_layout(layout: object) -> str | None:
    return None if isinstance(layout, Layout) else f"is a {type(layout).__name__}, no Layout"


def _are_texts(values: object, kind: type[tuple[object, ...]] | type[frozenset[object]]) -> bool:
    return isinstance(values, kind) and all(isinstance(value, str) for value in values)


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


_CHECKS: Mapping[str, Callable[[object], str | None]] = {
    "limits": _wrong_limits,
    "inputs": _wrong_tensors,
    "outputs": _wrong_tensors,
    "identity": _wrong_identity,
    "facts": wrong_facts,
    "findings": wrong_findings,
    "watched": _wrong_watched,
    "constant_names": _wrong_constant_names,
    "layout": _wrong_layout,
}
