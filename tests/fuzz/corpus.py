"""The files that fuzzing starts from: `python -m tests.fuzz.corpus` writes most of them anew.

`good-*` are read, `bad-*` are refused. Files that fuzzing found stay as they are; they are named
after what they once did.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.golden.endian import big_endian_file, big_endian_stream
from tests.golden.hostile import rich_pack
from tests.packs import write_pack

CORPUS = Path(__file__).parent / "corpus"


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


def main() -> None:
    """Write all that are made here."""
    CORPUS.mkdir(exist_ok=True)
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
