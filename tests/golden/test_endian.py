"""Arrow IPC from a big-endian machine: the right values, or refused; never swapped ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.golden.endian import big_endian_file, big_endian_stream
from tests.golden.test_pack import random_values, same_bits
from tests.packs import Container, write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden.pack import open_pack

SWAPPED = {"file": big_endian_file, "stream": big_endian_stream}


@pytest.mark.parametrize("container", ["file", "stream"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_big_endian_numbers_have_their_values(
    tmp_path: Path, container: Container, shape: tuple[int, ...]
) -> None:
    values = random_values(3, "float64", (10, *shape))
    ids = np.arange(10) * 1_000_003
    path = write_pack(
        tmp_path / "p",
        ids,
        {"x": values},
        tensor_type="fixed_size_list",
        rows_per_batch=4,
        container=container,
    )
    path.write_bytes(SWAPPED[container](path.read_bytes()))
    opened = {"file": pa.ipc.open_file, "stream": pa.ipc.open_stream}[container](path)
    assert opened.read_all()["sample_id"].to_pylist() == ids.tolist()
    pack = open_pack([path], tmp_path)
    assert pack.scan_ids().is_ascending
    assert pack.ids(0, 10).tolist() == ids.tolist()
    assert same_bits(pack.input("x", 2, 9), values[2:9])


def test_big_endian_streams_with_dictionaries_are_refused(tmp_path: Path) -> None:
    labels = pa.array([5, 6, 5]).dictionary_encode().cast(pa.dictionary(pa.int64(), pa.int64()))
    path = write_pack(tmp_path / "p", [1, 2, 3], label=labels, container="stream")
    path.write_bytes(big_endian_stream(path.read_bytes()))
    with pytest.raises(GoldenError, match="big-endian Arrow IPC stream with dictionary") as error:
        open_pack([path], tmp_path)
    assert error.value.code == "golden.format"
