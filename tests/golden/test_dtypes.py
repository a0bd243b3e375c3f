"""Dtypes of tensor columns: how each is stored, read without a copy, and written back."""

from __future__ import annotations

import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.test_pack import lies_in
from tests.packs import TensorType, write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden.dtypes import array_of, column_of, elements_in
from paritygate.golden.pack import open_pack
from paritygate.golden.write import PackWriter, tensor_batch

BITS = {
    "bfloat16": ("uint16", "int16"),
    "float8_e4m3fn": ("uint8", "int8"),
    "float8_e4m3fnuz": ("uint8", "int8"),
    "float8_e5m2": ("uint8", "int8"),
    "float8_e5m2fnuz": ("uint8", "int8"),
    "int4": ("int8",),
    "uint4": ("uint8",),
}
STORED = [(name, stored) for name, kinds in BITS.items() for stored in kinds]
HALF_BYTES = {"int4": range(-8, 8), "uint4": range(16)}


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def all_codes(name: str, stored: str) -> np.ndarray:
    """Every bit pattern, in the storage dtype."""
    if name in HALF_BYTES:
        return np.array(HALF_BYTES[name], stored)
    count = 1 << 8 * np.dtype(stored).itemsize
    return np.arange(count, dtype=f"u{np.dtype(stored).itemsize}").view(stored)


@pytest.mark.parametrize(("name", "stored"), STORED)
@pytest.mark.parametrize("shape", ["fixed_shape", "fixed_size_list", "scalar"])
def test_every_code_is_read_from_its_bits_without_a_copy(
    tmp_path: Path, name: str, stored: str, shape: TensorType
) -> None:
    codes = all_codes(name, stored)
    bits = codes if shape == "scalar" else codes.reshape(-1, 4)
    path = write_pack(
        tmp_path / "p.arrow",
        range(len(bits)),
        {"x": bits},
        tensor_type=shape,
        metadata={"in.x": {"paritygate.dtype": name}},
    )
    with open_pack([path], tmp_path) as pack:
        pack.scan_ids()
        spec = pack.inputs["x"]
        assert (spec.dtype, spec.shape) == (name, bits.shape[1:])
        assert spec.sample_bytes == bits[:1].nbytes
        found = pack.input("x", 0, len(bits))
        assert found.dtype == dtype_of(name)
        assert found.tobytes() == bits.tobytes()
        assert lies_in(path, found)
        if name in HALF_BYTES:
            assert found.astype(np.int64).reshape(-1).tolist() == list(HALF_BYTES[name])


@pytest.mark.parametrize("shape", ["fixed_shape", "fixed_size_list"])
def test_float16_is_a_type_of_arrow(tmp_path: Path, shape: TensorType) -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(-1, 16)
    path = write_pack(tmp_path / "p.arrow", range(4096), {"x": values}, tensor_type=shape)
    with open_pack([path], tmp_path) as pack:
        found = pack.input("x", 0, 4096)
        assert (found.dtype, found.tobytes()) == (values.dtype, values.tobytes())
        assert lies_in(path, found)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("per_batch", [1, 2, 5])
def test_texts_are_objects(tmp_path: Path, kind: pa.DataType, per_batch: int) -> None:
    texts = ["", "a", "\u00e9\u00e9", "\U0001f600" * 9, "x" * 40]
    path = write_pack(
        tmp_path / "p.arrow",
        range(5),
        columns={
            "in.x": pa.array(texts, kind),
            "in.two": pa.array([[t, t.upper()] for t in texts], pa.list_(kind, 2)),
            "out.y": pa.array([[[t], [t]] for t in texts], pa.list_(pa.list_(kind))),
        },
        rows_per_batch=per_batch,
    )
    with open_pack([path], tmp_path) as pack:
        pack.scan_ids()
        assert {n: (s.dtype, s.shape) for n, s in {**pack.inputs, **pack.outputs}.items()} == {
            "x": ("string", ()),
            "two": ("string", (2,)),
            "y": ("string", (2, 1)),
        }
        for low, high in ((0, 5), (1, 4), (3, 3)):
            assert pack.input("x", low, high).tolist() == texts[low:high]
            wanted = [[t, t.upper()] for t in texts[low:high]]
            assert pack.input("two", low, high).tolist() == wanted
            assert pack.output("y", low, high).dtype == object
        taken = pack.take_output("y", np.array([4, 0, 2]))
        assert taken.tolist() == [[[texts[i]], [texts[i]]] for i in (4, 0, 2)]


NAMES = (*BITS, "float16", "float32", "float64", "int64", "uint8", "bool", "string")


@settings(max_examples=60)
@given(
    st.sampled_from(NAMES),
    st.sampled_from([(), (1,), (3,), (2, 2), (0,), (2, 0)]),
    st.integers(0, 5),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_what_is_written_is_read_back(name, shape, rows, per_batch, random) -> None:
    count = rows * int(np.prod(shape, dtype=int))
    if name == "string":
        flat = np.array([random.choice(["", "a", "\u00fc", "zz"]) for _ in range(count)], object)
    elif name in HALF_BYTES or name == "bool":
        numbers = HALF_BYTES.get(name, range(2))
        flat = np.array([random.choice(numbers) for _ in range(count)], int).astype(dtype_of(name))
    else:
        size = dtype_of(name).itemsize
        flat = np.frombuffer(random.randbytes(count * size), dtype_of(name))
    values = flat.reshape(rows, *shape)
    ids = np.arange(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.arrow"
        batch = tensor_batch({"sample_id": ids, "in.x": values})
        with PackWriter(path, batch.schema) as writer:
            for start in range(0, rows, per_batch):
                writer.write(batch.slice(start, per_batch))
        with open_pack([path], Path(folder)) as pack:
            assert (pack.inputs["x"].dtype, pack.inputs["x"].shape) == (name, shape)
            found = pack.input("x", 0, rows)
            assert (found.shape, found.dtype) == (values.shape, values.dtype)
            if name == "string" or name in HALF_BYTES:
                assert found.tolist() == values.tolist()
            else:
                assert found.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("array", "declared", "words"),
    [
        (pa.array([1.0]), "bfloat16", "bfloat16 is stored as uint16 or int16, but this is float64"),
        (pa.array([1], pa.uint8()), "int4", "int4 is stored as int8, but this is uint8"),
        (pa.array([1], pa.uint8()), "float4_e2m1fn", "'float4_e2m1fn' (stored as uint8) isn't"),
        (pa.array(["a"]), "bfloat16", "but this is string"),
        (pa.array([b"a"]), None, "binary isn't supported"),
    ],
)
def test_declared_dtypes_that_do_not_fit_are_refused(
    tmp_path: Path, array: pa.Array, declared: str | None, words: str
) -> None:
    metadata = {"in.x": {"paritygate.dtype": declared}} if declared else {}
    path = write_pack(tmp_path / "p.arrow", [1], columns={"in.x": array}, metadata=metadata)
    with pytest.raises(GoldenError) as caught:
        open_pack([path], tmp_path)
    assert caught.value.code == "golden.column_type"
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "bits", "words"),
    [
        ("int4", [[0, 7], [1, 8]], "8 at element 1, where int4 holds -8 to 7"),
        ("int4", [[0, 7], [-9, 1]], "-9 at element 0, where int4 holds -8 to 7"),
        ("uint4", [[0, 15], [1, 16]], "16 at element 1, where uint4 holds 0 to 15"),
    ],
)
def test_a_byte_beyond_four_bits_is_no_other_number(
    tmp_path: Path, name: str, bits: list[list[int]], words: str
) -> None:
    path = write_pack(
        tmp_path / "p.arrow",
        ["a", "b"],
        {"x": np.array(bits, BITS[name][0])},
        metadata={"in.x": {"paritygate.dtype": name}},
    )
    with open_pack([path], tmp_path) as pack, pytest.raises(GoldenError) as caught:
        pack.scan_ids()
    assert caught.value.code == "golden.value"
    assert f"sample b (row 1): {words}" in str(caught.value)


def test_texts_that_are_not_utf8_are_damage(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(),
        1,
        [None, pa.py_buffer(np.array([0, 2], np.int32).tobytes()), pa.py_buffer(b"\xff\xfe")],
    )
    path = write_pack(tmp_path / "p.arrow", [1], columns={"in.x": bad})
    with open_pack([path], tmp_path) as pack, pytest.raises(GoldenError, match="damaged"):
        pack.scan_ids()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_texts_by_codes(tmp_path: Path, kind: pa.DataType) -> None:
    codes = pa.array([1, 0, 1], pa.int8())
    coded = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "\u00fc"], kind))
    path = write_pack(tmp_path / "p.arrow", range(3), columns={"out.y": coded})
    with open_pack([path], tmp_path) as pack:
        pack.scan_ids()
        assert pack.outputs["y"].dtype == "string"
        assert pack.output("y", 0, 3).tolist() == ["\u00fc", "a", "\u00fc"]


def test_a_null_in_a_dictionary_of_texts_is_damage(tmp_path: Path) -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None]))
    path = write_pack(tmp_path / "p.arrow", range(2), columns={"out.y": coded})
    with open_pack([path], tmp_path) as pack, pytest.raises(GoldenError, match="null"):
        pack.scan_ids()


def test_a_null_text_names_its_sample(tmp_path: Path) -> None:
    path = write_pack(tmp_path / "p.arrow", [7, 8], columns={"in.x": pa.array(["a", None])})
    with open_pack([path], tmp_path) as pack, pytest.raises(GoldenError, match="sample 8") as e:
        pack.scan_ids()
    assert e.value.code == "golden.null_value"


@pytest.mark.parametrize("start", [0, 1, 8, 11, 20])
def test_bools_are_read_from_any_bit_on(start: int) -> None:
    bools = np.arange(20) % 3 == 0
    found = elements_in(array_of(bools).slice(start), "bool")
    assert found.dtype == np.bool_
    assert np.array_equal(found, bools[start:])


def test_numbers_of_the_other_byte_order_are_written_in_ours() -> None:
    numbers = np.arange(3, dtype=np.float32)
    array = array_of(numbers.astype(numbers.dtype.newbyteorder()))
    assert np.array_equal(elements_in(array, "float32"), numbers)


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.text(max_size=3) | st.none(), max_size=3),
    st.tuples(st.text(max_size=2)),
    st.just(np.str_("x")),
    st.just("\ud800"),  # no text that can be written
)
_ALIKE = st.one_of(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=20),
    st.lists(st.none() | st.floats(), max_size=20),
    st.lists(st.none() | st.text(max_size=3), max_size=20),
    st.lists(st.lists(st.none() | st.text(max_size=3), max_size=3), max_size=20),
    st.lists(_VALUES, max_size=4),
)
_KINDS = [
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.list_(pa.string()),
    pa.bool_(),
    pa.int32(),
    pa.large_string(),
]


@given(values=_ALIKE, kind=st.sampled_from(_KINDS))
def test_columns_of_python_values_are_what_arrow_makes_of_them(
    values: list[object], kind: pa.DataType
) -> None:
    found: list[object] = []
    for make in (column_of, pa.array):
        try:
            found.append(make(values, kind))
        except (pa.ArrowException, UnicodeError, OverflowError, TypeError) as e:
            found.append(type(e))
    ours, arrow = found
    if not isinstance(arrow, pa.Array):
        assert ours == arrow
        return
    assert isinstance(ours, pa.Array)
    ours.validate(full=True)
    assert ours.type == arrow.type == kind
    assert ours.null_count == arrow.null_count
    assert repr(ours.to_pylist()) == repr(arrow.to_pylist())
