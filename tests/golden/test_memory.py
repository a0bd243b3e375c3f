"""Peak memory, mapped pages included, doesn't grow with the pack, and nor does what isn't mapped.

Read as VmHWM: the peak that `getrusage` tells begins with that of the parent process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.packs import Container

READ = """
import json, sys
from pathlib import Path
import numpy as np
from paritygate.golden.pack import open_pack

def memory(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) // 1024

def peak():
    return memory("VmHWM")

before, own, most_own = peak(), memory("RssAnon"), 0
total = 0.0
with open_pack(["p"], Path(sys.argv[1])) as pack:
    pack.scan_ids()
    scanned = peak()
    if sys.argv[2] == "in order":
        for start in range(0, pack.samples, 1000):
            stop = min(start + 1000, pack.samples)
            total += float(pack.output("y", start, stop).sum())
            pack.done_until(stop)
            most_own = max(most_own, memory("RssAnon") - own)
    else:
        order = np.random.default_rng(0).permutation(pack.samples)
        for start in range(0, pack.samples, 1000):
            rows = pack.index().rows(pack.take_ids(order[start:start + 1000]))
            total += float(pack.take_output("y", rows).sum())
            most_own = max(most_own, memory("RssAnon") - own)
print(json.dumps([scanned - before, peak() - before, most_own, total]))
"""


LARGEST = {"file": 100, "stream": 100, "parquet": 240}


def write_large(folder: Path, samples: int, per_batch: int, container: Container) -> None:
    """A pack of 4 KiB a sample, written piece by piece."""
    folder.mkdir()
    path = folder / "p"
    kind = pa.fixed_shape_tensor(pa.float32(), (1024,))
    schema = pa.schema({"sample_id": pa.int64(), "out.y": kind})
    ids = np.random.default_rng(1).permutation(samples)
    make = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream, "parquet": pq.ParquetWriter}
    with make[container](path, schema) as writer:
        for start in range(0, samples, per_batch):
            part = ids[start : start + per_batch]
            values = np.ones((len(part), 1024), np.float32)
            tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
            writer.write_batch(pa.record_batch([pa.array(part), tensors], schema=schema))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["in order", "any order"])
@pytest.mark.parametrize("container", ["file", "stream", "parquet"])
def test_peak_memory_is_flat(tmp_path: Path, order: str, container: Container) -> None:
    grown = []
    for samples in (20_000, 80_000):
        folder = tmp_path / str(samples)
        write_large(folder, samples, samples // 2, container)
        done = subprocess.run(
            [sys.executable, "-c", READ, str(folder), order],
            capture_output=True,
            text=True,
            check=True,
        )
        scanned, peak, own, total = json.loads(done.stdout)
        (folder / "p").unlink()
        assert total == 1024 * samples
        grown.append((scanned, peak, own))
    told = f"MiB above the start, (scan, read, RssAnon) by size: {grown}"
    most = LARGEST[container]
    assert max(grown[1]) < most, told
    assert grown[1][1] - grown[0][1] < 40, told
    assert grown[1][2] - grown[0][2] < 20, told


FIND = """
import json, sys
from pathlib import Path
from paritygate.golden.pack import open_pack

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024

before = peak()
with open_pack([sys.argv[1]], Path(".")) as pack:
    scan = pack.scan_ids(allow_duplicates=True)
told = [[found.id, found.first_row, found.row] for found in scan.first_duplicates]
print(json.dumps([scan.duplicates, told, peak() - before]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int64", "string"])
def test_duplicates_far_apart_are_found_in_little_memory(tmp_path: Path, kind: str) -> None:
    samples = 4_000_000
    ids = np.random.default_rng(2).permutation(samples)
    ids[samples - 10] = ids[3]
    path = tmp_path / "ids.arrow"
    schema = pa.schema({"sample_id": pa.int64() if kind == "int64" else pa.string()})
    with pa.ipc.new_file(path, schema) as writer:
        for start in range(0, samples, 65_536):
            part = pa.array(ids[start : start + 65_536]).cast(schema.field(0).type)
            writer.write(pa.record_batch([part], schema=schema))
    done = subprocess.run(
        [sys.executable, "-c", FIND, str(path)], capture_output=True, text=True, check=True
    )
    count, told, grown = json.loads(done.stdout)
    id_ = int(ids[3]) if kind == "int64" else str(ids[3])
    assert (count, told) == (1, [[id_, 3, samples - 10]])
    assert grown < 100, f"MiB above the start; the index alone is {16 * samples >> 20}"
