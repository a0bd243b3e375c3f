"""Every way in which Arrow stores a tensor or a text is read as the same values."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.test_pack import random_values, same_bits
from tests.packs import Container, write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden.pack import open_pack

LISTS = {
    "list": lambda inner, _: pa.list_(inner),
    "large_list": lambda inner, _: pa.large_list(inner),
    "fixed": lambda inner, size: pa.list_(inner, size),
    "list_view": lambda inner, _: pa.list_view(inner),
    "large_list_view": lambda inner, _: pa.large_list_view(inner),
}
DTYPES = ["float32", "float64", "int8", "uint16", "int64", "bool"]


def nested(values: np.ndarray, kinds: list[str]) -> pa.Array:
    kind: Any = pa.from_numpy_dtype(values.dtype)
    for name, size in reversed(list(zip(kinds, values.shape[1:], strict=True))):
        kind = LISTS[name](kind, size)
    return pa.array(values.tolist(), kind)


@settings(max_examples=80, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 3), max_size=3).map(tuple),
    rows=st.integers(1, 7),
    per_batch=st.integers(1, 7),
    container=st.sampled_from(["file", "stream", "parquet"]),
    data=st.data(),
)
def test_nested_lists_of_all_kinds(
    dtype: str,
    shape: tuple[int, ...],
    rows: int,
    per_batch: int,
    container: Container,
    data: st.DataObject,
) -> None:
    names = list(LISTS) if container != "parquet" else ["list", "large_list", "fixed"]
    kinds = data.draw(st.lists(st.sampled_from(names), min_size=len(shape), max_size=len(shape)))
    values = np.nan_to_num(random_values(rows, dtype, (rows, *shape)))
    with tempfile.TemporaryDirectory() as name:
        path = write_pack(
            Path(name) / "p",
            range(rows),
            columns={"in.x": nested(values, kinds), "out.y": nested(values[::-1], kinds)},
            rows_per_batch=per_batch,
            container=container,
        )
        pack = open_pack([path], Path(name))
        pack.scan_ids()
        assert pack.inputs["x"].shape == shape
        low = data.draw(st.integers(0, rows))
        high = data.draw(st.integers(low, rows))
        assert same_bits(pack.input("x", low, high), values[low:high])
        order = np.array(data.draw(st.lists(st.integers(0, rows - 1), max_size=6)), np.int64)
        assert same_bits(pack.take_output("y", order), np.ascontiguousarray(values[::-1][order]))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
def test_a_permuted_tensor_has_its_logical_dims(
    tmp_path: Path, container: Container, order: tuple[int, ...]
) -> None:
    stored = random_values(3, "float32", (5, 2, 3, 4))
    kind = pa.fixed_shape_tensor(pa.float32(), (2, 3, 4), permutation=list(order))
    flat = pa.array(stored.reshape(5, 24).tolist(), kind.storage_type)
    path = write_pack(
        tmp_path / "p",
        range(5),
        columns={"in.x": pa.ExtensionArray.from_storage(kind, flat)},
        rows_per_batch=3,
        container=container,
    )
    pack = open_pack([path], tmp_path)
    logical = np.moveaxis(stored, [axis + 1 for axis in order], [1, 2, 3])
    assert pack.inputs["x"].shape == logical.shape[1:]
    for low, high in ((0, 5), (1, 3), (2, 5)):
        assert pack.input("x", low, high).tolist() == logical[low:high].tolist()


@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
def test_a_permuted_tensor_in_a_pack_without_samples(tmp_path: Path, container: Container) -> None:
    kind = pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=[1, 0])
    nothing = pa.ExtensionArray.from_storage(kind, pa.array([], kind.storage_type))
    path = write_pack(tmp_path / "p", [], columns={"in.x": nothing}, container=container)
    pack = open_pack([path], tmp_path)
    assert pack.scan_ids().samples == 0
    assert pack.inputs["x"].shape == (3, 2)


@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
@pytest.mark.parametrize("missing", ["sample", "element"])
def test_a_null_in_a_permuted_tensor_or_a_view_is_told(
    tmp_path: Path, container: Container, missing: str
) -> None:
    kind = pa.fixed_shape_tensor(pa.float32(), (2, 2), permutation=[1, 0])
    rows: list[Any] = [[1.0, 2.0, 3.0, 4.0]] * 3
    rows[1] = None if missing == "sample" else [1.0, None, 3.0, 4.0]
    arrays = [pa.ExtensionArray.from_storage(kind, pa.array(rows, kind.storage_type))]
    if container != "parquet":
        arrays.append(pa.array(rows, pa.list_view(pa.float32())))
    for array in arrays:
        path = write_pack(
            tmp_path / "p", ["a", "b", "c"], columns={"in.x": array}, container=container
        )
        with pytest.raises(GoldenError, match="sample b") as error:
            open_pack([path], tmp_path).scan_ids()
        assert error.value.code == "golden.null_value"


TEXTS = ["c", "a", "long enough that a view of it doesn't hold it", "b", ""]
TEXT_ARRAYS = {
    "string": pa.array(TEXTS),
    "large_string": pa.array(TEXTS, pa.large_string()),
    "string_view": pa.array(TEXTS, pa.string_view()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "dictionary of large strings": pa.array(TEXTS, pa.large_string()).dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, 4], pa.int8()), pa.array(TEXTS, pa.string_view())
    ),
}


TEXT_CASES = [
    (container, kind)
    for container in ("file", "stream", "parquet")
    for kind in TEXT_ARRAYS
    if (container, kind) != ("parquet", "dictionary of views")  # Arrow doesn't write these
]


@pytest.mark.parametrize(("container", "kind"), TEXT_CASES)
def test_texts_of_all_kinds_as_ids_labels_and_slices(
    tmp_path: Path, container: Container, kind: str
) -> None:
    array = TEXT_ARRAYS[kind]
    path = write_pack(
        tmp_path / "p",
        array,
        outputs={"y": np.arange(5.0)},
        label=array,
        columns={"site": array},
        rows_per_batch=3,
        container=container,
    )
    pack = open_pack([path], tmp_path, slices=["site"])
    assert pack.scan_ids().slice_values["site"] == tuple(TEXTS)
    assert pack.ids(0, 5).tolist() == TEXTS
    assert pack.labels(1, 4).tolist() == TEXTS[1:4]
    rows = pack.index().rows(np.array(["b", "", "none", "c"], object))
    assert rows.tolist() == [3, 4, -1, 0]
    assert pack.take_ids(np.array([4, 0, 2])).tolist() == [TEXTS[4], TEXTS[0], TEXTS[2]]


@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
def test_ints_in_dictionaries(tmp_path: Path, container: Container) -> None:
    numbers = pa.array([7, 3, 7, 5], pa.int16()).dictionary_encode()
    path = write_pack(
        tmp_path / "p",
        pa.array([4, 2, 9, 1]).dictionary_encode(),
        label=numbers,
        columns={"site": numbers, "in.x": pa.array([1.0, 2.0, 3.0, 4.0])},
        rows_per_batch=3,
        container=container,
    )
    pack = open_pack([path], tmp_path, slices=["site"])
    assert pack.scan_ids().slice_values["site"] == ("7", "3", "5")
    assert pack.labels(0, 4).tolist() == [7, 3, 7, 5]
    assert pack.index().rows(np.array([9, 4])).tolist() == [2, 0]
