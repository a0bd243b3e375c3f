"""The run folder: names, atomicity, schema versions, full disks."""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paritygate.core.errors import FolderError
from paritygate.core.events import Made
from paritygate.runfolder import RunFolder, encode_summary, read_summary
from paritygate.runfolder.folder import latest_run


def test_folder_is_partial_until_finished(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs", "name")
    folder.write("summary.json", encode_summary({"schema_version": 1}))
    assert [p.name for p in (tmp_path / "runs").iterdir()] == [folder.path.name + ".partial"]
    path = folder.finish()
    assert [p.name for p in (tmp_path / "runs").iterdir()] == [path.name]
    assert path.name.startswith("name-2")
    assert path.name.endswith("Z")


def test_a_parent_that_lacked_goes_with_a_run_that_does_not_end(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    folder = RunFolder(inner, "n")
    assert folder.made == Made(folder.partial, (inner, tmp_path / "a"))
    other = RunFolder(inner, "n")
    assert other.made == Made(other.partial)
    folder.drop()
    assert list(inner.iterdir()) == [other.partial]
    other.drop()
    assert list(inner.iterdir()) == []  # it was there before: this one leaves it
    inner.rmdir()
    RunFolder(inner, "n").drop()
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_runs_that_make_and_remove_one_parent_do_not_disturb_each_other(tmp_path: Path) -> None:
    def work(_: int) -> None:
        RunFolder(tmp_path / "a" / "runs", "n").drop()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(400)))
    assert list(tmp_path.rglob("*.partial")) == []


def test_names_that_collide_are_numbered(tmp_path: Path) -> None:
    folders = [RunFolder(tmp_path, "n") for _ in range(4)]
    paths = {f.finish() for f in folders}
    again = RunFolder(tmp_path, "n").finish()
    assert len(paths | {again}) == 5


def test_two_runs_that_finish_under_one_name(tmp_path: Path) -> None:
    first = RunFolder(tmp_path, "n")
    first.path.mkdir()
    (first.path / "other").write_text("kept")
    finished = first.finish()
    assert finished != tmp_path / first.partial.name
    assert (tmp_path / first.partial.name.removesuffix(".partial") / "other").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_place_where_no_folder_can_be_made_says_where() -> None:
    with pytest.raises(FolderError, match="/proc/none"):
        RunFolder(Path("/proc/none/of/these"), "run")


def test_unwritable_parent_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="file"):
        RunFolder(tmp_path / "file", "n")


def test_latest_run_ignores_partial_ones(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="no finished run"):
        latest_run(tmp_path)
    done = RunFolder(tmp_path, "n")
    done.write("summary.json", b"{}")
    path = done.finish()
    RunFolder(tmp_path, "n").write("summary.json", b"{}")
    assert latest_run(tmp_path) == path


def test_summary_has_schema_order_and_no_nan() -> None:
    text = encode_summary(
        {
            "stages": [{"name": "s", "verdict": "hold", "outputs": {"b": 1, "a": math.nan}}],
            "verdict": "hold",
            "schema_version": 1,
            "environment": {"z": math.inf, "a": np.float32(-math.inf), "n": np.int64(3)},
            "timing": {"read_s": 0.5},
            "big": 2**80,
        }
    )
    summary = json.loads(text)
    assert list(summary) == ["schema_version", "verdict", "stages", "timing", "environment", "big"]
    assert list(summary["stages"][0]) == ["name", "verdict", "outputs"]
    assert summary["stages"][0]["outputs"] == {"a": "nan", "b": 1}
    assert list(summary["stages"][0]["outputs"]) == ["a", "b"]
    assert summary["environment"] == {"a": "-inf", "n": 3, "z": "inf"}
    assert b"NaN" not in text
    assert text.endswith(b"\n")


@pytest.mark.parametrize(
    ("content", "word"),
    [(b'{"schema_version": 99}', "newer"), (b"{}", "isn't a summary"), (b"[", "isn't a summary")],
)
def test_summaries_that_cannot_be_read(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "summary.json").write_bytes(content)
    with pytest.raises(FolderError, match=word):
        read_summary(tmp_path)
    with pytest.raises(FolderError, match="no such file"):
        read_summary(tmp_path / "none")


def test_summary_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_bytes(encode_summary({"schema_version": 1, "verdict": "x"}))
    assert read_summary(tmp_path)["verdict"] == "x"


_FULL = """
import resource, signal, sys
import numpy as np
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import paritygate
from paritygate.core.errors import FolderError
x = np.arange(40000, dtype=np.float32).reshape(-1, 10)
paritygate.verify(lambda d: {"y": d["x"]}, lambda d: {"y": d["x"] + 0}, {"x": x}, atol=0, rtol=0)
resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE_CAP, resource.RLIM_INFINITY))
try:
    paritygate.run(sys.argv[1], out=sys.argv[2])
except FolderError as e:
    print("FOLDER", e)
"""


def test_full_disk_while_shards_are_written_leaves_nothing(tmp_path: Path) -> None:
    from tests.packs import write_pack

    x = np.random.default_rng(0).standard_normal((4000, 10)).astype(np.float32)
    write_pack(tmp_path / "g.arrow", np.arange(4000), outputs={"y": x})
    write_pack(tmp_path / "c.arrow", np.arange(4000), outputs={"y": x + 1})
    (tmp_path / "p.toml").write_text(
        'golden = "g.arrow"\n[runners]\na = "recorded"\nb = "c.arrow"\n'
        '[[stages]]\nname = "s"\nreference = "a"\ncandidate = "b"\n'
        "outputs.y = { atol = 0.0, rtol = 0.0 }\n"
    )
    for limit in (2_000, 60_000):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                _FULL.replace("SIZE_CAP", str(limit)),
                str(tmp_path / "p.toml"),
                str(tmp_path / "runs"),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "FOLDER" in done.stdout, done.stdout + done.stderr
        assert "no room left" in done.stdout
        assert not (tmp_path / "runs").exists()
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_shard_is_a_golden_pack(tmp_path: Path) -> None:
    from tests.packs import write_pack

    import paritygate
    from paritygate.golden.pack import open_pack

    x = np.arange(20, dtype=np.float32).reshape(-1, 2)
    y = x.copy()
    y[3, 1] += 1
    y[7, 0] = np.nan
    write_pack(tmp_path / "g.arrow", [f"id{i}" for i in range(10)], {"x": x}, {"y": x})
    write_pack(tmp_path / "c.arrow", [f"id{i}" for i in range(10)], outputs={"y": y})
    result = paritygate.compare(
        tmp_path / "g.arrow", tmp_path / "c.arrow", atol=0.5, rtol=0.0, out=tmp_path / "runs"
    )
    assert result.folder is not None
    shard = result.folder / "failures" / "comparison-00000.arrow"
    table = pa.ipc.open_file(shard).read_all()
    assert table["sample_id"].to_pylist() == ["id3", "id7"]
    assert table["rules"].to_pylist() == [["tolerance.exceeded"], ["nonfinite.candidate"]]
    assert table["index"].to_pylist() == [1, 0]
    assert table["abs_error"].to_pylist()[0] == 1.0
    assert table["excess"].to_pylist() == [2.0, math.inf]
    with open_pack([shard], tmp_path) as pack:
        pack.scan_ids()
        assert pack.samples == 2
        np.testing.assert_array_equal(pack.input("x", 0, 2), x[[3, 7]])
    summary = read_summary(result.folder)
    assert summary["stages"][0]["failures"]["kept"] == 2
    assert summary["verdict"] == "hold"


def test_truncation_is_stated_and_ids_are_not_truncated(tmp_path: Path) -> None:
    from tests.packs import write_pack

    import paritygate

    x = np.zeros((50, 2), np.float32)
    y = x + np.arange(1, 51, dtype=np.float32)[:, None]
    write_pack(tmp_path / "g.arrow", np.arange(50), outputs={"y": x})
    write_pack(tmp_path / "c.arrow", np.arange(50), outputs={"y": y})
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "max_failures": 7,
        "runners": {"a": "recorded", "b": str(tmp_path / "c.arrow")},
        "stages": [
            {
                "name": "s",
                "reference": "a",
                "candidate": "b",
                "outputs": {"y": {"atol": 0.0, "rtol": 0.0}},
            }
        ],
    }
    result = paritygate.run(plan, out=tmp_path / "runs")
    assert result.folder is not None
    failures = result.folder / "failures"
    assert pa.ipc.open_file(failures / "s-ids.arrow").read_all().num_rows == 50
    shard = pa.ipc.open_file(failures / "s-00000.arrow").read_all()
    assert shard["sample_id"].to_pylist() == list(range(43, 50))
    stated = result.summary["stages"][0]["failures"]
    assert (stated["failed"], stated["kept"], stated["truncated"]) == (50, 7, True)
