"""The targets of `fuzz_sources`: each writes bytes to a file, and reads them as a command would."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from onnx import TensorProto, numpy_helper
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import ParityError
from paritygate.golden.pack import open_pack

Outcome = Literal["read", "refused"]
SAMPLES = 3
_LONGEST = 2_500
_CHECKED = 1 << 16


def outcome(folder: Path, read: Callable[[], object]) -> Outcome:
    """Refused in so many words, with nothing left behind; or read."""
    before = sorted(folder.rglob("*"))
    try:
        read()
    except ParityError as error:
        assert error.exit_code == 2, repr(error)
        assert str(error), repr(error)
        assert len(str(error)) < _LONGEST, str(error)
        left = [path for path in sorted(folder.rglob("*")) if path not in before]
        assert not left, left
        return "refused"
    return "read"


def _fresh(folder: Path) -> Path:
    place = folder / "given"
    shutil.rmtree(place, ignore_errors=True)
    (folder / "p.arrow").unlink(missing_ok=True)
    place.mkdir(parents=True)
    return place


def onnx(folder: Path, content: bytes) -> Outcome:
    """An input of ONNX's test data; what is read of a tensor is what onnx itself reads."""
    place = _fresh(folder) / "test_data_set_0"
    place.mkdir()
    (place / "input_0.pb").write_bytes(content)
    (place / "weights").write_bytes(bytes(64))
    packed = folder / "p.arrow"
    found = outcome(folder, lambda: paritygate.import_pack(packed, place, whole=True))
    if found == "read":
        _is_what_onnx_reads(packed, content, place)
    return found


def _is_what_onnx_reads(packed: Path, content: bytes, place: Path) -> None:
    try:
        proto = TensorProto.FromString(content)
        theirs: Any = numpy_helper.to_array(proto, str(place))
    except Exception:  # a sequence, or an optional value
        return
    if theirs.dtype.kind in "OSU" or theirs.size > _CHECKED:
        return
    with open_pack([packed], packed.parent) as pack:
        (name,) = pack.inputs
        ours = np.asarray(pack.tensor(f"in.{name}", 0, 1)[0])
    if theirs.dtype.name in ("int4", "uint4"):  # whose upper bits mean nothing
        ours, theirs = ours.astype(np.int8), theirs.astype(np.int8)
    assert ours.tobytes() == np.ascontiguousarray(theirs).tobytes(), (ours, theirs)


def polygraphy(folder: Path, content: bytes) -> Outcome:
    """A JSON of Polygraphy."""
    path = _fresh(folder) / "saved.json"
    path.write_bytes(content)
    return outcome(folder, lambda: paritygate.import_pack(folder / "p.arrow", path))


@cache
def _pack_of(samples: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        x = np.ones((samples, 2), np.float32)
        return write_pack(Path(folder) / "p.arrow", range(samples), {"x": x}).read_bytes()


@cache
def _digest() -> str:
    with tempfile.TemporaryDirectory() as folder:
        pack = Path(folder) / "p.arrow"
        pack.write_bytes(_pack_of(SAMPLES))
        digest: str = paritygate.prove_sample(pack, 1)["content_digest"]
        return digest


def dataset(folder: Path, content: bytes) -> Outcome:
    """The `state.json` of a saved dataset."""
    place = _fresh(folder)
    (place / "data.arrow").write_bytes(_pack_of(SAMPLES))
    (folder / "secret.arrow").write_bytes(_pack_of(9))
    (place / "state.json").write_bytes(content)
    found = outcome(folder, lambda: paritygate.build_from(folder / "p.arrow", place))
    if found == "read":
        with open_pack([folder / "p.arrow"], folder) as pack:
            assert pack.samples % SAMPLES == 0, pack.samples
            assert pack.samples < 9, "a file outside of the folder was read"
    return found


def npy(folder: Path, content: bytes) -> Outcome:
    """A file of NumPy; what is read is what NumPy reads, and NumPy unpickles nothing."""
    place = _fresh(folder)
    (place / "x.npy").write_bytes(content)
    packed = folder / "p.arrow"
    found = outcome(folder, lambda: paritygate.build_from(packed, place, make_ids=True))
    if found == "read":
        theirs: Any = np.load(io.BytesIO(content), allow_pickle=False)
        with open_pack([packed], folder) as pack:
            assert pack.samples == len(theirs)
            ours = np.asarray(pack.tensor("in.x", 0, min(pack.samples, _CHECKED)))
        if theirs.dtype.kind != "U":
            wanted = theirs[:_CHECKED].astype(theirs.dtype.newbyteorder("="))
            assert ours.tobytes() == wanted.tobytes()
    return found


def npz(folder: Path, content: bytes) -> Outcome:
    """An archive of NumPy."""
    path = _fresh(folder) / "a.npz"
    path.write_bytes(content)
    return outcome(folder, lambda: paritygate.build_from(folder / "p.arrow", path, make_ids=True))


def csv(folder: Path, content: bytes) -> Outcome:
    """A table with the columns `sample_id`, `a` and `b`."""
    path = _fresh(folder) / "a.csv"
    path.write_bytes(content)
    takes = ["x:float32=a", "t=b"]
    return outcome(folder, lambda: paritygate.build_from(folder / "p.arrow", path, inputs=takes))


def proof(folder: Path, content: bytes) -> Outcome:
    """A proof that a sample belongs to a pack; none but a right one is believed."""
    place = _fresh(folder)
    path, pack = place / "proof.json", place / "g.arrow"
    pack.write_bytes(_pack_of(SAMPLES))
    path.write_bytes(content)
    digest = _digest()
    believed: list[bool] = []
    found = outcome(folder, lambda: believed.append(paritygate.verify_proof(path, pack, digest)))
    if believed == [True]:
        told = json.loads(content)
        right = paritygate.prove_sample(pack, told["id"])
        assert [told[key] for key in ("row", "samples", "path")] == [
            right[key] for key in ("row", "samples", "path")
        ]
    return found


TARGETS: dict[str, Callable[[Path, bytes], Outcome]] = {
    target.__name__: target for target in (onnx, polygraphy, dataset, npy, npz, csv, proof)
}
