from __future__ import annotations

import json
from pathlib import Path

from tests.frontends.command import invoke
from tests.frontends.plans import make_recordings

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
