from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.frontends import summaries

from paritygate_frontends.report.checks import render_checks
from paritygate_frontends.report.screen import plain
from paritygate_frontends.report.verdict import render_report


def report(summary: dict[str, Any], folder: Path | None = None) -> list[str]:
    return plain(render_report(summary, folder)).splitlines()


def row(lines: list[str], first: str, nth: int = 0) -> list[str]:
    """Cells of the nth line that begins with a word."""
    found = [line for line in lines if re.match(rf"\s*{re.escape(first)}\s", line)]
    return re.split(r"\s{2,}", found[nth].strip())


def test_release_comes_first_and_says_what_was_not_judged() -> None:
    lines = report(summaries.release(), Path("runs/advisory-1"))
    assert lines[0] == "RELEASE  advisory: 1,000 golden samples; conversion release"
    assert "Not judged" in lines
    assert "  - latency: not measured" in lines
    assert "Run folder  runs/advisory-1" in lines
    assert "  1,000 of 1,000 samples compared, none failed" in lines


def test_release_shows_every_figure() -> None:
    lines = report(summaries.release())
    assert row(lines, "score") == [
        "score", "10,000", "0", "6e-07", "0.04 x", "-2.5e-09", "3.25e-08",
    ]  # fmt: skip
    assert row(lines, "disposition") == ["disposition", "0 of 1,000", "0", "100 %", "0.3 %", "2"]
    assert "  score: largest error and excess at row 7, element 3: 0.5 -> 0.5000006" in lines
    assert not any(line.lstrip().startswith(("flips of", "slice")) for line in lines)
    assert lines[-1].startswith(
        "1 h 06 min (start 500 ms, read 2 ms, reference 1.5 s, candidate 75.0 s"
    )
    assert not any("Run folder" in line for line in lines)


def test_texts_have_no_error_but_a_first_difference() -> None:
    none = dict.fromkeys(("max_abs_error", "max_excess", "mean_error", "rmse", "nonfinite"))
    first = {"ordinal": 7, "index": 0, "id": "a", "ref": "cat", "cand": "d\x1bog"}
    texts = summaries.output(failing_elements=3, first_difference=first, **none)
    stage = summaries.stage(outputs={"label": texts})
    lines = report(summaries.release(stages=[stage]))
    assert row(lines, "label")[2:] == ["3", "-", "-", "-", "-"]
    told = "label: first difference at id a, element 0: 'cat' -> 'd\\x1bog'"
    assert any(line.strip() == told for line in lines), lines


def test_hold_gives_each_reason_with_code_place_ids_and_what_to_look_at() -> None:
    lines = report(summaries.hold())
    assert lines[:8] == [
        "HOLD  advisory: 1,000 golden samples; conversion release, quantization hold",
        "  1. tolerance.exceeded  stage quantization, output score",
        "     output 'score': 26 of 990 samples exceed the tolerance",
        "     ids: a-1, a-2, first of 26",
        "     next: look at dtype casts",
        "  2. decision.flip  stage quantization, decision disposition",
        "     5 of 990 samples changed 'disposition'",
        "     ids: 17, 18",
    ]


def test_hold_shows_nonfinite_figures_and_both_places() -> None:
    lines = report(summaries.hold())
    assert row(lines, "score", 1) == ["score", "10,000", "28", "inf", "38.3 x", "nan", "inf"]
    assert "  score: largest error at row 7, element 0: 0.1999999 -> 0.2000001" in lines
    assert "  score: largest excess at row 9, element 4: -inf -> nan" in lines
    assert (
        "  score: NaN or infinite elements: 1 in the reference, 5 in the candidate, 1 of them alike"
    ) in lines


@pytest.mark.parametrize(("cand", "is_told"), [(250, True), (3, False), (0, False)])
def test_elements_that_a_candidate_cuts_off_are_told(cand: int, is_told: bool) -> None:
    summary = summaries.release()
    figures = summary["stages"][0]["outputs"]["score"]
    figures["saturated"] = {"ref": {"low": 1, "high": 2}, "cand": {"low": 0, "high": cand}}
    told = [line for line in report(summary) if "limits of their dtype" in line]
    assert len(told) == is_told
    if is_told:
        assert "score: elements at the limits of their dtype: 3 in the reference, 250" in told[0]


def test_hold_counts_samples_that_were_not_compared() -> None:
    lines = report(summaries.hold())
    assert "  990 of 1,000 samples compared, 31 failed, 4 rejected, 6 missing, 2 extra" in lines


def test_samples_that_the_pack_expects_to_be_rejected_and_where_rejected_ones_are() -> None:
    stage = summaries.stage()
    stage["samples"] |= {"as_expected": 3, "not_rejected": 1}
    files = {"ids": "rejected-ids.arrow", "shards": ["rejected-00000.arrow"]}
    counts = {"count": 5, "as_expected": 3, "not_rejected": 1, "kept": 2, "truncated": True}
    summary = summaries.release(stages=[stage]) | {"rejected": {**files, **counts}}
    lines = report(summary, Path("runs/advisory-1"))
    told = ", 3 rejected as the pack expects, 1 not rejected though the pack expects it"
    assert any(line.endswith(told) for line in lines), lines
    assert "  rejected-00000.arrow: 2 rejected samples with inputs, the first of them" in lines
    assert "  rejected-ids.arrow: why each of all 9 was not run" in lines


def test_hold_lists_flips_only_most_frequent_first() -> None:
    lines = report(summaries.hold())
    assert row(lines, "disposition", 1)[1:5] == ["5 of 990", "1", "99.49 %", "0.3 %"]
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("flips of"))
    assert [re.split(r"\s{2,}", line.strip()) for line in lines[start + 1 : start + 4]] == [
        ["disposition", "review", "accept", "3"],
        ["disposition", "accept", "reject", "1"],
        ["disposition", "undefined", "undefined", "1"],
    ]
    assert "slice" in lines[start + 4]


def test_hold_shows_labels_and_slices_that_failed() -> None:
    text = "\n".join(report(summaries.hold()))
    assert "right by label 900 -> 898 of 980; 3 changed to wrong, 1 to right; 10 unknown" in text
    assert "2 samples are decided otherwise under the other compare_as" in text
    assert "undefined for 1 samples of the reference, 1 of the candidate" in text
    lines = text.splitlines()
    assert row(lines, "site") == ["site", "south", "490", "30", "5"]
    assert row(lines, "site", 1) == ["site", "north", "500", "1", "0"]
    assert "west" not in text


def test_hold_names_the_files_and_that_the_shard_was_cut() -> None:
    lines = report(summaries.hold(), Path("runs/x"))
    assert (
        "  failures/quantization-00000.arrow: 20 failing samples with inputs and both sides' "
        "outputs, the worst of them"
    ) in lines
    assert "  failures/quantization-ids.arrow: ids and rules of all 31 of them" in lines


def test_many_kinds_of_flips_and_slices_are_cut_and_counted() -> None:
    matrix = {f"c{i}": {"other": 100 - i} for i in range(40)}
    flips = sum(100 - i for i in range(40))
    values = {f"v{i}": {"samples": 9, "failed": 1 + i, "flips": {}} for i in range(50)}
    stage = summaries.stage(
        verdict="hold",
        decisions={"class": summaries.decision(flips=flips, samples=10_000, matrix=matrix)},
        slices={"site": values},
    )
    text = "\n".join(report(summaries.release(verdict="hold", stages=[stage])))
    assert f"and {sum(100 - i for i in range(12, 40)):,} flips of rarer kinds" in text
    assert "and 30 more values" in text
    assert "v49" in text
    assert "v29 " not in text


def test_unjudged() -> None:
    assert report(summaries.unjudged())[:3] == [
        "UNJUDGED",
        "  policy.invalid",
        "     golden: is missing",
    ]


def test_stage_without_outputs_or_that_did_not_run() -> None:
    empty = summaries.stage(outputs={}, decisions={}, verdict="hold", ran=False)
    lines = report(summaries.release(verdict="hold", stages=[empty]))
    assert "  not run" in lines
    assert not any("elements" in line for line in lines)


def test_figures_of_the_gate_tier_that_were_not_computed() -> None:
    figures = summaries.output(rmse=None, max_excess=None, max_abs_error=None, mean_error=None)
    lines = report(summaries.release(stages=[summaries.stage(outputs={"score": figures})]))
    assert row(lines, "score") == ["score", "10,000", "0", "-", "-", "-", "-"]


def test_an_id_in_a_place_is_shown_instead_of_the_row() -> None:
    place = {"value": 1.0, "ordinal": 7, "id": "p-9", "index": -1, "ref": 1, "cand": 2}
    figures = summaries.output(max_abs_error=place, max_excess=place)
    lines = report(summaries.release(stages=[summaries.stage(outputs={"score": figures})]))
    assert "  score: largest error and excess at id p-9: 1 -> 2" in lines


def test_names_from_a_pack_are_neither_markup_nor_escape_codes() -> None:
    summary = summaries.hold()
    summary["reasons"][0]["ids"] = ["[bold]x[/bold]", "\x1b[2J", ":smile:"]
    summary["plan"]["name"] = "[red]"
    text = "\n".join(report(summary))
    assert "ids: [bold]x[/bold], \\x1b[2J, :smile:, first of 26" in text
    assert "HOLD  [red]:" in text
    assert "\x1b" not in text


def forged(value: Any) -> Any:
    """The same summary with a line break, and what looks like a verdict, in all that users name."""
    if isinstance(value, dict):
        fixed = ("verdict", "code", "ran", "stats", "nonfinite", "undefined", "samples", "labels")
        return {k: v if k in fixed else forged(v) for k, v in value.items()}
    if isinstance(value, list):
        return [forged(item) for item in value]
    return f"{value}\nRELEASE\x85\u2028forged" if isinstance(value, str) else value


def test_no_name_or_id_begins_a_line() -> None:
    summary = summaries.hold()
    named = summary["stages"][1]
    named["outputs"]["a\nRELEASE"] = named["outputs"].pop("score")
    named["decisions"]["b\nRELEASE"] = named["decisions"].pop("disposition")
    named["decisions"]["b\nRELEASE"]["matrix"] = {"c\nRELEASE": {"d\nRELEASE": 5}}
    named["slices"]["e\nRELEASE"] = {"f\nRELEASE": named["slices"]["site"]["south"]}
    located = named["outputs"]["a\nRELEASE"]
    located["max_abs_error"]["id"] = located["max_excess"]["id"] = "g\nRELEASE"
    lines = report(forged(summary), Path("runs/h\nRELEASE"))
    assert not any(line.lstrip().startswith("RELEASE") for line in lines)
    assert any("ids: a-1\\nRELEASE" in line for line in lines)
    assert any("g\\nRELEASE" in line for line in lines)


def test_checks_are_a_line_each() -> None:
    lines = plain(render_checks([("fail", "", "r: differs:\n  x is 1\n  y is 2\nok  forged")]))
    assert lines.splitlines()[0] == "fail  r: differs: x is 1; y is 2\\nok  forged"


def test_plain_lines_are_whole_and_have_no_trailing_blanks() -> None:
    summary = summaries.hold()
    summary["reasons"][0]["message"] = "word " * 200 + "end"
    lines = report(summary)
    assert any(line.endswith("word end") and line.count("word") == 200 for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_checks() -> None:
    lines = plain(render_checks([("ok", "a", "fine"), ("fail", "bb", "not [fine]")])).splitlines()
    assert lines == ["ok    a   fine", "fail  bb  not [fine]", "1 problem to mend"]
    assert plain(render_checks([("note", "", "x")])).splitlines() == ["note  x", "nothing to mend"]


MORE = "more than is allowed"


def test_runners_by_themselves_are_told_where_they_were_looked_at() -> None:
    worst = {"value": 0.25, "ordinal": 3, "id": "a-3", "index": 0, "ref": 1.0, "cand": 1.25}
    alike = {"good": True, "max_abs_error": {**worst, "value": 0.0}}
    found = {
        "samples": 1024,
        "runners": {
            "int8": {
                "size": 32,
                "at": {
                    "1": {"score": {"good": False, "max_abs_error": worst}, "mask": alike},
                    "8": {"error": "too few"},
                },
            },
            "source": {"size": None, "at": {}, "not_checked": "it computes nothing"},
        },
        "recorded": {"conversion": {"score": {"good": False, "layouts": ["a", "b"]}}},
    }
    lines = report({**summaries.release(), "consistency": found})
    at = lines.index("Runners by themselves over 1,024 samples of the pack")
    assert lines[at + 1 : at + 5] == [
        "  int8 at batch size 1 against 32: score differs by up to 0.25 (id a-3), " + MORE,
        "  int8 at batch size 1 against 32: mask is the same",
        "  int8 at batch size 8 against 32: raised",
        "  reference of conversion against recorded outputs: score has another dtype or shape",
    ]
    nothing = {"samples": 0, "runners": {}, "recorded": {}}
    lines = report({**summaries.release(), "consistency": nothing})
    assert not any("by themselves" in line for line in lines)
