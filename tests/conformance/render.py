"""Write docs/conformance.md from the table: `python -m tests.conformance.render`."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.case import Case
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
    parts = [HEAD]
    for key, kind in KINDS.items():
        rows = [case for case in ROWS if case.kind == key]
        parts.append(f"## {kind.title}\n\n{kind.seen}\n\n{_table(kind.title, rows)}")
    parts.append(_not_yet())
    return "\n".join(parts)


def _table(title: str, rows: list[Case]) -> str:
    lines = ["| kind | case | verdict | codes |", "|---|---|---|---|"]
    for case in rows:
        codes = ", ".join(f"`{code}`" for code in case.expected.codes) or "–"
        cells = (title, case.name, case.expected.verdict, codes)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _not_yet() -> str:
    lines = ["## Not yet", "", "| what | why, and what stands in its place |", "|---|---|"]
    lines += [f"| {_cell(what)} | {_cell(why)} |" for what, why in NOT_YET.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
