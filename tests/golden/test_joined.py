"""Small record batches are read some at once, and nothing but their number shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.golden.test_pack import lies_in, same_bits
from tests.packs import Container, write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden import joined
from paritygate.golden.pack import GoldenPack, open_pack

ROWS = 700
CONTAINERS = pytest.mark.parametrize("container", ["file", "stream"])


def texts(column: pa.Array[Any]) -> list[str]:
    return [text if text is not None else "(null)" for text in column.to_pylist()]


def pieces_of(pack: GoldenPack) -> list[tuple[int, int]]:
    return list(pack.batch_spans(ROWS))


def test_pieces_are_of_a_bounded_size_and_large_batches_stand_alone() -> None:
    small, large = 100 << 10, 200 << 10
    assert joined.group([5] * 64, [8] * 64) == [range(i, i + 1) for i in range(64)]
    sizes = [small] * 12 + [large] + [small] * 60
    pieces = joined.group([9] * 73, sizes)
    assert pieces[:4] == [range(10), range(10, 12), range(12, 13), range(13, 23)]
    assert [at for piece in pieces for at in piece] == list(range(73))
    pieces = joined.group([30_000] * 65, [8] * 65)
    assert {len(piece) for piece in pieces[:-1]} == {2}
    assert joined.group([70_000] * 65, [8] * 65) == [range(i, i + 1) for i in range(65)]


@CONTAINERS
def test_joined_batches_hold_what_the_file_holds(tmp_path: Path, container: Container) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((ROWS, 2, 3), dtype=np.float32)
    bits = pa.array(rng.integers(0, 2, ROWS).astype(bool))
    lists = pa.array([[float(i)] * (1 + i % 3) for i in range(ROWS)], pa.list_(pa.float64()))
    sites = pa.array([None if i % 5 == 0 else f"ä{i % 7}" for i in range(ROWS)])
    path = write_pack(
        tmp_path / "p.arrow",
        [f"s{i}" for i in range(ROWS)],
        {"x": values},
        columns={"out.b": bits, "out.l": lists, "site": sites},
        rows_per_batch=7,
        container=container,
    )
    pack = open_pack([path], tmp_path, slices=["site"])
    pack.scan_ids()
    assert pieces_of(pack) == [(0, ROWS)]
    for low, high in ((0, ROWS), (3, 40), (6, 7), (699, 700), (5, 5)):
        assert same_bits(pack.input("x", low, high), values[low:high])
        assert np.array_equal(pack.output("b", low, high), bits.to_numpy(False)[low:high])
        assert [t.tolist() for t in pack.output("l", low, high)] == lists.to_pylist()[low:high]
        assert pack.ids(low, high).tolist() == [f"s{i}" for i in range(low, high)]
        codes = pack.slice_values("site", low, high)
        assert [codes.values[c] for c in codes.codes] == texts(sites[low:high])
        pack.done_with(low, high)
    assert not lies_in(path, pack.input("x", 0, 7))


@CONTAINERS
def test_a_null_in_a_joined_batch_is_named(tmp_path: Path, container: Container) -> None:
    column = pa.array([None if i == 345 else float(i) for i in range(ROWS)])
    path = write_pack(
        tmp_path / "p.arrow",
        range(ROWS),
        columns={"out.y": column},
        rows_per_batch=7,
        container=container,
    )
    with pytest.raises(GoldenError, match=r"sample 345 \(row 345\): null") as caught:
        open_pack([path], tmp_path).scan_ids()
    assert caught.value.code == "golden.null_value"


def test_what_cannot_be_joined_is_read_batch_by_batch(tmp_path: Path) -> None:
    site = pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode()
    path = write_pack(tmp_path / "p.arrow", range(ROWS), slices={"site": site}, rows_per_batch=7)
    assert len(pieces_of(open_pack([path], tmp_path, slices=["site"]))) == 100
    assert len(pieces_of(open_pack([path], tmp_path))) == 1


def test_an_empty_file_of_many_batches(tmp_path: Path) -> None:
    schema = pa.schema([("sample_id", pa.int64()), ("out.y", pa.float32())])
    with pa.ipc.new_file(tmp_path / "p.arrow", schema) as writer:
        for _ in range(100):
            writer.write_batch(pa.record_batch([[], []], schema=schema))
    pack = open_pack(["p.arrow"], tmp_path)
    pack.scan_ids()
    assert (pack.samples, pack.output("y", 0, 0).shape) == (0, (0,))


@CONTAINERS
def test_compressed_batches_of_rows_of_one_size_are_joined(
    tmp_path: Path, container: Container
) -> None:
    values = np.random.default_rng(1).random((ROWS, 3), dtype=np.float32)
    bits = pa.array(np.arange(ROWS) % 3 == 0)
    path = write_pack(
        tmp_path / "p.arrow",
        range(ROWS),
        {"x": values},
        columns={"out.b": bits},
        rows_per_batch=7,
        compression="lz4",
        container=container,
    )
    pack = open_pack([path], tmp_path)
    pack.scan_ids()
    assert pieces_of(pack) == [(0, ROWS)]
    assert same_bits(pack.input("x", 5, 600), values[5:600])
    assert np.array_equal(pack.output("b", 5, 600), bits.to_numpy(False)[5:600])
    texts_too = write_pack(
        tmp_path / "t.arrow", [str(i) for i in range(ROWS)], rows_per_batch=7, compression="lz4"
    )
    assert len(pieces_of(open_pack([texts_too], tmp_path))) == 100
