"""Measure other tools beside this one: the same arrays, the same answers, the same run.

    python bench/peers/run.py [--quick] [--only NAME]... [--record]

Nothing is written but stdout and, with --record, bench/PEERS.md and bench/peers.png.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.measure import Scale
from bench.peers.given import Given

FOLDER = Path(__file__).resolve().parents[1]
NOTES = "\n## Notes\n"  # written by hand below this line, and kept
BASE = Given()
AXES = {
    "elements, float32 x 100, clean": {
        "1 K": Given(1_000),
        "1 M": BASE,
        "10 M": Given(10_000_000),
        "64 M": Given(64_000_000),
    },
    "dtype, 1 M x 100, clean": {
        dtype: replace(BASE, dtype=dtype) for dtype in ("float16", "float32", "float64", "int8")
    },
    "elements a sample, 1 M float32, clean": {
        str(width): replace(BASE, width=width) for width in (1, 10, 100, 1000)
    },
    "samples that fail, 1 M float32 x 100": {
        "none": BASE,
        "1 %": replace(BASE, failing=0.01),
        "all": replace(BASE, failing=1.0),
    },
}
RECORDED = (
    Given(1_000_000, width=1, failing=0.01),
    Given(1_000_000, width=100, failing=0.01),
    Given(10_000_000, width=100),
)


def main(argv: Sequence[str] | None = None, folder: Path = FOLDER) -> int:
    """Measure; 1 if a target is missed, unless quick, and 2 if a tool isn't installed."""
    args = _parser().parse_args(argv)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="paritygate-bench-") as scratch:
        # Compiled kernels too go there, and Numba reads its setting when it is imported.
        for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
            os.environ[name] = scratch
        from bench.peers import files, measure, plot, table, tools

        lacking = measure.missing([*tools.TOOLS, *files.FILE_TOOLS])
        if lacking:
            print(f"not installed: {', '.join(lacking)}; 'make peers' does", file=sys.stderr)
            return 2
        scale = Scale(Path(scratch), args.quick)
        results: dict[str, list[measure.Timed]] = {}
        sections = []
        for number, (heading, given) in enumerate(_chosen(args.only)):
            known = given.name
            if args.quick:
                given = given.smaller()
            pair = given.make()
            chosen = tools.TOOLS
            if heading:
                pair, chosen = files.Files.of(pair, scale.folder / str(number)), files.FILE_TOOLS
            found = measure.measure(given, pair, chosen, scale)
            results[heading + known] = found
            sections.append(table.section(given, found, heading))
            print(sections[-1], flush=True)
        if not args.quick:
            print(table.targets(results))
        if args.record:
            path = folder / "PEERS.md"
            notes = path.read_text(encoding="utf-8").partition(NOTES)[2] if path.exists() else ""
            text = table.document(results, sections, load)
            path.write_text(text + NOTES + notes, encoding="utf-8")
            names = [tool.name for tool in tools.TOOLS]
            plot.draw(folder / "peers.png", AXES, results, names)
    return 1 if "missed" in table.targets(results) and not args.quick else 0


def _chosen(only: Sequence[str] | None) -> list[tuple[str, Given]]:
    arrays = dict.fromkeys(given for axis in AXES.values() for given in axis.values())
    every = [("", given) for given in arrays] + [("recorded, ", given) for given in RECORDED]
    return [
        (heading, given)
        for heading, given in every
        if not only or any(part in heading + given.name for part in only)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure other tools beside paritygate.")
    parser.add_argument("--quick", action="store_true", help="once, on tiny sizes; judges nothing")
    parser.add_argument(
        "--only", metavar="NAME", action="append", help="what is given by this name, or another"
    )
    parser.add_argument(
        "--record", action="store_true", help="also write bench/PEERS.md and bench/peers.png"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
