"""Damaged packs: how they are made, and what a reader that shares no code with ours says to them.

`python -m tests.golden.hostile FOLDER SEED ROUNDS` reads one damaged pack after another, of each
container and compression in a fork. Each is refused, or read as pyarrow alone reads it; whatever
else happens ends the fork.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.forks import in_fork
from tests.packs import Container, write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden.formats import open_file
from paritygate.golden.pack import GoldenPack, open_pack
from paritygate.golden.raw import RawRecords

CONTAINERS: tuple[Container, ...] = ("file", "stream", "parquet")
COMPRESSIONS = (None, "zstd")
ROWS = 20
SLICES = ("site", "kind")
WORDS = [0, -1, 8, 1 << 16, (1 << 31) - 1, -(1 << 31)]
LONGS = [0, -1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63)]


def rich_pack(path: Path, container: Container = "file", compression: str | None = None) -> Path:
    """A small pack with a column of every form that packs may have."""
    permuted = pa.fixed_shape_tensor(pa.float32(), (2, 2), permutation=[1, 0])
    flat = pa.array([[float(i), 2.0, 3.0, 4.0] for i in range(ROWS)], permuted.storage_type)
    columns = {
        "in.list": pa.array([[1.0, 2.0]] * ROWS),
        "in.nested": pa.array([[[1, 2, 3]], [[4, 5, 6]]] * 10, pa.list_(pa.large_list(pa.int16()))),
        "in.permuted": pa.ExtensionArray.from_storage(permuted, flat),
        "out.ragged": pa.array([[[1.0, 2.0]] * (i % 3) for i in range(ROWS)]),
        "out.shaped": variable_tensors(),
        "kind": pa.array(list("ab") * 10).dictionary_encode(),
        "raw.note": pa.array([{"a": i, "b": "text"} for i in range(ROWS)]),
        "raw.counts": pa.array([[i, 7] * (i % 3) for i in range(ROWS)], pa.list_(pa.int16())),
        "raw.holes": pa.array([b"blob", None, b""] * 6 + [b"x"] * 2),
        "raw.word": pa.array([f"word {i}" for i in range(ROWS)]),
    }
    if container != "parquet":
        columns["in.view"] = pa.array([[[1.0], [2.0]]] * ROWS, pa.list_view(pa.list_(pa.float64())))
    return write_pack(
        path,
        pa.array([f"id {i}, too long for a view" for i in range(ROWS)], pa.string_view()),
        {"x": np.arange(120, dtype=np.float32).reshape(ROWS, 2, 3), "b": np.ones((ROWS, 2), bool)},
        {"y": np.arange(20.0)},
        label=list(range(ROWS)),
        slices={"site": list("aabbc") * 4},
        columns=columns,
        rows_per_batch=7,
        compression=compression,
        container=container,
    )


def variable_tensors() -> pa.Array:
    """The storage of `arrow.variable_shape_tensor`: flat data and a shape."""
    shapes = [[i % 3, 2] for i in range(ROWS)]
    data = pa.array([[float(j) for j in range(2 * n)] for n, _ in shapes], pa.list_(pa.float32()))
    return pa.StructArray.from_arrays(
        [data, pa.array(shapes, pa.list_(pa.int32(), 2))], ["data", "shape"]
    )


def damage(whole: bytes, draw: random.Random) -> bytes:
    """The file with some bits, bytes, words or longs changed, cut out or repeated."""
    damaged = bytearray(whole)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        at, how = draw.randrange(len(damaged)), draw.random()
        if how < 0.5:
            damaged[at] ^= 1 << draw.randrange(8)
        elif how < 0.65:
            damaged[at] = draw.choice([0, 127, 128, 255])
        elif how < 0.8:
            at -= at % 4
            damaged[at : at + 4] = draw.choice(WORDS).to_bytes(4, "little", signed=True)
        elif how < 0.9:
            at -= at % 8
            damaged[at : at + 8] = draw.choice(LONGS).to_bytes(8, "little", signed=True)
        else:
            stop = min(len(damaged), at + draw.choice([1, 8, 64, 512]))
            part = damaged[at:stop]
            damaged[at:stop] = draw.choice([bytes(len(part)), b"", part + part])
        if len(damaged) < 8:
            break
    return bytes(damaged)


def read_pack(path: Path) -> dict[str, list[Any]]:
    """Column -> values, by our reader; tensors as flat lists of a sample.

    Raises:
        GoldenError: the pack is refused.
    """
    with open_pack([path], path.parent, slices=SLICES) as pack:
        pack.scan_ids()
        n = pack.samples
        found: dict[str, list[Any]] = {"sample_id": pack.ids(0, n).tolist()}
        for name in (*[f"in.{i}" for i in pack.inputs], *[f"out.{o}" for o in pack.outputs]):
            found[name] = [sample.reshape(-1).tolist() for sample in pack.tensor(name, 0, n)]
        for name in pack.labels_of:
            found[name] = pack.labels(0, n, name).tolist()
        for name in SLICES:
            coded = pack.slice_values(name, 0, n)
            found[name] = [coded.values[code] for code in coded.codes]
        _look_up(pack)
        return found | read_raw(path, n)


def read_raw(path: Path, samples: int) -> dict[str, list[Any]]:
    """Raw columns -> values, by our reader; nothing where there are none."""
    source = open_file(path, "sample_id")
    names = [name for name in source.fields if name.startswith("raw.")]
    source.close()
    if not names or not samples:
        return {}
    raw = RawRecords([path], "sample_id", ())
    records = raw.take(np.arange(samples))
    raw.close()
    return {
        f"raw.{name}": [value.tolist() if isinstance(value, np.ndarray) else value for value in v]
        if v.dtype == object
        else v.tolist()
        for name, v in records.items()
    }


def _look_up(pack: GoldenPack) -> None:
    rows = np.arange(pack.samples)
    assert (pack.index().rows(pack.ids(0, pack.samples)) == rows).all()
    for name in pack.outputs:
        pack.take_output(name, rows[::-1].copy())
    pack.done_until(pack.samples)


def read_alone(path: Path, names: list[str]) -> dict[str, list[Any]]:
    """The same columns by pyarrow and NumPy alone."""
    head = path.read_bytes()[:6]
    if head[:4] == b"PAR1":
        table = pq.read_table(path, columns=names, use_threads=False)
    else:
        opened = pa.ipc.open_file if head == b"ARROW1" else pa.ipc.open_stream
        schema = opened(path).schema
        fields = [schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        table = opened(path, options=options).read_all()
    return {name: _plain(table[name], name) for name in names}


def _plain(column: pa.ChunkedArray, name: str) -> list[Any]:
    values = column.to_pylist()
    if name.startswith("raw."):
        return values
    if not name.startswith(("in.", "out.")):
        return ["(null)" if value is None else value for value in values]
    if isinstance(column.type, pa.StructType):
        return [value["data"] for value in values]
    if not isinstance(column.type, pa.FixedShapeTensorType):
        return [_leaves(value) for value in values]
    order = column.type.permutation or range(len(column.type.shape))
    tensors = [np.array(value).reshape(column.type.shape) for value in values]
    return [tensor.transpose(list(order)).reshape(-1).tolist() for tensor in tensors]


def _leaves(value: Any) -> list[Any]:
    return (
        [leaf for part in value for leaf in _leaves(part)] if isinstance(value, list) else [value]
    )


def outcome(path: Path) -> str:
    """ "refused" or "read"; anything else is an error.

    Raises:
        AssertionError: ours isn't what pyarrow alone reads.
    """
    try:
        ours = read_pack(path)
    except GoldenError as error:
        assert path.name in str(error), str(error)
        assert len(str(error)) < 5_000
        return "refused"
    alone = read_alone(path, list(ours))
    for name, values in ours.items():
        assert repr(values) == repr(alone[name]), f"{name}: {values} by us, {alone[name]} alone"
    return "read"


def damage_all(folder: Path, refuse: Callable[[Path, Container, str | None], float]) -> None:
    """Print container, compression and the share of packs that were refused, of all kinds."""
    for container, compression in itertools.product(CONTAINERS, COMPRESSIONS):
        place = folder / f"{container} {compression}"
        place.mkdir()

        def work(place: Path = place, kind: Any = (container, compression)) -> None:
            print(*kind, refuse(place, *kind))

        if code := in_fork(work):
            sys.exit(f"{container} {compression} ended with {code}")


def main(seed: int, rounds: int, folder: Path, container: Container, codec: str | None) -> float:
    """Damage a pack again and again, one that isn't compressed less often; the share refused."""
    rounds = rounds if codec else rounds * 2 // 5
    whole = rich_pack(folder / "whole", container, codec).read_bytes()
    assert outcome(folder / "whole") == "read"
    draw, refused = random.Random(seed), 0
    for number in range(rounds):
        damaged = damage(whole, draw)
        (folder / "damaged").write_bytes(damaged)
        try:
            refused += outcome(folder / "damaged") == "refused"
        except Exception as error:
            raise AssertionError(f"round {number} of seed {seed}: {error!r}"[:2_000]) from error
    return refused / rounds


if __name__ == "__main__":
    damage_all(Path(sys.argv[1]), partial(main, *map(int, sys.argv[2:])))
