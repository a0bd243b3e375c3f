"""PEERS.md: targets, and one table for everything that was given."""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.measure import Figure
from bench.peers.given import Given
from bench.peers.measure import Timed
from bench.peers.tools import BLOCKED, FUNCTOR, NUMPY, TORCH, TORCH_BLOCKED

from paritygate.runners.environment import describe_environment

HEAD = ("tool", "time", "M elements/s", "of the limit", "times ours", "finds out")
PACKAGES = ("numpy", "torch", "polygraphy", "datacompy", "polars", "duckdb", "numba", "pyarrow")

Results = Mapping[str, Sequence[Timed]]  # by the name of what was given


@dataclass(frozen=True)
class Target:
    """How many times as long as the gate tier a tool has to take at least."""

    given: Given
    tool: str
    least: float


TARGETS = (
    Target(Given(64_000_000), NUMPY, 12),
    Target(Given(64_000_000), BLOCKED, 12),
    Target(Given(64_000_000), TORCH, 20),
    Target(Given(64_000_000), TORCH_BLOCKED, 20),
    Target(Given(10_000_000), FUNCTOR, 200),
)


def line(texts: Sequence[str]) -> str:
    """One line of a Markdown table."""
    return f"| {' | '.join(texts)} |"


def section(given: Given, found: Sequence[Timed], heading: str) -> str:
    """The table of one given pair."""
    rows = [line(HEAD), line(["---"] * len(HEAD))]
    for one in found:
        rate = given.samples * given.width / one.seconds.median / 1e6
        rows.append(
            line(
                [
                    one.tool,
                    duration(one.seconds),
                    f"{rate:,.3g}" if rate < 1000 else f"{rate:,.0f}",
                    number(one.share),
                    number(one.slower),
                    one.finds,
                ]
            )
        )
    return "\n".join([f"### {heading}{given.name}", "", *rows, ""])


def duration(figure: Figure) -> str:
    """Median and range in the unit that suits the median."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if figure.median >= size or unit == "µs":
            low, high = figure.low / size, figure.high / size
            return f"{figure.median / size:.3g} {unit} ({low:.3g}–{high:.3g})"
    raise AssertionError


def number(figure: Figure) -> str:
    """A ratio."""
    return f"{figure.median:.3g} ({figure.low:.3g}–{figure.high:.3g})"


def targets(results: Results) -> str:
    """The ratios that were set out to be reached."""
    rows = [line(["what", "at least", "measured", ""]), line(["---"] * 4)]
    for target in TARGETS:
        by_tool = {one.tool: one for one in results.get(target.given.name, ())}
        if target.tool in by_tool:
            slower = by_tool[target.tool].slower
            met = "met" if slower.median >= target.least else "missed"
            what = f"{target.tool}: {target.given.name}"
            rows.append(line([what, f"{target.least:g} times", number(slower), met]))
    return "\n".join(rows)


def document(results: Results, sections: Sequence[str], load: float) -> str:
    """All of PEERS.md but its notes."""
    found = describe_environment()
    cpu = found["cpu"]
    assert isinstance(cpu, dict)
    installed = [
        f"{name} {importlib.metadata.version(name)}"
        for name in PACKAGES
        if importlib.util.find_spec(name)
    ]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    tables = "\n".join(sections)
    return f"""# Peers

Written by `make peers`, which runs `python bench/peers/run.py --record`. All tools of a table are
given the same arrays in the same run, in turn, and each has to say the same of them before it is
timed: whether all passes, how many elements fail, the largest error, the sum of errors. Times are
medians of interleaved rounds with their range, three rounds where one takes longer than 2 s. "of
the limit" is how long reading both arrays takes over how long the tool does, "times ours" how long
it takes over the first row. The gate runs on every core, as a run does, and so do torch and the
limit; NumPy has one. "In blocks" a tool is given 32 768 elements at a time, whose temporaries stay
in the processor's caches; those of whole arrays are as large as they. Errors are at most a quarter
of the tolerance, or eight times as large, so that roundings of the dtypes that tools calculate in
change no answer.

![Share of the limit that each tool reaches](peers.png)

- {today}; {cpu["model"]}, {cpu["usable_cores"]} usable cores; load before the start {load:.1f}
- Python {found["python"]}, {", ".join(installed)}

## Targets

{targets(results)}

## Tables

{tables}"""
