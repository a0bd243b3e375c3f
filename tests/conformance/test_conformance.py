"""Every row of the table through every door that it fits; and the table itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance import peers
from tests.conformance.case import OWN_IDS, Case
from tests.conformance.recordings import Pair
from tests.conformance.render import PAGE, render
from tests.conformance.table import KINDS, ROWS

from paritygate.core.verdict import Verdict


def _rows() -> Iterator[object]:
    for case in ROWS:
        for door in case.given.doors:
            yield pytest.param(case, door, id=f"{case.kind}: {case.name} [{door}]")


@pytest.mark.parametrize(("case", "door"), list(_rows()))
def test_row(case: Case, door: str, tmp_path: Path) -> None:
    found, expected = case.given.judge(door, tmp_path), case.expected
    assert (found.verdict, found.codes) == (expected.verdict, set(expected.codes)), found.text
    assert found.exit_code == expected.exit_code, found.text
    missing = [word for word in case.says if word not in found.text]
    assert not missing, f"the text lacks {missing}:\n{found.text}"
    if door not in OWN_IDS:
        assert set(case.ids) <= found.ids, found.text


def test_every_kind_has_rows_that_hold_and_rows_that_release() -> None:
    assert {case.kind for case in ROWS} == set(KINDS)
    for key in KINDS:
        verdicts = {case.expected.verdict for case in ROWS if case.kind == key}
        assert "release" in verdicts, key
        assert verdicts & {"hold", "unjudged"}, key


def test_every_row_has_a_name_of_its_own() -> None:
    names = Counter((case.kind, case.name) for case in ROWS)
    assert [name for name, count in names.items() if count > 1] == []


def test_expectations_agree_with_themselves() -> None:
    for case in ROWS:
        expected = case.expected
        assert Verdict(expected.verdict).exit_code == expected.exit_code
        if expected.exit_code != 2:
            assert bool(expected.codes) == (expected.verdict != "release"), case.name
        assert not (expected.verdict == "release" and (case.says or case.ids)), case.name


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "docs/conformance.md isn't the rendering of the table; run "
        "`python -m tests.conformance.render`"
    )


@pytest.mark.parametrize(
    "tool", [t for t, (package, _) in peers.TOOLS.items() if package == "numpy"]
)
def test_what_numpy_says_is_what_was_recorded(tool: str) -> None:
    _, answers = peers.load()
    rows = [c for c in ROWS if isinstance(c.given, Pair) and peers.key_of(c) in answers]
    assert len(rows) > 150
    for case in rows:
        assert peers.ask(tool, case.given) == answers[peers.key_of(case)][tool], case.name
