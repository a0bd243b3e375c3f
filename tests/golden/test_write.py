from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paritygate.core.dtypes import DTYPES, numpy_dtype
from paritygate.core.errors import FolderError
from paritygate.golden.pack import open_pack
from paritygate.golden.write import PackWriter, tensor_array, tensor_batch, tensor_type

SCHEMA = pa.schema({"sample_id": pa.int64(), "in.x": tensor_type("float32", (2,))})


def batch(first: int, rows: int) -> pa.RecordBatch:
    values = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    ids = pa.array(range(first, first + rows))
    return pa.record_batch([ids, tensor_array(values)], schema=SCHEMA)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0, 1)])
@pytest.mark.parametrize("rows", [0, 4])
def test_tensors_of_every_kind_come_back(
    tmp_path: Path, dtype: str, shape: tuple[int, ...], rows: int
) -> None:
    numbers = np.arange(rows * int(np.prod(shape))) % 2
    flat = numbers.astype(str) if dtype == "string" else numbers
    values = flat.astype(numpy_dtype(dtype)).reshape(rows, *shape)
    array = tensor_array(values)
    array.validate(full=True)
    assert len(array) == rows
    assert array.type == tensor_type(dtype, shape)
    columns = tensor_batch({"sample_id": np.arange(rows), "in.x": values})
    assert columns.column("in.x").equals(array)
    with PackWriter(tmp_path / "p.arrow", columns.schema) as writer:
        writer.write(columns)
    pack = open_pack(["p.arrow"], tmp_path)
    assert (pack.inputs["x"].dtype, pack.inputs["x"].shape) == (dtype, shape)
    got = pack.input("x", 0, rows)
    assert got.dtype == values.dtype
    assert np.array_equal(got, values)


def test_strided_values_are_written_in_row_major_order() -> None:
    values = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for view in (values.transpose(1, 0, 2), values[:, ::-1], np.asfortranarray(values)):
        assert tensor_array(view).storage.to_pylist() == view.reshape(len(view), -1).tolist()


def test_contiguous_numbers_are_not_copied() -> None:
    values = np.ones((4, 8), np.float32)
    data = tensor_array(values).storage.flatten().buffers()[1]
    assert data is not None
    assert data.address == values.ctypes.data


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_the_name_appears_only_with_the_whole_file(tmp_path: Path, compression: str | None) -> None:
    path = tmp_path / "p.arrow"
    with PackWriter(path, SCHEMA, {"stage": "conversion"}, compression=compression) as writer:
        writer.write(batch(0, 3))
        writer.write(batch(3, 2))
        assert left(tmp_path) == ["p.arrow.partial"]
        assert writer.bytes_written > 0
    assert left(tmp_path) == ["p.arrow"]
    assert writer.rows == 5
    assert pa.ipc.open_file(path).schema.metadata == {b"stage": b"conversion"}
    pack = open_pack([path], tmp_path)
    assert pack.ids(0, 5).tolist() == [0, 1, 2, 3, 4]
    assert pack.input("x", 2, 4).tolist() == [[4.0, 5.0], [0.0, 1.0]]
    writer.close()
    assert left(tmp_path) == ["p.arrow"]


def test_zstd_is_smaller(tmp_path: Path) -> None:
    values = tensor_array(np.zeros((1_000, 64), np.float32))
    rows = pa.record_batch([values], ["in.x"])
    sizes = []
    for name, compression in (("plain", None), ("small", "zstd")):
        with PackWriter(tmp_path / name, rows.schema, compression=compression) as writer:
            writer.write(rows)
        sizes.append((tmp_path / name).stat().st_size)
    assert sizes[1] < sizes[0] / 10


def test_a_writer_without_rows_leaves_an_empty_pack(tmp_path: Path) -> None:
    with PackWriter(tmp_path / "p.arrow", SCHEMA):
        pass
    assert open_pack(["p.arrow"], tmp_path).samples == 0


def test_an_exception_or_abort_leaves_nothing(tmp_path: Path) -> None:
    def fail_half_way() -> None:
        with PackWriter(tmp_path / "p.arrow", SCHEMA) as writer:
            writer.write(batch(0, 3))
            raise KeyError("half way")

    with pytest.raises(KeyError):
        fail_half_way()
    writer = PackWriter(tmp_path / "p.arrow", SCHEMA)
    writer.abort()
    assert left(tmp_path) == []
    with pytest.raises(ValueError, match="after close"):
        writer.write(batch(0, 1))


def test_an_aborted_rewrite_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "p.arrow"
    with PackWriter(path, SCHEMA) as writer:
        writer.write(batch(0, 3))
    before = path.read_bytes()
    PackWriter(path, SCHEMA).abort()
    assert path.read_bytes() == before


def test_rows_of_another_schema_are_refused(tmp_path: Path) -> None:
    writer = PackWriter(tmp_path / "p.arrow", SCHEMA)
    with pytest.raises(pa.ArrowInvalid):
        writer.write(pa.record_batch([pa.array([1])], ["sample_id"]))
    assert left(tmp_path) == []


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="can't be written") as error:
        PackWriter(tmp_path / "missing" / "p.arrow", SCHEMA)
    assert error.value.code == "runfolder.unwritable"


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np, pyarrow as pa
from paritygate.core.errors import FolderError
from paritygate.golden.write import PackWriter, tensor_array
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
rows = pa.record_batch([tensor_array(np.zeros((1000, 8)))], ["in.x"])
writer = PackWriter(Path(sys.argv[1]) / "p.arrow", rows.schema)
try:
    for _ in range(10):
        writer.write(rows)
    writer.close()
except FolderError as error:
    print(error)
"""


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "no room left while writing (File too large)" in done.stdout
    assert left(tmp_path) == []
