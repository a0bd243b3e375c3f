"""What nodes make of constants without a model being run: copies, casts, other shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from msgspec import Struct

from paritygate.admission.values import PACKED_BITS, count_elements, dtype_of, iter_bytes

MOST_ELEMENTS = 1 << 20
_DEEPEST = 32
_Array = np.ndarray[Any, Any]


class Budget(Struct):
    """Elements that may still be made of a model's constants."""

    left: int = 1 << 24


class Made(Struct):
    """A value that a node makes of one that may be constant, calculated once it is asked for.

    Attributes:
        node: one of `MAKERS`.
        seen: name -> value, as its node sees them.
        folder: where external data lie.
        budget: of the whole model.
    """

    node: onnx.NodeProto
    seen: Mapping[str, Constant]
    folder: Path
    budget: Budget
    _is_known: bool = False
    _tensor: onnx.TensorProto | None = None

    def tensor(self, depth: int = 0) -> onnx.TensorProto | None:
        """What it is; None where it is no constant, or too large to be made here.

        Raises:
            OSError: external data can't be read.
        """
        if not self._is_known and depth < _DEEPEST:
            self._tensor = self._make(depth)
            self._is_known = True
        return self._tensor

    def _make(self, depth: int) -> onnx.TensorProto | None:
        given = [
            _load(resolve(self.seen.get(name), depth + 1), self.folder) if name else None
            for name in self.node.input
        ]
        if not given or given[0] is None:
            return None
        if any(a is None and name for a, name in zip(given, self.node.input, strict=True)):
            return None
        try:
            with np.errstate(all="ignore"):
                made = MAKERS[self.node.op_type](self.node, *given)
            if made.size > self.budget.left:
                return None
            self.budget.left -= made.size
            return onnx.numpy_helper.from_array(made, self.node.output[0])
        except (ValueError, TypeError, IndexError, KeyError, OverflowError):
            return None


Constant = onnx.TensorProto | Made


def resolve(value: Constant | None, depth: int = 0) -> onnx.TensorProto | None:
    """The tensor behind a value; None where there is none.

    Raises:
        OSError: external data can't be read.
    """
    return value.tensor(depth) if isinstance(value, Made) else value


def iter_made(
    node: onnx.NodeProto, seen: Mapping[str, Constant], folder: Path, budget: Budget
) -> Iterator[tuple[str, Made]]:
    """What a node makes, under its name, if it is one that makes constants of constants."""
    if node.op_type in MAKERS and node.domain in ("", "ai.onnx") and len(node.output) == 1:
        yield node.output[0], Made(node, seen, folder, budget)


def _load(tensor: onnx.TensorProto | None, folder: Path) -> _Array | None:
    if tensor is None or count_elements(tensor) > MOST_ELEMENTS:
        return None
    if dtype_of(tensor) in (*PACKED_BITS, "STRING", "UNDEFINED"):
        return None
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        held = b"".join(iter_bytes(tensor, folder))
        stored = dtype.newbyteorder("<") if dtype.kind in "fiu" else dtype
        return np.frombuffer(held, stored).astype(dtype).reshape(list(tensor.dims))
    except (ValueError, TypeError, KeyError):
        return None


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def _cast(node: onnx.NodeProto, x: _Array) -> _Array:
    return x.astype(onnx.helper.tensor_dtype_to_np_dtype(_attributes(node)["to"]))


def _squeeze(node: onnx.NodeProto, x: _Array, axes: _Array | None = None) -> _Array:
    chosen = _attributes(node).get("axes") if axes is None else axes.tolist()
    return x.squeeze(None if chosen is None else tuple(chosen))


def _unsqueeze(node: onnx.NodeProto, x: _Array, axes: _Array | None = None) -> _Array:
    chosen = _attributes(node)["axes"] if axes is None else axes.tolist()
    return np.expand_dims(x, tuple(chosen))


def _reshape(node: onnx.NodeProto, x: _Array, shape: _Array) -> _Array:
    keeps = not _attributes(node).get("allowzero", 0)
    dims = [x.shape[i] if d == 0 and keeps else d for i, d in enumerate(shape.tolist())]
    return x.reshape(dims)


def _flatten(node: onnx.NodeProto, x: _Array) -> _Array:
    axis = _attributes(node).get("axis", 1)
    return x.reshape(math.prod(x.shape[:axis]), -1)


def _transpose(node: onnx.NodeProto, x: _Array) -> _Array:
    return np.ascontiguousarray(x.transpose(_attributes(node).get("perm")))


def _expand(_: onnx.NodeProto, x: _Array, shape: _Array) -> _Array:
    dims = np.broadcast_shapes(x.shape, _bounded(shape))
    return np.ascontiguousarray(np.broadcast_to(x, _bounded(np.asarray(dims))))


def _constant_of_shape(node: onnx.NodeProto, shape: _Array) -> _Array:
    value = _attributes(node).get("value")
    fill = np.zeros(1, np.float32) if value is None else onnx.numpy_helper.to_array(value)
    return np.full(_bounded(shape), fill.reshape(-1)[0], fill.dtype)


def _bounded(shape: _Array) -> tuple[int, ...]:
    dims = tuple(int(d) for d in shape.tolist())
    if math.prod(dims) > MOST_ELEMENTS:
        raise ValueError("too many elements")
    return dims


MAKERS: dict[str, Callable[..., _Array]] = {
    "Identity": lambda _, x: x,
    "Cast": _cast,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
}
