"""Recordings as files: every tensor comes back bit for bit, and nothing is kept by reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.core.dtypes import DTYPES, numpy_dtype
from paritygate.core.ragged import Ragged, row_of
from paritygate.core.tensors import ColumnSpec
from paritygate.golden.pack import open_pack
from paritygate.golden.recording import RESERVED
from paritygate.golden.write_recording import RecordingWriter, recorded_batch

IDS = np.arange(6, dtype=np.int64) * 7
EVERY = np.arange(6)


def values_of(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 2, size=shape)
    return (numbers.astype(str).astype(object) if dtype == "string" else numbers).astype(
        numpy_dtype(dtype)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("places", [EVERY, np.array([0, 2, 5])])
def test_a_batch_keeps_nothing_of_what_it_is_given(dtype: str, places: np.ndarray) -> None:
    values = values_of(dtype, (6, 2, 3))
    ids = IDS.copy()
    spec = ColumnSpec("y", dtype, (2, 3))
    made = recorded_batch("sample_id", ids, {"y": values}, {"y": spec}, places)
    before = made.to_pydict()
    values[...] = values_of(dtype, (6, 2, 3), seed=9)
    ids[:] = 0
    assert made.to_pydict() == before
    assert before["sample_id"] == IDS[places].tolist()


def written(folder: Path, tensors: dict[str, Any], specs: dict[str, ColumnSpec], ids: Any) -> Path:
    path = folder / "r.arrow"
    batch = recorded_batch("sample_id", ids, tensors, specs, np.arange(len(ids)))
    with RecordingWriter(path, batch.schema) as writer:
        writer.write(batch)
        writer.finish(b"{}".ljust(RESERVED))
    return path


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_text", [False, True])
def test_what_is_written_is_read_back(tmp_path: Path, dtype: str, is_text: bool) -> None:
    shapes = [(0, 3), (1, 3), (4, 3), (2, 3), (0, 3), (3, 3)]
    ragged = Ragged.of([values_of(dtype, s, seed=i) for i, s in enumerate(shapes)])
    tensors = {"even": values_of(dtype, (6, 2)), "flat": values_of(dtype, (6,)), "odd": ragged}
    specs = {
        "even": ColumnSpec("even", dtype, (2,)),
        "flat": ColumnSpec("flat", dtype, ()),
        "odd": ColumnSpec("odd", dtype, (None, 3)),
    }
    ids = np.array([f"id-{i}" for i in IDS], object) if is_text else IDS
    path = written(tmp_path, tensors, specs, ids)
    with open_pack([path], tmp_path) as pack:
        pack.scan_ids()
        assert pack.ids(0, 6).tolist() == ids.tolist()
        for name, tensor in tensors.items():
            found = pack.output(name, 0, 6)
            for at in range(6):
                left, right = row_of(found, at), row_of(tensor, at)
                assert (left.dtype, left.shape) == (right.dtype, right.shape)
                assert left.tolist() == right.tolist()


@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6))
def test_bits_of_floats_stay(tmp_path_factory: pytest.TempPathFactory, bits: list[int]) -> None:
    values = np.array(bits, np.uint32).view(np.float32).reshape(6, 1)  # NaN of any payload too
    folder = tmp_path_factory.mktemp("bits")
    path = written(folder, {"y": values}, {"y": ColumnSpec("y", "float32", (1,))}, IDS)
    table = pa.ipc.open_file(path).read_all()
    found = table["out.y"].combine_chunks().to_numpy_ndarray()
    assert found.view(np.uint32).reshape(-1).tolist() == bits


def test_without_its_metadata_no_file_is_left(tmp_path: Path) -> None:
    spec = {"y": ColumnSpec("y", "float32", ())}
    batch = recorded_batch("sample_id", IDS, {"y": np.zeros(6, np.float32)}, spec, EVERY)
    writer = RecordingWriter(tmp_path / "r.arrow", batch.schema)
    writer.write(batch)
    with pytest.raises(ValueError, match="metadata of 0 bytes where 32768 were reserved"):
        writer.close()
    assert list(tmp_path.iterdir()) == []
