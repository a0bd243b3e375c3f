"""Tools that compare what was recorded in files: packs, tables, Polygraphy's JSON."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench.make import pack
from bench.peers.given import Answer, Pair
from bench.peers.tools import Tool, merged, of_statistics, statistics

import paritygate

PROCESS = "`paritygate compare`, a process"
HERE = "`paritygate.compare`, in this process"


@dataclass(frozen=True)
class Files(Pair):
    """A pair of arrays that also lies in files, sides by the names `ref` and `cand`."""

    folder: Path

    @staticmethod
    def of(pair: Pair, folder: Path) -> Files:
        """Write the files."""
        folder.mkdir()
        for name, side in (("ref", pair.ref), ("cand", pair.cand)):
            values = side.reshape(-1) if side.shape[1] == 1 else side
            pack(folder / f"{name}.arrow", np.arange(len(side)), outputs={"y": values})
        return Files(pair.ref, pair.cand, pair.atol, pair.rtol, folder)

    def path(self, side: str) -> Path:
        """A pack."""
        return self.folder / f"{side}.arrow"


def _run(command: list[str], files: Files) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    paths = [str(root / "engine"), str(root / "frontends"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        command,
        cwd=files.folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done


def _tolerance(files: Files) -> list[str]:
    return ["--atol", str(files.atol), "--rtol", str(files.rtol)]


def _our_command(files: Files) -> Callable[[], Any]:
    command = [sys.executable, "-m", "paritygate_frontends", "compare", "ref.arrow", "cand.arrow"]
    return lambda: _run([*command, *_tolerance(files), "--json"], files)


def _of_summary(summary: Any) -> Answer:
    found = summary["stages"][0]["outputs"]["y"]
    elements = found["elements"]
    return Answer(
        passes=summary["verdict"] == "release",
        failing=found["failing_elements"],
        max_error=found["max_abs_error"]["value"],
        total=found["mean_abs_error"] * elements,
    )


def _here(files: Files) -> Callable[[], Any]:
    sides = files.path("ref"), files.path("cand")
    return lambda: paritygate.compare(*sides, atol=files.atol, rtol=files.rtol, out=None)


def _batches(path: Path) -> Any:
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        values = batch.column("out.y")
        if isinstance(values, pa.FixedShapeTensorArray):
            yield batch.column("sample_id").to_numpy(), values.to_numpy_ndarray()
        else:
            yield batch.column("sample_id").to_numpy(), values.to_numpy().reshape(-1, 1)


def _with_numpy(files: Files) -> Callable[[], Any]:
    def work() -> dict[str, Any]:
        found: dict[str, Any] | None = None
        base = 0
        pairs = zip(_batches(files.path("ref")), _batches(files.path("cand")), strict=True)
        for (ids, ref), (cand_ids, cand) in pairs:
            assert np.array_equal(ids, cand_ids)
            one = statistics(ref, cand, files.atol, files.rtol)
            found = one if found is None else merged(found, one, base)
            base += ref.size
        assert found is not None
        return found

    return work


def _with_datacompy(files: Files) -> Callable[[], Any]:
    os.environ.setdefault("POLARS_UNKNOWN_EXTENSION_TYPE_BEHAVIOR", "load_as_storage")
    datacompy, polars = map(importlib.import_module, ("datacompy", "polars"))
    names = [f"y{i}" for i in range(files.ref.shape[1])]

    def table(side: str) -> Any:
        frame = polars.read_ipc(files.path(side), memory_map=True)
        if len(names) == 1:
            return frame.rename({"out.y": "y0"})
        columns = frame["out.y"].arr.to_struct(fields=names).struct.unnest()
        return frame.select("sample_id").hstack(columns)

    def work() -> Any:
        return datacompy.PolarsCompare(
            table("cand"),
            table("ref"),
            join_columns="sample_id",
            abs_tol=files.atol,
            rel_tol=files.rtol,
        )

    return work


def _of_datacompy(found: Any) -> Answer:
    columns = [c for c in found.column_stats if c["column"] != "sample_id"]
    failing = sum(c["unequal_cnt"] for c in columns)
    return Answer(found.matches(), failing, max(c["max_diff"] for c in columns))


_SQL = """
SELECT count(*) FILTER (NOT coalesce(abs(c - r) <= {atol} + {rtol} * abs(r), false)),
       max(abs(c - r)), sum(abs(c - r))
FROM (SELECT {r} AS r, {c} AS c FROM ours FULL JOIN theirs USING (sample_id))
"""


def _with_duckdb(files: Files) -> Callable[[], Any]:
    duckdb = importlib.import_module("duckdb")
    is_narrow = files.ref.shape[1] == 1
    side = "{}.y::DOUBLE" if is_narrow else "unnest({}.y)::DOUBLE"
    text = _SQL.format(
        atol=files.atol, rtol=files.rtol, r=side.format("ours"), c=side.format("theirs")
    )

    def table(name: str) -> pa.Table:
        found = pa.ipc.open_file(pa.memory_map(str(files.path(name)))).read_all()
        values = found["out.y"]
        if isinstance(values.type, pa.ExtensionType):
            values = pa.chunked_array([chunk.storage for chunk in values.chunks])
        return pa.table({"sample_id": found["sample_id"], "y": values})

    def work() -> Any:
        with duckdb.connect() as base:
            base.register("ours", table("ref"))
            base.register("theirs", table("cand"))
            return base.execute(text).fetchone()

    return work


def _with_polygraphy(files: Files) -> Callable[[], Any]:
    comparator = importlib.import_module("polygraphy.comparator")
    for name, side in (("ref", files.ref), ("cand", files.cand)):
        results = comparator.RunResults()
        results.append((name, [comparator.IterationResult({"y": side}, runtime=0.0)]))
        results.save(str(files.folder / f"{name}.json"))
    command = [str(Path(sys.executable).with_name("polygraphy")), "run", "--silent"]
    # The tolerance is relative to the second one.
    command += ["--load-outputs", "cand.json", "ref.json"]
    return lambda: _run([*command, *_tolerance(files)], files)


FILE_TOOLS: tuple[Tool, ...] = (
    Tool(
        HERE, "verdict, all of the full tier, ids, digests", _here, lambda r: _of_summary(r.summary)
    ),
    Tool(
        PROCESS,
        "the same, and its run folder",
        _our_command,
        lambda done: _of_summary(json.loads(done.stdout)),
    ),
    Tool(
        "NumPy over the record batches",
        "what the gate tier finds, and whether ids are equal in their places",
        _with_numpy,
        of_statistics,
    ),
    Tool(
        "datacompy `PolarsCompare`",
        "rows of either side alone; failing elements and largest error of each column",
        _with_datacompy,
        _of_datacompy,
        "datacompy",
    ),
    Tool(
        "DuckDB, one query",
        "failing elements, largest error and sum, over a full join",
        _with_duckdb,
        lambda row: Answer(row[0] == 0, *row),
        "duckdb",
    ),
    Tool(
        "`polygraphy run --load-outputs`, a process",
        "pass or fail (absolute or relative), largest, mean and median error, in words",
        _with_polygraphy,
        lambda done: Answer(passes=done.returncode == 0),
        "polygraphy",
    ),
)
