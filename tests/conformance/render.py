"""Write docs/conformance.md from the table: `python -m tests.conformance.render`."""

from __future__ import annotations

from pathlib import Path

from tests.conformance import peers
from tests.conformance.case import Case
from tests.conformance.recordings import Pair
from tests.conformance.table import KINDS, NOT_YET, ROWS

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"

HEAD = """# Conformance

What paritygate must answer, case by case: each kind is a way in which a gate can pass a model \
that it should hold, each row a case of it. Rows that must be released stand beside those that \
must be held, so that a gate that always holds fails here as well.

The rows are data in `tests/conformance/`. Each one is judged through every door that it fits \
(`run` in both tiers of statistics, `compare`, `verify`, `assert_parity`, the command itself), and \
each door must give this verdict, exactly these reason codes and the exit code that goes with \
them: 0 release, 1 hold, 2 unjudged, 3 incomplete. ONNX models are real models under ONNX Runtime.

This page is made from the table by `python -m tests.conformance.render`; a test compares the two.
"""


def render() -> str:
    """The whole page."""
    parts = [HEAD, _peers()]
    for key, kind in KINDS.items():
        rows = [case for case in ROWS if case.kind == key]
        parts.append(f"## {kind.title}\n\n{kind.seen}\n\n{_table(kind.title, rows)}")
    parts.append(_not_yet())
    return "\n".join(parts)


def _peers() -> str:
    """What other tools say to the rows that are two arrays and a tolerance."""
    versions, answers = peers.load()
    asked = [case for case in ROWS if peers.key_of(case) in answers]
    bad = [case for case in asked if case.expected.verdict != "release"]
    good = [case for case in asked if case.expected.verdict == "release"]
    lines = [
        f"| tool | passes, of {len(bad)} that must not | fails, of {len(good)} that may pass |"
    ]
    lines.append("|---|---|---|")
    for tool in peers.TOOLS:
        passed = sum(answers[peers.key_of(c)][tool] == peers.PASSES for c in bad)
        failed = sum(answers[peers.key_of(c)][tool] != peers.PASSES for c in good)
        lines.append(f"| {tool} | {passed} | {failed} |")
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    text = f"""## What other tools say

Rows that are two arrays and a tolerance were given to other tools as well ({told}), with that \
tolerance and otherwise their defaults. Their answers stand beside the rows, in bold where they \
pass what must not pass. Most of those are decisions, non-finite rules and plans that contradict \
themselves, which these tools know nothing of: they compare numbers. An answer is recorded by \
`python -m tests.conformance.peers`; NumPy's are asked again by a test.
"""
    return "\n".join([text, *lines, ""])


def _table(title: str, rows: list[Case]) -> str:
    _, answers = peers.load()
    tools = list(peers.TOOLS) if any(isinstance(case.given, Pair) for case in rows) else []
    head = ["kind", "case", "verdict", "codes", *tools]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for case in rows:
        codes = ", ".join(f"`{code}`" for code in case.expected.codes) or "–"
        given = answers.get(peers.key_of(case), {})
        theirs = [_answer(case, given.get(tool, "–")) for tool in tools]
        cells = (title, case.name, case.expected.verdict, codes, *theirs)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _answer(case: Case, answer: str) -> str:
    is_wrong = answer == peers.PASSES and case.expected.verdict != "release"
    return f"**{answer}**" if is_wrong else answer


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _not_yet() -> str:
    lines = ["## Not yet", "", "| what | why, and what stands in its place |", "|---|---|"]
    lines += [f"| {_cell(what)} | {_cell(why)} |" for what, why in NOT_YET.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
