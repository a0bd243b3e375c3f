"""A whole run says the same whatever format, batches and files its packs are stored in."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs import Container, write_pack

from paritygate.api.plans import load_plan
from paritygate.core.errors import RunnerLoadError
from paritygate.golden import parquet
from paritygate.pipeline.execute import Options, Outcome, execute
from paritygate.pipeline.prepare import CallableRunner

N = 130
IDS = [f"id{i:03d}" for i in range(N)]
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, 2, 3)).astype(np.float32)
Y = (X * 2).reshape(N, 6)[:, :4]
FOUND = Y + np.where(np.arange(N) % 9 == 0, np.float32(0.25), np.float32(1e-7))[:, None]
FOUND[40, 1] = np.nan
SITES = [f"s{i % 4}" for i in range(N)]
ORDER = RNG.permutation(N)
CONTAINERS = st.sampled_from(["file", "stream", "parquet"])


@st.composite
def storage(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Files of a pack: container, rows, rows of a batch, compression."""
    cuts = sorted(draw(st.lists(st.integers(0, N), max_size=2)))
    files = []
    for start, stop in zip([0, *cuts], [*cuts, N], strict=True):
        files.append(
            {
                "rows": slice(start, stop),
                "container": draw(CONTAINERS),
                "rows_per_batch": draw(st.integers(1, N)),
                "compression": draw(st.sampled_from([None, "zstd"])),
            }
        )
    return files


PLAIN = [{"rows": slice(0, N), "container": "file", "rows_per_batch": N, "compression": None}]


def texts(rows: np.ndarray) -> pa.Array:
    return pa.array([IDS[i] for i in rows], pa.string())


def call(given: dict[str, Any]) -> dict[str, Any]:
    return {"y": (given["x"] * 2).reshape(-1, 6)[:, :4]}


def run(folder: Path, golden: list[Any], recording: list[Any], threads: int) -> Outcome:
    for number, how in enumerate(golden):
        rows, rest = how["rows"], {k: v for k, v in how.items() if k != "rows"}
        write_pack(
            folder / f"golden/{number}.pack.arrow",
            texts(np.arange(N)[rows]),
            {"x": X[rows]},
            slices={"site": pa.array(SITES[rows], pa.string())},
            label=(np.arange(N) % 4)[rows],
            **rest,
        )
    for number, how in enumerate(recording):
        rows, rest = how["rows"], {k: v for k, v in how.items() if k != "rows"}
        order = ORDER[rows]
        write_pack(
            folder / f"found/{number}.parquet",
            texts(order),
            outputs={"y": FOUND[order]},
            **rest,
        )
    plan = {
        "golden": "golden",
        "slices": ["site"],
        "dims": {"batch": {"sizes": [1, 16]}},
        "runners": {"a": {"kind": "python", "call": "m:f"}, "b": "found/"},
        "stages": [
            {
                "name": "s",
                "reference": "a",
                "candidate": "b",
                "outputs": {"y": {"atol": 1e-5, "rtol": 1e-5}},
            }
        ],
        "decisions": {"class": {"output": "y", "argmax": True}},
    }
    return execute(
        load_plan(plan, folder=folder),
        Options(out=folder / "runs", threads=threads, callables={"a": CallableRunner(call)}),
    )


def told(outcome: Outcome) -> Any:
    """Everything about the numbers: the tally, the reasons, the ids of all failing samples."""
    (folder,) = (outcome.folder.parent.iterdir()) if outcome.folder else ()
    ids = pa.ipc.open_file(folder / "failures/s-ids.arrow").read_all()["sample_id"].to_pylist()
    return outcome.tally.to_json(), [r.message for r in outcome.judgement.reasons], ids


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    outcome = run(tmp_path_factory.mktemp("plain"), PLAIN, PLAIN, 1)
    stage = outcome.tally.stages["s"]
    assert stage.compared == N
    assert stage.failed == len({*range(0, N, 9), 40})
    return told(outcome)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    golden=storage(),
    recording=storage(),
    threads=st.integers(1, 3),
    piece_bytes=st.sampled_from([1_000, 1 << 24]),
)
def test_how_packs_are_stored_changes_nothing(
    expected: Any, golden: list[Any], recording: list[Any], threads: int, piece_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr(parquet, "_PIECE_BYTES", piece_bytes)
        patch.setattr(parquet, "_KEPT_BYTES", 4 * piece_bytes)
        assert told(run(Path(name), golden, recording, threads)) == expected


@pytest.mark.parametrize("container", ["stream", "parquet"])
def test_a_damaged_recording_is_unjudged(tmp_path: Path, container: Container) -> None:
    run(tmp_path, PLAIN, [{**PLAIN[0], "container": container}], 1)
    path = tmp_path / "found/0.parquet"
    path.write_bytes(path.read_bytes()[:-5])
    runs = sorted((tmp_path / "runs").iterdir())
    with pytest.raises(RunnerLoadError, match=r"found/0\.parquet: truncated") as error:
        run(tmp_path, PLAIN, [], 1)
    assert error.value.exit_code == 2
    assert sorted((tmp_path / "runs").iterdir()) == runs
