"""Run folders that aren't what they should be: one clear sentence, never a traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.frontends.command import invoke
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import GoldenError, ParityError, UnreadableRunError
from paritygate.runfolder.reading import FinishedRun

IDS = [f"id{i}" for i in range(6)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    y = x.copy()
    y[1:4] += 1
    write_pack(folder / "g.arrow", IDS, {"x": x}, {"y": x})
    write_pack(folder / "c.arrow", IDS, outputs={"y": y})
    result = paritygate.compare(
        folder / "g.arrow", folder / "c.arrow", atol=0.5, rtol=0.0, out=folder / "runs"
    )
    assert result.folder is not None
    return result.folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def change(run: Path, **fields: Any) -> None:
    path = run / "summary.json"
    summary = json.loads(path.read_text())
    summary.update(fields)
    path.write_text(json.dumps(summary))


def cut(path: Path, share: float = 0.5) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def newer(path: Path) -> None:
    table = pa.ipc.open_file(path).read_all()
    table = table.replace_schema_metadata({"paritygate.shard_version": "2"})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


SHARD = "failures/comparison-00000.arrow"
HOSTILE: list[tuple[str, Callable[[Path], object], str]] = [
    ("missing", shutil.rmtree, "no such file"),
    ("empty", lambda r: (r / "summary.json").unlink(), "no such file"),
    ("summary cut", lambda r: cut(r / "summary.json"), "isn't a summary"),
    ("summary empty", lambda r: (r / "summary.json").write_text(""), "isn't a summary"),
    ("a list", lambda r: (r / "summary.json").write_text("[]"), "isn't a summary"),
    ("a number", lambda r: (r / "summary.json").write_text("3"), "isn't a summary"),
    ("newer summary", lambda r: change(r, schema_version=99), "newer"),
    ("version of a text", lambda r: change(r, schema_version="1"), "version"),
    ("stages gone", lambda r: change(r, stages=None), "stages"),
    ("stages of texts", lambda r: change(r, stages=["x"]), r"stages\[0\]"),
    ("stage without name", lambda r: change(r, stages=[{}]), r"stages\[0\].name"),
    ("reasons of texts", lambda r: change(r, reasons=["x"]), r"reasons\[0\]"),
    ("runners a list", lambda r: change(r, runners=[]), "runners"),
    ("plan gone", lambda r: (r / "plan.toml").unlink(), "plan.toml"),
    ("plan cut", lambda r: cut(r / "plan.toml"), "plan.toml"),
    ("plan of another run", lambda r: rename_stage(r), "isn't the plan that was run"),
    (
        "plan of an older version's other run",
        lambda r: rename_stage(r, is_older=True),
        "has a stage 'comp",
    ),
    ("stage of another run", lambda r: rename_stage_of_summary(r), "has a stage 'other'"),
    ("shard gone", lambda r: (r / SHARD).unlink(), "comparison-00000"),
    ("shard cut", lambda r: cut(r / SHARD), "comparison-00000"),
    ("shard of a later version", lambda r: newer(r / SHARD), "newer"),
    ("shard of noise", lambda r: (r / SHARD).write_bytes(b"\xff" * 999), "comparison-00000"),
]


def rename_stage(run: Path, is_older: bool = False) -> None:
    path = run / "plan.toml"
    path.write_text(path.read_text().replace('"comparison"', '"other"'))
    if is_older:
        planned = json.loads((run / "summary.json").read_text())["plan"]
        del planned["file_sha256"]
        change(run, plan=planned)


def rename_stage_of_summary(run: Path) -> None:
    (stage,) = json.loads((run / "summary.json").read_text())["stages"]
    change(run, stages=[{**stage, "name": "other"}])


@pytest.mark.parametrize("damage", [rename_stage, rename_stage_of_summary])
def test_what_was_changed_since_is_not_replayed(run: Path, damage: Callable[[Path], None]) -> None:
    assert paritygate.replay(run, out=run.parent / "first").verdict == "hold"
    damage(run)
    with pytest.raises(UnreadableRunError, match="isn't the plan that was run|has a stage 'other'"):
        paritygate.replay(run, out=run.parent / "second")


@pytest.mark.parametrize(("damage", "words"), [h[1:] for h in HOSTILE], ids=[h[0] for h in HOSTILE])
def test_hostile_folders_are_told_in_a_sentence(
    run: Path, damage: Callable[[Path], object], words: str
) -> None:
    assert paritygate.explain(run, "id1")["status"] == "failed"
    damage(run)
    with pytest.raises(ParityError, match=words) as raised:
        paritygate.explain(run, "id1")
    assert raised.value.exit_code == 2
    done = invoke("explain", run, "id1")
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert "itself failed" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("share", [i / 100 for i in range(0, 100, 4)])
def test_shards_cut_anywhere(run: Path, share: float) -> None:
    cut(run / SHARD, share)
    with pytest.raises(GoldenError, match="comparison-00000"):
        paritygate.explain(run, "id1")


def test_an_unfinished_run_is_none(run: Path) -> None:
    partial = run.rename(run.with_name("run.partial"))
    with pytest.raises(UnreadableRunError, match="unfinished"):
        FinishedRun(partial)


def test_values_come_back_as_they_were(whole: Path) -> None:
    with FinishedRun(whole) as run:
        kept = run.kept("comparison")
        assert [k.id for k in kept] == ["id1", "id2", "id3"]
        tensors = run.tensors(kept[1])
        np.testing.assert_array_equal(tensors.ref["y"], np.array([4, 5], np.float32))
        np.testing.assert_array_equal(tensors.cand["y"], np.array([5, 6], np.float32))
        assert run.find("id0") == []
        assert run.find("id3")[0].place is not None
