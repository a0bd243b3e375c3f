"""Programs that `bench.recorded` runs, each in a process of its own; they print JSON.

`seconds` is what is measured; beside it stands what was found out.
"""

from __future__ import annotations

RUN = """
import json, sys
import paritygate
ref, cand, out, stats = sys.argv[1:]
result = paritygate.compare(ref, cand, atol=1e-4, rtol=1e-4, out=out, stats=stats)
result.raise_for_hold()
found = dict(result.summary["stages"][0]["outputs"]["y"])
found["nonfinite"] = sum(found["nonfinite"]["table"].values())
print(json.dumps({"seconds": result.summary["timing"]["blocks_s"], **found}))
"""

LIMIT = """
import json, mmap, sys, threading, time
import numpy as np

STEP, PARTS = 1 << 19, int(sys.argv[1])
maps = []
for path in sys.argv[2:]:
    with open(path, "rb") as file:
        maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

def read(part):
    for mapped in maps:
        words = np.frombuffer(mapped, np.uint64, len(mapped) // 8)
        low, high = (len(words) * at // PARTS for at in (part, part + 1))
        for at in range(low, high, STEP):
            words[at : min(at + STEP, high)].sum()

threads = [threading.Thread(target=read, args=(part,)) for part in range(PARTS)]
started = time.perf_counter()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({"seconds": time.perf_counter() - started}))
"""

_BATCHES = """
import json, sys, time
import numpy as np
import pyarrow as pa

def values(column, rows):
    if isinstance(column, pa.ExtensionArray):
        column = column.storage.flatten()
    return column.to_numpy().reshape(rows, -1).astype(np.float64)

def pairs(paths):
    last = -1
    with pa.memory_map(paths[0]) as left, pa.memory_map(paths[1]) as right:
        files = pa.ipc.open_file(left), pa.ipc.open_file(right)
        for number in range(files[0].num_record_batches):
            batches = [file.get_batch(number) for file in files]
            ids, others = (batch.column("sample_id").to_numpy() for batch in batches)
            assert np.array_equal(ids, others) and ids[0] > last and (np.diff(ids) > 0).all()
            last = ids[-1]
            yield (values(batch.column("out.y"), len(ids)) for batch in batches)

pa.array([0]).to_numpy()  # imports what else would be a part of the first batch
started = time.perf_counter()
"""

LOOP = (
    _BATCHES
    + """
start = samples = elements = finite_pairs = 0
table = np.zeros((4, 4), np.int64)
worst, widest = [-1.0], [-1.0]
signed = total = 0.0

def classes(array):
    kinds = np.isnan(array), np.isposinf(array), np.isneginf(array)
    return np.select(kinds, (1, 2, 3), 0)

def larger(known, errors, start):
    at = int(np.nanargmax(errors))
    row, index = divmod(at, errors.shape[1])
    value = float(errors[row, index])
    return [value, start + row, index] if value > known[0] else known

for ref, cand in pairs(sys.argv[1:]):
    error = cand - ref
    size = np.abs(error)
    allowed = 1e-4 + 1e-4 * np.abs(ref)
    failing = ~(size <= allowed)
    elements += int(np.count_nonzero(failing))
    samples += int(np.count_nonzero(failing.any(axis=1)))
    if np.isfinite(size).all():
        table[0, 0] += size.size
    else:
        np.add.at(table, (classes(ref), classes(cand)), 1)
        size[~np.isfinite(size)] = np.nan
    with np.errstate(invalid="ignore"):
        excess = size / allowed
    worst, widest = larger(worst, size, start), larger(widest, excess, start)
    total += float(np.nansum(size))
    signed += float(np.nansum(error))
    start += len(ref)
seconds = time.perf_counter() - started
both = int(table[0, 0])
print(json.dumps({
    "seconds": seconds,
    "failing_samples": samples,
    "failing_elements": elements,
    "finite_pairs": both,
    "nonfinite": int(table.sum()) - both,
    "max_abs_error": worst,
    "max_excess": widest,
    "mean_error": signed / both,
    "mean_abs_error": total / both,
}))
"""
)

LIGHT_LOOP = (
    _BATCHES
    + """
fails = nonfinite = 0
worst = total = signed = 0.0
for ref, cand in pairs(sys.argv[1:]):
    error = cand - ref
    size = np.abs(error)
    fails += np.count_nonzero(~(size <= 1e-4 + 1e-4 * np.abs(ref)))
    nonfinite += np.count_nonzero(~(np.isfinite(ref) & np.isfinite(cand)))
    worst = max(worst, size.max())
    total += size.sum()
    signed += error.sum()
seconds = time.perf_counter() - started
assert (fails, nonfinite) == (0, 0)
print(json.dumps({"seconds": seconds}))
"""
)
