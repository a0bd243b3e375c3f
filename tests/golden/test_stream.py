"""Arrow IPC streams: read by their messages, zero-copy, and never without their end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.golden.test_pack import lies_in, random_values, same_bits
from tests.packs import write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden.pack import open_pack


def message_ends(path: Path) -> list[int]:
    """Where the schema and every further message of a stream end, found by pyarrow alone."""
    ends = []
    with pa.OSFile(str(path)) as file:
        while True:
            try:
                pa.ipc.read_message(file)
            except EOFError:
                return ends
            ends.append(file.tell())


def test_a_span_within_a_record_batch_is_the_mapped_file(tmp_path: Path) -> None:
    values = random_values(1, "float32", (10, 2, 3))
    path = write_pack(
        tmp_path / "p.arrow",
        range(10),
        {"x": values},
        slices={"site": pa.array(list("ababababab")).dictionary_encode()},
        rows_per_batch=5,
        container="stream",
    )
    pack = open_pack([path], tmp_path, slices=["site"])
    pack.scan_ids()
    assert lies_in(path, pack.input("x", 0, 5))
    assert lies_in(path, np.asarray(pack.ids(5, 10)))
    assert same_bits(pack.input("x", 3, 8), values[3:8])
    for stop in (4, 10, 2):
        pack.done_until(stop)
        assert same_bits(pack.input("x", 0, 10), values)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("deltas", [False, True])
def test_dictionaries_that_change_on_the_way(
    tmp_path: Path, compression: str | None, deltas: bool
) -> None:
    parts = [["n", "s", None], ["n", "s", "w"], ["e", "n", "n"], ["e", "n", "e"]]
    texts = pa.chunked_array([pa.array(part).dictionary_encode() for part in parts])
    ids = pa.chunked_array([pa.array([f"{i}{j}" for j in range(3)]) for i in range(4)])
    table = pa.table({"sample_id": ids, "site": texts})
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=deltas)
    with pa.ipc.new_stream(tmp_path / "p.arrow", table.schema, options=options) as writer:
        writer.write_table(table)
    pack = open_pack(["p.arrow"], tmp_path, slices=["site"])
    expected = ["(null)" if text is None else text for part in parts for text in part]
    for start, stop in ((0, 12), (2, 11), (9, 12), (0, 4)):
        got = pack.slice_values("site", start, stop)
        assert [got.values[code] for code in got.codes] == expected[start:stop]
    assert pack.ids(3, 7).tolist() == ["10", "11", "12", "20"]
    assert open_pack(["p.arrow"], tmp_path, id_column="sample_id").samples == 12


def test_dictionary_ids_and_labels(tmp_path: Path) -> None:
    path = write_pack(
        tmp_path / "p.arrow",
        pa.array(["c", "a", "b"]).dictionary_encode(),
        label=pa.array(["u", "v", "u"]).dictionary_encode(),
        rows_per_batch=2,
        container="stream",
    )
    pack = open_pack([path], tmp_path)
    assert pack.ids(0, 3).tolist() == ["c", "a", "b"]
    assert pack.labels(1, 3).tolist() == ["v", "u"]
    assert pack.index().rows(np.array(["b", "c", "x"], object)).tolist() == [2, 0, -1]


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_stream_that_stops_between_two_messages_is_refused(
    tmp_path: Path, compression: str | None
) -> None:
    path = write_pack(
        tmp_path / "p.arrow",
        range(12),
        {"x": np.zeros((12, 4))},
        rows_per_batch=3,
        compression=compression,
        container="stream",
    )
    whole = path.read_bytes()
    ends = message_ends(path)
    assert len(ends) == 5
    cut = tmp_path / "cut.arrow"
    for end in [*ends, ends[-1] + 4, len(whole) - 1]:
        cut.write_bytes(whole[:end])
        with pytest.raises(GoldenError, match=r"cut\.arrow: truncated after \d+ bytes") as error:
            open_pack([cut], tmp_path)
        assert error.value.code == "golden.unreadable"


def test_a_second_stream_behind_the_first_is_refused(tmp_path: Path) -> None:
    path = write_pack(tmp_path / "p.arrow", range(3), container="stream")
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(16))
    assert open_pack([path], tmp_path).samples == 3
    for more in (whole, whole[:1], bytes(5000)):
        path.write_bytes(whole + more)
        with pytest.raises(GoldenError, match=f"{len(more)} bytes follow the end"):
            open_pack([path], tmp_path)


@pytest.mark.parametrize("rows", [0, 3])
def test_batches_without_rows(tmp_path: Path, rows: int) -> None:
    table = pa.table({"sample_id": pa.array(range(rows), pa.int64())})
    empty = table.slice(0, 0).to_batches() or [
        pa.record_batch([pa.array([], pa.int64())], table.schema.names)
    ]
    with pa.ipc.new_stream(tmp_path / "p.arrow", table.schema) as writer:
        writer.write_batch(empty[0])
        writer.write_table(table)
        writer.write_batch(empty[0])
    pack = open_pack(["p.arrow"], tmp_path)
    assert pack.scan_ids().samples == rows
    with pa.ipc.new_stream(tmp_path / "q.arrow", table.schema):
        pass
    assert open_pack(["q.arrow"], tmp_path).samples == 0
