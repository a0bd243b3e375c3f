"""Measure, and print a table: our figure, the baseline's of the same rounds, and their ratio.

    python bench/run.py [--quick] [--only NAME]... [--record]

Every figure is a median over interleaved rounds with its range. Nothing is written but stdout and,
with --record, bench/RESULTS.md: rows of the cases that were measured are put in place of the ones
that are there, with their date; the others stay.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import Case, Figure, Row, Scale

from paritygate.runners.environment import describe_environment

RESULTS = Path(__file__).with_name("RESULTS.md")
NOTES = "\n## "  # what other commands and hands write begins here, and is kept
TURNS = 3
HEAD = ("what", "ours", "unit", "baseline", "what it is", "ratio", "allowed", "measured")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what was asked for; 1 if an allowed figure is exceeded, unless quick."""
    args = _parser().parse_args(argv)
    load = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="paritygate-bench-") as folder:
        # Compiled kernels too go there, and Numba reads its setting when it is imported. Processes
        # find modules compiled, as installers leave them, after the round that isn't counted.
        for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "PYTHONPYCACHEPREFIX"):
            os.environ[name] = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        from bench.cases import CASES, SPREAD

        chosen = [c for c in CASES if not args.only or any(name in c.name for name in args.only)]
        if not chosen:
            print(f"--only {', '.join(args.only)}: in no name of these:", file=sys.stderr)
            print(*(case.name for case in CASES), sep="\n", file=sys.stderr)
            return 2
        again = [c for c in chosen if isinstance(c, SPREAD) and not args.quick]
        rows = measure(chosen, again, Scale(Path(folder), args.quick))
    missed = [] if args.quick else [row.label for row in rows if not row.is_met]
    for label in missed:
        print(f"more than allowed: {label}")
    if args.record:
        before, _, notes = RESULTS.read_text(encoding="utf-8").partition(NOTES)
        lines = merged(before, rows, [label for case in CASES for label in case.labels])
        RESULTS.write_text(document(lines, load) + NOTES + notes, encoding="utf-8")
    return 1 if missed else 0


def measure(cases: Sequence[Case], again: Sequence[Case], scale: Scale) -> list[Row]:
    """Measure cases; rows are printed as soon as they are there.

    Those that are measured again are measured in turns, a part of the rounds each, with arrays of
    their own: how fast memory is read differs from array to array, and from minute to minute.
    """
    found: dict[str, list[Row]] = {}
    print(line(HEAD), rule(), sep="\n", flush=True)
    for turn in range(TURNS):
        for case in again if turn else cases:
            part = replace(scale, turns=TURNS) if case in again else scale
            for row in case.measure(part):
                rows = found.setdefault(row.label, [])
                rows.append(row)
                if len(rows) == (TURNS if case in again else 1):
                    print(line(cells(Row.joined(rows))), flush=True)
    return [Row.joined(rows) for rows in found.values()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure paritygate against baselines.")
    parser.add_argument("--quick", action="store_true", help="once, on tiny sizes; judges nothing")
    parser.add_argument(
        "--only", metavar="NAME", action="append", help="cases whose name contains this, or another"
    )
    parser.add_argument("--record", action="store_true", help="also write bench/RESULTS.md")
    return parser


def line(texts: Sequence[str]) -> str:
    """One line of a Markdown table."""
    return f"| {' | '.join(texts)} |"


def rule() -> str:
    """The line below the head."""
    return line(["---"] * len(HEAD))


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    allowed = ""
    if row.limit is not None:
        sign = "≤" if row.is_met else "exceeds"
        allowed = f"{sign} {row.limit:g}" + (f" {row.unit}" if row.limited == "ours" else "")
    return (
        row.label,
        spread(row.ours),
        row.unit,
        spread(row.base),
        row.baseline,
        spread(row.ratio),
        allowed,
        today(),
    )


def today() -> str:
    """Today's date, UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def merged(before: str, rows: Sequence[Row], labels: Sequence[str]) -> list[str]:
    """Lines of the table: those of `rows`, and of `before` what wasn't measured again."""
    found = {text.split("|")[1].strip(): text for text in before.splitlines() if text[:1] == "|"}
    found |= {row.label: line(cells(row)) for row in rows}
    return [found[label] for label in labels if label in found]


def spread(figure: Figure | None) -> str:
    """Median and range."""
    if figure is None:
        return ""
    return f"{figure.median:.3g} ({figure.low:.3g}–{figure.high:.3g})"


def document(lines: Sequence[str], load: tuple[float, float, float]) -> str:
    """RESULTS.md."""
    found = describe_environment()
    cpu, versions = found["cpu"], found["versions"]
    assert isinstance(cpu, dict)
    assert isinstance(versions, dict)
    table = "\n".join([line(HEAD), rule(), *lines])
    return f"""# Results

Written by `python bench/run.py --record`. Each figure is the median of interleaved rounds with its
range; a ratio is ours over the baseline of the same round, so that below 1 is faster (or smaller)
than the baseline. "allowed" is about the figure where it has a unit, else about the ratio. Rows are
of the day that they name; the machine and versions are those of the last one.

- {today()}; {cpu["model"]}, {cpu["usable_cores"]} usable cores; load before the start {load[0]:.1f}
- Python {found["python"]}, {", ".join(f"{k} {v}" for k, v in versions.items() if v)}

{table}
"""


if __name__ == "__main__":
    sys.exit(main())
