"""Ids, labels and slice values of a column as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from paritygate.golden.columns import ValueFault, first_null
from paritygate.golden.dtypes import numbers_in, texts_in

NULL = "(null)"

Ids = npt.NDArray[np.int64] | npt.NDArray[np.object_]


class SliceCodes(Struct, frozen=True):
    """Slice values of consecutive samples: `codes[i]` is the place of sample i's in `values`."""

    values: list[str]
    codes: npt.NDArray[np.int32]


def plain_values(array: pa.Array[Any], kind: Literal["int64", "string"], null_code: str) -> Ids:
    """`(n,)` int64 (no copy where stored so), or object holding str.

    Raises:
        ValueFault: with `null_code`, for a null.
        pa.ArrowInvalid: damaged strings or dictionary codes.
    """
    array = _decoded(array)
    if array.null_count:
        raise ValueFault(null_code, first_null(array), "null")
    if kind == "string":
        return texts_in(array)
    if array.type != pa.int64():
        array = array.cast(pa.int64())
    numbers: npt.NDArray[np.int64] = numbers_in(array).view(np.int64)
    return numbers


def plain_texts(array: pa.Array[Any], null_code: str) -> pa.Array[Any]:
    """`(n,)` texts, checked, as Arrow's own `large_string`.

    Raises:
        ValueFault: with `null_code`, for a null.
        pa.ArrowInvalid: damaged strings or dictionary codes.
    """
    array = _decoded(array)
    if array.null_count:
        raise ValueFault(null_code, first_null(array), "null")
    texts: pa.Array[Any] = array.cast(pa.large_string())
    return texts


def slice_codes(arrays: Sequence[pa.Array[Any]]) -> SliceCodes:
    """Codes of a slice column; null is the value "(null)", values stand in order of appearance.

    Raises:
        ValueFault: `golden.slice_values`, for a value that is called like null.
        pa.ArrowInvalid: damaged strings or dictionary codes.
    """
    texts = [_decoded(array).cast(pa.string()) for array in arrays]
    if not texts:
        return SliceCodes([], np.empty(0, np.int32))
    text = texts[0] if len(texts) == 1 else pa.concat_arrays(texts)
    encoded = text.dictionary_encode(null_encoding="encode")
    values = encoded.dictionary.to_pylist()
    codes = numbers_in(encoded.indices).view(np.int32)
    if NULL in values:
        row = int(np.argmax(codes == values.index(NULL)))
        raise ValueFault("golden.slice_values", row, f"the text {NULL!r}")
    return SliceCodes([NULL if value is None else value for value in values], codes)


def _decoded(array: pa.Array[Any]) -> Any:
    """The array with its strings and dictionary codes checked, dictionaries resolved."""
    if pa.types.is_integer(array.type):
        return array
    array.validate(full=True)
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
