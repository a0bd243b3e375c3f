"""Rows about how packs are stored: what was lost on the way, and what lies otherwise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.conformance.case import RELEASE, Call, Case, Expected, hold, unjudged
from tests.packs import Container, write_pack

import paritygate

Y = np.arange(48, dtype=np.float32).reshape(8, 2, 3)
IDS = [f"s{i}" for i in range(8)]


def _write(path: Path, container: Container, rows: Any = slice(None), **more: Any) -> Path:
    ids = np.array(IDS, object)[rows].tolist()
    return write_pack(
        path, ids, outputs={"y": Y[rows]}, rows_per_batch=3, container=container, **more
    )


def _cut(path: Path) -> None:
    """Leave out the last record batch of a stream, and with it the mark of the end."""
    ends = []
    with pa.OSFile(str(path)) as file:
        for _ in range(4):
            pa.ipc.read_message(file)
            ends.append(file.tell())
    path.write_bytes(path.read_bytes()[: ends[2]])


def _lost(folder: Path, side: str) -> Any:
    for name in ("ref", "cand"):
        _write(folder / f"{name}.arrows", "stream", compression=None if name == "ref" else "zstd")
    _cut(folder / f"{side}.arrows")
    return paritygate.compare(folder / "ref.arrows", folder / "cand.arrows", out=None)


def _folders(folder: Path, rows: list[Any]) -> Any:
    """A folder of three formats against one Parquet file in another order."""
    containers: tuple[Container, ...] = ("file", "stream", "parquet")
    for number, (container, some) in enumerate(zip(containers, rows, strict=True)):
        _write(folder / f"ref/{number}.pack.arrow", container, some)
    cand = _write(folder / "cand.parquet", "parquet", slice(None, None, -1))
    return paritygate.compare(folder / "ref", cand, out=None)


def _permuted(folder: Path, stored: Callable[[np.ndarray], np.ndarray]) -> Any:
    kind = pa.fixed_shape_tensor(pa.float32(), (3, 2), permutation=[1, 0])
    flat = pa.array(stored(Y).reshape(8, 6).tolist(), kind.storage_type)
    column = pa.ExtensionArray.from_storage(kind, flat)
    cand = write_pack(folder / "cand.arrow", IDS, columns={"out.y": column})
    return paritygate.compare(_write(folder / "ref.arrow", "file"), cand, out=None)


def _calibrated(folder: Path, rows: list[int]) -> Any:
    """The golden pack beside a calibration pack with some of its samples, under other ids."""
    golden = write_pack(folder / "golden.arrow", IDS, {"y": Y})
    x = np.concatenate([Y[rows], Y[:1] + 100])
    calibration = write_pack(
        folder / "calib.parquet", range(len(x)), {"y": x}, container="parquet", rows_per_batch=2
    )
    echo = {"kind": "null", "echo": {"y": "y"}}
    stage = {"reference": "a", "candidate": "b", "self": True, "default": {"atol": 0, "rtol": 0}}
    plan = {
        "golden": str(golden),
        "calibration": str(calibration),
        "runners": {"a": echo, "b": echo},
        "stages": [stage],
    }
    return paritygate.run(plan, out=None)


def _row(kind: str, name: str, make: Callable[..., Any], expected: Expected, *says: str) -> Case:
    return Case(kind, name, Call("compare", make), expected, says)


LOST = unjudged("golden.unreadable")
ROWS = [
    _row(
        "fewer",
        "the golden pack is a stream that lost its last record batch",
        partial(_lost, side="ref"),
        LOST,
        "ref.arrows: truncated",
    ),
    _row(
        "fewer",
        "the candidate's recording is a stream that lost its last record batch",
        partial(_lost, side="cand"),
        LOST,
        "cand.arrows: truncated",
    ),
    _row(
        "fewer",
        "a folder of three files, each of another format",
        partial(_folders, rows=[slice(0, 3), slice(3, 5), slice(5, 8)]),
        RELEASE,
    ),
    _row(
        "fewer",
        "one of three files in the folder lacks a sample",
        partial(_folders, rows=[slice(0, 3), slice(3, 5), slice(6, 8)]),
        hold("sample.extra"),
        "s5",
    ),
    _row(
        "layout",
        "a tensor stored with a permutation, the same in logical order",
        partial(_permuted, stored=lambda y: y.transpose(0, 2, 1)),
        RELEASE,
    ),
    _row(
        "layout",
        "a tensor stored with a permutation, the same in the file's order",
        partial(_permuted, stored=lambda y: y),
        hold("tolerance.exceeded"),
    ),
    Case(
        "calibrated",
        "two golden samples are in the calibration pack, in another format, order and by other ids",
        Call("run", partial(_calibrated, rows=[6, 1])),
        hold("evidence.calibration_overlap"),
        ("2 of 8 golden samples", "'s1', there 1"),
        ("s1", "s6"),
    ),
    Case(
        "calibrated",
        "no golden sample is in the calibration pack",
        Call("run", partial(_calibrated, rows=[])),
        RELEASE,
    ),
]
