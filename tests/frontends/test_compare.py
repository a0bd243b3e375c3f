from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.frontends.command import invoke
from tests.frontends.plans import make_recordings
from tests.packs import write_pack

from paritygate import api
from paritygate.core.errors import GoldenError

BANDS = ("--bands", "score: low < 0.5 <= high")


def test_release_whatever_the_order(tmp_path: Path) -> None:
    ref, cand = make_recordings(tmp_path)
    result = invoke("compare", ref, cand, *BANDS, "--out", tmp_path / "runs")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("RELEASE  compare: 20 golden samples")
    assert "0 of 20" in result.stdout


def test_hold_for_a_flip_within_tolerance(tmp_path: Path) -> None:
    ref, cand = make_recordings(tmp_path, -1e-6)
    tolerance = ("--atol", "1e-3", "--rtol", "0")
    out = ("--out", tmp_path / "runs")
    assert invoke("compare", ref, cand, *tolerance, *out).exit_code == 0
    result = invoke("compare", ref, cand, *tolerance, *BANDS, *out, "--json")
    assert result.exit_code == 1
    (reason,) = json.loads(result.stdout)["reasons"]
    assert (reason["code"], reason["ids"]) == ("decision.flip", [5])


def test_without_a_tolerance_floats_are_exact(tmp_path: Path) -> None:
    ref, cand = make_recordings(tmp_path, 1e-6)
    result = invoke("compare", ref, cand, "--out", tmp_path / "runs")
    assert result.exit_code == 1
    assert "tolerance.exceeded" in result.stdout
    named = ("--tolerance", "score:atol=1e-3,rtol=0")
    assert invoke("compare", ref, cand, *named, "--out", tmp_path / "runs").exit_code == 0


def test_a_missing_file_could_not_be_judged(tmp_path: Path) -> None:
    ref, _ = make_recordings(tmp_path)
    result = invoke("compare", tmp_path / "nothing.arrow", ref, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["verdict"] == "unjudged"
    assert "nothing.arrow" in result.stderr


def test_a_wrong_id_column_names_what_is_there(tmp_path: Path) -> None:
    ref, cand = make_recordings(tmp_path)
    result = invoke("compare", ref, cand, "--id", "sample")
    assert result.exit_code == 2
    assert "sample_id" in result.stderr


def test_a_recording_may_be_compared_with_itself_on_demand(tmp_path: Path) -> None:
    ref, _ = make_recordings(tmp_path)
    out = ("--out", tmp_path / "runs")
    same = invoke("compare", ref, ref, *out)
    assert same.exit_code == 1
    assert "policy.same_runner" in same.stdout
    assert "(compare: --self)" in same.stdout
    result = invoke("compare", ref, ref, "--self", *out)
    assert result.exit_code == 0, result.output
    assert "compares a thing with itself" in result.stdout


def test_every_option_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def compare(ref: str, cand: str, **options: Any) -> None:
        given.update(options, ref=ref, cand=cand)
        raise GoldenError("seen")

    monkeypatch.setattr(api, "compare", compare)
    args = "compare r.arrow c*.arrow --atol 1 --rtol 0.5 --nonfinite match --id key --argmax z"
    more = "--self --limit 3 --stats gate --threads 2 --out o --tolerance y:atol=2,rtol=0"
    rules = ("--topk", "t:3", "--equal", "e", "--compare-on", "cpu")
    result = invoke(*args.split(), *more.split(), "--bands", "x: low < 0 <= high", *rules)
    assert "seen" in result.stderr
    assert callable(given.pop("observer"))
    assert given == {
        "ref": "r.arrow",
        "cand": "c*.arrow",
        "atol": 1.0,
        "rtol": 0.5,
        "nonfinite": "match",
        "tolerances": {"y": {"atol": 2.0, "rtol": 0.0}},
        "bands": ["x: low < 0 <= high"],
        "argmax": ["z"],
        "topk": ["t:3"],
        "equal": ["e"],
        "id": "key",
        "is_self": True,
        "out": Path("o"),
        "stats": "gate",
        "limit": 3,
        "threads": 2,
        "compare_on": "cpu",
    }


def test_topk_and_equal_on_the_command_line(tmp_path: Path) -> None:
    rows = np.array([[0.5, 0.3, 0.2], [0.1, 0.5, 0.4]], np.float32)
    close = np.array([[0.5, 0.24, 0.26], [0.1, 0.5, 0.4]], np.float32)
    ref = write_pack(tmp_path / "r.arrow", [1, 2], outputs={"p": rows, "id": np.array([4, 7])})
    cand = write_pack(tmp_path / "c.arrow", [1, 2], outputs={"p": close, "id": np.array([4, 8])})
    options = ("--atol", "0.1", "--rtol", "0", "--tolerance", "id:atol=5,rtol=0", "--json")
    out = ("--out", tmp_path / "runs")
    rules = ("--topk", "p:2", "--equal", "id")
    result = invoke("compare", ref, cand, *options, *rules, *out)
    summary = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [(r["code"], r["decision"]) for r in summary["reasons"]] == [
        ("decision.flip", "id"),
        ("decision.flip", "p"),
    ]
    assert summary["stages"][0]["decisions"]["id"]["matrix"] == {"4": {"4": 1}, "7": {"8": 1}}
    assert invoke("compare", ref, cand, *options, "--topk", "p:1", *out).exit_code == 0
    wrong = invoke("compare", ref, cand, *options, "--topk", "p", *out)
    assert wrong.exit_code == 2
    assert "write it as 'OUTPUT:5'" in wrong.stderr


def test_a_candidate_of_another_dtype_is_declared(tmp_path: Path) -> None:
    y = np.arange(4, dtype=np.float32)
    write_pack(tmp_path / "a.arrow", [1, 2, 3, 4], outputs={"y": y})
    write_pack(tmp_path / "b.arrow", [1, 2, 3, 4], outputs={"y": y.astype(np.float64)})
    call = ("compare", tmp_path / "a.arrow", tmp_path / "b.arrow", "--out", tmp_path / "runs")
    assert invoke(*call).exit_code == 1
    rule = "y:atol=0,rtol=0,candidate_dtype="
    assert invoke(*call, "--tolerance", f"{rule}float64").exit_code == 0
    wrong = invoke(*call, "--tolerance", f"{rule}double")
    assert (wrong.exit_code, "isn't a dtype that can be judged" in wrong.stderr) == (2, True)


def test_a_null_in_a_recording_is_mended_there(tmp_path: Path) -> None:
    write_pack(tmp_path / "a.arrow", [1, 2], columns={"out.y": pa.array([1.0, 2.0])})
    write_pack(tmp_path / "b.arrow", [1, 2], columns={"out.y": pa.array([1.0, None])})
    call = ("compare", tmp_path / "a.arrow", tmp_path / "b.arrow", "--out", tmp_path / "runs")
    done = invoke(*call, "--json")
    reason = json.loads(done.stdout)["reasons"][0]
    assert (done.exit_code, reason["code"]) == (1, "golden.null_value")
    assert reason["next"].startswith("mend the recording")
