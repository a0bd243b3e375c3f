"""What packs are made of, damaged: refused with a sentence, or read to its end."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.golden.hostile import damage

import paritygate
from paritygate.core.errors import ParityError

DATA = Path(__file__).with_name("data")
X = np.arange(12, dtype=np.float32).reshape(3, 4)
TENSOR = numpy_helper.from_array(X, "x")
TEXTS = numpy_helper.from_array(np.array(["aä", "b"], object), "t")
ROUNDS = 200

Made = tuple[Path, Callable[[Path], object]]


def npz(folder: Path) -> Made:
    np.savez(folder / "a.npz", x=X, y=np.array(["a", "b", "c"]))
    return folder / "a.npz", built


def packed_npz(folder: Path) -> Made:
    np.savez_compressed(folder / "a.npz", x=X)
    return folder / "a.npz", built


def npy(folder: Path) -> Made:
    (folder / "arrays").mkdir()
    np.save(folder / "arrays" / "x.npy", X)
    return folder / "arrays" / "x.npy", lambda path: built(path.parent)


def csv(folder: Path) -> Made:
    (folder / "a.csv").write_text("sample_id,a,b\nx,1,2.5\ny,2,3.5\n")
    specs = ["x=a", "y:float32=b"]
    out = folder / "p.arrow"
    return folder / "a.csv", lambda path: paritygate.build_from(out, path, inputs=specs)


def json(folder: Path) -> Made:
    (folder / "a.json").write_bytes((DATA / "polygraphy-outputs.json").read_bytes())
    return folder / "a.json", lambda path: paritygate.import_pack(folder / "p.arrow", path)


def tensor(folder: Path) -> Made:
    return proto(folder, TENSOR)


def texts(folder: Path) -> Made:
    return proto(folder, TEXTS)


def sequence(folder: Path) -> Made:
    return proto(folder, helper.make_sequence("s", onnx.SequenceProto.TENSOR, [TENSOR, TENSOR]))


def proto(folder: Path, message: onnx.TensorProto | onnx.SequenceProto) -> Made:
    (folder / "test_data_set_0").mkdir()
    path = folder / "test_data_set_0" / "input_0.pb"
    path.write_bytes(message.SerializeToString())
    return path, lambda path: paritygate.import_pack(folder / "p.arrow", path.parent)


def built(path: Path) -> object:
    return paritygate.build_from(path.with_name("p.arrow"), path, make_ids=True)


@pytest.mark.slow
@pytest.mark.parametrize("make", [npz, packed_npz, npy, csv, json, tensor, texts, sequence])
def test_a_damaged_source_is_refused_or_read(tmp_path: Path, make: Callable[[Path], Made]) -> None:
    path, read = make(tmp_path)
    read(path)
    whole, draw, refused = path.read_bytes(), random.Random(7), 0
    for _ in range(ROUNDS):
        path.write_bytes(damage(whole, draw))
        try:
            read(path)
        except ParityError as error:
            assert len(str(error)) < 1_500
            refused += 1
    assert refused > ROUNDS // 10
    assert not list(tmp_path.glob("*.building*"))
