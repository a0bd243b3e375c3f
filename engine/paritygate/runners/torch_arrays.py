"""Between NumPy and torch, bit for bit, and the named tensors of an answer.

An item of a dict is named by its key, item k of a sequence `s` is `s.k`, a plain tensor is
`output`: `{"y": (a, b)}` is `y.0` and `y.1`. What is None is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from paritygate.core.dtypes import DTYPES, dtype_name, numpy_dtype
from paritygate.core.tensors import Array

PLAIN = "output"
# Those that NumPy doesn't have by itself, as the integers that their bits go over as.
BITS = {
    "bfloat16": "int16",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
}
_NATIVE = (
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
KNOWN = (*_NATIVE, *BITS)


class AnswerError(Exception):
    """An answer that can't be judged; a sentence that goes on after "the answer"."""


def name_of(dtype: Any) -> str:
    """Our name of a torch dtype; torch's own where it can't be judged."""
    return str(dtype).removeprefix("torch.")


def to_torch(array: Array) -> Any:
    """A tensor on the CPU, in memory of its own: torch heeds no read-only flag.

    Args:
        array: of a dtype in `KNOWN`.
    """
    import torch

    name = dtype_name(array.dtype)
    own = np.array(array, order="C", copy=True)
    tensor = torch.from_numpy(own.view(BITS[name]) if name in BITS else own)
    return tensor.view(getattr(torch, name)) if name in BITS else tensor


def to_array(tensor: Any) -> Array:
    """A read-only array of a tensor's elements, C-contiguous, in memory of its own.

    Args:
        tensor: on any device.

    Raises:
        AnswerError: of a kind or dtype that can't be judged.
    """
    import torch

    problem = _unusable(tensor, torch)
    if problem:
        raise AnswerError(problem)
    name = name_of(tensor.dtype)
    plain = tensor.detach().resolve_neg().cpu().contiguous()
    if name in BITS:
        plain = plain.view(getattr(torch, BITS[name]))
    array: Array = plain.numpy().copy(order="C")
    if name in BITS:
        array = array.view(numpy_dtype(name))
    view = array.view()
    view.flags.writeable = False
    return view


def array_or_problem(tensor: Any, give: str) -> Array | str:
    """A tensor's elements; or what is wrong with it, as a clause that `give` goes on to mend."""
    import torch

    problem = _unusable(tensor, torch, give)
    return problem or to_array(tensor)


def unusable(tensor: Any) -> str | None:
    """Why a value can't be judged, as a clause; None where it can."""
    import torch

    return _unusable(tensor, torch)


def _unusable(tensor: Any, torch: Any, give: str = "return ") -> str | None:
    if not isinstance(tensor, torch.Tensor):
        return f"is a {type(tensor).__name__}, not a tensor; {give}a tensor with a row a sample"
    if tensor.is_nested:
        return f"is a nested tensor; {give}a padded one, or one tensor a batch of one shape"
    if tensor.layout != torch.strided:
        return f"is a sparse tensor ({tensor.layout}); {give}tensor.to_dense()"
    if tensor.is_quantized:
        return f"is a quantised tensor ({tensor.dtype}); {give}tensor.dequantize()"
    if tensor.is_complex():
        return f"is complex ({tensor.dtype}); {give}torch.view_as_real(tensor)"
    if tensor.is_meta:
        return f"is on the meta device, which holds no numbers; {give}a tensor of numbers"
    name = name_of(tensor.dtype)
    if name not in KNOWN:
        known = ", ".join(d for d in DTYPES if d in KNOWN)
        return f"is {name}; dtypes that can be judged: {known}"
    return None


def named(answer: Any) -> dict[str, Any]:
    """The tensors of an answer by name, in order.

    Raises:
        AnswerError: two of one name, or a key that isn't text.
    """
    found: dict[str, Any] = {}
    for name, value in _walk("", answer):
        if name in found:
            raise AnswerError(f"has two outputs named {name!r}; rename one in the model")
        found[name or PLAIN] = value
    return found


def _walk(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if value is None:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str) or not key:
                raise AnswerError(f"has the key {key!r} in a dict; keys of outputs are texts")
            yield from _walk(f"{name}.{key}" if name else key, item)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key, item in zip(value._fields, value, strict=True):
            yield from _walk(f"{name}.{key}" if name else str(key), item)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _walk(f"{name or PLAIN}.{at}", item)
    else:
        yield name, value


def rename(found: Mapping[str, Any], names: Mapping[str, str] | tuple[str, ...]) -> dict[str, Any]:
    """Outputs under our names.

    Args:
        found: the answer's own name -> value, in order.
        names: in that order; or our name -> the answer's, where they differ.

    Raises:
        AnswerError: another number of names, or a name that the answer doesn't have.
    """
    if isinstance(names, tuple):
        if names and len(names) != len(found):
            raise AnswerError(
                f"has {len(found)} outputs ({', '.join(found)}) for the {len(names)} names "
                f"{', '.join(names)}; name each in this order, or some by outputs = {{ ours = "
                '"theirs" }'
            )
        return dict(zip(names, found.values(), strict=True)) if names else dict(found)
    absent = sorted(theirs for theirs in names.values() if theirs not in found)
    if absent:
        raise AnswerError(f"has no output {absent[0]!r}; it has {', '.join(found) or 'none'}")
    ours_of = {theirs: ours for ours, theirs in names.items()}
    renamed = {ours_of.get(theirs, theirs): value for theirs, value in found.items()}
    if len(renamed) != len(found):
        raise AnswerError(f"has two outputs of one name after outputs renamed them: {list(names)}")
    return renamed
