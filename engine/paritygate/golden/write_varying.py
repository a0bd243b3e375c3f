"""Write tensors whose samples differ in shape, as `arrow.variable_shape_tensor` columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paritygate.core.tensors import Array
from paritygate.golden.dtypes import stored_elements, stored_type, tensor_field


def varying_array(
    tensors: Sequence[Array | None], dtype: np.dtype[np.generic], dims: int
) -> pa.Array[Any]:
    """The storage of a column of tensors, None for a null row, each of `dims` axes."""
    there = [tensor for tensor in tensors if tensor is not None]
    flat = np.concatenate([np.ravel(t) for t in there]) if there else np.empty(0, dtype)
    lengths = [0 if tensor is None else tensor.size for tensor in tensors]
    shapes = [[0] * dims if tensor is None else list(tensor.shape) for tensor in tensors]
    offsets: Any = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    elements: pa.Array[Any] = pa.array(stored_elements(flat), stored_type(dtype))
    data = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements)
    sizes = pa.array(np.array(shapes, np.int32).reshape(-1), pa.int32())
    shape = pa.FixedSizeListArray.from_arrays(sizes, dims)
    absent = pa.array([tensor is None for tensor in tensors], pa.bool_())
    return pa.StructArray.from_arrays([data, shape], names=["data", "shape"], mask=absent)


def varying_field(name: str, kind: pa.DataType, dtype: np.dtype[Any]) -> pa.Field[Any]:
    """The field of such a column; it names a dtype that the Arrow type doesn't."""
    named = tensor_field(name, kind, dtype)
    if stored_type(dtype) == pa.string():
        return named  # Arrow's own reader refuses the extension of texts
    extension = {
        b"ARROW:extension:name": b"arrow.variable_shape_tensor",
        b"ARROW:extension:metadata": json.dumps({}).encode(),
    }
    extension.update(named.metadata or {})
    return pa.field(name, kind, metadata={**extension})
