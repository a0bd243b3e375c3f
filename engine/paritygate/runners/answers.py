"""What an answer must be: arrays with a row a sample, all of them like the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from paritygate.core.dtypes import DTYPES, dtype_name, numpy_dtype
from paritygate.core.ragged import Ragged, Tensor, shape_of, varying_dims
from paritygate.core.tensors import Array, ColumnSpec, TensorSpec
from paritygate.gpu.tensor import DeviceTensor
from paritygate.runners.layout import Axis

_NATIVE_OF = {name: numpy_dtype(name) for name in DTYPES}
_NATIVE = frozenset(_NATIVE_OF.values())


def form_of_plain(outputs: Mapping[str, object], size: int) -> list[object] | None:
    """All that the checks below look at, of an answer of arrays of numbers; None: another answer.

    Args:
        outputs: the answer; its samples come first.
        size: samples of the batch.
    """
    if type(outputs) is not dict:
        return None
    form: list[object] = [size]
    for name, array in outputs.items():
        if type(array) is not np.ndarray or array.dtype.hasobject:
            return None
        form += name, array.dtype, array.shape
    return form


def unusable(tensor: object, size: int, axis: Axis) -> str | None:
    """Why this can't be the answer to a batch of `size` samples; None where it can."""
    if isinstance(tensor, DeviceTensor):
        told = f"has shape {tensor.shape}; its first axis must be the batch of {size} samples"
        return None if len(tensor) == size else told
    if isinstance(tensor, Ragged):
        if len(tensor) != size:
            return f"is a list of {len(tensor)} arrays; it must be one a sample, which are {size}"
        return next((p for a in tensor.arrays if (p := _unusable_array(a))), None)
    problem = _unusable_array(tensor)
    if problem or not isinstance(tensor, np.ndarray):
        return problem
    if axis is None:
        one = "has no sample axis in the plan and so belongs to one sample, but"
        return None if size == 1 else f"{one} the batch has {size}; set batch_size = 1"
    if tensor.shape[axis : axis + 1] != (size,):
        which = f"axis {axis}" if axis else "first axis"
        told = f"has shape {tensor.shape}; its {which} must be the batch of {size} samples"
        mend = "; if its samples are on another axis or on none, say its shape in [outputs]"
        return told + ("" if axis else mend)
    return None


def _unusable_array(array: object) -> str | None:
    if not isinstance(array, np.ndarray):
        kind = type(array).__name__
        hint = "wrap a numpy scalar in an array" if isinstance(array, np.generic) else "return one"
        return f"is a {kind}, not a numpy array; {hint} with the sample axis first"
    if isinstance(array, np.ma.MaskedArray):
        return "is a masked array; fill it, so that every element has a value to compare"
    if not array.dtype.isnative:
        return f"has foreign byte order ({array.dtype.str}); convert it to the native one"
    if array.dtype not in _NATIVE:
        return f"is {array.dtype}; dtypes that can be judged: {', '.join(DTYPES)}"
    return _no_text(array) if array.dtype == object else None


def _no_text(array: Array) -> str | None:
    """What in an object array isn't a text that can be written down; None if all are."""
    for at, value in enumerate(array.reshape(-1).tolist()):
        where = [int(i) for i in np.unravel_index(at, array.shape)]
        if not isinstance(value, str):
            kind = type(value).__name__
            return f"holds a {kind} at {where}; object arrays are read as texts, each a str"
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"holds a text at {where} that isn't valid Unicode: {value!r:.60}"
    return None


def first_look(
    name: str,
    tensor: Tensor | DeviceTensor,
    declared: TensorSpec | None,
    planned: Sequence[int | str] | None,
) -> ColumnSpec:
    """What later answers must look like.

    Args:
        name: output.
        tensor: its first answer.
        declared: what the runner declares; a dim that isn't a number may vary.
        planned: the plan's dims of a sample; a dim that has a name may vary.
    """
    shape: list[int | None] = list(shape_of(tensor, 0))
    for dims in (declared.shape[1:] if declared is not None else None, planned):
        if dims is not None and len(dims) == len(shape):
            for at, dim in enumerate(dims):
                if not isinstance(dim, int):
                    shape[at] = None
    return ColumnSpec(name, dtype_name(tensor.dtype), tuple(shape))


def differs_from_declared(
    declared: Mapping[str, TensorSpec] | None, outputs: Mapping[str, Tensor | DeviceTensor]
) -> str | None:
    """Why an answer isn't what the runner declares."""
    if declared is None:
        return None
    problem = _other_names("declared", declared, outputs)
    if problem:
        return problem
    for name, spec in declared.items():
        found = dtype_name(outputs[name].dtype)
        if found != spec.dtype:
            return f"output {name!r} is {found} but is declared {spec.dtype}"
        dims = [d if isinstance(d, int) else None for d in spec.shape[1:]]
        if spec.shape and not _has_shape(outputs[name], tuple(dims)):
            has = [d if d is not None else "?" for d in varying_dims(outputs[name])]
            told = ["?" if d is None else d for d in spec.shape[1:]]
            return f"output {name!r} is {found}{_text(has)} a sample but is declared {_text(told)}"
    return None


def differs_from_first(
    first: Mapping[str, ColumnSpec], outputs: Mapping[str, Tensor | DeviceTensor]
) -> str | None:
    """Why an answer isn't like the first one."""
    problem = _other_names("in the first batch", first, outputs)
    if problem:
        return problem
    for name, spec in first.items():
        found = outputs[name]
        if found.dtype != _NATIVE_OF[spec.dtype] or not _has_shape(found, spec.shape):
            dims = [d if d is not None else "?" for d in varying_dims(found)]
            was = [d if d is not None else "?" for d in spec.shape]
            told = (
                f"output {name!r} is {dtype_name(found.dtype)}{_text(dims)} a sample but was "
                f"{spec.dtype}{_text(was)} in the first batch"
            )
            if dtype_name(found.dtype) == spec.dtype and len(dims) == len(was):
                told += f"; where a dim may vary, name it: outputs.{name}.shape and [dims]"
            return told
    return None


def mixed(arrays: Sequence[Array]) -> str | None:
    """Why arrays can't be the answers to samples: not all of one dtype and rank."""
    kinds = dict.fromkeys(f"{dtype_name(a.dtype)} with {a.ndim} axes" for a in arrays)
    return None if len(kinds) < 2 else f"mixes {' and '.join(list(kinds)[:3])}"


def _has_shape(tensor: Tensor | DeviceTensor, shape: tuple[int | None, ...]) -> bool:
    if isinstance(tensor, Ragged):
        return all(_fits(array.shape, shape) for array in tensor.arrays)
    return _fits(tensor.shape[1:], shape)


def _fits(found: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return len(found) == len(shape) and all(
        want is None or have == want for have, want in zip(found, shape, strict=True)
    )


def _text(dims: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _other_names(
    origin: str, allowed: Mapping[str, object], found: Mapping[str, object]
) -> str | None:
    if allowed.keys() == found.keys():
        return None
    missing, extra = sorted(allowed.keys() - found.keys()), sorted(found.keys() - allowed.keys())
    parts = [f"lacks {missing}"] if missing else []
    parts += [f"has unexpected {extra}"] if extra else []
    return f"the answer {' and '.join(parts)}; {origin}: {sorted(allowed)}"
