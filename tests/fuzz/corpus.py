"""The files that fuzzing starts from: `python -m tests.fuzz.corpus` writes most of them anew.

`good-*` are read, `bad-*` are refused. Files that fuzzing found stay as they are; they are named
after what they once did.
"""

from __future__ import annotations

import base64
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
from onnx import helper, numpy_helper
from tests.golden.endian import big_endian_file, big_endian_stream
from tests.golden.hostile import rich_pack
from tests.packs import write_pack

import paritygate

CORPUS = Path(__file__).parent / "corpus"
SOURCES = Path(__file__).parent / "sources"  # a folder a target of `fuzz_sources`


def small(path: Path, container: str, compression: str | None) -> Path:
    """Three samples, few columns: bytes that are worth changing are a large part of it."""
    return write_pack(
        path,
        [3, 1, 2],
        {"x": np.ones((3, 2), np.float32)},
        slices={"site": pa.array(["a", None, "b"]).dictionary_encode(), "kind": ["x", "y", "x"]},
        columns={"in.l": pa.array([[1], [2], [3]], pa.list_(pa.int8()))},
        rows_per_batch=2,
        container=container,  # type: ignore[arg-type]
        compression=compression,
    )


def swapped(path: Path, container: str) -> bytes:
    """A big-endian pack; without slices, which would be texts, it is refused."""
    write_pack(path, [3, 1, 2], {"x": np.ones(3)}, container=container)  # type: ignore[arg-type]
    return {"file": big_endian_file, "stream": big_endian_stream}[container](path.read_bytes())


def npy(array: object, **more: bool) -> bytes:
    """What NumPy saves of an array."""
    buffer = io.BytesIO()
    np.save(buffer, array, **more)  # type: ignore[arg-type]
    return buffer.getvalue()


def npz(save: Callable[..., None], **arrays: object) -> bytes:
    """What NumPy saves of several."""
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def protos() -> dict[str, bytes]:
    """Messages of ONNX's test data."""
    tensor = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "x")
    short = onnx.TensorProto(name="x", data_type=1, dims=[1 << 60], raw_data=b"1234")
    beside = onnx.TensorProto(name="x", data_type=1, dims=[4], data_location=1)
    beside.external_data.add(key="location", value="weights")
    beside.external_data.add(key="length", value="16")
    outside = onnx.TensorProto(name="x", data_type=1, dims=[4], data_location=1)
    outside.external_data.add(key="location", value="../p.arrow")
    optional = helper.make_optional("o", onnx.OptionalProto.TENSOR, tensor)
    listed = onnx.TensorProto(name="x", data_type=1, dims=[2], float_data=[1.0, 2.0])
    narrow = onnx.TensorProto(name="x", data_type=22, dims=[3], raw_data=b"12")
    half = onnx.TensorProto(name="x", data_type=16, dims=[2], int32_data=[1, 2])
    made = {
        "good-tensor": tensor,
        "good-texts": numpy_helper.from_array(np.array(["a", "b"], object), "t"),
        "good-sequence": helper.make_sequence("s", onnx.SequenceProto.TENSOR, [tensor, tensor]),
        "good-optional": optional,
        "good-beside": beside,
        "good-listed": listed,
        "good-int4": narrow,
        "good-bfloat16": half,
        "bad-short": short,
        "bad-outside": outside,
    }
    return {name: message.SerializeToString() for name, message in made.items()}


def jsons() -> dict[str, bytes]:
    """What Polygraphy saves, and what it doesn't."""
    array = {"array": base64.b64encode(npy(np.ones((2, 2), np.float32))).decode()}
    pickled = {"array": base64.b64encode(npy(np.array([1], object), allow_pickle=True)).decode()}
    results = {"polygraphy_class": "RunResults", "lst": [["r", [{"outputs": {"y": array}}]]]}
    made = {
        "good-inputs": [{"x": array}, {"x": array}],
        "good-outputs": results,
        "bad-pickled": [{"x": pickled}],
    }
    return {name: json.dumps(value).encode() for name, value in made.items()}


def sources() -> dict[str, dict[str, bytes]]:
    """Target of `fuzz_sources` -> name -> bytes."""
    x, deep = np.ones((3, 2), np.float32), b"[" * 5_000
    state = {"_data_files": [{"filename": "data.arrow"}], "_fingerprint": "a"}
    outside = {"_data_files": [{"filename": "../secret.arrow"}]}
    with tempfile.TemporaryDirectory() as folder:
        pack = write_pack(Path(folder) / "g.arrow", range(3), {"x": x})
        proof = paritygate.prove_sample(pack, 1)
    return {
        "onnx": protos(),
        "polygraphy": {**jsons(), "bad-deep": deep},
        "dataset": {
            "good-state": json.dumps(state).encode(),
            "bad-outside": json.dumps(outside).encode(),
        },
        "npy": {
            "good-floats": npy(x),
            "good-texts": npy(np.array(["a", "bc"])),
            "good-big-endian": npy(x.astype(">f4")),
            "bad-no-unicode": npy(np.array(["a", "bc"])).replace(b"b\0\0\0", b"b\0\0\1"),
            "bad-objects": npy(np.array([None]), allow_pickle=True),
        },
        "npz": {
            "good-plain": npz(np.savez, x=x, y=np.arange(3)),
            "good-packed": npz(np.savez_compressed, x=x),
        },
        "csv": {
            "good-table": b"sample_id,a,b\nx,1,u\ny,2.5,v\n",
            "good-quoted": b'sample_id,a,b\r\n7,1e3,"u,""v"""\r\n8,-0,\r\n',
            "bad-twice": b"sample_id,a,b,a\n1,2,3,4\n",
        },
        "proof": {
            "good-proof": json.dumps(proof).encode(),
            "bad-huge": json.dumps({**proof, "samples": 1 << 70}).encode(),
            "bad-deep": deep,
        },
    }


def main() -> None:
    """Write all that are made here."""
    CORPUS.mkdir(exist_ok=True)
    for target, files in sources().items():
        (SOURCES / target).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (SOURCES / target / name).write_bytes(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p"
        for container in ("file", "stream", "parquet"):
            for compression in (None, "zstd"):
                name = f"{container}-{compression or 'plain'}"
                content = small(path, container, compression).read_bytes()
                (CORPUS / f"good-small-{name}").write_bytes(content)
                (CORPUS / f"bad-cut-{name}").write_bytes(content[:-7])
                rich = rich_pack(path, container, compression)  # type: ignore[arg-type]
                (CORPUS / f"good-rich-{name}").write_bytes(rich.read_bytes())
            if container != "parquet":
                (CORPUS / f"bad-swapped-{container}").write_bytes(swapped(path, container))


if __name__ == "__main__":
    main()
