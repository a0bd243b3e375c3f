"""What was measured on a GPU: as a table, as JSON that may travel, and in bench/RESULTS.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from bench.measure import Figure, Row
from bench.run import HEAD, cells, line, rule, today

from paritygate.comparison.place import find_place
from paritygate.runners.environment import describe_environment

HEADING = "\n## On a GPU\n"
CUT = "the measurement ended before"
UNKNOWN = ("options that it doesn't tell",)
PACKAGES = ("numba-cuda", "torch", "cupy-cuda13x", "cupy-cuda12x", "cupy", "onnxruntime-gpu")
State = Literal["equal", "differ", "unknown"]


@dataclass(frozen=True)
class Missing:
    """A row that there is no figure for, and why."""

    label: str
    why: str


@dataclass(frozen=True)
class Equality:
    """Whether this chip counts what the CPU counts, and what the tests said."""

    state: State
    told: str


@dataclass
class Report:
    """One measurement of one machine.

    Attributes:
        equality: of the kernels and those of the CPU.
        machine: chip, driver, processor and versions.
        date: UTC.
        rows: in the order in which they were measured.
        options: those by which it isn't a whole measurement.
    """

    equality: Equality
    machine: Mapping[str, Any]
    date: str = field(default_factory=today)
    rows: list[Row | Missing] = field(default_factory=list)
    options: tuple[str, ...] = ()

    @property
    def missed(self) -> list[str]:
        """Labels of rows that take more than is allowed."""
        return [row.label for row in self.rows if isinstance(row, Row) and not row.is_met]

    def write(self, path: Path, left: Sequence[str] = ()) -> None:
        """Write it as JSON, with rows for labels that are left; what is there is always whole."""
        rows = [*self.rows, *(Missing(label, CUT) for label in left)]
        told = {
            "equality": vars(self.equality),
            "machine": self.machine,
            "date": self.date,
            "options": list(self.options),
            "rows": [_to_json(row) for row in rows],
        }
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        partial.replace(path)

    @staticmethod
    def read(path: Path) -> Report:
        """What `write` has written."""
        told = json.loads(path.read_text(encoding="utf-8"))
        rows = [_from_json(row) for row in told["rows"]]
        given = told["machine"], told["date"], rows, tuple(told.get("options", UNKNOWN))
        return Report(Equality(**told["equality"]), *given)

    def drop_cut(self) -> None:
        """Forget the rows that only say that the measurement ended before them."""
        self.rows = [row for row in self.rows if not (isinstance(row, Missing) and row.why == CUT)]

    def head(self) -> str:
        """The machine, and whether its kernels are right, in two lines."""
        found = self.machine
        versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
        return (
            f"- {self.date}; {found['chip']}; {found['cpu']}, {found['cores']} usable cores; "
            f"Python {found['python']}, {versions}\n"
            f"- Kernels against those of the CPU on this chip: {self.equality.told}"
        )


def describe_machine() -> dict[str, Any]:
    """Chip, driver, processor and versions of what measures here."""
    found = describe_environment()
    cpu, versions = found["cpu"], found["versions"]
    assert isinstance(cpu, dict)
    assert isinstance(versions, dict)
    others = {name: _version(name) for name in PACKAGES}
    return {
        "chip": str(find_place().chip),
        "cpu": cpu["model"],
        "cores": cpu["usable_cores"],
        "python": found["python"],
        "versions": {name: text for name, text in {**others, **versions}.items() if text},
    }


def told(row: Row | Missing, date: str = "") -> str:
    """A line of the table."""
    if isinstance(row, Missing):
        return line((row.label, f"not measured: {row.why}", "", "", "", "", "", date or today()))
    return line((*cells(row)[:-1], date or today()))


def with_report(results: str, report: Report) -> str:
    """The text of bench/RESULTS.md with this measurement in place of the last one of a GPU."""
    before, found, rest = results.partition(HEADING)
    if not found:
        before, found, notes = results.partition("\n## ")
        after = found + notes
    else:
        _, found, notes = rest.partition("\n## ")
        after = found + notes
    table = "\n".join([line(HEAD), rule(), *(told(row, report.date) for row in report.rows)])
    return f"""{before}{HEADING}
Written by `python bench/gpu.py --record`; the columns are as above. A copy on the device reads one
side and writes as much, so that it moves as many bytes as a comparison reads: a ratio of 1.25 is
0.80 of its bandwidth, one of 2.5 is 0.4.

{report.head()}

{table}
{after}"""


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _to_json(row: Row | Missing) -> dict[str, Any]:
    if isinstance(row, Missing):
        return {"label": row.label, "why": row.why}
    figures = {name: getattr(row, name) for name in ("ours", "base", "ratio")}
    told = {name: figure and list(figure.values) for name, figure in figures.items()}
    return {**{k: v for k, v in vars(row).items() if k not in figures}, **told}


def _from_json(told: dict[str, Any]) -> Row | Missing:
    if "why" in told:
        return Missing(**told)
    figures = {name: _figure(told[name]) for name in ("ours", "base", "ratio")}
    return Row(**{**told, **figures})


def _figure(values: Sequence[float] | None) -> Any:
    return Figure.of(values) if values else None
